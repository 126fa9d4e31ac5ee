import { render } from "preact";
import { act } from "preact/test-utils";
import { afterEach, beforeEach, expect, test } from "vitest";

import type { GateAttempt, HeadlineNumber, History, ItemRow, RunEntry } from "../src/served";
import { HistoryView } from "../src/served/history";
import { Home } from "../src/served/home";
import { axisOf, matches, trendsOf, when } from "../src/served/over-time";

const HOSTILE = "<img src=x onerror=alert(1)>\u202e";

const numberOf = (value: number | null, change: Partial<HeadlineNumber> = {}): HeadlineNumber => ({
  benchmark: "chest", technique: "mc", name: "accuracy", title: "accuracy", value, low: value === null ? null : value - 0.1, high: value === null ? null : value + 0.1,
  n: 100, shown: value === null ? "–" : `${(100 * value).toFixed(2)} %`, interval: "1.00–2.00", comparable: "a", ...change,
});
const runOf = (name: string, change: Partial<RunEntry> = {}): RunEntry => ({
  name, state: "finished", model: "alpha", label: "", started: `2026-01-0${name.length}T00:00:00+00:00`, finished: "", answered: 10, selected: 10, part: "",
  benchmarks: ["chest"], numbers: [numberOf(0.5)], ...change,
});

let root: HTMLElement;
beforeEach(() => {
  localStorage.clear();
  root = document.createElement("div");
  document.body.replaceChildren(root);
});
afterEach(async () => {
  await act(() => { render(null, root); });
});

const show = async (runs: readonly RunEntry[], left_out = 0): Promise<void> => {
  await act(() => { render(<Home list={{ root: "reports", version: 1, runs, left_out }} />, root); });
};
const find = (selector: string): HTMLElement => {
  const element = root.querySelector<HTMLElement>(selector);
  if (element === null) throw new Error(`no ${selector} in ${root.textContent}`);
  return element;
};
const choose = async (name: string): Promise<void> => {
  await act(() => { find(`[aria-label="Compare ${name}"]`).click(); });
};
const button = (text: string): HTMLElement => {
  const found = [...root.querySelectorAll("button")].find((each) => each.textContent === text);
  if (found === undefined) throw new Error(`no button ${text}`);
  return found;
};
const texts = (selector: string): string[] => [...root.querySelectorAll(selector)].map((each) => each.textContent);

test("numbers that are not known to be of the present results are told, and in no trend", async () => {
  const runs = [runOf("a"), runOf("bb", { stale: true }), runOf("ccc", { unchecked: true }), runOf("dddd")];
  await show(runs);
  const said = [...root.querySelectorAll("table.runs tbody tr")].map((row) => row.querySelector("[data-about]")?.textContent ?? "");
  expect(said).toEqual(["", "Measures of earlier results", "Measures not compared with the results, as an earlier version wrote them (medvqa report ccc)", ""]);
  expect(trendsOf(runs).trends.map(({ points }) => points.map(({ run }) => run.name))).toEqual([["a", "dddd"]]);
  expect(trendsOf(runs).left).toBe(2);
  expect(find("#trends").textContent).toContain("2 runs are left out, since they are not finished, or their numbers are not known to be of the present results: type medvqa report RUN.");
});

test("errors have a column of the list, by which it is sorted", async () => {
  await show([runOf("a", { errors: 2, answered: 8 }), runOf("bb", { state: "running", answered: 8, errors: 3 }), runOf("ccc", { state: "unfinished", stopped: `50 errors in a row ${HOSTILE}` })]);
  const rows = [...root.querySelectorAll("table.runs tbody tr")];
  expect(rows.map((row) => row.querySelector("[data-errors]")?.textContent)).toEqual(["errors 2 25.00 %", "errors 3 37.50 %", "errors 0"]);
  expect(rows[2]?.textContent).toContain("stopped: 50 errors in a row");
  await act(() => { button("errors").click(); });
  expect(texts(".runs tbody th a")).toEqual(["bb", "a", "ccc"]);
});

test("no run says what to type", async () => {
  await show([]);
  expect(root.textContent).toContain("medvqa run --model=phantom-vlm");
  expect(root.querySelector("table")).toBeNull();
});

test("the first of the chosen runs is the baseline of the comparison", async () => {
  await show([runOf("a"), runOf("b/c"), runOf("ddd", { state: "unreadable", why: "run.json: damaged" })]);
  expect(root.querySelector(".chosen a")).toBeNull();
  await choose("b/c");
  expect(find(".chosen [role=status]").textContent).toContain("Baseline: b/c");
  await choose("a");
  expect(find(".chosen a").getAttribute("href")).toBe("/compare?run=b%2Fc&run=a");
  expect(find('[aria-label="Compare ddd"]').hasAttribute("disabled")).toBe(true);
  await choose("b/c");
  expect(root.querySelector(".chosen a")).toBeNull();
});

