// The units of a measure (questions or pairs) by runs: their values, and their flips between two runs.
// Places lie within the columns of one bundle, so elements are there.
/* eslint-disable @typescript-eslint/non-nullable-type-assertion-style */
import type { BundleHead, PairOfRuns, ScaleView } from "./bundle";
import type { Data } from "./data";
import { joined, listAt, type Codes, type Lists } from "./filter";
import type { Numbers } from "./read";
import type { State } from "./route";
import { plain } from "./worded";

/** The values of the field `flip`, by places in `flipsOf`. */
export const FLIPS = ["worse", "better", "same", "open"] as const;
const OPEN = 3;
/** The code of a question for which runs read different options. */
const APART = 2;
/** The sign of a value, as an outcome. */
type Sign = "correct" | "wrong" | "partial" | "unscored";

/** What is known of a scale, whichever two runs are chosen. */
export interface Scale {
  readonly data: Data;
  readonly place: number;
  readonly view: ScaleView;
  readonly size: number;
  readonly runs: number;
  /** Units x runs; NaN without a score. */
  readonly values: Numbers;
  /** Rows x runs, as the page has them; `unit`: the unit of each row. */
  readonly rows: { readonly unit: Uint32Array; readonly values: Numbers };
  readonly names: readonly string[];
  readonly questions: Lists;
  /** The results of unit u in run r are list u * runs + r. */
  readonly cells: Lists;
  /** The number of runs by unit that are right, wrong, or have a score. */
  readonly right: Uint16Array;
  readonly wrong: Uint16Array;
  readonly scored: Uint16Array;
  readonly signs: (unit: number, run: number) => Sign;
}

// ---- choices -------------------------------------------------------------------------------------------------------

/** The place of the scale that a state names, or of the nearest one: the benchmark counts most, then the technique; -1 without scales. */
export function scaleOf({ scales = [], benchmarks, techniques }: BundleHead, state: Pick<State, "benchmark" | "technique" | "measure">): number {
  const wishes: readonly ((scale: ScaleView) => boolean)[] = [
    (scale) => benchmarks[scale.benchmark]?.name === state.benchmark,
    (scale) => techniques[scale.technique] === state.technique,
    (scale) => scale.measure === state.measure,
  ];
  const left = wishes.reduce((some, wish) => {
    const agreeing = some.filter(wish);
    return agreeing.length > 0 ? agreeing : some;
  }, scales);
  return left[0] === undefined ? -1 : scales.indexOf(left[0]);
}

/** The two runs that a state names; those that it does not name come from the first pair that agrees with it. */
export function pairOf(names: readonly string[], pairs: readonly PairOfRuns[], state: Pick<State, "run" | "against">): PairOfRuns {
  const run = names.indexOf(state.run);
  const against = state.against === state.run ? -1 : names.indexOf(state.against);
  const known = pairs.find((pair) => (run < 0 || pair.new === run) && (against < 0 || pair.baseline === against));
  if (known !== undefined) return { new: known.new, baseline: known.baseline };
  const other = (place: number): number => (place === 0 ? 1 : 0);
  if (run < 0) return { new: other(against), baseline: Math.max(against, 0) };
  return { new: run, baseline: against < 0 ? other(run) : against };
}

// ---- units ---------------------------------------------------------------------------------------------------------

const scales = new WeakMap<Data, Map<number, Scale>>();

/** The units of a scale, read once. */
export function scaleAt(data: Data, place: number): Scale {
  const known = scales.get(data) ?? new Map<number, Scale>();
  scales.set(data, known);
  const scale = known.get(place) ?? readScale(data, data.bundle.head.scales?.[place] as ScaleView, place);
  known.set(place, scale);
  return scale;
}

