import fc from "fast-check";
import { render, type ComponentChild } from "preact";
import { act } from "preact/test-utils";
import { afterEach, expect, test } from "vitest";

import type { Axis, Cell, HeatMap, SliceGroup, SliceMeasure, SlicesView } from "../src/bundle";
import { place, Plot } from "../src/ui/plot";
import { PublishedTable, Reliability, SHARES, SpreadChart } from "../src/views/charts";
import { Heat, told } from "../src/views/heat";
import { intervalOf, sorted, SliceTable } from "../src/views/slices";

const HOSTILE = '<img src=x onerror="window.pwned = 1">\u202e';

const cell = (value: number | null, n = 50, given: Partial<Cell> = {}): Cell => ({
  benchmark: "b",
  technique: "mc",
  name: "accuracy",
  slice: {},
  value,
  low: value === null ? null : Math.max(0, value - 0.1),
  high: value === null ? null : Math.min(1, value + 0.1),
  n,
  unit: "items",
  percent: true,
  few: n < 10,
  shown: value === null ? "–" : (100 * value).toFixed(2),
  interval: value === null || n < 10 ? "" : "0.00–100.00",
  references: {},
  ...given,
});

const measure = (name: string, given: Partial<SliceMeasure> = {}): SliceMeasure => ({
  name,
  title: name,
  unit: "items",
  percent: true,
  better: "higher",
  axis: SHARES,
  whole: cell(0.5, 100, { name }),
  ...given,
});

const group = (rows: readonly (readonly [string, Cell | null])[], ordered = false): SliceGroup => ({
  dimension: "modality",
  title: "modality",
  ordered,
  rows: rows.map(([title, each]) => ({ value: title, title, short: "", href: "#questions", cells: [each] })),
});

const view = (given: Partial<SlicesView>): SlicesView => ({
  benchmark: "b",
  technique: "mc",
  title: "Benchmark",
  measures: [measure("accuracy")],
  groups: [],
  heat: null,
  abilities: null,
  spreads: [],
  calibrations: [],
  published: null,
  ...given,
});

let root: HTMLElement;
const draw = (element: ComponentChild): HTMLElement => {
  root = document.createElement("div");
  document.body.append(root);
  void act(() => { render(element, root); });
  return root;
};
const click = (element: Element | null | undefined): void => {
  void act(() => { (element as HTMLElement).click(); });
};
const texts = (selector: string): string[] => [...root.querySelectorAll(selector)].map((each) => each.textContent);

afterEach(() => {
  document.body.replaceChildren();
});

test("rows with few units or without a value stand last, in either direction", () => {
  const rows = group([["few", cell(1, 3)], ["low", cell(0.2)], ["none", null], ["high", cell(0.9)], ["undefined", cell(null)]]);
  const names = (down: boolean): string[] => sorted(rows, { by: "value", down }, 0).map((row) => row.title);
  expect(names(true)).toEqual(["high", "low", "few", "none", "undefined"]);
  expect(names(false)).toEqual(["low", "high", "few", "none", "undefined"]);
});

test("sorting keeps every row and puts values and numbers in order", () => {
  fc.assert(
    fc.property(
      fc.array(fc.tuple(fc.string(), fc.double({ min: 0, max: 1, noNaN: true }), fc.integer({ min: 1, max: 99 }))),
      fc.constantFrom("name" as const, "value" as const, "n" as const),
      fc.boolean(),
      (made, by, down) => {
        const rows = group(made.map(([name, value, n]) => [name, cell(value, n)]));
        const found = sorted(rows, { by, down }, 0);
        expect(new Set(found)).toEqual(new Set(rows.rows));
        if (by === "name") return;
        const keys = found.map((row) => row.cells[0]).filter((each) => by === "n" || each?.few === false).map((each) => (by === "n" ? each?.n : each?.value) ?? 0);
        expect(keys).toEqual([...keys].sort((a, b) => (down ? b - a : a - b)));
      },
    ),
  );
});

test("prompts keep the order of the run until somebody sorts", () => {
  const prompts = group([["b", cell(0.1)], ["a", cell(0.9)]], true);
  expect(sorted(prompts, { by: "default", down: true }, 0).map((row) => row.title)).toEqual(["b", "a"]);
  expect(sorted(prompts, { by: "name", down: false }, 0).map((row) => row.title)).toEqual(["a", "b"]);
});

test("a missing interval is explained in words and its dot is hollow", () => {
  expect(intervalOf(cell(0.5, 3))).toBe("under 10");
  expect(intervalOf(cell(null))).toBe("undefined");
  expect(intervalOf(cell(0.5, 50, { low: null, high: null, interval: "no interval: 4 independent groups" }))).toBe("no interval: 4 independent groups");
  expect(intervalOf(cell(0.5, 50, { low: null, high: null, interval: "" }))).toBe("no interval");
  draw(<Plot axis={SHARES} spots={[{ value: 0.5 }, { value: 0.2, low: 0.1, high: 0.3 }]} />);
  expect([...root.querySelectorAll("circle")].map((each) => each.getAttribute("class"))).toEqual(["hollow", ""]);
  expect(root.querySelectorAll(".range")).toHaveLength(1);
});

