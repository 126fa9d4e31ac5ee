import { expect, test } from "vitest";

import { FORMULA_STARTS, type Answered, type BundleHead, type Tables } from "../src/bundle";
import { csv } from "../src/csv";
import { Data } from "../src/data";
import { exported } from "../src/explorer/export";
import { commandOf, find as findIn, hasScore, intervalOf, keysOf, pairSum, Source, type Found } from "../src/explorer/selecting";
import { alone } from "../src/filter";
import { keyText, parseKey } from "../src/key";
import { listed, setListed } from "../src/listed";
import type { Numbers } from "../src/read";
import { START, type State } from "../src/route";

// Two benchmarks: "shapes" with two pairs, asked by mc and ps, and "other" with one question.
const WORDS = ["q1", "q2", "q3", "q4", "q5", "Round or square?", "=1+1", "a circle", "a Square", "p1", "p2"];
const RESPONSES = ["A, a circle.", "=cmd()", "The effusion is small", "I cannot say", "B", "", "", "", ""];
const values = (name: string, ...all: readonly string[]) => ({
  name,
  of: "questions",
  values: all.map((value) => ({ value, title: value.toUpperCase(), short: "", select: name === "own tag" ? null : `${name}='${value}'` })),
});

/** `failed`: the answer to the question of "other" is an error. */
const source = (failed = false): Source => {
  const columns = new Map<string, Numbers>([
    ["questions.benchmark", Uint16Array.of(0, 0, 0, 0, 1)],
    ["questions.id", Uint32Array.of(0, 1, 2, 3, 4)],
    ["questions.kind", new Uint8Array(5)],
    ["questions.text", Uint32Array.of(5, 5, 6, 5, 5)],
    ["questions.options", Uint32Array.of(0, 0, 0, 0, 0)],
    ["questions.answers", Uint32Array.of(0, 1, 0, 1, 0)],
    ["questions.pair", Int32Array.of(9, 9, 10, 10, -1)],
    // mc answers all five, ps the first four.
    ["results.question", Uint32Array.of(0, 1, 2, 3, 0, 1, 2, 3, 4)],
    ["results.run", new Uint16Array(9)],
    ["results.technique", Uint8Array.of(0, 0, 0, 0, 1, 1, 1, 1, 0)],
    ["results.variant", new Uint16Array(9)],
    ["results.sample", new Uint32Array(9)],
    ["results.outcome", Uint8Array.of(0, 1, 0, 2, 0, 0, 0, 0, failed ? 3 : 1)],
    ["results.options", new Uint32Array(9)],
    ["results.answers", Uint32Array.of(0, 1, 0, 1, 0, 1, 0, 1, 0)],
    ["results.extracted", Uint32Array.of(0, 0, 0, 2, 0, 1, 0, 1, 1)],
    ["results.finish", new Uint8Array(9)],
    ["results.seconds", Float32Array.of(0.1, 2, NaN, 4, 1, 1, 1, 1, 1)],
    ["results.confidence", new Float32Array(9).fill(NaN)],
    ["results.marks", Uint8Array.of(1, 0, 2, 0, 0, 0, 0, 0, 0)],
    ["results.verdict", Uint8Array.of(2, 2, 16, 16, 1, 1, 1, 1, 0)],
    ["results.numerator", Float64Array.of(1, 0, 1, 0, 1, 1, 1, 1, 0)],
    ["results.denominator", new Float64Array(9).fill(1)],
    ["tags/0.offsets", Uint32Array.of(0, 1, 2, 4, 5, 6)],
    ["tags/0.values", Uint16Array.of(0, 1, 0, 1, 1, 0)],
    ["tags/1.offsets", Uint32Array.of(0, 1, 1, 1, 2, 2)],
    ["tags/1.values", Uint16Array.of(0, 0)],
  ]);
  const head = {
    runs: [{ name: "run", model: "", digest: "" }],
    benchmarks: [
      { name: "shapes", score: "accuracy", command: "pytest --benchmark=shapes", pairs: true, dimensions: [0, 1], intervals: { mc: { "": [0.1, 0.9], "0.0": [0.2, 0.8] } } },
      { name: "other", score: "accuracy", command: "pytest --benchmark=other", pairs: false, dimensions: [0], intervals: {} },
    ],
    dimensions: [values("modality", "ct", "mri"), values("own tag", "x")],
    techniques: ["mc", "ps"],
    kinds: ["single_choice"],
    variants: [""],
    outcomes: ["correct", "wrong", "unparsed", "error"],
  } as unknown as BundleHead;
  const tables = { words: WORDS, options: [[["A", 7], ["B", 8]]], lists: [["A"], ["B"], []], images: [] } as unknown as Tables;
  const read: readonly Answered[] = RESPONSES.map((response, result) => ({ response, why: result === 8 && failed ? "Server gone" : "read" }));
  let there = false;
  const answers = {
    at: (result: number) => (there ? read[result] : undefined),
    all: (step: (results: number) => void) => {
      there = true;
      step(read.length);
      return Promise.resolve();
    },
  };
  const blocks = (): Promise<Uint8Array> => Promise.reject(new Error("no block"));
  return Source.of(new Data({ head, tables, columns, answers, blocks } as unknown as ConstructorParameters<typeof Data>[0]));
};

