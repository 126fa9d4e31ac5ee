import { expect, test } from "vitest";

import { csv } from "../src/csv";
import { flat } from "../src/text";

test("hidden characters are named", () => {
  expect(flat("a\u202eb\u0000c")).toBe("a⟨U+202E⟩b⟨U+0000⟩c");
  expect(flat("line\nand\ttab")).toBe("line\nand\ttab");
  expect(flat("a\u202e\u0000\u{e0041}b")).toBe("a⟨U+202E⟩⟨U+0000⟩⟨U+E0041⟩b");
  expect(flat("x".repeat(20_000)).length).toBe(10_001);
});

test("a cell that begins like a formula is text", () => {
  expect(csv([["=1+1", " @x", "plain", 'a "b"', -1, "-1", "＝1", null]])).toBe(`'=1+1,' @x,plain,"a ""b""",-1,'-1,'＝1,\r\n`);
});
