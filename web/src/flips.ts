// The units whose headline measure changed, as tables that the query line filters: one for each pair of runs,
// benchmark, technique and measure. A row is a unit: a question, or a pair of questions.
import type { Data } from "./data";
import { orderOf, ranksOfTexts, type Codes, type Field, type Table } from "./filter";
import { slug } from "./query";
import type { Numbers } from "./read";
import type { Texts } from "./table";
import { label } from "./text";

/** What can be chosen: places in the comparison's `pairs`, in `benchmarks`, `techniques`, and its `measures`. */
export interface FlipKind {
  readonly pair: number;
  readonly benchmark: number;
  readonly technique: number;
  readonly measure: number;
}

/** The directions by the values of the column `flips.better`. */
export const WAYS = ["worse", "better"] as const;

/** The kinds that have flips, in their order. */
export function kindsOf(data: Data): readonly FlipKind[] {
  const kinds = new Map<string, FlipKind>();
  const [pairs, benchmarks, techniques] = ["pair", "benchmark", "technique"].map((name) => data.column(`flips.${name}`)) as [Numbers, Numbers, Numbers];
  for (let flip = 0; flip < pairs.length; flip++) {
    const [pair = 0, benchmark = 0, technique = 0] = [pairs[flip], benchmarks[flip], techniques[flip]];
    for (const measure of data.list("flips.measures", flip)) {
      const key = `${pair} ${benchmark} ${technique} ${measure}`;
      if (!kinds.has(key)) kinds.set(key, { pair, benchmark, technique, measure });
    }
  }
  return [...kinds.values()];
}

const CHOICES = ["pair", "benchmark", "technique", "measure"] as const;

/** The kind nearest to a wish: the pair counts most, then the benchmark, the technique and the measure. */
export const nearest = (kinds: readonly FlipKind[], wish: Partial<FlipKind>): FlipKind | undefined =>
  CHOICES.reduce((left, name) => {
    const agreeing = left.filter((kind) => kind[name] === wish[name]);
    return agreeing.length > 0 ? agreeing : left;
  }, kinds)[0];

/** The kinds that agree with one in all choices before `name`: one for each value of that choice. */
export function among(kinds: readonly FlipKind[], chosen: FlipKind, name: keyof FlipKind): readonly FlipKind[] {
  const before = CHOICES.slice(0, CHOICES.indexOf(name));
  const values = new Map<number, FlipKind>();
  for (const kind of kinds) {
    if (before.every((each) => kind[each] === chosen[each]) && !values.has(kind[name])) values.set(kind[name], kind);
  }
  return [...values.values()];
}

/** A question of a unit with the results of both runs, side by side. */
export interface Both {
  readonly question: number;
  readonly new: number;
  readonly baseline: number;
}

export const bothOf = (data: Data, flip: number): readonly Both[] => {
  const baseline = data.list("flips.baseline", flip);
  return data.list("flips.new", flip).map((result, i) => ({ question: data.question(result), new: result, baseline: baseline[i] ?? result }));
};

/** The id of a unit: that of its pair, else of its question. */
export const unitOf = (data: Data, flip: number): string => {
  const first = data.question(data.list("flips.new", flip)[0] ?? 0);
  return data.pair(first) ?? data.id(first);
};

/** The measures in which a unit flipped, with the directions. */
export const measuresOf = (data: Data, flip: number): readonly { readonly measure: number; readonly better: boolean }[] => {
  const better = data.list("flips.better", flip);
  return data.list("flips.measures", flip).map((measure, i) => ({ measure, better: better[i] === 1 }));
};

export interface FlipTable extends Table {
  readonly kind: FlipKind;
  /** The flip of each row. */
  readonly flips: Uint32Array;
  /** 1 for each row that is better in the new run. */
  readonly better: Uint8Array;
  readonly units: readonly string[];
  /** Whether a row may have several answers of a run: a pair, or samples. */
  readonly several: boolean;
  /** Fields whose counts stand beside the list. */
  readonly facets: readonly number[];
  /** No row is a single result. */
  readonly result: null;
  /** All rows in the order of a column ("-" before it: descending); without one, those that are worse come first. */
  readonly order: (sort: string) => Uint32Array;
}

const OWN = ["way", "baseline", "new", "id"];

/** Lists of values by row as codes. */
const listed = (rows: readonly Iterable<number>[]): Codes => {
  const codes: number[] = [];
  const offsets = [0];
  for (const row of rows) {
    codes.push(...new Set(row));
    offsets.push(codes.length);
  }
  return { codes: Uint32Array.from(codes), offsets: Uint32Array.from(offsets) };
};