function readScale(data: Data, view: ScaleView, place: number): Scale {
  const runs = data.bundle.head.runs.length;
  const { values, rows, questions } = merged(data, place, runs);
  const size = questions.starts.length - 1;
  // Some measures count the questions of a pair together, others one by one.
  const name = ([first = 0, ...more]: readonly number[]): string => (more.length > 0 ? data.pair(first) : null) ?? data.id(first);
  return {
    data, place, view, size, runs, values, rows, questions,
    cells: cellsOf(data, view, questions, runs),
    names: Array.from({ length: size }, (_, unit) => name(listAt(questions, unit))),
    ...counted(values, runs, view.lower),
    signs: (unit, run) => signOf(values[unit * runs + run] as number, view.lower),
  };
}

/** The units of a scale with the value of each run. A unit may have several rows, and a row no value. */
function merged(data: Data, place: number, runs: number): Pick<Scale, "values" | "rows" | "questions"> {
  const all = data.column(`units/${place}.values`);
  const [starts, list] = [data.column(`units/${place}.questions.offsets`), data.column(`units/${place}.questions.values`)];
  const places = new Map<number | string, number>();
  const members: number[] = [];
  const begins = [0];
  const values = new Float64Array(all.length).fill(NaN);
  const kept = new Float64Array(all.length);
  const unit: number[] = [];
  for (let row = 0; row < starts.length - 1; row++) {
    let run = 0;
    while (run < runs && Number.isNaN(all[row * runs + run])) run++;
    if (run === runs) continue;
    const [first, last] = [starts[row] as number, starts[row + 1] as number];
    // Most units are one question.
    const name = last - first === 1 ? (list[first] as number) : list.subarray(first, last).join();
    const known = places.get(name) ?? places.size;
    if (known === places.size) {
      places.set(name, known);
      for (let at = first; at < last; at++) members.push(list[at] as number);
      begins.push(members.length);
    }
    for (run = 0; run < runs; run++) {
      const value = all[row * runs + run] as number;
      kept[unit.length * runs + run] = value;
      if (!Number.isNaN(value)) values[known * runs + run] = value;
    }
    unit.push(known);
  }
  const questions = { starts: Uint32Array.from(begins), members: Uint32Array.from(members) };
  return { questions, values: values.subarray(0, places.size * runs), rows: { unit: Uint32Array.from(unit), values: kept.subarray(0, unit.length * runs) } };
}

const signOf = (value: number, lower: boolean): Sign =>
  Number.isNaN(value) ? "unscored" : value === (lower ? 0 : 1) ? "correct" : value === (lower ? 1 : 0) ? "wrong" : "partial";

function counted(values: Numbers, runs: number, lower: boolean): Pick<Scale, "right" | "wrong" | "scored"> {
  const size = runs === 0 ? 0 : values.length / runs;
  const [right, wrong, scored] = [new Uint16Array(size), new Uint16Array(size), new Uint16Array(size)];
  const [best, worst] = lower ? [0, 1] : [1, 0];
  for (let place = 0, unit = 0; unit < size; unit++) {
    for (let run = 0; run < runs; run++, place++) {
      const value = values[place] as number;
      if (Number.isNaN(value)) continue;
      scored[unit] = (scored[unit] as number) + 1;
      if (value === best) right[unit] = (right[unit] as number) + 1;
      else if (value === worst) wrong[unit] = (wrong[unit] as number) + 1;
    }
  }
  return { right, wrong, scored };
}

/** The results of units by runs: those of the scale's technique. */
function cellsOf(data: Data, view: ScaleView, { starts: units, members: questions }: Lists, runs: number): Lists {
  const size = units.length - 1;
  const unitOf = new Int32Array(data.questions).fill(-1);
  for (let unit = 0; unit < size; unit++) for (let at = units[unit] as number; at < (units[unit + 1] as number); at++) unitOf[questions[at] as number] = unit;
  const [question, run, technique] = ["question", "run", "technique"].map((name) => data.column(`results.${name}`)) as [Numbers, Numbers, Numbers];
  const starts = new Uint32Array(size * runs + 1);
  const cellOf = (result: number): number => {
    const unit = unitOf[question[result] as number] as number;
    return unit < 0 || technique[result] !== view.technique ? -1 : unit * runs + (run[result] as number);
  };
  for (const result of data.byQuestion) {
    const cell = cellOf(result);
    if (cell >= 0) starts[cell + 1] = (starts[cell + 1] as number) + 1;
  }
  for (let cell = 0; cell < size * runs; cell++) starts[cell + 1] = (starts[cell + 1] as number) + (starts[cell] as number);
  const members = new Uint32Array(starts[size * runs] as number);
  const next = starts.slice();
  for (const result of data.byQuestion) {
    const cell = cellOf(result);
    if (cell < 0) continue;
    members[next[cell] as number] = result;
    next[cell] = (next[cell] as number) + 1;
  }
  return { starts, members };
}

