import fc from "fast-check";
import { render } from "preact";
import { act } from "preact/test-utils";
import { afterEach, beforeEach, expect, test } from "vitest";

import type { Data } from "../src/data";
import { presetsOf } from "../src/explorer/choices";
import { exported } from "../src/explorer/export";
import { find, Source } from "../src/explorer/selecting";
import { inOrder, select } from "../src/filter";
import type { Page } from "../src/page";
import { fieldOf, parse, print, printTerm, resolve, suggest } from "../src/query";
import type { Numbers } from "../src/read";
import { START, type State } from "../src/route";
import { flipped, pairOf, scaleOf } from "../src/scale";
import { runField, unitsOf as tableIn, type Compared, type Rows } from "../src/table";
import { Explorer } from "../src/views/explorer";
import { ItemDialog, sideBySide } from "../src/views/item";
import { comparisonOf, type Readings } from "./compared";

const tableOf = (data: Data, pair = { new: 1, baseline: 0 }): Rows & { readonly compared: Compared } => {
  const table = tableIn(data, Source.of(data).texts, 0, pair);
  if (table.compared === null) throw new Error("no comparison");
  return { ...table, compared: table.compared };
};

const unitsOf = (table: Rows, query: string): readonly string[] => {
  const { clauses, problems } = resolve(parse(query), table.fields);
  expect(problems).toEqual([]);
  return [...select(table, clauses, table.facets).rows].map(table.key);
};

const reading = fc.array(fc.constantFrom("A", "B", "C", ""), { minLength: 0, maxLength: 3 });
const compared = fc.integer({ min: 2, max: 5 }).chain((runs) => fc.array(fc.array(reading, { minLength: runs, maxLength: runs }), { minLength: 1, maxLength: 12 }));
const named = (readings: Readings): readonly string[] => (readings[0] ?? []).map((_, run) => `model ${run}`);
const value = (letters: readonly string[]): number => letters.filter((letter) => letter === "A").length / letters.length;
/** The questions that some run answered and for which something holds. */
const ids = (readings: Readings, holds: (byRun: Readings[number]) => boolean): readonly string[] =>
  readings.flatMap((byRun, q) => (holds(byRun) && byRun.some((each) => each.length > 0) ? [`q${q + 1}`] : []));

test("the numbers of runs that are right and wrong are those of their answers", () => {
  fc.assert(
    fc.property(compared, (readings) => {
      const table = tableOf(comparisonOf(named(readings), readings));
      const runs = named(readings).length;
      for (let number = 0; number <= runs; number++) {
        expect(unitsOf(table, `right_in:${number}`)).toEqual(ids(readings, (byRun) => byRun.filter((each) => value(each) === 1).length === number));
        expect(unitsOf(table, `wrong_in>=${number}`)).toEqual(ids(readings, (byRun) => byRun.filter((each) => value(each) === 0).length >= number));
      }
      expect(unitsOf(table, "run2:wrong,unparsed")).toEqual(ids(readings, (byRun) => byRun[1]?.some((letter) => letter !== "A") === true));
    }),
  );
});

test("all runs agree on a wrong option if every sample of each of them read it", () => {
  fc.assert(
    fc.property(compared, (readings) => {
      const table = tableOf(comparisonOf(named(readings), readings));
      const same = (letters: readonly string[]) => (byRun: Readings[number]) => byRun.every((each) => each.length > 0) && new Set(byRun.flat()).size === 1 && letters.includes(byRun[0]?.[0] ?? "");
      const wrong = ids(readings, same(["B", "C"]));
      expect(unitsOf(table, "agree:wrong")).toEqual(wrong);
      expect(unitsOf(table, "agree:right")).toEqual(ids(readings, same(["A"])));
      expect(presetsOf(table, table.compared).map(({ term, units }) => unitsOf(table, term).length - units)).toEqual([0, 0, 0, 0]);
    }),
  );
});

