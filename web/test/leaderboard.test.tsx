import { render } from "preact";
import { act } from "preact/test-utils";
import { beforeEach, expect, test } from "vitest";

import type { BoardRow, BoardView, BundleHead, ComparisonView } from "../src/bundle";
import type { Page } from "../src/page";
import { START } from "../src/route";
import { Leaderboard } from "../src/views/leaderboard";

const row = (run: number, rank: number): BoardRow =>
  ({ run, rank, best: 1, worst: 2, value: 0.5, low: null, high: null, shown: `${50 + run}.00`, interval: "", differs: "", against: null });
const board = (first: number, ...runs: readonly number[]): BoardView =>
  ({ benchmark: "chest", technique: "mc", measure: "accuracy", title: "Chest", counted: "", lower: false, sentence: "", rows: runs.map(row), pairs: [], first });
const facts = { techniques: "mc", images: "", answers: 10, started: "", limits: [], invalid: 0, truncated: 0 };

let root: HTMLElement;
beforeEach(() => {
  root = document.createElement("div");
  document.body.replaceChildren(root);
});

const show = async (change: Partial<ComparisonView>): Promise<void> => {
  const runs = ["a", "b", "c"].map((name) => ({ name, model: name, digest: "" }));
  const of = { runs: runs.map(() => facts), boards: [board(0, 0, 1, 2)], pairs: [], scales: [], matrices: [], apart: [], ...change } as unknown as ComparisonView;
  const page: Page = { head: { runs } as unknown as BundleHead, state: START, go: () => undefined, link: () => "#", data: null };
  await act(() => { render(<Leaderboard page={page} of={of} rule={null} />, root); });
};
const listed = (): string[] => [...root.querySelectorAll(".leaderboard tbody tr")].map((each) => each.querySelector("th")?.textContent ?? "");

test("a run that costs questions is told above the leaderboard, and can be left out", async () => {
  const line = "Chest: all numbers are over the 108 of 143 questions that every run has a score for; without c they would be over 143.";
  await show({ costly: { run: 2, lines: [line], boards: [board(0, 1, 0)] } });
  const told = root.querySelector("[data-costly]");
  expect(told?.textContent).toContain(line);
  expect(told?.compareDocumentPosition(root.querySelector(".leaderboard") as Node)).toBe(Node.DOCUMENT_POSITION_FOLLOWING);
  expect(listed().map((name) => name.trim().charAt(0))).toEqual(["a", "b", "c"]);
  await act(() => { root.querySelector<HTMLInputElement>("[data-costly] input")?.click(); });
  expect(listed().map((name) => name.trim().charAt(0))).toEqual(["b", "a"]);
  expect(told?.querySelector("[role=status]")?.textContent).toContain("This leaderboard is without it.");
});

test("differences are taken from the first run of the leaderboard", async () => {
  await show({ boards: [board(1, 1, 2)] });
  expect(root.querySelector("[data-costly]")).toBeNull();
  expect(listed()[0]).toContain("baseline");
  expect(root.querySelector(".key")?.textContent).toContain("the difference from b in points");
});