/** The name of a unit. */
export const unitName = ({ view }: Scale): "pair" | "question" => (view.unit === "pair" ? "pair" : "question");

// ---- flips and agreement -------------------------------------------------------------------------------------------

/**
 * The flip of each unit, a place in `FLIPS`: open where the two runs are not compared. A unit has several rows of values
 * if some runs are compared there and others are not: two runs are compared if one row has both.
 */
export function flipsOf({ size, runs, view, rows }: Pick<Scale, "size" | "runs" | "view" | "rows">, pair: PairOfRuns): Uint8Array {
  const flips = new Uint8Array(size).fill(OPEN);
  for (let row = 0; row < rows.unit.length; row++) {
    const change = (rows.values[row * runs + pair.new] as number) - (rows.values[row * runs + pair.baseline] as number);
    if (Number.isNaN(change)) continue;
    flips[rows.unit[row] as number] = change === 0 ? 2 : Number(view.lower ? change < 0 : change > 0);
  }
  return flips;
}

/** The number of units with a flip of some kind, among some units or all. */
export const flipped = (flips: Uint8Array, way: (typeof FLIPS)[number], units: Uint32Array | null = null): number => {
  const wanted = FLIPS.indexOf(way);
  let sum = 0;
  for (let i = 0, end = units?.length ?? flips.length; i < end; i++) if (flips[units === null ? i : (units[i] as number)] === wanted) sum++;
  return sum;
};

/** The options that a result chose, by their texts: options may stand in another order. "" if none was read. */
const chosen = (data: Data, result: number): string => {
  const texts = new Map(data.shown(result));
  const read = data.extracted(result);
  return read.length === 0 ? "" : JSON.stringify(read.map((letter) => texts.get(letter) ?? plain(letter)).sort());
};

/**
 * For each unit, whether all runs read the same option: 0 for a wrong one, 1 for a right one, `APART` if not; one for each question of the unit.
 * All results of all runs must agree; "wrong" or "right" is their outcome. A run without an answer agrees with none.
 */
export function agreements({ data, runs, size, cells, questions }: Scale): Codes {
  const [outcome, extracted, options, run] = ["outcome", "extracted", "options", "run"].map((name) => data.column(`results.${name}`)) as [Numbers, Numbers, Numbers, Numbers];
  const { outcomes } = data.bundle.head;
  const [right, wrong] = [outcomes.indexOf("correct"), outcomes.indexOf("wrong")];
  const ofQuestion = (results: readonly number[]): number => {
    const [first = 0] = results;
    const found = outcome[first];
    if ((found !== right && found !== wrong) || results.some((each) => outcome[each] !== found)) return APART;
    if (new Set(results.map((each) => run[each])).size < runs) return APART;
    const same = results.every((each) => extracted[each] === extracted[first] && options[each] === options[first]);
    if (!same && new Set(results.map((each) => chosen(data, each))).size > 1) return APART;
    if (chosen(data, first) === "") return APART;
    return found === right ? 1 : 0;
  };
  const ofUnit = joined(cells, runs);
  const codes: number[] = [];
  const offsets = [0];
  for (let unit = 0; unit < size; unit++) {
    const results = listAt(ofUnit, unit);
    const asked = listAt(questions, unit);
    const by = asked.length < 2 ? [results] : asked.map((question) => results.filter((result) => data.question(result) === question));
    offsets.push(codes.push(...new Set(by.map(ofQuestion))));
  }
  return { codes: Uint8Array.from(codes), offsets: Uint32Array.from(offsets) };
}