const find = (made: Source, of: State, query: string): Found => {
  const table = made.table(of);
  if (table === null) throw new Error("no table");
  return findIn(table, of, query);
};
const state = (change: Partial<State> = {}): State => ({ ...START, view: "questions", ...change });
const ids = (made: Source, query: string, change: Partial<State> = {}): readonly string[] => {
  const found = find(made, state(change), query);
  expect(found.problems).toEqual([]);
  return Array.from(found.rows, (row) => parseKey(found.table.key(row)).item);
};

test("what went wrong stands first, one technique at a time", () => {
  const made = source();
  expect(ids(made, "")).toEqual(["q2", "q4", "q1", "q3"]);
  expect(find(made, state(), "").techniques).toEqual(["mc"]);
  expect(ids(made, "", { technique: "ps" })).toEqual(["q1", "q2", "q3", "q4"]);
  expect(find(made, state(), "technique:ps,mc").rows.length).toBe(8);
  expect(find(made, state(), "-technique:mc").techniques).toEqual(["ps"]);
  expect(ids(made, "", { sort: "-seconds" })).toEqual(["q4", "q2", "q1", "q3"]);
  expect(ids(made, "", { benchmark: "other" })).toEqual(["q5"]);
  expect(ids(made, "", { item: keyText({ benchmark: "other", item: "q5", technique: "mc", variant: "", sample: 0 }) })).toEqual(["q5"]);
});

test("each field selects what its name says", () => {
  const made = source();
  const select = (query: string): readonly string[] => [...ids(made, query)].sort();
  expect(select("outcome:wrong,unparsed")).toEqual(["q2", "q4"]);
  expect(select("modality:ct modality:mri")).toEqual(["q3"]);
  expect(select("-modality:ct")).toEqual(["q2", "q4"]);
  expect(select("pair:confused")).toEqual(["q1", "q2"]);
  expect(select("is:truncated")).toEqual(["q1"]);
  expect(select("is:judged,truncated")).toEqual(["q1", "q3"]);
  expect(select("read:none")).toEqual(["q4"]);
  expect(select("key:B")).toEqual(["q2", "q4"]);
  expect(select("id:q1,Q3")).toEqual(["q1", "q3"]);
  expect(select("id:p1")).toEqual(["q1", "q2"]);
  expect(select("id:q*")).toEqual(["q1", "q2", "q3", "q4"]);
  expect(select("seconds<=0.1")).toEqual(["q1"]);
  expect(select('"own tag":x')).toEqual(["q1", "q4"]);
});

test("responses are found when they have been read", async () => {
  const made = source();
  expect(ids(made, "SQUARE?")).toEqual(["q2", "q4", "q1"]);
  expect(ids(made, "effusion")).toEqual([]);
  const found = find(made, state(), "effusion modality:ct");
  expect(found.clauses.map((clause) => alone(found.table, clause))).toEqual([0, 4]);
  expect(made.texts.complete).toBe(false);
  await made.texts.load(() => undefined);
  expect(made.texts.complete).toBe(true);
  expect(ids(made, "effusion")).toEqual(["q3"]);
  expect(ids(made, "-effusion square").length).toBe(3);
});

test("a known slice has its interval, another selection has none", () => {
  const made = source();
  const interval = (query: string) => intervalOf(find(made, state(), query));
  expect(interval("")).toEqual([0.1, 0.9]);
  expect(interval("modality:ct")).toEqual([0.2, 0.8]);
  for (const query of ["modality:mri", "-modality:ct", "modality:ct,mri", "modality:ct outcome:wrong", "circle", "technique:ps", "technique:mc,ps"]) {
    expect(interval(query)).toBeNull();
  }
});

