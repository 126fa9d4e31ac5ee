import fc from "fast-check";
import { expect, test } from "vitest";

import { parse, print, type State } from "../src/route";

const text = fc.string({ unit: "grapheme" });

test("a state that is printed as a hash is read back as it was", () => {
  fc.assert(
    fc.property(
      fc.record<State>({
        view: fc.constantFrom("summary", "questions", "review"),
        benchmark: text,
        technique: text,
        run: text,
        against: text,
        measure: text,
        dimension: text,
        query: text,
        sort: text,
        layout: text,
        item: fc.option(text),
        section: fc.constant(""),
      }),
      (state) => {
        expect(parse(print(state))).toEqual(state);
      },
    ),
  );
});

test("any hash is read as some state", () => {
  fc.assert(
    fc.property(text, (hash) => {
      expect(["summary", "questions", "review"]).toContain(parse(hash).view);
    }),
  );
});
