import { expect, test } from "vitest";

import { counted, inLayout, layoutFor } from "../src/text";

test("one unit is named in the singular", () => {
  expect(counted(1, "items")).toBe("1 question");
  expect(counted(2, "items")).toBe("2 questions");
  expect(counted(1, "pairs")).toBe("1 pair");
  expect(counted(1, "image slots")).toBe("1 image slot");
});

test("a measure of pairs leads to pairs", () => {
  expect(layoutFor("pairs")).toBe("pairs");
  expect(inLayout("#questions?b=x", "pairs")).toBe("#questions?b=x&layout=pairs");
  expect(inLayout("#questions?b=x", "items")).toBe("#questions?b=x");
});