test("a selection by what was answered, or of several techniques, has no score", () => {
  const made = source();
  const scored = (query: string): boolean => hasScore(find(made, state(), query));
  expect(["", "modality:ct", "circle", "seconds>1", "-is:truncated", "key:A", "key_text:circle"].every(scored)).toBe(true);
  expect(["outcome:wrong", "-outcome:correct", "pair:confused", "read:A key:B", "-read:A", "read_text:\"a circle\"", "technique:mc,ps"].some(scored)).toBe(false);
});

test("words leave a score also where a benchmark has no pairs", () => {
  const found = find(source(), state({ benchmark: "other" }), "round");
  expect(found.rows.length).toBe(1);
  expect(hasScore(found)).toBe(true);
});

test("words find the reasons of errors, and not those of scores", async () => {
  const other = state({ benchmark: "other" });
  const [failed, made] = [source(true), source()];
  for (const each of [failed, made]) await each.texts.load(() => undefined);
  expect(find(failed, other, "server").rows.length).toBe(1);
  expect(find(made, other, "server").rows.length).toBe(0);
  expect(find(failed, state(), "read").rows.length).toBe(0);
});

test("the command asks the same questions, and says which terms it leaves out", () => {
  const made = source();
  const command = (query: string) => commandOf(find(made, state(), query));
  expect(command("").line).toBe("pytest --benchmark=shapes --technique=mc");
  expect(command("modality:ct").expression).toBe("lexicon(modality='ct')");
  expect(command("modality:ct,mri").expression).toBe("lexicon(modality='ct') or lexicon(modality='mri')");
  expect(command("modality:ct modality:mri").expression).toBe("lexicon(modality='ct') and lexicon(modality='mri')");
  expect(command("-modality:ct,mri modality:ct").expression).toBe("not (lexicon(modality='ct') or lexicon(modality='mri')) and lexicon(modality='ct')");
  expect(command('outcome:wrong "own tag":x cyst')).toEqual({ expression: "", line: "pytest --benchmark=shapes --technique=mc", left: ["outcome:wrong", '"own tag":x', '"cyst"'] });
});

test("pairs are units", () => {
  const made = source();
  const found = find(made, state({ layout: "pairs" }), "");
  expect(found.rows.length).toBe(2);
  expect(pairSum(found)).toEqual({ pairs: 2, right: 0, scored: 2, confused: 1, valid: 1 });
  expect(pairSum(find(made, state({ layout: "pairs", technique: "ps" }), ""))).toEqual({ pairs: 2, right: 2, scored: 2, confused: 0, valid: 2 });
  const facet = found.selection.facets.get(found.table.place("pair"));
  expect([...(facet?.questions ?? [])]).toEqual([0, 1, 0, 0, 1, 0]);
  expect(find(made, state({ layout: "pairs", benchmark: "other" }), "").layout).toBe("table");
});

test("what is listed is exported, and no cell is a formula", async () => {
  const made = source();
  await made.texts.load(() => undefined);
  const lines = exported(find(made, state(), "outcome:wrong")).trim().split("\r\n");
  expect(lines).toEqual([
    "benchmark,id,technique,variant,sample,outcome,extracted,answers,pair,verdict,modality,own tag,question,options,response,why,seconds,confidence,marks",
    `shapes,q2,mc,,,wrong,A,B,p1,confused: same answer twice,mri,,Round or square?,"{""A"":""a circle"",""B"":""a Square""}",'=cmd(),read,2,,`,
  ]);
  expect(exported(find(made, state({ layout: "pairs" }), "pair:confused")).trim().split("\r\n").length).toBe(3);
});

test("a cell that spreadsheets would run begins with an apostrophe, also behind spaces and control characters", () => {
  for (const start of FORMULA_STARTS) {
    for (const before of ["", "  ", "\x00\x1b"]) expect(csv([[`${before}${start}1`]])).toMatch(/^"?'/);
  }
  expect(csv([["\u00a0 =1"]])).toMatch(/^'/);
  expect(csv([["1=1", -1, null]])).toBe("1=1,-1,\r\n");
});

test("an open item can step through the listed ones", () => {
  const made = source();
  let asked = 0;
  setListed(() => {
    asked += 1;
    return keysOf(find(made, state(), "outcome:correct"));
  });
  expect(asked).toBe(0);
  expect(listed()).toEqual(["shapes|q1|mc", "shapes|q3|mc"]);
  expect(listed().length + asked).toBe(3);
});
