import { render } from "preact";
import { afterEach, expect, test } from "vitest";

import type { BundleHead, Cell, Failing as FailingView, WorstSlice } from "../src/bundle";
import type { Data } from "../src/data";
import type { Page } from "../src/page";
import { print, START } from "../src/route";
import { Failing } from "../src/views/failing";
import { plain, worded, wordsOf } from "../src/worded";

const HOSTILE = '<img src=x onerror="pwned()">\u202e';

const cell = (more: Partial<Cell>): Cell => ({
  benchmark: "b",
  technique: "mc",
  name: "accuracy",
  slice: {},
  value: 0.5,
  low: 0.4,
  high: 0.6,
  n: 40,
  unit: "items",
  percent: true,
  few: false,
  shown: "50.00",
  interval: "40.00–60.00",
  references: {},
  ...more,
});
const slice = (title: string, more: Partial<WorstSlice> = {}): WorstSlice => ({
  cell: cell({ slice: { modality: title } }),
  dimension: "modality",
  title,
  short: "",
  query: "modality:ct",
  beyond: false,
  same: [],
  ...more,
});
const field = (count: number, level = 0, query = "key:A read:A") => ({ count, level, share: "50", query: count > 0 ? query : "" });
const failing: FailingView = {
  parts: [
    {
      benchmark: "b",
      technique: "",
      title: HOSTILE,
      count: 40,
      unit: "questions",
      outcomes: [{ label: "wrong", count: 20, query: "outcome:wrong" }],
      errors: [
        { label: "the server said #", count: 25, query: '"error message":"the server said #"' },
        { label: HOSTILE, count: 2, query: "" },
      ],
      worst: [
        {
          measure: "accuracy",
          better: "higher",
          overall: cell({}),
          rows: [slice("CT", { beyond: true, same: ["a", "b", "c", "d", HOSTILE] }), slice(HOSTILE)],
          ranked: 30,
          beyond: 1,
          apart: [slice("MR", { cell: cell({ few: true, shown: "1/3", interval: "" }) })],
          unranked: 120,
          notes: ["Exploratory."],
        },
        {
          measure: "confusion",
          better: "lower",
          overall: cell({ name: "confusion" }),
          rows: [slice("CT", { beyond: true })],
          ranked: 1,
          beyond: 1,
          apart: [],
          unranked: 0,
          notes: [],
        },
      ],
      matrices: [
        {
          by: "position",
          columns: [
            { label: "A", option: true, count: 30 },
            { label: "3 further", option: true, count: 8 },
            { label: "unparsed", option: false, count: 2 },
          ],
          rows: [
            { label: "A", right: 0, count: 35, fields: [field(30, 5), field(3, 0, ""), field(2)], query: "key:A" },
            { label: HOSTILE, right: -1, count: 5, fields: [field(0), field(5, 0, ""), field(0)], query: "" },
          ],
          count: 40,
          unit: "questions",
          left_out: [{ label: "without a score", count: 2, query: "" }],
          folded: 3,
        },
      ],
      positions: {
        rows: [{ letter: HOSTILE, offered: 9, chosen: 4, correct: 0, hits: 0, few: true, read: "read:A", key: "key:A" }],
        unit: "questions",
        folded: 1,
      },
    },
  ],
  kinds: null,
  unclassified: true,
};

const shown = (view: FailingView): HTMLElement => {
  const page: Page = {
    head: { run: { failing: view } } as unknown as BundleHead,
    state: START,
    go: () => undefined,
    link: (change) => print({ ...START, ...change }),
    data: null,
  };
  const root = document.createElement("div");
  document.body.append(root);
  render(<Failing page={page} />, root);
  return root;
};
const words = (element: Element | null): string => (element?.textContent ?? "").replaceAll(/\s+/g, " ");

afterEach(() => {
  document.body.replaceChildren();
});

test("errors stand by their reasons, which lead to them", () => {
  const rows = [...shown(failing).querySelectorAll(".reasons tbody tr")];
  expect(rows.map((row) => row.querySelector("data")?.value)).toEqual(["25", "2"]);
  expect(rows[0]?.querySelector("a")?.textContent).toBe("the server said #");
  expect(decodeURIComponent(rows[0]?.querySelector("a")?.getAttribute("href") ?? "").replaceAll("+", " ")).toContain('"error message":"the server said #"');
  expect(rows[1]?.querySelector("a")).toBeNull();
  expect(shown({ ...failing, parts: failing.parts.map((part) => ({ ...part, errors: [] })) }).querySelector(".reasons")).toBeNull();
});

test("hostile text makes no element, and hidden characters are named", () => {
  const root = shown(failing);
  expect(root.querySelector("img")).toBeNull();
  expect(words(root)).toContain('<img src=x onerror="pwned()">⟨U+202E⟩');
  expect(root.textContent).not.toContain("\u202e");
});

