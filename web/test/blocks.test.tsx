import fc from "fast-check";
import { render, type ComponentChild } from "preact";
import { act } from "preact/test-utils";
import { afterEach, expect, test } from "vitest";

import { MatrixView, PlotView, Sections, TableView } from "../src/blocks";
import { told } from "../src/blocks/figure";
import { inLetters, sorted } from "../src/blocks/sorting";
import { fileOf } from "../src/blocks/table";
import type { Axis, FigureCell, MatrixBlock, PageRow, PageSection, PlotBlock, TableBlock } from "../src/bundle";
import { place, Plot } from "../src/ui/plot";

const SHARES: Axis = { low: 0, high: 1, ticks: [{ at: 0, label: "0" }, { at: 1, label: "100 %" }] };

const figure = (value: number | null, n = 50, given: Partial<FigureCell> = {}): FigureCell => ({
  value,
  shown: value === null ? "–" : n < 10 ? `${value * n}/${n}` : (100 * value).toFixed(2),
  n,
  units: `${n} items`,
  ...(value === null ? {} : n < 10 ? { few: true } : { low: Math.max(0, value - 0.1), high: Math.min(1, value + 0.1), interval: "a–b" }),
  ...given,
});

const row = (name: string, value: FigureCell, given: Partial<PageRow> = {}): PageRow => ({ cells: [name, value], ...given });

