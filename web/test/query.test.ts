/* eslint-disable @typescript-eslint/non-nullable-type-assertion-style */
import fc from "fast-check";
import { expect, test } from "vitest";

import { distance, exampleOf, fieldOf, parse, print, replaced, resolve, slug, suggest, toggle, valuesOf, without, type Name, type Term } from "../src/query";

const named = (name: string, values: readonly string[], label = name): Name => ({
  name,
  label,
  takes: "value",
  values: values.map((value) => ({ name: value, label: value })),
});
const FIELDS: readonly Name[] = [
  named("outcome", ["correct", "wrong", "unparsed"]),
  { ...named("modality", []), values: [{ name: "ct", label: "CT" }, { name: "x_ray", label: "X-ray" }, { name: "mri", label: "MRI", also: ["MR"] }] },
  named("kind of error", ["perception", "knowledge"]),
  { name: "seconds", label: "seconds", takes: "number", values: [] },
  named("department", Array.from({ length: 40 }, (_, n) => `department_${n}`)),
];

const some = fc.oneof(fc.string({ unit: "grapheme", minLength: 1 }), fc.constantFrom('"', "-", "-x", "a b", "a,b", ":", ">", "\\", "x:y", "__proto__"));
type Typed = Pick<Term, "field" | "operator" | "values" | "not">;
const term: fc.Arbitrary<Typed> = fc.oneof(
  fc.record<Typed>({ field: fc.constant(""), operator: fc.constant(":"), values: fc.tuple(some), not: fc.boolean() }),
  fc.record<Typed>({
    field: some,
    operator: fc.constantFrom(":", ">", "<", ">=", "<="),
    values: fc.array(some, { minLength: 1, maxLength: 3 }),
    not: fc.boolean(),
  }),
);
const typed = (terms: readonly Typed[]): Typed[] => terms.map(({ field, operator, values, not }) => ({ field, operator, values, not }));

test("terms that are printed are parsed back", () => {
  fc.assert(
    fc.property(fc.array(term, { maxLength: 5 }), (terms) => {
      expect(typed(parse(print(terms)))).toEqual(typed(terms));
    }),
  );
});