test("a slice has its value, interval and n, and a mark in words if it is worse", () => {
  const root = shown(failing);
  const [first, second] = root.querySelectorAll(".worst tbody tr");
  expect(words(first ?? null)).toContain("CT modality below overall");
  expect(words(first ?? null)).toContain("the same questions: a, b, c and 2 more");
  expect(words(first ?? null)).toContain("50.0040.00–60.0040");
  expect(words(second ?? null)).not.toContain("overall");
  expect(words(root)).toContain("28 further slices: see Slices.");
  expect(words(root)).toContain("Less confusion is better.");
  expect(words(root)).toContain("above overall");
});

test("slices without an interval are counted and drawn without one", () => {
  const root = shown(failing);
  expect(words(root)).toContain("120 slices without an interval, not ranked");
  expect(words(root)).toContain("119 more slices without an interval");
  const apart = root.querySelector("details .few .strip");
  expect(apart?.querySelector(".range")).toBeNull();
  expect(apart?.querySelector("circle")?.getAttribute("class")).toBe("hollow");
});

test("a field has its count, its link and no colour without a level", () => {
  const root = shown(failing);
  const [first, second, third] = root.querySelectorAll(".confusion tbody td");
  expect(first?.className).toBe("l5 right-option");
  expect(first?.querySelector("a")?.getAttribute("href")).toBe("#questions?b=b&q=key%3AA+read%3AA");
  expect(words(first ?? null)).toBe("3050 % of questions with A correct: read as A");
  expect(second?.className).toBe("");
  expect(second?.querySelector("a")).toBeNull();
  expect(third?.querySelector("data")?.getAttribute("value")).toBe("2");
  expect(words(root)).toContain("3 rarer options share one row and one column. Left out, answers: 2 without a score.");
});

test("few questions give counts and no percentages", () => {
  const [letter, offered, , share] = shown(failing).querySelectorAll(".positions tbody tr > *");
  expect(words(letter ?? null)).toContain("⟨U+202E⟩");
  expect(words(offered ?? null)).toBe("9");
  expect(words(share ?? null)).toBe("");
});

test("a run without results says so", () => {
  expect(words(shown({ parts: [], kinds: null, unclassified: false }))).toBe("Where it failsThe run has no result.");
});

// ---- texts of options ----------------------------------------------------------------------------------------------

interface Row {
  readonly kind: string;
  readonly right: readonly string[];
  readonly extracted: readonly string[];
  readonly outcome: string;
  readonly shown?: readonly (readonly [string, string])[];
}
const dataOf = (rows: readonly Row[]): Data =>
  ({
    question: (r: number) => r,
    kind: (q: number) => rows[q]?.kind,
    right: (r: number) => rows[r]?.right,
    extracted: (r: number) => rows[r]?.extracted,
    outcome: (r: number) => rows[r]?.outcome,
    shown: (r: number) => rows[r]?.shown ?? [],
  }) as unknown as Data;
const options = [
  ["A", "Left  lung"],
  ["B", "right lung"],
] as const;

test("the text of an option is that of its letter as shown; a synonym that is right is the key", () => {
  const rows: Row[] = [
    { kind: "single_choice", right: ["A"], extracted: ["B"], outcome: "wrong", shown: options },
    { kind: "single_choice", right: ["A"], extracted: ["A", "B"], outcome: "wrong", shown: options },
    { kind: "single_choice", right: ["A"], extracted: ["B"], outcome: "unparsed", shown: options },
    { kind: "multiple_response", right: ["A"], extracted: ["A"], outcome: "correct", shown: options },
    { kind: "judgment", right: ["Yes"], extracted: ["true"], outcome: "correct" },
    { kind: "judgment", right: ["Yes"], extracted: ["no"], outcome: "wrong" },
    { kind: "short_answer", right: ["cyst"], extracted: ["cyst"], outcome: "correct" },
  ];
  const data = dataOf(rows);
  expect(rows.map((_, r) => wordsOf(data, "key_text", r))).toEqual([...Array<string>(3).fill("left lung"), null, "yes", "yes", null]);
  expect(rows.map((_, r) => wordsOf(data, "read_text", r))).toEqual(["right lung", null, null, null, "yes", "no", null]);
});

test("answers are found by the text of an option, whatever its case and spaces", () => {
  const data = dataOf(["A", "B", "A"].map((letter) => ({ kind: "single_choice", right: [letter], extracted: [], outcome: "wrong", shown: options })));
  const found = worded("key_text", data, { starts: Uint32Array.of(0, 1, 2, 3), members: Uint32Array.of(2, 1, 0) });
  const mask = new Uint8Array(3);
  found.holds?.(found.find?.(" LEFT lung ") ?? [], mask);
  expect([...mask]).toEqual([1, 0, 1]);
  expect(found.find?.("spleen")).toEqual([]);
  expect(found.like?.("lung", 1)).toEqual(["left lung"]);
  expect(plain(" Left \n LUNG ")).toBe("left lung");
});
