import fc from "fast-check";
import { expect, test } from "vitest";

import { parse, resolve } from "../src/query";
import { queryOf } from "../src/views/differences";

test("the link of a slice selects by its tags, whatever they hold", () => {
  const text = fc.string({ unit: "grapheme", minLength: 1 }).filter((each) => each.trim() !== "" && !each.includes("+"));
  fc.assert(
    fc.property(text, text, (dimension, value) => {
      const fields = [
        { name: "way", label: "flip", takes: "value" as const, values: [{ name: "worse", label: "worse" }, { name: "better", label: "better" }] },
        { name: dimension, label: dimension, takes: "value" as const, values: [{ name: value, label: value }] },
      ];
      fc.pre(dimension !== "way" && dimension !== "flip");
      const { clauses, problems } = resolve(parse(queryOf({ [dimension]: value }, "better")), fields);
      expect(problems).toEqual([]);
      expect(clauses.map((clause) => [clause.field, clause.values])).toEqual([[0, [1]], [1, [0]]]);
    }),
  );
  expect(queryOf({ "ability+question_type": "lesion_recognition+judgment" }, "worse")).toBe("way:worse ability:lesion_recognition question_type:judgment");
  expect(queryOf({}, null)).toBe("");
});
