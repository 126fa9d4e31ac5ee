import fc from "fast-check";
import { render } from "preact";
import { expect, test } from "vitest";

import { VERSION, type BundleHead, type Cell, type GateView, type RunView, type ScorecardView, type VerdictView } from "../src/bundle";
import type { Page } from "../src/page";
import { parse, print, START } from "../src/route";
import { placed } from "../src/views/gate";
import { Scorecard } from "../src/views/scorecard";
import { Verdict } from "../src/views/verdict";

const cell: Cell = {
  benchmark: "b",
  technique: "mc",
  name: "set_accuracy",
  slice: {},
  value: 0.8,
  low: 0.6,
  high: 0.9,
  n: 36,
  unit: "pairs",
  percent: true,
  few: false,
  shown: "80.00",
  interval: "60.00–90.00",
  references: { random: 0.25 },
};
const verdict: VerdictView = {
  status: { state: "complete", title: "Complete", lines: ["all 72 questions have a result"] },
  control: "",
  sentences: [
    {
      title: "B",
      benchmark: "b",
      technique: "mc",
      words: [{ text: "80 %", of: "value", value: 0.8 }, { text: " of pairs with both questions right" }],
      meaning: "",
      standing: "above",
      cell,
    },
  ],
  warnings: [],
  notes: [],
};
const card: ScorecardView = {
  blank: "",
  image: "",
  counted: "items",
  parts: [
    {
      title: "B",
      benchmark: "b",
      technique: "mc",
      selected: "",
      rows: [{ cell, label: "set accuracy", meaning: "Pairs.", better: "higher", counted: "36 pairs" }],
      failed: [],
      key: "b",
      total: 72,
      outcomes: [
        { outcome: "correct", count: 60 },
        { outcome: "wrong", count: 10 },
        { outcome: "unparsed", count: 2 },
      ],
    },
  ],
  tables: [],
};
const rule = {
  rule: "b: accuracy against main, margin 2",
  name: "b: accuracy against main, margin 2",
  outcome: "FAIL",
  why: "a loss of 3.0 to 9.0 points is shown",
  numbers: [
    { field: "difference", value: -0.05, shown: "−5.00" },
    { field: "low", value: -0.09, shown: "−9.00" },
    { field: "high", value: -0.03, shown: "−3.00" },
  ],
  is_floor: false,
  line: -0.02,
};
const gate: GateView = {
  outcome: "FAIL",
  headline: "against main",
  level: "95",
  reach: 0.1,
  blockers: [],
  remarks: [],
  listed: [rule],
  passed: [],
  small: [],
  flips: "3 lost, 0 gained",
  moved: [],
};

const shown = (run: Partial<RunView>, view: typeof Verdict = Verdict): HTMLElement => {
  const head = {
    version: VERSION,
    kind: "run",
    title: "run",
    outcomes: ["correct", "wrong", "unparsed", "error"],
    run: { images: "", verdict, gate: null, scorecard: card, ...run },
  } as unknown as BundleHead;
  const page: Page = { head, state: START, go: () => undefined, link: (change) => print({ ...START, ...change }), data: null };
  const root = document.createElement("div");
  const View = view;
  render(<View page={page} />, root);
  return root;
};

test("the first screen says status, gate and result, and each number names its origin", () => {
  const root = shown({});
  expect(root.textContent).toContain("Complete");
  expect(root.textContent).toContain("No gate");
  const number = root.querySelector("data[data-said]");
  expect(number?.getAttribute("value")).toBe("0.8");
  expect(number?.getAttribute("data-measure")).toBe("set_accuracy");
  expect(root.querySelector(".result-line .sign")?.textContent, "a good result needs no sign").toBe("");
  const open = { ...verdict.sentences[0], standing: "open" } as VerdictView["sentences"][number];
  expect(shown({ verdict: { ...verdict, sentences: [open] } }).querySelector(".result-line .sign")?.textContent).toBe("◆");
});

test("a failed gate shows its reasons in the first screen and leads to its rules", () => {
  const root = shown({ gate });
  expect(root.textContent).toContain("FAIL");
  expect(root.textContent).toContain("a loss of 3.0 to 9.0 points is shown");
  expect(parse(root.querySelector(".states a")?.getAttribute("href") ?? "").section).toBe("gate");
  const blocked = shown({ gate: { ...gate, outcome: "", listed: [], blockers: ["q1: no result"] } });
  expect(blocked.textContent).toContain("NO VERDICT");
  expect(blocked.textContent).toContain("q1: no result");
});

test("more than six warnings are folded, and a warning leads to its questions", () => {
  const warnings = Array.from({ length: 9 }, (_, n) => ({ text: `warning ${n}`, benchmark: "b", technique: "mc", outcomes: ["unparsed" as const] }));
  const root = shown({ verdict: { ...verdict, warnings } });
  expect(root.querySelector("details.more summary")?.textContent).toBe("3 more warnings");
  const link = parse(root.querySelector(".notes a")?.getAttribute("href") ?? "");
  expect([link.view, link.benchmark, link.technique, link.query]).toEqual(["questions", "b", "mc", "outcome:unparsed"]);
});

