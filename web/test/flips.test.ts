import fc from "fast-check";
import { expect, test } from "vitest";

import { among, nearest, type FlipKind } from "../src/flips";
import { parse, resolve } from "../src/query";
import { queryOf } from "../src/views/differences";

const place = fc.nat(3);
const kind = fc.record<FlipKind>({ pair: place, benchmark: place, technique: place, measure: place });
const names = ["pair", "benchmark", "technique", "measure"] as const;

/** The number of choices in which two kinds agree, from the first. */
const agree = (one: FlipKind, other: FlipKind): number => {
  const first = names.findIndex((name) => one[name] !== other[name]);
  return first < 0 ? names.length : first;
};

test("the nearest kind of flips agrees in as many choices as any", () => {
  fc.assert(
    fc.property(fc.array(kind, { minLength: 1 }), kind, (kinds, wish) => {
      const found = nearest(kinds, wish);
      expect(found).toBeDefined();
      if (found !== undefined) expect(agree(found, wish)).toBe(Math.max(...kinds.map((each) => agree(each, wish))));
    }),
  );
  expect(nearest([], {})).toBeUndefined();
  const kinds = [0, 1].map((measure) => ({ pair: 0, benchmark: 0, technique: 0, measure }));
  expect(nearest(kinds, { pair: 0, benchmark: 0, measure: 1 })?.measure).toBe(1);
});

test("each choice offers what has flips under the choices before it", () => {
  fc.assert(
    fc.property(fc.array(kind, { minLength: 1 }), (kinds) => {
      const chosen = kinds[0];
      if (chosen === undefined) return;
      for (const [before, name] of names.entries()) {
        const offered = among(kinds, chosen, name).map((each) => each[name]);
        expect(offered).toContain(chosen[name]);
        expect(new Set(offered).size).toBe(offered.length);
        const there = kinds.filter((each) => names.slice(0, before).every((other) => each[other] === chosen[other]));
        expect(new Set(offered)).toEqual(new Set(there.map((each) => each[name])));
      }
    }),
  );
});

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