const table = (rows: readonly PageRow[], given: Partial<TableBlock> = {}): TableBlock => ({
  block: "table",
  title: "Slices",
  columns: [{ title: "Slice" }, { title: "accuracy, %", kind: "figure", name: "accuracy", interval: "95 % interval", units: "Counted", axis: SHARES }],
  rows,
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
const button = (text: string): Element | undefined => [...root.querySelectorAll("button")].find((each) => each.textContent.startsWith(text));
const sections = (...blocks: PageSection["blocks"]): readonly PageSection[] => [{ id: "a", title: "A", blocks }];

afterEach(() => {
  document.body.replaceChildren();
});

test("sorting keeps every row, puts values in order, and a few units and undefined values last in both directions", () => {
  fc.assert(
    fc.property(
      fc.array(fc.tuple(fc.string(), fc.option(fc.double({ min: 0, max: 1 })), fc.integer({ min: 1, max: 99 }))),
      fc.boolean(),
      fc.boolean(),
      (made, units, down) => {
        const rows = made.map(([name, value, n]) => row(name, figure(value, n)));
        const found = sorted(rows, { place: 1, units, down });
        expect(new Set(found)).toEqual(new Set(rows));
        const keys = found.map(({ cells }) => cells[1] as FigureCell).map((each) => (units ? (each.n ?? null) : each.few === true || Number.isNaN(each.value) ? null : each.value));
        const known = keys.filter((key) => key !== null);
        expect(known).toEqual([...known].sort((a, b) => (down ? b - a : a - b)));
        expect(keys.slice(known.length).every((key) => key === null)).toBe(true);
      },
    ),
  );
});

test("numbers within names count: q2 comes before q10", () => {
  expect(["q10", "q2", "Q1", "x"].sort(inLetters)).toEqual(["Q1", "q2", "q10", "x"]);
});

test("a table is sorted by its headings, and says how", () => {
  draw(<TableView of={table([row("q10", figure(0.2)), row("q2", figure(0.9)), row("few", figure(1, 3))], { sort: "-accuracy, %" })} />);
  const [slice, accuracy, , , counted] = root.querySelectorAll("thead th");
  expect(accuracy?.getAttribute("aria-sort")).toBe("descending");
  expect(texts("tbody th")).toEqual(["q2", "q10", "few"]);
  click(accuracy?.querySelector("button"));
  expect(accuracy?.getAttribute("aria-sort")).toBe("ascending");
  expect(texts("tbody th")).toEqual(["q10", "q2", "few"]);
  click(slice?.querySelector("button"));
  expect(texts("tbody th")).toEqual(["few", "q2", "q10"]);
  expect(accuracy?.getAttribute("aria-sort")).toBe("none");
  click(counted?.querySelector("button"));
  expect(texts("tbody th"), "most units first").toEqual(["q10", "q2", "few"]);
});

test("the best of a column comes first: the least where less is better, and the least p", () => {
  const of = table([row("a", figure(0.2)), row("b", figure(0.1))]);
  const less = { ...of, columns: of.columns.map((column) => ({ ...column, better: "lower" as const })) };
  draw(<TableView of={less} />);
  click(button("accuracy"));
  expect(texts("tbody th")).toEqual(["b", "a"]);
  expect(root.textContent).toContain("less is better");
});

test("groups fold, and show their first rows until more are asked for", () => {
  const rows = Array.from({ length: 500 }, (_, k) => row(`value ${k}`, figure(0.5), { group: k < 490 ? "modality" : "task" }));
  draw(<TableView of={table(rows, { first: 5 })} />);
  expect(root.querySelectorAll("tbody th[scope=row]")).toHaveLength(10);
  click(button("Show 200 more rows"));
  expect(root.querySelectorAll("tbody th[scope=row]")).toHaveLength(210);
  click(button("modality"));
  expect(button("modality")?.getAttribute("aria-expanded")).toBe("false");
  expect(root.querySelectorAll("tbody th[scope=row]")).toHaveLength(5);
});

test("of several measures one is drawn, and the values of all stand in the table", () => {
  const column = { kind: "figure", interval: "95 % interval", units: "Counted", axis: SHARES } as const;
  const of = table([{ cells: ["ct", figure(0.2), figure(0.7)] }], { columns: [{ title: "Slice" }, { ...column, title: "accuracy" }, { ...column, title: "confusion" }] });
  draw(<TableView of={of} />);
  expect(texts("tbody td.right data:not([value='50'])")).toEqual(["20.00", "70.00"]);
  expect(root.querySelectorAll(".plot:not(.sample)")).toHaveLength(1);
  const headings = () => texts("thead th").map((text) => text.slice(0, 9));
  expect(headings()).toEqual(["Slice", "accuracy", "95 % inte", "Drawing01", "Counted", "confusion"]);
  click(button("confusion"));
  expect(headings()).toEqual(["Slice", "accuracy", "confusion", "95 % inte", "Drawing01", "Counted"]);
});

test("an estimate stands fainter behind the interval of its value, and where there is none", () => {
  const aside = "pooled 71 (58–82)";
  draw(<TableView of={table([row("a", figure(0.75, 12, { aside })), row("b", figure(0.5, 2, { aside })), row("c", figure(0.5))])} />);
  expect(texts("tbody td.interval")).toEqual([`a–b${aside}`, aside, "a–b"]);
  expect(texts("tbody .below")).toEqual([`a–b${aside}`, aside, "a–b"]);
  expect(texts("tbody .aside-of")).toHaveLength(4);
});

test("the key names those marks alone that the table has", () => {
  draw(<TableView of={table([row("a", figure(0.5, 50, { levels: { random: 0.25 } }))])} />);
  expect(texts(".key > span").map((text) => text.trim())).toEqual(["value and 95 % interval", "chance"]);
  draw(<TableView of={table([row("a", figure(0.5, 3)), row("b", figure(0.5, 50, { low: null, high: null }))])} />);
  expect(texts(".key > span").map((text) => text.trim())).toEqual(["no interval", "Grey: under 10, counts in place of percentages, last in order."]);
  expect([...root.querySelectorAll("tbody circle")].map((each) => each.getAttribute("class"))).toEqual(["hollow", "hollow"]);
});

test("a file has all numbers in full, and intervals and units in columns of their own", () => {
  const of = table([row("=1", figure(1 / 3, 40, { low: 0.25, high: 0.5 }), { group: "task" }), row("b", figure(null, 0), { group: "task" })]);
  expect(fileOf(of)).toEqual([
    ["group", "slice", "accuracy", "accuracy_low", "accuracy_high", "accuracy_n"],
    ["task", "=1", 1 / 3, 0.25, 0.5, 40],
    ["task", "b", "–", null, null, 0],
  ]);
});

test("a difference says its direction in words, by a sign and by its colour", () => {
  draw(<TableView of={table([row("a", figure(0.5, 50, { tone: "worse", shown: "−5.00" }))])} />);
  expect(root.querySelector("tbody data.w-worse")?.textContent).toBe("▼ worse: −5.00");
  expect(root.querySelector("tbody .plot g")?.getAttribute("class")).toBe("worse");
});

test("cells lead to parts of the page alone", () => {
  const links = ["#questions?b=x", "/run/first", "//example.org", "javascript:alert(1)", "https://example.org", "/\\example.org", ""];
  draw(<TableView of={table(links.map((link) => row(link || "none", figure(0.5), { links: { 0: link } })))} />);
  expect([...root.querySelectorAll("a")].map((each) => each.getAttribute("href"))).toEqual(["#questions?b=x", "/run/first"]);
});

const matrix: MatrixBlock = {
  block: "matrix",
  title: "Accuracy",
  down: "department",
  across: "task",
  rows: [{ title: "Urology" }],
  columns: [{ title: "Disease Diagnosis", short: "DD" }, { title: "Bone" }, { title: "Skin" }],
  fields: [
    { row: 0, column: 0, figure: figure(0.9, 40, { tone: "better" }), step: 2, link: "#questions" },
    { row: 0, column: 1, figure: figure(0.75, 4) },
  ],
};

test("a field of a matrix says its number, interval and direction in words and by a sign", () => {
  draw(<MatrixView of={matrix} />);
  const field = root.querySelector("td.t-better.s2");
  expect(field?.querySelector("b")?.textContent).toBe("▲90.00");
  expect(field?.querySelector("data")?.textContent).toBe("Urology, Disease Diagnosis: 90.00, 95 % interval a–b, 40 items, better");
  expect(root.querySelectorAll("td.empty")).toHaveLength(1);
  expect(root.querySelector("td.few b")?.textContent).toBe("3/4");
  expect(root.querySelector(".key")?.textContent).toContain("DD: Disease Diagnosis");
  expect(told(figure(0.5, 50, { low: null, high: null, interval: "no interval: 4 independent groups" }))).toBe("50.00, no interval: 4 independent groups, 50 items");
});

const plot: PlotBlock = {
  block: "plot",
  title: "Calibration",
  across: "confidence",
  up: "correct",
  x: SHARES,
  y: SHARES,
  diagonal: true,
  series: [
    { title: "answers", points: [{ x: 0.5, y: 0.4, low: 0.2, high: 0.6, label: "bin 5", link: "#questions" }, { x: 0.7, y: null }] },
    { title: "counts", drawn: "bars", points: [{ x: 0.5, y: 0.1 }, { x: 0.7, y: 0.3 }] },
    { title: "mean", drawn: "line", points: [{ x: 0, y: 0 }, { x: 1, y: 1 }] },
  ],
};

test("a plot draws points, bars, lines and a diagonal, and a table says the same", () => {
  draw(<PlotView of={plot} />);
  const chart = root.querySelector("svg.chart");
  expect(chart?.getAttribute("aria-hidden")).toBe("true");
  expect(chart?.querySelectorAll("rect")).toHaveLength(2);
  expect(chart?.querySelectorAll("polyline, .diagonal")).toHaveLength(2);
  expect(chart?.querySelectorAll(".range")).toHaveLength(1);
  expect(chart?.querySelector("a")?.getAttribute("tabindex"), "the link of the table has the focus").toBe("-1");
  expect(root.querySelectorAll("tbody tr")).toHaveLength(6);
  expect(root.querySelector("tbody a")?.textContent).toBe("bin 5");
});

test("any number has a place on an axis", () => {
  expect([-2, -1, 0, 2, 9, -9].map((value) => place({ low: -2, high: 2, ticks: [] }, value))).toEqual(["0.00%", "25.00%", "50.00%", "100.00%", "100.00%", "0.00%"]);
  fc.assert(
    fc.property(fc.double(), fc.double(), fc.double(), (low, high, value) => {
      const share = Number.parseFloat(place({ low, high, ticks: [] }, value));
      expect(share).toBeGreaterThanOrEqual(0);
      expect(share).toBeLessThanOrEqual(100);
      draw(<PlotView of={{ ...plot, x: { low, high, ticks: [] }, y: { low, high, ticks: [] }, series: [{ title: "", points: [{ x: value, y: value, low, high }] }] }} />);
      const places = [...root.querySelectorAll("svg *")].flatMap((each) => [...each.attributes].map((attribute) => attribute.value));
      expect(places.filter((each) => each.includes("NaN"))).toEqual([]);
      document.body.replaceChildren();
    }),
    { numRuns: 50 },
  );
  draw(<Plot axis={SHARES} spots={[{ value: 0.5 }, { value: 0.2, low: 0.1, high: 0.3 }]} />);
  expect([...root.querySelectorAll("circle")].map((each) => each.getAttribute("class"))).toEqual(["hollow", ""]);
});

test("blocks with tabs stand in one place; another first name leads to its own second ones", () => {
  const text = (line: string, ...tabs: string[]) => ({ block: "text", title: line, lines: [line], tabs }) as const;
  draw(<Sections asked="" of={sections(text("a1", "a", "1"), text("a2", "a", "2"), text("b3", "b", "3"), text("b4", "b", "4"))} />);
  expect(texts("p.line-of")).toEqual(["a1"]);
  click(button("2"));
  expect(texts("p.line-of")).toEqual(["a2"]);
  click(button("b"));
  expect(texts("p.line-of")).toEqual(["b3"]);
  expect(button("b")?.getAttribute("aria-pressed")).toBe("true");
  const many = Array.from({ length: 9 }, (_, k) => text(`line ${k}`, `name ${k}`));
  draw(<Sections asked="" of={sections(...many)} />);
  const select = root.querySelector("select");
  if (select === null) throw new Error("no select");
  select.value = "7";
  void act(() => { select.dispatchEvent(new Event("change", { bubbles: true })); });
  expect(texts("p.line-of")).toEqual(["line 7"]);
});

test("more than six notices are folded, and a section that is asked for unfolds", () => {
  const notices = Array.from({ length: 9 }, (_, k) => ({ block: "notice", text: `notice ${k}`, link: "#questions" }) as const);
  draw(<Sections asked="" of={sections(...notices)} />);
  expect(root.querySelector("details.limits summary")?.textContent).toBe("3 more notices");
  const folded: readonly PageSection[] = [{ id: "method", title: "Method", blocks: [], folded: true, printed: false }];
  draw(<Sections asked="" of={folded} />);
  expect(root.querySelector("details")?.open).toBe(false);
  expect(root.querySelector("section.screen")).not.toBeNull();
  void act(() => { render(<Sections asked="method" of={folded} />, root); });
  expect(root.querySelector("details")?.open).toBe(true);
});

test("a headline says its state, and each number of a sentence names its origin", () => {
  draw(
    <Sections
      asked=""
      of={sections({
        block: "headline",
        title: "Complete",
        state: "good",
        lines: ["all 72 questions have a result"],
        sentences: [{ title: "B", state: "open", words: [{ text: "80 %", of: "value", value: 0.8 }, { text: " of pairs" }], link: "#questions", figure: figure(0.8), axis: SHARES }],
      })}
    />,
  );
  expect(root.querySelector(".status")?.textContent).toBe("✓Completeall 72 questions have a result");
  expect(root.querySelector(".said .sign")?.textContent).toBe("◆");
  const number = root.querySelector("data[data-said]");
  expect([number?.getAttribute("data-said"), number?.getAttribute("value")]).toEqual(["value", "0.8"]);
  expect(root.querySelectorAll(".said .plot")).toHaveLength(1);
});

test("counts of questions lead to them, and a count of none does not", () => {
  draw(<Sections asked="" of={sections({ block: "questions", title: "Outcomes", total: 3, chosen: [{ title: "correct", count: 3, link: "#questions?q=outcome:correct" }, { title: "error", count: 0, link: "#x" }] })} />);
  expect([...root.querySelectorAll("a")].map((each) => [each.getAttribute("href"), each.textContent])).toEqual([["#questions?q=outcome:correct", "3 correct"]]);
  expect(root.querySelectorAll(".stack rect")).toHaveLength(1);
});

test("texts of every block are text, whatever they hold", () => {
  const evil = fc.oneof(fc.constantFrom("<img src=x onerror=alert(1)>\u202e", "__proto__", "constructor", "javascript:alert(1)"), fc.string({ unit: "binary" }));
  fc.assert(
    fc.property(evil, (text) => {
      const cell = figure(0.5, 50, { shown: text, interval: text, units: text, levels: { [text]: 0.5 }, of: { [text]: text } });
      const label = { title: text, short: text, link: text, note: text };
      draw(
        <Sections
          asked={text}
          of={sections(
            { block: "headline", title: text, lines: [text], sentences: [{ title: text, words: [{ text, of: text }], meaning: text, figure: cell, axis: SHARES, link: text }] },
            { block: "notice", text, link: text },
            table([{ cells: [text, cell], links: { 0: text }, group: text, note: text }], { title: text, notes: [text], sort: text, columns: [{ title: text }, { title: text, kind: "figure", interval: text, units: text, axis: { ...SHARES, ticks: [{ at: 0.5, label: text }] } }] }),
            { ...matrix, title: text, rows: [label], columns: [label], fields: [{ row: 0, column: 0, figure: cell, link: text }], notes: [text] },
            { ...plot, title: text, across: text, up: text, series: [{ title: text, points: [{ x: 0.5, y: 0.5, label: text, link: text }] }], notes: [text] },
            { block: "questions", title: text, chosen: [{ title: text, count: 1, link: text }], total: 1, notes: [text] },
            { block: "text", title: text, lines: [text], facts: [{ name: text, value: text, link: text }], verbatim: text, tabs: [text] },
          )}
        />,
      );
      expect(root.querySelectorAll("img, script, iframe, [onerror]")).toHaveLength(0);
      expect([...root.querySelectorAll("a")].every((each) => /^[#/]/.test(each.getAttribute("href") ?? ""))).toBe(true);
      const turned = [...root.querySelectorAll("*")].flatMap((each) => [...each.childNodes]).filter((node) => node.nodeType === 3 && /[\u202a-\u202e\u2066-\u2069]/.test(node.textContent ?? ""));
      expect(turned.map((node) => `${node.parentElement?.parentElement?.className ?? ""} ${node.parentElement?.tagName ?? ""}`)).toEqual([]);
      document.body.replaceChildren();
    }),
    { numRuns: 60 },
  );
});
