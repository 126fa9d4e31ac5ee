// The summary of many runs: which runs may lead, which slices are shown, and differences turned round.
import fc from "fast-check";
import { expect, test } from "vitest";

import type { BoardPair, BoardRow, BoardView, BundleHead, ComparisonView, PairedPartView, PairView } from "../src/bundle";
import { START } from "../src/route";
import { alone, reversed } from "../src/views/differences";
import { questionsOf, shownIn } from "../src/views/effects";
import { groupsOf, leadersOf, measuresOf, shownOf } from "../src/views/leaders";
import { matrixAt } from "../src/views/slice-matrix";

const row = (run: number, best: number, value: number | null = 0.5): BoardRow => ({ run, best, worst: 3, value }) as unknown as BoardRow;
const board = (benchmark: string, measure: string, rows: readonly BoardRow[]): BoardView =>
  ({ benchmark, technique: "mc", measure, rows }) as unknown as BoardView;

const BOARDS = [
  board("one", "accuracy", [row(1, 1), row(0, 1), row(2, 3)]),
  board("one", "recall", [row(2, 1), row(1, 2), row(0, 2)]),
  board("two", "mean_score", [row(1, 1), row(0, 2), row(2, 1, null)]),
];

test("runs that may lead are counted by the first measure of each benchmark", () => {
  const groups = groupsOf(BOARDS);
  expect(groups.map((group) => group.map((each) => each.measure))).toEqual([["accuracy", "recall"], ["mean_score"]]);
  expect(leadersOf(groups)).toEqual([[1, 2], [0, 1]]);
});

test("a measure that a benchmark lacks leaves its first one", () => {
  const groups = groupsOf(BOARDS);
  expect(measuresOf(groups)).toEqual(["recall"]);
  expect(shownOf(groups, "recall").map((each) => each.measure)).toEqual(["recall", "mean_score"]);
  expect(shownOf(groups, "").map((each) => each.measure)).toEqual(["accuracy", "mean_score"]);
});

test("a difference turned round has its bounds and its sign turned round", () => {
  const pair: BoardPair = { new: 2, baseline: 1, difference: 0.12, low: -0.01, high: 0.2, adjusted: 0.04, sure: "better", shown: "+12.00", bounds: "−1.00 to +20.00" };
  const back = reversed(pair);
  expect(back).toMatchObject({ new: 1, baseline: 2, difference: -0.12, low: -0.2, high: 0.01, adjusted: 0.04, sure: "worse" });
  expect(back.shown).toMatch(/^−12\.00$/);
  expect(back.bounds).toMatch(/^−20\.00 to \+1\.00$/);
  expect(reversed({ ...pair, difference: null, low: null, high: null, bounds: "no interval: 1 group", sure: "" }).bounds).toBe("no interval: 1 group");
});

test("pairs are grouped by the question that their one setting answers", () => {
  const pair = (setting: string, question: string, parts: number): PairView => ({ setting, question, parts: Array.from({ length: parts }, () => ({})) }) as unknown as PairView;
  const questions = questionsOf([pair("", "", 1), pair("ablate", "A?", 1), pair("shots", "B?", 1), pair("ablate", "A?", 1), pair("shots", "B?", 0)]);
  expect([...questions].map(([question, pairs]) => [question, pairs.length])).toEqual([["A?", 2], ["B?", 1]]);
});

test("an effect says in how many benchmarks it is shown", () => {
  const part = (sure: string): PairedPartView => ({ rows: [{ sure }] }) as unknown as PairedPartView;
  expect(shownIn([part("worse")])).toBe("A difference is shown.");
  expect(shownIn([part(""), part("worse")])).toBe("A difference is shown in 1 of 2 benchmarks.");
  expect(shownIn([part(""), part("")])).toBe("A difference is shown in none of 2 benchmarks.");
});

test("the address names a matrix; without one of its measure or dimension, the first is shown", () => {
  const head = { benchmarks: [{ name: "one" }, { name: "two" }], techniques: ["mc"] } as unknown as BundleHead;
  const of = {
    scales: [{ benchmark: 0, technique: 0, measure: "accuracy" }, { benchmark: 1, technique: 0, measure: "accuracy" }],
    matrices: [{ scale: 0, dimension: "task" }, { scale: 0, dimension: "modality" }, { scale: 1, dimension: "modality" }, { scale: 1, dimension: "age" }],
  } as unknown as ComparisonView;
  const at = (state: Partial<typeof START>): unknown => matrixAt({ head, state: { ...START, ...state } }, of);
  expect(at({})).toBe(of.matrices[0]);
  expect(at({ dimension: "modality" })).toBe(of.matrices[1]);
  expect(at({ benchmark: "two", measure: "accuracy", dimension: "age" })).toBe(of.matrices[3]);
  expect(at({ benchmark: "two", measure: "accuracy", dimension: "task" })).toBe(of.matrices[2]);
  expect(at({ benchmark: "none", measure: "accuracy" })).toBe(of.matrices[0]);
});

test("a difference turned twice is the same, and turned once has the other sign", () => {
  const number = fc.oneof(fc.double({ min: -1, max: 1, noNaN: true }).filter((value) => value !== 0), fc.constant(null));
  const points = (value: number | null): string => (value === null ? "" : `${value < 0 ? "−" : "+"}${(100 * Math.abs(value)).toFixed(2)}`);
  fc.assert(
    fc.property(number, number, number, fc.constantFrom("better" as const, "worse" as const, "" as const), (value, low, high, sure) => {
      const bounds = low === null || high === null ? "no interval: 3 groups" : `${points(low)} to ${points(high)}`;
      const one: BoardPair = { new: 2, baseline: 1, difference: value, low, high, adjusted: 0.2, sure, shown: points(value), bounds };
      const other = reversed(one);
      expect(reversed(other)).toEqual(one);
      expect([other.new, other.baseline, other.shown]).toEqual([1, 2, value === null ? "" : points(-value)]);
      expect(other.bounds).toBe(low === null || high === null ? bounds : `${points(-high)} to ${points(-low)}`);
    }),
  );
});

test("a row whose own bounds are to one side of 0 is told apart if its difference is not shown", () => {
  const cell = { low: 0.1, high: 0.2, few: false, sure: "", adjusted: 0.2 } as const;
  expect(alone(cell)).toBe(true);
  expect([alone({ ...cell, low: -0.1 }), alone({ ...cell, sure: "better" }), alone({ ...cell, few: true }), alone({ ...cell, low: null })]).toEqual([false, false, false, false]);
});