test("a place on an axis lies between its ends for any number", () => {
  const axis: Axis = { low: -2, high: 2, ticks: [] };
  expect([-2, -1, 0, 2, 9, -9].map((value) => place(axis, value))).toEqual(["0.00%", "25.00%", "50.00%", "100.00%", "100.00%", "0.00%"]);
  fc.assert(
    fc.property(fc.double(), fc.double(), fc.double(), (low, high, value) => {
      const share = Number.parseFloat(place({ low, high, ticks: [] }, value));
      expect(share).toBeGreaterThanOrEqual(0);
      expect(share).toBeLessThanOrEqual(100);
    }),
  );
});

test("all dimensions stand in one table with one axis, and sort by its headings", () => {
  const rows = group([["ct", cell(0.2)], ["mri", cell(0.9)]]);
  draw(<SliceTable name="m" view={view({ groups: [rows, { ...rows, dimension: "task", title: "task" }] })} />);
  expect(root.querySelectorAll("table")).toHaveLength(1);
  expect(root.querySelectorAll(".scale")).toHaveLength(1);
  expect(texts("tbody:not(.all) tr:not(.group) th")).toEqual(["mri", "ct", "mri", "ct"]);
  const heading = (text: string): Element | undefined => [...root.querySelectorAll("thead th")].find((each) => each.textContent.startsWith(text));
  expect(heading("accuracy")?.getAttribute("aria-sort")).toBe("descending");
  click(heading("accuracy")?.querySelector("button"));
  expect(heading("accuracy")?.getAttribute("aria-sort")).toBe("ascending");
  expect(texts("tbody:not(.all) tr:not(.group) th")).toEqual(["ct", "mri", "ct", "mri"]);
  click(heading("Slice")?.querySelector("button"));
  expect(heading("Slice")?.getAttribute("aria-sort")).toBe("ascending");
  expect(heading("accuracy")?.getAttribute("aria-sort")).toBe("none");
});

test("another headline measure is drawn when it is chosen, and all values stand in the table", () => {
  const two = group([["ct", cell(0.2)], ["mri", null]]);
  const rows = { ...two, rows: two.rows.map((row) => ({ ...row, cells: row.cells[0] === null ? [null, null] : [cell(0.2), cell(0.7, 50, { name: "confusion" })] })) };
  draw(<SliceTable name="m" view={view({ measures: [measure("accuracy"), measure("confusion", { better: "lower" })], groups: [rows] })} />);
  expect(texts("tbody:not(.all) data[data-measure]")).toEqual(["20.00", "70.00"]);
  expect(root.textContent).not.toContain("Less is better");
  void act(() => { root.querySelectorAll<HTMLInputElement>("input[type=radio]")[1]?.click(); });
  expect(texts("tbody:not(.all) data[data-measure]")).toEqual(["70.00", "20.00"]);
  expect(root.textContent).toContain("Less is better");
});

test("a dimension with very many values opens by parts", () => {
  draw(<SliceTable name="m" view={view({ groups: [group(Array.from({ length: 1000 }, (_, k) => [`value ${k}`, cell(0.5)]))] })} />);
  click(root.querySelector(".group button"));
  expect(root.querySelectorAll("tbody a")).toHaveLength(200);
  const more = [...root.querySelectorAll("button")].find((each) => each.textContent === "Show 800 more values");
  click(more);
  expect(root.querySelectorAll("tbody a")).toHaveLength(1000);
});

test("a dimension with many values is folded and opens", () => {
  const many = group(Array.from({ length: 30 }, (_, k) => [`value ${k}`, cell(0.5)]));
  draw(<SliceTable name="m" view={view({ groups: [many] })} />);
  expect(root.querySelectorAll("tbody a")).toHaveLength(0);
  expect(root.textContent).toContain("30 values");
  click(root.querySelector(".group button"));
  expect(root.querySelectorAll("tbody a")).toHaveLength(30);
});

const map = (given: Partial<HeatMap["fields"][number]> = {}): HeatMap => ({
  measure: "accuracy",
  title: "accuracy",
  better: "higher",
  unit: "questions",
  down: "department",
  across: "task",
  rows: [{ title: "Urology", short: "" }],
  columns: [{ title: "Disease Diagnosis", short: "DD" }, { title: "Bone", short: "" }],
  fields: [{ row: 0, column: 0, value: 0.9, low: 0.8, high: 0.95, n: 40, short: "90", shown: "90.00", interval: "80.00–95.00", few: false, href: "#questions", tone: "above", step: 2, ...given }],
  whole: cell(0.5, 100),
  tested: 1,
});

