import fc from "fast-check";
import { expect, test } from "vitest";

import { alone, inOrder, LAST, orderOf, ranksOfNumbers, ranksOfTexts, select, type Field, type Table } from "../src/filter";
import type { Clause } from "../src/query";

interface Answer {
  readonly question: number;
  readonly outcome: number;
  readonly tags: readonly number[];
  readonly seconds: number;
  readonly terms: readonly [number, number];
  readonly text: string;
  readonly pair: number;
}

const OUTCOMES = ["correct", "wrong", "error"];
const TAGS = ["ct", "mri", "x_ray", "never"];
const field = (name: string, values: readonly string[], codes: Field["codes"], units?: Field["units"]): Field => ({
  name,
  label: name,
  takes: "value",
  values: values.map((value) => ({ name: value, label: value })),
  ...(codes === undefined ? {} : { codes }),
  ...(units === undefined ? {} : { units }),
});

const tableOf = (answers: readonly Answer[]): Table => {
  const offsets = [0];
  for (const { tags } of answers) offsets.push((offsets.at(-1) ?? 0) + tags.length);
  const outcome = Uint8Array.from(answers, (answer) => answer.outcome);
  return {
    size: answers.length,
    question: Uint32Array.from(answers, (answer) => answer.question),
    fields: [
      field("outcome", OUTCOMES, { codes: outcome }),
      field("modality", TAGS, { codes: Uint8Array.from(answers.flatMap((answer) => answer.tags)), offsets: Uint32Array.from(offsets) }),
      { ...field("seconds", [], undefined), takes: "number", numbers: Float32Array.from(answers, (answer) => answer.seconds) },
      field("pair", OUTCOMES, { codes: outcome }, Int32Array.from(answers, (answer) => answer.pair)),
    ],
    numerator: Float64Array.from(answers, (answer) => answer.terms[0]),
    denominator: Float64Array.from(answers, (answer) => answer.terms[1]),
    asked: null,
    search: (words, mask, rows) => {
      (rows ?? Uint32Array.from(answers.keys())).forEach((row) => {
        if (answers[row]?.text.toLowerCase().includes(words) === true) mask[row] = 1;
      });
    },
    version: () => 0,
  };
};

const answer = fc.record({
  outcome: fc.nat(2),
  tags: fc.uniqueArray(fc.nat(2), { maxLength: 3 }),
  seconds: fc.oneof(fc.constant(NaN), fc.integer({ min: 0, max: 9 })),
  text: fc.constantFrom("", "pleural Effusion", "no effusion", "cyst"),
  pair: fc.integer({ min: -1, max: 3 }),
});
const answers = fc
  .array(fc.tuple(answer, fc.nat(2)), { maxLength: 30 })
  .map((rows) => {
    let question = 0;
    const made = rows.map(([each, next]) => ({ ...each, question: (question += next === 0 ? 1 : 0) }));
    return made.map((each): Answer => {
      const share = 1 / made.filter((other) => other.question === each.question).length;
      return { ...each, terms: each.outcome === 2 ? [0, 0] : [each.outcome === 0 ? share : 0, share] };
    });
  });
const clause: fc.Arbitrary<Clause> = fc.oneof(
  fc.record<Clause>({ field: fc.constant(0), not: fc.boolean(), values: fc.uniqueArray(fc.nat(2), { minLength: 1 }), operator: fc.constant(":"), text: fc.constant("") }),
  fc.record<Clause>({ field: fc.constant(1), not: fc.boolean(), values: fc.uniqueArray(fc.nat(3), { minLength: 1 }), operator: fc.constant(":"), text: fc.constant("") }),
  fc.record<Clause>({ field: fc.constant(2), not: fc.boolean(), values: fc.oneof(fc.tuple(fc.nat(9)), fc.tuple(fc.nat(9), fc.constantFrom(0.5, 5))), operator: fc.constantFrom(":", ">", "<", ">=", "<="), text: fc.constant("") }),
  fc.record<Clause>({ field: fc.constant(-1), not: fc.boolean(), values: fc.constant([]), operator: fc.constant(":"), text: fc.constantFrom("effusion", "PLEURAL", "cyst", "none of these") }),
);

const holds = (each: Answer, { field: place, not, values, operator, text }: Clause): boolean => {
  const [value = NaN, within = 0] = values;
  const found = [
    () => each.text.toLowerCase().includes(text.toLowerCase()),
    () => values.includes(each.outcome),
    () => each.tags.some((tag) => values.includes(tag)),
    () => ({ ":": Math.abs(each.seconds - value) <= within, ">": each.seconds > value, "<": each.seconds < value, ">=": each.seconds >= value, "<=": each.seconds <= value })[operator],
  ][place + 1]?.();
  return found !== not;
};
const questions = (rows: readonly Answer[]): number => new Set(rows.map((each) => each.question)).size;
const total = (rows: readonly Answer[], place: 0 | 1): number => rows.reduce((sum, each) => sum + each.terms[place], 0);

