// Units (questions or pairs) by runs on one scale, as a table that the query line filters: the outcome in each run,
// the number of runs that are right, agreement of the runs, and the flips between two of them.
// Places lie within the columns of one table, so elements are there.
/* eslint-disable @typescript-eslint/non-nullable-type-assertion-style */
import type { ComparisonView, ScaleView } from "./bundle";
import type { Data } from "./data";
import { orderOf, ranksOfNumbers, ranksOfTexts, type Codes, type Field, type Table } from "./filter";
import { slug } from "./query";
import type { Numbers } from "./read";
import type { State } from "./route";
import type { Texts } from "./table";
import { label } from "./text";
import { plain } from "./worded";

/** Two runs, by their places. */
export interface RunPair {
  readonly new: number;
  readonly baseline: number;
}

/** The values of the field `flip`, by `MatrixTable.flips`. */
export const FLIPS = ["worse", "better", "same", "open"] as const;
const OPEN = 3;
/** The code of a question for which runs read different options. */
const APART = 2;
/** The sign of a value, as an outcome. */
type Sign = "correct" | "wrong" | "partial" | "unscored";

/** The results of each unit in each run: those of unit u in run r are `results[starts[c]]` to `results[starts[c + 1] - 1]`, c = u * runs + r. */
interface Cells {
  readonly starts: Uint32Array;
  readonly results: Uint32Array;
}

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
  readonly units: readonly string[];
  readonly questionsOf: (unit: number) => readonly number[];
  readonly resultsOf: (unit: number, run: number) => readonly number[];
  /** Results and their units, one run after the other within a unit. */
  readonly results: Uint32Array;
  readonly unitOf: Uint32Array;
  /** The number of runs by unit that are right, wrong, or have a score. */
  readonly right: Uint16Array;
  readonly wrong: Uint16Array;
  readonly scored: Uint16Array;
  readonly signs: (unit: number, run: number) => Sign;
}

export interface MatrixTable extends Table {
  readonly scale: Scale;
  readonly pair: RunPair;
  /** The flip of each unit from baseline to new run, a place in `FLIPS`. */
  readonly flips: Uint8Array;
  readonly facets: readonly number[];
  /** All rows by a column ("-" before it: descending); without one, those that are worse come first. */
  readonly order: (sort: string) => Uint32Array;
}

// ---- choices -------------------------------------------------------------------------------------------------------

/** The place of the scale that a state names, or of the nearest one: the benchmark counts most, then the technique. */
export function scaleOf(data: Data, of: ComparisonView, state: Pick<State, "benchmark" | "technique" | "measure">): number {
  const { head } = data.bundle;
  const wishes: readonly ((scale: ScaleView) => boolean)[] = [
    (scale) => head.benchmarks[scale.benchmark]?.name === state.benchmark,
    (scale) => head.techniques[scale.technique] === state.technique,
    (scale) => scale.measure === state.measure,
  ];
  const left = wishes.reduce((scales, wish) => {
    const agreeing = scales.filter(wish);
    return agreeing.length > 0 ? agreeing : scales;
  }, of.scales);
  return left[0] === undefined ? -1 : of.scales.indexOf(left[0]);
}

/** The two runs that a state names; those that it does not name come from the first pair that agrees with it. */
export function pairOf(names: readonly string[], of: ComparisonView, state: Pick<State, "run" | "against">): RunPair {
  const run = names.indexOf(state.run);
  const against = state.against === state.run ? -1 : names.indexOf(state.against);
  const known = of.pairs.find((pair) => (run < 0 || pair.new === run) && (against < 0 || pair.baseline === against));
  if (known !== undefined) return { new: known.new, baseline: known.baseline };
  const other = (place: number): number => (place === 0 ? 1 : 0);
  if (run < 0) return { new: other(against), baseline: Math.max(against, 0) };
  return { new: run, baseline: against < 0 ? other(run) : against };
}

// ---- scales --------------------------------------------------------------------------------------------------------