test("any text has terms, whose places lie in it one after the other", () => {
  fc.assert(
    fc.property(fc.oneof(fc.string({ unit: "grapheme" }), fc.stringMatching(/^[a-c:"\-,><= \\]{0,20}$/)), (text) => {
      const terms = parse(text);
      let at = 0;
      for (const { start, end } of terms) {
        expect(start).toBeGreaterThanOrEqual(at);
        expect(end).toBeGreaterThan(start);
        expect(end).toBeLessThanOrEqual(text.length);
        at = end;
      }
      expect(typed(parse(print(terms)))).toEqual(typed(terms));
    }),
  );
});

test("a query is read as its words say", () => {
  expect(typed(parse('outcome:wrong -modality:ct,"x ray" seconds>=5 "pleural effusion" -cyst'))).toEqual([
    { field: "outcome", operator: ":", values: ["wrong"], not: false },
    { field: "modality", operator: ":", values: ["ct", "x ray"], not: true },
    { field: "seconds", operator: ">=", values: ["5"], not: false },
    { field: "", operator: ":", values: ["pleural effusion"], not: false },
    { field: "", operator: ":", values: ["cyst"], not: true },
  ]);
  expect(typed(parse('"kind of error":knowledge'))).toEqual([{ field: "kind of error", operator: ":", values: ["knowledge"], not: false }]);
  expect(typed(parse('"never closed'))).toEqual([{ field: "", operator: ":", values: ["never closed"], not: false }]);
  expect(parse('  ""  ')).toEqual([]);
  // The first value is empty, the second "=": printed, it may not become the operator "<=".
  expect(typed(parse(print(parse("seconds<,=")))).at(0)?.operator).toBe("<");
});

test("an unequal sign excludes", () => {
  expect(typed(parse("outcome!=wrong,error -modality!=ct"))).toEqual([
    { field: "outcome", operator: ":", values: ["wrong", "error"], not: true },
    { field: "modality", operator: ":", values: ["ct"], not: false },
  ]);
  expect(print(parse("outcome!=wrong"))).toBe("-outcome:wrong");
});

test("words that join terms elsewhere are explained, unless they are quoted", () => {
  const { problems, clauses } = resolve(parse('outcome:wrong OR modality:ct -NOT "AND" or'), FIELDS);
  expect(problems.map(({ message }) => message)).toEqual(["OR", "NOT"].map((word) => `${word} joins no terms here. All terms must hold; a comma between values is an OR, as in FIELD:ONE,TWO; a minus sign excludes, as in -FIELD:VALUE.`));
  expect(problems[0]?.instead).toEqual(['"OR"']);
  expect(clauses.map(({ text }) => text)).toEqual(["outcome:wrong", "modality:ct", "AND", "or"]);
  expect(print(parse('"AND"'))).toBe('"AND"');
});

test("an equal number stands for all that round to its digits", () => {
  const tolerance = (text: string) => resolve(parse(`seconds:${text}`), FIELDS).clauses[0]?.values.map((value) => Number(value.toFixed(9)));
  expect(tolerance("0.0488")).toEqual([0.0488, 0.00005]);
  expect(tolerance("61%")).toEqual([0.61, 0.005]);
  expect(tolerance("2e-3")).toEqual([0.002, 0.0005]);
  expect(resolve(parse("seconds>2"), FIELDS).clauses[0]?.values).toEqual([2]);
});

test("the example of the line names fields and values of the table", () => {
  expect(exampleOf(FIELDS, [0, 1], "wrong")).toBe(`outcome:wrong modality:${FIELDS[1]?.values[0]?.name ?? ""} "some words"`);
  expect(exampleOf([], [], "wrong")).toBe('"some words"');
});

test("case, punctuation and abbreviations of names do not count", () => {
  expect(slug("X-ray")).toBe("x_ray");
  expect(fieldOf(FIELDS, "Kind_of_error")).toBe(2);
  const modality = FIELDS[1] as Name;
  expect(valuesOf(modality, "X-Ray")).toEqual([1]);
  expect(valuesOf(modality, "mr")).toEqual([2]);
  // An exact name precedes those that differ by punctuation alone.
  expect(valuesOf(named("label", ["+1", "-1", "1"]), "-1")).toEqual([1]);
});

const problems = (text: string): readonly string[] => resolve(parse(text), FIELDS).problems.map((problem) => problem.message);

test("an unknown field or value is a message that names the known ones", () => {
  expect(problems("outcome:wrong modality:ct effusion")).toEqual([]);
  expect(problems("outcom:wrong")).toEqual([
    'There is no field outcom. Fields: outcome, modality, "kind of error", seconds, department. To search for the words, put them in quotation marks.',
  ]);
  expect(problems("modality:xray")).toEqual(["modality has no value xray. Values: x_ray, ct, mri."]);
  expect(problems("modality:ct,pet")).toEqual(["modality has no value pet. Values: ct, x_ray, mri."]);
  expect(problems("modality:")).toEqual(["modality: needs a value. Values: ct, x_ray, mri."]);
  expect(problems("modality>ct")).toEqual(["modality is no number: type modality:VALUE. Values: ct, x_ray, mri."]);
  expect(problems("seconds>five")).toEqual(["seconds takes one number, such as seconds>5 or seconds<0.5."]);
  expect(problems("department:x")[0]).toMatch(/^department has no value x\. Values: department_0, .*department_11 and 28 more\.$/);
});

test("a message offers texts that are right", () => {
  fc.assert(
    fc.property(fc.constantFrom("outcom:wrong", "modality:xray", "-modality:crt", "modality>ct", "http://x.org/?a=1", "modality:"), (text) => {
      const [problem] = resolve(parse(text), FIELDS).problems;
      expect(problem?.instead.length).toBeGreaterThan(0);
      for (const instead of problem?.instead ?? []) {
        expect(resolve(parse(replaced(text, problem?.term as Term, instead)), FIELDS).problems.length).toBeLessThanOrEqual(instead.startsWith('"') ? 0 : 1);
      }
    }),
  );
  expect(resolve(parse("modality:xray"), FIELDS).problems[0]?.instead).toContain("modality:x_ray");
  expect(distance("efusion", "effusion")).toBeLessThan(Infinity);
  expect(distance("ct", "dermatology")).toBe(Infinity);
});

test("a value that is toggled twice leaves the query as it was", () => {
  fc.assert(
    fc.property(fc.array(term, { maxLength: 3 }), fc.constantFrom("ct", "x_ray", "mri"), (terms, value) => {
      const modality = FIELDS[1] as Name;
      const text = print(terms.filter((each) => fieldOf(FIELDS, each.field) !== 1));
      const once = toggle(text, FIELDS, modality, value);
      expect(parse(once).some((each) => each.field === "modality" && each.values.includes(value))).toBe(true);
      expect(toggle(once, FIELDS, modality, value)).toBe(text);
      expect(without(once, FIELDS, modality)).toBe(text);
    }),
  );
});

test("values that are toggled stand in one term", () => {
  const modality = FIELDS[1] as Name;
  expect(toggle("cyst modality:CT", FIELDS, modality, "mri")).toBe("cyst modality:CT,mri");
  expect(toggle("modality:CT,mri cyst", FIELDS, modality, "ct")).toBe("modality:mri cyst");
});

test("suggestions stand for the term at the caret", () => {
  const texts = (text: string, caret = text.length): readonly string[] => suggest(text, caret, FIELDS).map((each) => replaced(text, each, each.text));
  expect(texts("out")).toEqual(["outcome:"]);
  expect(texts("x-ra")).toContain("modality:x_ray");
  expect(texts("cyst modality:c")).toEqual(["cyst modality:ct"]);
  expect(texts("modality:ct,m")).toEqual(["modality:ct,mri"]);
  expect(texts("modality:m cyst", 10)).toEqual(["modality:mri cyst"]);
  expect(texts("-mod")).toEqual(["-modality:"]);
  expect(texts("")).toContain("outcome:");
  expect(texts("seconds>")).toEqual([]);
});