test("no more than ten runs are compared at once", async () => {
  const names = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k"];
  await show(names.map((name) => runOf(name)));
  for (const name of names.slice(0, 10)) await choose(name);
  expect(find(".chosen a").textContent).toBe("Compare 10 runs");
  await choose("k");
  expect(root.querySelector(".chosen a")).toBeNull();
  expect(root.textContent).toContain("At most 10 runs");
});

test("the filter takes all words, also of models and verdicts", async () => {
  const gate: GateAttempt = { result: "failed", attempt: 2, reason: "a loss", baseline: "main" };
  await show([runOf("a"), runOf("b", { model: "Beta", gate }), runOf("c", { benchmarks: ["skin"] })]);
  const line = find("input[type=search]") as HTMLInputElement;
  line.value = "beta gate";
  await act(() => { line.dispatchEvent(new Event("input", { bubbles: true })); });
  expect(texts(".runs tbody th a")).toEqual(["b"]);
  expect(find(".filters [role=status]").textContent).toBe("1 of 3 runs");
  expect(matches(runOf("c", { benchmarks: ["skin"] }), "SKIN")).toBe(true);
});

test("hostile names are text", async () => {
  await show([runOf(HOSTILE, { model: HOSTILE, label: HOSTILE, part: HOSTILE, numbers: [numberOf(0.5, { benchmark: HOSTILE })] })]);
  expect(root.querySelector("img")).toBeNull();
  expect(root.textContent).not.toContain("\u202e");
  expect(find(".runs tbody th a").getAttribute("href")).toBe(`/runs/${encodeURIComponent(HOSTILE)}`);
});

test("a running session shows how far it is", async () => {
  await show([runOf("a", { state: "running", answered: 7 })]);
  expect(find(".run-state").dataset["state"]).toBe("running");
  expect(find("progress").getAttribute("value")).toBe("7");
  expect(root.textContent).toContain("7 of 10 answered");
  expect(root.textContent).toContain("Measures so far");
});

test("each measure is a column with values, by which runs are sorted", async () => {
  const both = (one: number, other: number) => [numberOf(one), numberOf(0.25, { name: "recall", title: "recall" }), numberOf(other, { benchmark: "skin" })];
  await show([runOf("a", { numbers: both(0.5, 0.3) }), runOf("bb", { numbers: both(0.4, 0.9) }), runOf("ccc", { numbers: [] })]);
  expect(texts(".runs tbody tr:first-child data")).toEqual(["50.00 %", "30.00 %", "25.00 %"]);
  await act(() => { button("accuracyskin").click(); });
  expect(texts(".runs tbody th a")).toEqual(["bb", "a", "ccc"]);
  await act(() => { button("accuracychest").click(); });
  expect(texts(".runs tbody th a")).toEqual(["a", "bb", "ccc"]);
});

test("columns are chosen, and the browser keeps them", async () => {
  const runs = [runOf("a", { tags: ["ward", HOSTILE], numbers: [numberOf(0.5), numberOf(0.25, { name: "recall", title: "recall" })] })];
  const turn = (title: string): Promise<void> => act(() => {
    [...root.querySelectorAll(".columns label")].find((each) => each.textContent.trim() === title)?.querySelector("input")?.click();
  });
  await show(runs);
  for (const title of ["own tags", "recall, chest", "gate", "accuracy, chest"]) await turn(title);
  const heads = (): string[] => texts(".runs thead th");
  expect(heads()).toEqual(["choose", "run", "state", "errors", "model", "started", "own tags"]);
  expect(find(".runs tbody").textContent).toContain("ward");
  await act(() => { render(null, root); });
  await show(runs);
  expect(heads()).toContain("own tags");
  for (const title of ["own tags", "recall, chest", "gate", "accuracy, chest"]) await turn(title);
  expect(heads()).toEqual(["choose", "run", "state", "errors", "model", "started", "gate", "accuracychest", "recallchest"]);
});

test("a trend has only whole, finished runs of one digest, by time", () => {
  const runs = [
    runOf("third", { started: "2026-01-03" }),
    runOf("first", { started: "2026-01-01" }),
    runOf("stale", { stale: true }),
    runOf("open", { state: "unfinished" }),
    runOf("other", { numbers: [numberOf(0.5, { comparable: "b" })] }),
    runOf("none", { numbers: [numberOf(null)] }),
  ];
  const { trends, left } = trendsOf(runs);
  expect(trends.map(({ points }) => points.map(({ run }) => run.name))).toEqual([["first", "third"]]);
  expect(left).toBe(2);
});

test("set-ups that cannot be compared are told apart", () => {
  const other = [numberOf(0.5, { comparable: "b" })];
  const { trends } = trendsOf([runOf("a"), runOf("bb"), runOf("ccc", { numbers: other }), runOf("dddd", { numbers: other })]);
  expect(trends.map(({ setup, setups }) => [setup, setups])).toEqual([[1, 2], [2, 2]]);
});