const scales = new WeakMap<Data, Map<number, Scale>>();

/** The units of a scale, read once. */
export function scaleAt(data: Data, of: ComparisonView, place: number): Scale {
  const known = scales.get(data) ?? new Map<number, Scale>();
  scales.set(data, known);
  const scale = known.get(place) ?? readScale(data, of.scales[place] as ScaleView, place);
  known.set(place, scale);
  return scale;
}

function readScale(data: Data, view: ScaleView, place: number): Scale {
  const runs = data.bundle.head.runs.length;
  const { values, rows, questions } = merged(data, place, runs);
  const size = questions.length;
  const cells = cellsOf(data, view, questions, runs);
  const unitOf = new Uint32Array(cells.results.length);
  for (let unit = 0; unit < size; unit++) unitOf.fill(unit, cells.starts[unit * runs], cells.starts[(unit + 1) * runs]);
  return {
    data, place, view, size, runs, values, rows, unitOf,
    results: cells.results,
    // Some measures count the questions of a pair together, others one by one.
    units: questions.map((of) => (of.length > 1 ? data.pair(of[0] as number) : null) ?? data.id(of[0] as number)),
    questionsOf: (unit) => questions[unit] ?? [],
    resultsOf: (unit, run) => [...cells.results.subarray(cells.starts[unit * runs + run], cells.starts[unit * runs + run + 1])],
    ...counted(values, runs, view.lower),
    signs: (unit, run) => signOf(values[unit * runs + run] as number, view.lower),
  };
}

