import { render } from "preact";
import { act } from "preact/test-utils";
import fc from "fast-check";
import { expect, test } from "vitest";

import type { BoardPair, BoardRow, BoardView, ComparisonView, PairView } from "../src/bundle";
import type { Page } from "../src/page";
import { START } from "../src/route";
import { alone, chosenOf, Differences, reversed } from "../src/views/differences";
import { headingsOf, questionsOf } from "../src/views/effects";
import { groupsOf, Leaderboard, measuresOf, shownOf } from "../src/views/leaderboard";
import { ranks } from "../src/views/ranking";

const NAMES = ["first", "second", "third"];
const row = (run: number): BoardRow => ({ run, rank: run + 1, best: 1, worst: 3, value: 0.5, low: 0.4, high: 0.6, shown: "50.00", interval: "40.00–60.00", differs: "", against: null });
const difference: BoardPair = { new: 2, baseline: 1, difference: 0.1, low: -0.0512, high: 0.25, adjusted: 0.2, sure: "", shown: "+10.00", bounds: "−5.12 to +25.00" };
const board = (benchmark: string, measure: string): BoardView => ({
  benchmark, technique: "mc", measure, title: benchmark, counted: "10 items", lower: false, sentence: "", rows: [0, 1, 2].map(row), pairs: [difference],
});
const boards = [board("a", "accuracy"), board("a", "recall"), board("b", "set_accuracy"), board("b", "accuracy")];
const pair = (change: Partial<PairView>): PairView => ({ new: 1, baseline: 0, level: 0.95, refusals: [], notes: [], differs: "", effect: "", headings: ["baseline", "new"], parts: [], ...change });
const part = {} as PairView["parts"][number];

const viewOf = (change: Partial<ComparisonView> = {}): ComparisonView => ({
  runs: [], images: "", few: 10, boards, pairs: [pair({}), pair({ new: 2 })], scales: [], matrices: [], unranked: [], tests: 12, ...change,
});
const pageOf = (change: Partial<Page["state"]> = {}, go: Page["go"] = () => undefined): Page =>
  ({ head: { runs: NAMES.map((name) => ({ name, model: name, digest: "" })), benchmarks: [], comparison: viewOf() }, data: null, state: { ...START, ...change }, go, link: () => "#" }) as unknown as Page;
const drawn = (of: Parameters<typeof render>[0]): HTMLElement => {
  const place = document.createElement("div");
  void act(() => { render(of, place); });
  return place;
};

test("boards are grouped by benchmark and technique, and a group without a measure shows its first", () => {
  const groups = groupsOf(boards);
  expect(groups.map((group) => group.map((each) => each.measure))).toEqual([["accuracy", "recall"], ["set_accuracy", "accuracy"]]);
  expect(measuresOf(groups)).toEqual(["recall", "accuracy"]);
  const measures = (measure: string): readonly string[] => shownOf(groups, measure).map((each) => each.measure);
  expect(measures("")).toEqual(["accuracy", "set_accuracy"]);
  expect(measures("recall")).toEqual(["recall", "set_accuracy"]);
  expect(measures("accuracy")).toEqual(["accuracy", "accuracy"]);
  expect(groupsOf([])).toEqual([]);
});

test("a run off the leaderboard is named with its first reason, and the others are folded", () => {
  const place = drawn(<Leaderboard page={pageOf()} of={viewOf({ unranked: [{ run: 2, beside: 0, reasons: ["the image differs", "the prompt differs"] }] })} />);
  const told = place.querySelector("[data-unranked=third]");
  expect(told?.textContent).toContain("Not ranked: third. It cannot be compared with first: the image differs");
  expect(told?.querySelector("summary")?.textContent).toBe("1 more reason");
  expect(place.querySelectorAll(".leaderboard tbody tr")).toHaveLength(3);
  expect([ranks({ best: 1, worst: 1 }), ranks({ best: 1, worst: 3 })]).toEqual(["1", "1 to 3"]);
});

test("pairs that differ in one setting are grouped by its question, and share headings that are equal", () => {
  const image = { setting: "ablate", question: "Does it look?", headings: ["baseline: shown", "new: blank"] as [string, string], parts: [part] };
  const pairs = [pair({ ...image }), pair({ setting: "", parts: [part] }), pair({ ...image, new: 2 }), pair({ setting: "shots", parts: [] }), pair({ setting: "x", parts: [part] })];
  const questions = questionsOf(pairs);
  expect([...questions].map(([question, of]) => [question, of.length])).toEqual([["Does it look?", 2], ["", 1]]);
  expect(headingsOf([pair(image), pair(image)])).toEqual(["baseline: shown", "new: blank"]);
  expect(headingsOf([pair(image), pair({})])).toEqual(["baseline", "new"]);
});

test("a difference turned twice is the same, and turned once has the other sign", () => {
  const number = fc.oneof(fc.double({ min: -1, max: 1, noNaN: true }).filter((value) => !Object.is(value, -0) && value !== 0), fc.constant(null));
  const points = (value: number | null): string => (value === null ? "" : `${value < 0 ? "−" : "+"}${(100 * Math.abs(value)).toFixed(2)}`);
  fc.assert(
    fc.property(number, number, number, fc.constantFrom("better" as const, "worse" as const, "" as const), (value, low, high, sure) => {
      const bounds = low === null || high === null ? "no interval: 3 groups" : `${points(low)} to ${points(high)}`;
      const one: BoardPair = { ...difference, difference: value, low, high, sure, shown: points(value), bounds };
      const other = reversed(one);
      expect(reversed(other)).toEqual(one);
      expect([other.new, other.baseline, other.shown]).toEqual([1, 2, value === null ? "" : points(-value)]);
      expect(other.bounds).toBe(low === null || high === null ? bounds : `${points(-high)} to ${points(-low)}`);
    }),
  );
});

test("the chosen pair is the one that the address names, else the first that is compared", () => {
  const of = viewOf({ pairs: [pair({}), pair({ new: 2, parts: [part] })] });
  const chosen = (run: string, against: string) => { const { new: new_, baseline } = chosenOf(pageOf({ run, against }), of); return [new_, baseline]; };
  expect(chosen("", "")).toEqual([2, 0]);
  expect(chosen("second", "")).toEqual([1, 0]);
  expect(chosen("third", "second")).toEqual([2, 1]);
  expect(chosen("nobody", "nothing")).toEqual([2, 0]);
});

test("two runs without slices show the numbers of the leaderboard, and turn", () => {
  const gone: unknown[] = [];
  const page = pageOf({ run: "second", against: "third" }, (change) => { gone.push(change); });
  const place = drawn(<Differences page={page} of={viewOf()} />);
  expect(place.querySelector("[data-number=difference]")?.textContent).toBe("−10.00");
  expect([...place.querySelectorAll("tbody td.quiet")].map((cell) => cell.textContent)[0]).toBe("−25.00 to +5.12");
  place.querySelector("button:not(.sort)")?.dispatchEvent(new MouseEvent("click", { bubbles: true }));
  expect(gone).toEqual([{ run: "third", against: "second", section: "" }]);
});

test("a row whose own bounds are to one side of 0 is told apart if its difference is not shown", () => {
  const cell = { low: 0.1, high: 0.2, few: false, sure: "", adjusted: 0.2 } as const;
  expect(alone(cell)).toBe(true);
  expect([alone({ ...cell, low: -0.1 }), alone({ ...cell, sure: "better" }), alone({ ...cell, few: true }), alone({ ...cell, low: null })]).toEqual([false, false, false, false]);
});