test("a selection holds the rows that all clauses hold for, and counts questions, not answers", () => {
  fc.assert(
    fc.property(answers, fc.array(clause, { maxLength: 4 }), (rows, clauses) => {
      const made = select(tableOf(rows), clauses, [0, 1]);
      const wanted = rows.filter((each) => clauses.every((one) => holds(each, one)));
      expect([...inOrder(made, null)].map((row) => rows[row])).toEqual(wanted);
      expect(made.sum.answers).toBe(wanted.length);
      expect(made.sum.questions).toBe(questions(wanted));
      expect(made.sum.numerator).toBeCloseTo(total(wanted, 0), 8);
      expect(made.sum.denominator).toBeCloseTo(total(wanted, 1), 8);
      expect(clauses.map((one) => alone(tableOf(rows), one))).toEqual(clauses.map((one) => rows.filter((each) => holds(each, one)).length));
    }),
  );
});

test("a facet counts the rows that hold all clauses but its own", () => {
  fc.assert(
    fc.property(answers, fc.array(clause, { maxLength: 4 }), (rows, clauses) => {
      const made = select(tableOf(rows), clauses, [0, 1]);
      for (const [place, names] of [[0, OUTCOMES], [1, TAGS]] as const) {
        const others = rows.filter((each) => clauses.every((one) => one.field === place || holds(each, one)));
        names.forEach((_, value) => {
          const own = others.filter((each) => (place === 0 ? each.outcome === value : each.tags.includes(value)));
          const facet = made.facets.get(place);
          expect(facet?.questions[value]).toBe(questions(own));
          expect(facet?.numerator[value]).toBeCloseTo(total(own, 0), 8);
          expect(facet?.denominator[value]).toBeCloseTo(total(own, 1), 8);
        });
      }
    }),
  );
});

test("the sums of a field with one value each add up to the sum of the selection", () => {
  fc.assert(
    fc.property(answers, fc.array(clause.filter((one) => one.field !== 0), { maxLength: 3 }), (rows, clauses) => {
      const made = select(tableOf(rows), clauses, [0]);
      const facet = made.facets.get(0);
      expect(facet?.numerator.reduce((sum, each) => sum + each, 0)).toBeCloseTo(made.sum.numerator, 8);
      expect(facet?.denominator.reduce((sum, each) => sum + each, 0)).toBeCloseTo(made.sum.denominator, 8);
    }),
  );
});

test("a pair counts once for each verdict", () => {
  fc.assert(
    fc.property(answers, (rows) => {
      const facet = select(tableOf(rows), [], [3]).facets.get(3);
      OUTCOMES.forEach((_, value) => {
        const pairs = rows.filter((each) => each.pair >= 0 && each.outcome === value).map((each) => each.pair);
        expect(facet?.questions[value]).toBe(new Set(pairs).size);
      });
    }),
  );
});

test("a clause and its opposite share the rows between them", () => {
  fc.assert(
    fc.property(answers, clause, (rows, one) => {
      const table = tableOf(rows);
      const [with_, without] = [true, false].map((not) => select(table, [{ ...one, not }], []).sum.answers);
      expect((with_ ?? 0) + (without ?? 0)).toBe(rows.length);
    }),
  );
});

test("rows are sorted by rank, those of one rank as they were, those without a value last either way", () => {
  fc.assert(
    fc.property(fc.array(fc.oneof(fc.constant(NaN), fc.float({ noNaN: true }), fc.integer({ min: -3, max: 3 })), { maxLength: 40 }), fc.boolean(), (numbers, descending) => {
      const values = Float32Array.from(numbers);
      const order = [...orderOf(ranksOfNumbers(values), descending)];
      // -0 has a rank of its own below 0.
      const plain = [...values].map((value) => (value === 0 ? (Object.is(value, -0) ? -1e-45 : 0) : value));
      const wanted = [...values.keys()].sort((x, y) => {
        const [a = NaN, b = NaN] = [plain[x], plain[y]];
        if (Number.isNaN(a) || Number.isNaN(b)) return Number(Number.isNaN(a)) - Number(Number.isNaN(b)) || x - y;
        return (a < b ? -1 : a > b ? 1 : 0) * (descending ? -1 : 1) || x - y;
      });
      expect(order).toEqual(wanted);
    }),
  );
  expect(ranksOfNumbers(Float32Array.from([NaN]))).toEqual(Uint32Array.from([LAST]));
});

test("numbers in texts count by their value", () => {
  expect([...ranksOfTexts(["q10", "q2", "Q2", "a"])]).toEqual([2, 1, 1, 0]);
});