test("the scorecard says unit, meaning and direction, and counts lead to their questions", () => {
  const [part] = card.parts;
  const [row] = part?.rows ?? [];
  const less = { ...card, parts: [{ ...part, rows: [{ ...row, better: "lower" }] }] } as ScorecardView;
  expect(shown({ scorecard: card }, Scorecard).textContent).not.toContain("less is better");
  const root = shown({ scorecard: less }, Scorecard);
  expect(root.textContent).toContain("less is better");
  expect(root.textContent).toContain("Pairs.");
  expect(root.querySelector("data[data-measure]")?.getAttribute("data-slice")).toBe("");
  const counts = [...root.querySelectorAll("data[data-outcome]")].map((each) => [each.getAttribute("data-outcome"), each.textContent]);
  expect(counts).toEqual([["correct", "60"], ["wrong", "10"], ["unparsed", "2"]]);
  expect(root.textContent, "outcomes that no answer has take no column").toContain("No question is an error.");
  const [first] = root.querySelectorAll(".outcomes td a");
  expect(parse(first?.getAttribute("href") ?? "").query).toBe("outcome:correct");
});

test("the gain of the image stands with its interval", () => {
  const [part] = card.parts;
  const [row] = part?.rows ?? [];
  const gap = { blank: 0.75, value: 0.05, low: -0.01, high: 0.11, helps: "open", blank_shown: "75.00", value_shown: "+5.00", interval: "−1.00 to +11.00", shared: "" };
  const root = shown({ scorecard: { ...card, blank: "blank", image: "blank", parts: [{ ...part, rows: [{ ...row, gap }] }] } as ScorecardView }, Scorecard);
  expect(root.querySelector("data[data-gap=value]")?.getAttribute("value")).toBe("0.05");
  expect(root.textContent).toContain("−1.00 to +11.00");
  expect(root.textContent).toContain("not shown to help");
});

test("a reason spans its table, and its numbers name their fields", () => {
  const root = shown({ gate }, Scorecard);
  const head = root.querySelector<HTMLTableCellElement>(".rules tbody th");
  expect(head?.colSpan).toBe(root.querySelectorAll(".rules thead th").length);
  expect(head?.textContent).toContain(rule.why);
  const fields = [...root.querySelectorAll("data[data-rule]")].map((each) => each.getAttribute("data-number"));
  expect(fields).toEqual(["difference", "low", "high"]);
  expect(root.querySelector(".rules .ref")?.getAttribute("x1")).toBe("40.00%");
});

test("any number has a place on the axis", () => {
  fc.assert(
    fc.property(fc.double(), fc.double({ min: 0.001, max: 1, noNaN: true }), (value, reach) => {
      const place = placed(value, reach);
      expect(Number.isNaN(value) || (parseFloat(place) >= 0 && parseFloat(place) <= 100)).toBe(true);
    }),
  );
});

test("hostile texts are text, and hidden characters are named", () => {
  const evil = "<img src=x onerror=alert(1)>\u202e";
  const hostile = { ...gate, headline: evil, blockers: [evil], remarks: [evil], moved: [evil], flips: evil, listed: [{ ...rule, name: evil, why: evil }], small: [{ ...rule, rule: "s", name: evil }] };
  const views = [
    shown({ images: evil, gate: hostile, verdict: { ...verdict, status: { state: "unfinished", title: evil, lines: [evil] }, notes: [evil], warnings: [{ text: evil, benchmark: evil, technique: evil, outcomes: [] }], sentences: [{ title: evil, benchmark: evil, technique: evil, words: [{ text: evil }], meaning: evil, standing: "", cell: null }] } }),
    shown({ gate: hostile, scorecard: { ...card, blank: evil, image: evil, tables: [{ title: evil, columns: [evil], rows: [[evil]], right: [] }], parts: card.parts.map((part) => ({ ...part, title: evil, selected: evil, failed: [{ name: evil, why: evil }], rows: part.rows.map((row) => ({ ...row, label: evil, meaning: evil })) })) } }, Scorecard),
  ];
  for (const root of views) {
    expect(root.querySelectorAll("img, script")).toHaveLength(0);
    expect(root.textContent).not.toContain("\u202e");
    expect(root.textContent).toContain("⟨U+202E⟩");
  }
});

test("images that a program drew are announced before the results, and clinical use is denied beside them", () => {
  const root = shown({ verdict: { ...verdict, synthetic: "The images are drawn by a program." } });
  const text = root.textContent;
  expect(text.indexOf("drawn by a program")).toBeGreaterThan(-1);
  expect(text.indexOf("drawn by a program")).toBeLessThan(text.indexOf("of pairs with both questions right"));
  expect(text).toContain("says nothing about clinical use");
  expect(shown({ verdict }).querySelector(".alert")).toBeNull();
});