test("a flip is a difference between two runs that both have a score, and turns with the pair", () => {
  fc.assert(
    fc.property(compared, fc.nat(4), fc.nat(4), (readings, a, b) => {
      const runs = named(readings).length;
      const pair = { new: a % runs, baseline: b % runs };
      fc.pre(pair.new !== pair.baseline);
      const data = comparisonOf(named(readings), readings);
      const change = (byRun: Readings[number]): number => value(byRun[pair.new] ?? []) - value(byRun[pair.baseline] ?? []);
      const table = tableOf(data, pair);
      expect(unitsOf(table, "flip:worse")).toEqual(ids(readings, (byRun) => change(byRun) < 0));
      expect(unitsOf(table, "way:better")).toEqual(ids(readings, (byRun) => change(byRun) > 0));
      const turned = tableOf(data, { new: pair.baseline, baseline: pair.new });
      expect(flipped(turned.compared.flips, "worse")).toBe(flipped(table.compared.flips, "better"));
      expect([...inOrder(select(table, [], []), table.order("", "flip"))].map((unit) => table.compared.flips[unit])).toEqual([...table.compared.flips].sort());
    }),
  );
});

test("a unit with several rows of values stands once, and is compared for runs that share a row", () => {
  const data = comparisonOf(["a", "b", "c"], [[["A"], ["B"], ["A"]], [["A"], ["B"], ["A"]]]);
  const columns = data.bundle.columns as Map<string, Numbers>;
  // Question 1: a against b, and c alone; question 2: all.
  columns.set("units/0.questions.offsets", Uint32Array.of(0, 1, 2, 3));
  columns.set("units/0.questions.values", Uint32Array.of(0, 0, 1));
  columns.set("units/0.values", Float64Array.of(1, 0, NaN, NaN, NaN, 1, 1, 0, 1));
  expect(unitsOf(tableOf(data), "flip:worse")).toEqual(["q1", "q2"]);
  expect(unitsOf(tableOf(data, { new: 2, baseline: 1 }), "flip:better")).toEqual(["q2"]);
  expect(unitsOf(tableOf(data), "right_in:2")).toEqual(["q1", "q2"]);
});

test("whatever a run is called, its field is found by its number and takes no other field's name", () => {
  const name = fc.oneof(fc.string({ unit: "grapheme" }), fc.constantFrom("flip", "run2", "run1", "modality", "new", "id", "__proto__", '"', "right_in", "a:b", "-x"));
  fc.assert(
    fc.property(fc.uniqueArray(name, { minLength: 2, maxLength: 4 }), (names) => {
      const { fields } = tableOf(comparisonOf(names, [names.map(() => ["A"])]));
      const first = fields.findIndex((field) => field.name === "run1");
      names.forEach((_, run) => {
        const term = { field: runField(run), operator: ":" as const, values: ["wrong"], not: false };
        expect(resolve(parse(print([term])), fields)).toMatchObject({ problems: [], clauses: [{ field: first + run, values: [1] }] });
      });
      for (const own of ["flip", "agree", "right_in", "id", "modality"]) expect(fields[fieldOf(fields, own)]?.name).toBe(own);
    }),
  );
  const { fields } = tableOf(comparisonOf(["base line", "tuned"], [[["A"], ["B"]]]));
  expect(suggest("tun", 3, fields).map((each) => each.text)).toEqual(["run2:"]);
  expect(fields[fieldOf(fields, "tuned")]?.name).toBe("run2");
  expect(fields[fieldOf(fields, "new")]?.name).toBe("run2");
});

test("links name a scale and two runs, or are answered by the nearest ones", () => {
  const names = ["a", "b", "c"];
  const data = comparisonOf(names, [[["A"], ["B"], ["B"]]]);
  const chosen = (run: string, against: string) => {
    const pair = pairOf(names, data.bundle.head.pairs ?? [], { run, against });
    return [pair.new, pair.baseline];
  };
  expect(chosen("", "")).toEqual([1, 0]);
  expect(chosen("c", "")).toEqual([2, 0]);
  expect(chosen("c", "b")).toEqual([2, 1]);
  expect(chosen("a", "b")).toEqual([0, 1]);
  expect(chosen("a", "")).toEqual([0, 1]);
  expect(chosen("gone", "c")).toEqual([0, 2]);
  expect(chosen("", "b")).toEqual([0, 1]);
  expect(scaleOf(data.bundle.head, { ...START, benchmark: "gone" })).toBe(0);
});