/** The units of a scale with the value of each run. A unit may have several rows, and a row no value. */
function merged(data: Data, place: number, runs: number): Pick<Scale, "values" | "rows"> & { readonly questions: readonly (readonly number[])[] } {
  const all = data.column(`units/${place}.values`);
  const [starts, list] = [data.column(`units/${place}.questions.offsets`), data.column(`units/${place}.questions.values`)];
  const places = new Map<string, number>();
  const questions: (readonly number[])[] = [];
  const values: number[] = [];
  const unit: number[] = [];
  const kept: number[] = [];
  for (let row = 0; row < starts.length - 1; row++) {
    const own = all.subarray(row * runs, (row + 1) * runs);
    if (own.every(Number.isNaN)) continue;
    const of = [...list.subarray(starts[row], starts[row + 1])];
    const known = places.get(of.join()) ?? questions.length;
    unit.push(known);
    kept.push(...own);
    if (known === questions.length) {
      places.set(of.join(), known);
      questions.push(of);
      values.push(...own);
    } else own.forEach((value, run) => { if (!Number.isNaN(value)) values[known * runs + run] = value; });
  }
  return { questions, values: Float64Array.from(values), rows: { unit: Uint32Array.from(unit), values: Float64Array.from(kept) } };
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
function cellsOf(data: Data, view: ScaleView, questions: readonly (readonly number[])[], runs: number): Cells {
  const size = questions.length;
  const unitOf = new Int32Array(data.questions).fill(-1);
  questions.forEach((of, unit) => { for (const question of of) unitOf[question] = unit; });
  const [question, run, technique] = ["question", "run", "technique"].map((name) => data.column(`results.${name}`)) as [Numbers, Numbers, Numbers];
  const made = new Uint32Array(size * runs + 1);
  const cellOf = (result: number): number => {
    const unit = unitOf[question[result] as number] as number;
    return unit < 0 || technique[result] !== view.technique ? -1 : unit * runs + (run[result] as number);
  };
  for (const result of data.byQuestion) {
    const cell = cellOf(result);
    if (cell >= 0) made[cell + 1] = (made[cell + 1] as number) + 1;
  }
  for (let cell = 0; cell < size * runs; cell++) made[cell + 1] = (made[cell + 1] as number) + (made[cell] as number);
  const results = new Uint32Array(made[size * runs] as number);
  const next = made.slice();
  for (const result of data.byQuestion) {
    const cell = cellOf(result);
    if (cell < 0) continue;
    results[next[cell] as number] = result;
    next[cell] = (next[cell] as number) + 1;
  }
  return { starts: made, results };
}

// ---- flips and agreement -------------------------------------------------------------------------------------------

/**
 * The flip of each unit, a place in `FLIPS`: open where the two runs are not compared. A unit has several rows of values
 * if some runs are compared there and others are not: two runs are compared if one row has both.
 */
export function flipsOf({ size, runs, view, rows }: Pick<Scale, "size" | "runs" | "view" | "rows">, pair: RunPair): Uint8Array {
  const flips = new Uint8Array(size).fill(OPEN);
  for (let row = 0; row < rows.unit.length; row++) {
    const change = (rows.values[row * runs + pair.new] as number) - (rows.values[row * runs + pair.baseline] as number);
    if (Number.isNaN(change)) continue;
    flips[rows.unit[row] as number] = change === 0 ? 2 : Number(view.lower ? change < 0 : change > 0);
  }
  return flips;
}

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
function agreements(scale: Scale): Codes {
  const { data, runs } = scale;
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
  const codes: number[] = [];
  const offsets = [0];
  for (let unit = 0; unit < scale.size; unit++) {
    const results = Array.from({ length: runs }, (_, each) => scale.resultsOf(unit, each)).flat();
    const questions = scale.questionsOf(unit);
    const by = questions.length < 2 ? [results] : questions.map((question) => results.filter((result) => data.question(result) === question));
    codes.push(...new Set(by.map(ofQuestion)));
    offsets.push(codes.length);
  }
  return { codes: Uint8Array.from(codes), offsets: Uint32Array.from(offsets) };
}

// ---- fields --------------------------------------------------------------------------------------------------------

const OWN = ["flip", "way", "agree", "right_in", "wrong_in", "scored_in", "id", "new", "baseline"];
const isOwn = (name: string): boolean => OWN.includes(slug(name)) || /^run_?\d+$/.test(slug(name));

/** The field of a run is named by its place: names of runs can hold anything, and look like any other field. */
export const runField = (run: number): string => `run${run + 1}`;

const choice = (name: string, shown: string, values: readonly (readonly [string, string])[], codes: Codes): Field => ({
  name,
  label: shown,
  takes: "value",
  values: values.map(([value, text]) => ({ name: value, label: text })),
  codes,
});

const numeric = (name: string, shown: string, numbers: Numbers): Field => ({ name, label: shown, takes: "number", values: [], numbers });

/** The outcomes of each unit in a run. */
function outcomeField(scale: Scale, run: number): Field {
  const { data } = scale;
  const { outcomes, runs } = data.bundle.head;
  const outcome = data.column("results.outcome");
  const codes: number[] = [];
  const offsets = [0];
  for (let unit = 0; unit < scale.size; unit++) {
    const found = scale.resultsOf(unit, run);
    if (found.length === 1) codes.push(outcome[found[0] as number] as number);
    else codes.push(...new Set(found.map((result) => outcome[result] as number)));
    offsets.push(codes.length);
  }
  const name = runs[run]?.name ?? "";
  const one = codes.length === scale.size && offsets.every((start, place) => start === place);
  const made = choice(runField(run), `${run + 1} · ${name}`, outcomes.map((each) => [each, each]), one ? { codes: Uint8Array.from(codes) } : { codes: Uint8Array.from(codes), offsets: Uint32Array.from(offsets) });
  return { ...made, also: [name] };
}

function dimensionField(scale: Scale, d: number): Field {
  const { data } = scale;
  const { name, of, values } = data.dimension(d);
  const codes: number[] = [];
  const offsets = [0];
  const [starts, places] = [data.column(`tags/${d}.offsets`), data.column(`tags/${d}.values`)];
  for (let unit = 0; unit < scale.size; unit++) {
    const rows = of === "questions" ? scale.questionsOf(unit) : Array.from({ length: scale.runs }, (_, run) => scale.resultsOf(unit, run)).flat();
    const found = new Set<number>();
    for (const row of rows) for (let at = starts[row] as number; at < (starts[row + 1] as number); at++) found.add(places[at] as number);
    codes.push(...found);
    offsets.push(codes.length);
  }
  return {
    name: isOwn(name) ? `tag_${name}` : name,
    label: label(name),
    takes: "value",
    values: values.map((value) => ({ name: value.value, label: value.title, also: value.short === "" ? [] : value.short.split(", ") })),
    codes: { codes: Uint32Array.from(codes), offsets: Uint32Array.from(offsets) },
  };
}

/** Units by their id, or by the id of one of their questions; `*` at the end stands for any rest. */
function identity({ data, size, units, questionsOf }: Scale): Field {
  return {
    name: "id",
    label: "id",
    takes: "identity",
    values: [],
    find: (text) => {
      const wanted = text.toLowerCase();
      const holds = wanted.endsWith("*") ? (word: string) => word.toLowerCase().startsWith(wanted.slice(0, -1)) : (word: string) => word.toLowerCase() === wanted;
      const found: number[] = [];
      for (let unit = 0; unit < size; unit++) {
        if (holds(units[unit] as string) || questionsOf(unit).some((question) => holds(data.id(question)))) found.push(unit);
      }
      return found;
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
}

const fieldsOf = (scale: Scale): readonly Field[] => {
  const { data, view, runs } = scale;
  const dimensions = data.bundle.head.benchmarks[view.benchmark]?.dimensions ?? [];
  return [
    choice("agree", "all runs read the same option", [["wrong", "a wrong one"], ["right", "the right one"], ["apart", "not the same"]], agreements(scale)),
    ...dimensions.map((d) => dimensionField(scale, d)),
    numeric("right_in", "runs that are right", scale.right),
    numeric("wrong_in", "runs that are wrong", scale.wrong),
    numeric("scored_in", "runs with a score", scale.scored),
    identity(scale),
    ...Array.from({ length: runs }, (_, run) => outcomeField(scale, run)),
  ];
};

const fields = new WeakMap<Scale, readonly Field[]>();

/** The fields of the chosen runs can also be typed as `new` and `baseline`, unless a run has that name. */
function named(field: Field, scale: Scale, pair: RunPair): Field {
  const names = scale.data.bundle.head.runs.map((run) => run.name);
  const more = (["new", "baseline"] as const).filter((name) => !names.includes(name) && field.name === runField(pair[name]));
  return more.length === 0 ? field : { ...field, also: [...(field.also ?? []), ...more] };
}

// ---- the table -----------------------------------------------------------------------------------------------------

/** Mark the units of which a text holds the words. */
function search(scale: Scale, texts: Texts, words: string, mask: Uint8Array, rows: Uint32Array | null): void {
  const { data, unitOf } = scale;
  let { results } = scale;
  let units = unitOf;
  if (rows !== null) {
    const wanted = new Uint8Array(scale.size);
    for (const row of rows) wanted[row] = 1;
    results = results.filter((_, place) => wanted[unitOf[place] as number] === 1);
    units = unitOf.filter((unit) => wanted[unit] === 1);
  }
  const question = data.column("results.question");
  const found = new Uint8Array(results.length);
  texts.find(words, found, null, results.map((result) => question[result] as number), results);
  for (let place = 0; place < found.length; place++) if (found[place] === 1) mask[units[place] as number] = 1;
}

function ranksOf(scale: Scale, flips: Uint8Array, column: string): Uint32Array | null {
  const { data, values, runs, size } = scale;
  if (column === "id") return ranksOfTexts(scale.units);
  if (column === "question") return ranksOfTexts(Array.from({ length: size }, (_, unit) => data.text(scale.questionsOf(unit)[0] ?? 0)));
  if (column === "flip") return Uint32Array.from(flips);
  if (column === "right") return Uint32Array.from(scale.right);
  const run = Number(/^run(\d+)$/.exec(column)?.[1] ?? 0) - 1;
  if (run < 0 || run >= runs) return null;
  return ranksOfNumbers(Float32Array.from({ length: size }, (_, unit) => values[unit * runs + run] as number));
}

/** The table of a scale, with the flips between two runs. */
export function matrixOf(scale: Scale, texts: Texts, pair: RunPair): MatrixTable {
  const base = fields.get(scale) ?? fieldsOf(scale);
  fields.set(scale, base);
  const flips = flipsOf(scale, pair);
  const flip = choice("flip", "flip", [["worse", "worse"], ["better", "better"], ["same", "same"], ["open", "not compared"]], { codes: flips });
  const all = [{ ...flip, also: ["way"] }, ...base.map((field) => named(field, scale, pair))];
  const zeros = new Uint8Array(scale.size);
  const orders = new Map<string, Uint32Array>();
  const order = (sort: string): Uint32Array => {
    const ranks = ranksOf(scale, flips, sort.replace(/^-/, ""));
    return ranks === null ? orderOf(Uint32Array.from(flips), false) : orderOf(ranks, sort.startsWith("-"));
  };
  return {
    scale,
    pair,
    flips,
    size: scale.size,
    question: Uint32Array.from({ length: scale.size }, (_, unit) => unit),
    fields: all,
    facets: all.flatMap((field, place) => (field.takes === "value" ? [place] : [])),
    numerator: zeros,
    denominator: zeros,
    asked: null,
    search: (words, mask, rows) => { search(scale, texts, words, mask, rows); },
    version: () => texts.version,
    order: (sort) => {
      const known = orders.get(sort) ?? order(sort);
      orders.set(sort, known);
      return known;
    },
  };
}

/** The name of a unit. */
export const unitName = ({ questionsOf }: Scale): "pair" | "question" => (questionsOf(0).length > 1 ? "pair" : "question");

/** The number of units with a flip of some kind. */
export const flipped = (flips: Uint8Array, way: (typeof FLIPS)[number]): number => {
  const wanted = FLIPS.indexOf(way);
  return flips.reduce((sum, flip) => sum + Number(flip === wanted), 0);
};

// ---- presets -------------------------------------------------------------------------------------------------------

/** A term for the query line with the number of units that it selects, and what it means. */
interface Preset {
  readonly name: string;
  readonly term: string;
  readonly units: number;
  readonly meaning: string;
}

/** The presets of a table. */
export function presetsOf(table: MatrixTable): readonly Preset[] {
  const { scale, flips } = table;
  const { runs, view, data } = scale;
  const name = (run: number): string => data.bundle.head.runs[run]?.name ?? "";
  const against = (way: string): string => `${name(table.pair.new)} is ${way} than ${name(table.pair.baseline)}.`;
  const all = runs === 2 ? "both runs" : `all ${runs} runs`;
  const one = unitName(scale);
  const agree = table.fields.find((field) => field.name === "agree")?.codes;
  let agreeing = 0;
  for (let unit = 0; unit < scale.size; unit++) {
    agreeing += Number(agree?.codes.subarray(agree.offsets?.[unit], agree.offsets?.[unit + 1]).includes(0) ?? false);
  }
  return [
    { name: view.lower ? "Worst in all" : "All wrong", term: `wrong_in:${runs}`, units: scale.wrong.filter((number) => number === runs).length, meaning: view.lower ? `${all} have the worst value.` : `${all} are wrong: too hard, or the key is wrong.` },
    { name: "Same wrong option", term: "agree:wrong", units: agreeing, meaning: `${all} read the same wrong option${one === "pair" ? " of one of the questions" : ""}: the strongest hint at a wrong key.` },
    { name: "Worse", term: "flip:worse", units: flipped(flips, "worse"), meaning: against("worse") },
    { name: "Better", term: "flip:better", units: flipped(flips, "better"), meaning: against("better") },
  ];
}