test("an axis holds all values and intervals", () => {
  const points = [0.62, 0.71].map((value, place) => ({ run: runOf("r".repeat(place + 1)), number: numberOf(value) }));
  expect(axisOf(points)).toEqual({ low: 0.5, high: 0.85, ticks: [{ at: 0.5, label: "50 %" }, { at: 0.85, label: "85 %" }] });
  const [point] = points;
  if (point === undefined) throw new Error("no point");
  const few = { ...point, number: numberOf(0.5, { interval: "" }) };
  expect(axisOf([few])).toMatchObject({ low: 0.5, high: 0.55 });
  const plain = { ...point, number: numberOf(12, { percent: false, low: null, high: null }) };
  expect(axisOf([plain]).low).toBeLessThan(12);
});

test("a trend has a series for each model, and a table that links to the runs", async () => {
  await show([runOf("aa", { model: "beta", numbers: [numberOf(0.6)] }), runOf("a"), runOf("aaa", { numbers: [numberOf(0.7, { interval: "" })] })]);
  expect(root.querySelectorAll(".trend polyline")).toHaveLength(2);
  expect(texts(".trend .numbers tbody th")).toEqual(["alpha", "alpha", "beta"]);
  const links = [...root.querySelectorAll(".trend .numbers a")];
  expect(links.map((each) => each.getAttribute("href"))).toEqual(["/runs/a", "/runs/aaa", "/runs/aa"]);
  expect(links[0]?.textContent).toMatch(/^a, 2026-01-0[12] \d\d:\d\d: 50.00 % \(1.00–2.00\), n = 100$/);
  expect(links[1]?.textContent).toMatch(/: 70.00 %, n = 100$/);
});

test("gates are counted with their reasons", async () => {
  const gate: GateAttempt = { result: "failed", attempt: 2, reason: "a loss", baseline: "main", stale: true };
  await show([runOf("a", { gate }), runOf("bb", { gate: { ...gate, result: "passed" } })]);
  expect(find("#gates p").textContent).toBe("1 passed, 1 failed, the latest first.");
  expect(texts("#gates tbody th")).toEqual(["bb", "a"]);
  expect(find("#gates").textContent).toContain("may be of other results");
});

test("times that are none are shown as they are", () => {
  expect(when("yesterday")).toBe("yesterday");
  expect(when("")).toBe("");
  expect(when("2026-01-02T03:04:05+00:00")).toMatch(/^2026-01-0[123] \d\d:\d\d$/);
});

const itemOf = (change: Partial<ItemRow> = {}): ItemRow => ({
  row: 0, benchmark: "chest", id: "q|1", technique: "mc", variant: "", sample: 0, kind: "single_choice", question: HOSTILE, options: [["A", "yes"], ["B", HOSTILE]],
  answers: ["A"], extracted: ["B"], outcome: "wrong", score: 0, why: "", response: HOSTILE, cut: 0, seconds: null, images: [], ...change,
});

test("the history of an item has its question once, and each answer", async () => {
  const rows = [
    { run: "new", model: "alpha", label: "", started: "2026-01-02T00:00:00+00:00", same: true, item: itemOf() },
    { run: "a/old", model: "beta", label: "blank images", started: "2026-01-01T00:00:00+00:00", same: false, item: itemOf({ outcome: "correct", extracted: ["A"], response: "x".repeat(400), cut: 5 }) },
  ];
  const history: History = { benchmark: "chest", id: "q|1", rows, unread: ["broken: run.json is damaged"] };
  await act(() => { render(<HistoryView history={history} />, root); });
  expect(root.querySelectorAll(".question")).toHaveLength(1);
  expect(root.querySelector("img")).toBeNull();
  expect(root.textContent).toContain("2 results of 2 runs: 1 wrong, 1 correct.");
  expect(root.textContent).toContain("The question changed.");
  expect(texts("tbody .other")).toEqual(["asked otherwise"]);
  expect(texts("tbody td:nth-child(5)")).toEqual(["B", "A"]);
  expect(root.textContent).toContain("5 more characters");
  expect(root.textContent).toContain("run.json is damaged");
  expect([...root.querySelectorAll("tbody th a")].map((each) => each.getAttribute("href"))).toEqual([
    "/runs/new#questions?b=chest&item=chest%7Cq%257C1%7Cmc",
    "/runs/a/old#questions?b=chest&item=chest%7Cq%257C1%7Cmc",
  ]);
});

test("an item that no run has says so", async () => {
  await act(() => { render(<HistoryView history={{ benchmark: "b", id: "i", rows: [], unread: [] }} />, root); });
  expect(root.textContent).toContain("No run here has a result of this item.");
});