test("a field of the map says its number, its interval and its colour in words and by a sign", () => {
  draw(<Heat of={map()} view={view({})} />);
  const field = root.querySelector("td.above.s2");
  expect(field?.textContent).toContain("▲90");
  expect(field?.querySelector("data")?.textContent).toBe("Urology, Disease Diagnosis: 90.00 %, 95 % interval 80.00–95.00, 40 questions; surely above all questions");
  expect(root.querySelectorAll("td.empty")).toHaveLength(1);
  expect(root.querySelector(".key")?.textContent).toContain("DD: Disease Diagnosis");
  expect(told(map(), { ...map().fields[0], few: true, shown: "3/4", interval: "", low: null, tone: "", n: 4 } as HeatMap["fields"][number])).toBe("Urology, Disease Diagnosis: 3/4, under 10, 4 questions");
});

test("a map of small fields is folded and says why it has no colour", () => {
  draw(<Heat of={{ ...map({ few: true, tone: "", step: 0, low: null, high: null }), tested: 0 }} view={view({})} />);
  expect(root.querySelector("details")?.open).toBe(false);
  expect(root.querySelector(".key")?.textContent).toContain("none has enough questions");
});

test("a bin shows confidence, share, interval and verdict", () => {
  const bin = { start: 0.9, end: 1, range: "90 to 100 %", confidence: 0.95, confidence_shown: "95.00", correct: cell(0.5, 40, { unit: "answers" }), verdict: "overconfident" as const };
  draw(<Reliability name="Benchmark" of={{ technique: "ps", error: 0.45, error_shown: "45.00", n: 40, bins: [bin] }} />);
  expect(root.textContent).toContain("expected calibration error 45.00 %, 40 answers");
  expect(root.textContent).toContain("overconfident");
  expect(root.querySelectorAll("path.tick").length).toBeGreaterThan(0);
});

test("a spread has a dot for each sample and a diamond for each prompt", () => {
  const line = (prompt: string) => ({ prompt, samples: [0.4, null, 0.6], mean: 0.5, shown: "50.00" });
  draw(
    <SpreadChart
      name="Benchmark"
      of={[{ name: "accuracy", title: "accuracy", percent: true, mean: 0.5, mean_shown: "50.00", heading: "mean", axis: SHARES, lines: [line("short"), line("long")], deviations: [{ name: "sd_all", heading: "sd of all", value: 0.1, shown: "10.00" }] }]}
    />,
  );
  expect(root.querySelectorAll("tbody .few circle")).toHaveLength(4);
  expect(root.querySelectorAll("tbody path.diamond")).toHaveLength(2);
  expect(root.querySelector("data[data-spread=sd_all]")?.getAttribute("value")).toBe("0.1");
});

test("published rows say that they are not comparable; the run's own has an interval", () => {
  draw(<PublishedTable name="Benchmark" of={{ source: "A paper", note: "", columns: ["accuracy"], rows: [{ name: "GPT", values: [{ value: 0.5, shown: "50.00" }] }, { name: "this run, 50 items", values: [{ value: 0.4, shown: "40.00" }], cells: [cell(0.4)] }] }} />);
  expect(root.textContent).toContain("not directly comparable");
  expect(root.querySelectorAll("tbody .range")).toHaveLength(1);
  expect(root.querySelector("tr.own data")?.getAttribute("data-measure")).toBe("accuracy");
});

test("hostile names make no element", () => {
  const rows: SliceGroup = { dimension: HOSTILE, title: HOSTILE, ordered: false, rows: [{ value: HOSTILE, title: HOSTILE, short: HOSTILE, href: "#x", cells: [cell(0.5)] }, { value: "b", title: "b", short: "", href: "#x", cells: [null] }] };
  draw(
    <>
      <SliceTable name="m" view={view({ title: HOSTILE, measures: [measure(HOSTILE)], groups: [rows] })} />
      <Heat of={{ ...map(), title: HOSTILE, rows: [{ title: HOSTILE, short: HOSTILE }], columns: [{ title: HOSTILE, short: HOSTILE }] }} view={view({})} />
      <PublishedTable name="Benchmark" of={{ source: HOSTILE, note: HOSTILE, columns: [HOSTILE], rows: [{ name: HOSTILE, values: [{ value: null, shown: "–" }] }] }} />
    </>,
  );
  expect(root.querySelectorAll("img, script")).toHaveLength(0);
  expect(root.textContent).toContain("<img src=x");
  expect(root.querySelector(".slicetable")?.textContent).not.toContain("\u202e");
  expect(root.querySelector(".heatmap")?.textContent).not.toContain("\u202e");
});