/** The table of one kind of flips. */
export function flipsOf(data: Data, texts: Texts, kind: FlipKind): FlipTable {
  const { head } = data.bundle;
  const [pairs, benchmarks, techniques] = ["pair", "benchmark", "technique"].map((name) => data.column(`flips.${name}`)) as [Numbers, Numbers, Numbers];
  const flips: number[] = [];
  const better: number[] = [];
  for (let flip = 0; flip < pairs.length; flip++) {
    if (pairs[flip] !== kind.pair || benchmarks[flip] !== kind.benchmark || techniques[flip] !== kind.technique) continue;
    const found = measuresOf(data, flip).find((each) => each.measure === kind.measure);
    if (found === undefined) continue;
    flips.push(flip);
    better.push(Number(found.better));
  }
  const rows = flips.map((flip) => bothOf(data, flip));
  const units = flips.map((flip) => unitOf(data, flip));
  const outcomes = data.column("results.outcome");
  const outcome = (name: "baseline" | "new"): Field => ({
    name,
    label: `outcome in ${name === "new" ? "the new run" : "the baseline"}`,
    takes: "value",
    values: head.outcomes.map((each) => ({ name: each, label: each })),
    codes: listed(rows.map((row) => row.map((both) => outcomes[both[name]] ?? 0))),
  });
  const dimensions = (head.benchmarks[kind.benchmark]?.dimensions ?? []).map((d): Field => {
    const { name, values } = data.dimension(d);
    return {
      name: OWN.includes(slug(name)) ? `tag_${name}` : name,
      label: label(name),
      takes: "value",
      values: values.map((value) => ({ name: value.value, label: value.title, also: value.short === "" ? [] : value.short.split(", ") })),
      codes: listed(rows.map((row) => row.flatMap((both) => [...data.tags(d, both.question, both.new)]))),
    };
  });
  const id: Field = {
    name: "id",
    label: "id",
    takes: "identity",
    values: [],
    find: (text) => {
      const wanted = text.toLowerCase();
      const holds = wanted.endsWith("*") ? (word: string) => word.toLowerCase().startsWith(wanted.slice(0, -1)) : (word: string) => word.toLowerCase() === wanted;
      return rows.flatMap((row, place) => (holds(units[place] ?? "") || row.some((both) => holds(data.id(both.question))) ? [place] : []));
    },
    like: (text, most) => {
      const begin = text.toLowerCase().replace(/\*$/, "");
      const found = units.filter((unit) => unit.toLowerCase().includes(begin));
      return (found.length > 0 ? found : units).slice(0, most);
    },
    holds: (values, mask) => {
      for (const row of values) mask[row] = 1;
    },
  };
  const fields: readonly Field[] = [
    { name: "way", label: "flip", takes: "value", values: WAYS.map((way) => ({ name: way, label: way })), codes: { codes: Uint8Array.from(better) } },
    outcome("baseline"),
    outcome("new"),
    ...dimensions,
    id,
  ];
  const zeros = new Uint8Array(flips.length);
  // The questions of all rows one after the other, once with the result of each run.
  const flat = rows.flatMap((row, place) => row.flatMap((both) => [{ ...both, result: both.new, place }, { ...both, result: both.baseline, place }]));
  const [questions, results] = [Uint32Array.from(flat, (each) => each.question), Uint32Array.from(flat, (each) => each.result)];
  const ranks = (column: string): Uint32Array | null => {
    if (column === "id") return ranksOfTexts(units);
    if (column === "way") return Uint32Array.from(better);
    if (column === "question") return ranksOfTexts(rows.map((row) => data.text(row[0]?.question ?? 0)));
    if (column === "baseline" || column === "new") return ranksOfTexts(rows.map((row) => row.map((both) => data.outcome(both[column])).join(" ")));
    return null;
  };
  return {
    kind,
    size: flips.length,
    flips: Uint32Array.from(flips),
    better: Uint8Array.from(better),
    units,
    several: rows.some((row) => row.length > 1),
    question: Uint32Array.from(flips.keys()),
    fields,
    facets: fields.flatMap((field, place) => (field.takes === "value" ? [place] : [])),
    result: null,
    numerator: zeros,
    denominator: zeros,
    asked: null,
    search: (words, mask) => {
      const found = new Uint8Array(flat.length);
      texts.find(words, found, null, questions, results);
      flat.forEach(({ place }, i) => {
        if (found[i] === 1) mask[place] = 1;
      });
    },
    version: () => texts.version,
    order: (sort) => {
      const column = sort.replace(/^-/, "");
      const found = ranks(column);
      return found === null ? orderOf(Uint32Array.from(better), false) : orderOf(found, sort.startsWith("-"));
    },
  };
}