test("samples stand beside one another, the last one beside what is left over", () => {
  expect(sideBySide([1, 2], [3])).toEqual([1, 3, 2, 3]);
  expect(sideBySide([], [3])).toEqual([3]);
});

test("a table for spreadsheets has a row for each unit and columns for each run", async () => {
  const data = comparisonOf(["a", "=b"], [[["A"], ["B", "A"]], [["B"], []]]);
  await Source.of(data).texts.load(() => undefined);
  const state = { ...START, sort: "id" };
  const text = exported(find(tableOf(data), state, ""));
  const [head = "", first = "", second = ""] = text.split("\r\n");
  expect(head).toContain("value of =b,outcome of =b");
  expect(first).toContain("q1,q1,ct,Which is it?,A,1,0,2,=b,a,worse,1,correct,A,run 1 says A,0.5,wrong; correct,B; A,".replace("2,=b", "2,'=b"));
  expect(second).toContain(",open,0,wrong,B,run 1 says B,,,,");
});

// ---- the page ------------------------------------------------------------------------------------------------------

let root: HTMLElement;
beforeEach(() => {
  root = document.createElement("div");
  document.body.append(root);
  globalThis.matchMedia = (() => ({ matches: true })) as unknown as typeof matchMedia;
});
afterEach(() => {
  render(null, root);
  root.remove();
});

/** Open the questions of a comparison; return the changes of state that are asked for. */
const open = async (data: Data, change: Partial<State>): Promise<readonly Partial<State>[]> => {
  const changes: Partial<State>[] = [];
  const state: State = { ...START, view: "questions", ...change };
  const page: Page = { head: data.bundle.head, state, go: (asked) => { changes.push(asked); }, link: () => "#", data };
  await act(async () => {
    render(<><Explorer page={page} />{state.item !== null && <ItemDialog page={page} data={data} />}</>, root);
    await Promise.resolve();
  });
  return changes;
};

test("an old link asks for the flips of its run alone", async () => {
  const changes = await open(comparisonOf(["a", "b", "c"], [[["A"], ["B"], ["B"]], [["A"], ["A"], ["B"]]]), { run: "c", query: "modality:ct" });
  expect(changes).toEqual([{ run: "c", against: "a", query: "flip:worse,better modality:ct" }]);
});

test("a unit shows the answers of three runs in a list, and which runs chose an option", async () => {
  await open(comparisonOf(["a", "b", "c"], [[["B"], ["B"], ["A"]]]), { item: "q1" });
  const dialog = root.querySelector("dialog");
  expect([...(dialog?.querySelectorAll(".answer-line") ?? [])].map((line) => line.textContent)).toEqual([
    expect.stringContaining("run 1 says B"), expect.stringContaining("run 2 says B"), expect.stringContaining("run 3 says A"),
  ]);
  expect(dialog?.querySelector(".options")?.textContent).toContain("chosen by 2 of 3 runs: a, b");
});

test("one click lists what all runs got wrong", async () => {
  const changes = await open(comparisonOf(["a", "b"], [[["B"], ["C"]], [["A"], ["B"]], [["C"], ["C"]]]), { query: "modality:ct" });
  const presets = [...root.querySelectorAll<HTMLElement>(".presets li")];
  expect(presets.map((each) => each.querySelector("data")?.value)).toEqual(["2", "1", "1", "0"]);
  presets[0]?.querySelector("button")?.click();
  expect(changes).toEqual([{ query: "modality:ct wrong_in:2" }]);
  expect(parse("modality:ct wrong_in:2").map(printTerm)).toEqual(["modality:ct", "wrong_in:2"]);
});
