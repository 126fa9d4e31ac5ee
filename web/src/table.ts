// The one table of the explorer: rows with a column for each run, and the fields by which the query line filters them.
// In the page of one run a row is an answer (a question, where nothing was asked); in that of several runs it is a unit
// of a measure, a question or a pair, with its answers in each run. Places lie within the columns of one table.
/* eslint-disable @typescript-eslint/non-nullable-type-assertion-style */
import type { PairOfRuns } from "./bundle";
import type { Data } from "./data";
import { gathered, joined, markAny, orderOf, ranksOfNumbers, ranksOfTexts, type Codes, type Field, type Lists, type Table } from "./filter";
import { keyText } from "./key";
import { slug, type Value } from "./query";
import type { Numbers } from "./read";
import { TAG_NAMES } from "./reviews";
import { agreements, flipsOf, scaleAt, type Scale } from "./scale";
import type { Texts } from "./search";
import { isTagged, taggedVersion, tagsOf } from "./tagged";
import { label } from "./text";
import { worded } from "./worded";

/** The bits of the column `results.verdict`, from the lowest; a pair can have the first two at once. */
export const VERDICTS: readonly Value[] = [
  { name: "both_right", label: "both right" },
  { name: "confused", label: "confused: same answer twice", also: ["same answer twice", "same answer"] },
  { name: "one_right", label: "one right" },
  { name: "neither_right", label: "neither right", also: ["both wrong"] },
  { name: "invalid", label: "an answer names no option" },
  { name: "incomplete", label: "not both scored" },
];
/** The bits of the column `results.marks`, from the lowest; the last one is the reader's and comes from elsewhere. */
export const MARKS: readonly Value[] = [
  { name: "truncated", label: "truncated (cut off at a limit of tokens)" },
  { name: "judged", label: "read or scored by a judge" },
  { name: "tagged", label: "reviewed by you" },
];
const TAGGED = 2;
/** Outcomes in the default order: what went wrong stands first. */
export const FIRST: readonly string[] = ["wrong", "unparsed", "refused", "abstained", "error", "partial", "unscored", "correct"];
/** Pairs in the default order, by bits. */
const FIRST_PAIRS = [2, 8, 4, 16, 32, 3, 1];
/** The place of a field that a table lacks; words have the place -1 in clauses. */
const ABSENT = -2;
const LISTED = 200; // letters that are values of a field; more, as of open questions, are looked up
const ROTATION = /(?:^|\+)(r[1-9]\d{0,3})$/;

/** Questions and answers by rows. */
interface Base {
  readonly data: Data;
  /** The place of the benchmark. */
  readonly benchmark: number;
  readonly size: number;
  /** The number of runs, each with a column. */
  readonly runs: number;
  /** Whether the page has answers. */
  readonly answered: boolean;
  readonly questions: Lists;
  /** The answers in all runs. */
  readonly results: Lists;
  /** The answers to row i in run r are list i * runs + r. */
  readonly cells: Lists;
}

/** Two runs among several, and the flips between them by row. */
export interface Compared {
  readonly scale: Scale;
  readonly pair: PairOfRuns;
  /** Places in `FLIPS`. */
  readonly flips: Uint8Array;
}

export interface Rows extends Table, Base {
  /** Null in the page of one run. */
  readonly compared: Compared | null;
  /** Fields whose counts stand beside the list. */
  readonly facets: readonly number[];
  /** The place of a field of our own by its name, one that no clause has without. */
  readonly place: (name: string) => number;
  /** The dimension that a field stands for, -1 for fields of our own. */
  readonly dimension: readonly number[];
  /** The key of a row, for links. */
  readonly key: (row: number) => string;
  /** All rows by a column ("-" before its name: descending), or by another one if there is no such column. */
  readonly order: (sort: string, otherwise: string) => Uint32Array;
}

export const questionOf = ({ questions }: Base, row: number): number => questions.members[questions.starts[row] as number] as number;
/** The first answer to a row; undefined without one. */
export const resultOf = ({ results }: Base, row: number): number | undefined =>
  results.starts[row] === results.starts[row + 1] ? undefined : results.members[results.starts[row] as number];

/** The field of a run is named by its place: names of runs can hold anything, and look like any other field. */
export const runField = (run: number): string => `run${run + 1}`;

// ---- rows ----------------------------------------------------------------------------------------------------------

/** The answers to a benchmark in the page of one run. */
function baseOfRun(data: Data, benchmark: number): Base {
  const ofBenchmark = data.column("questions.benchmark");
  const ofResult = data.column("results.question");
  const answered = data.results > 0;
  const asked = answered ? data.byQuestion.filter((result) => ofBenchmark[ofResult[result] as number] === benchmark) : new Uint32Array();
  const question = answered ? asked.map((result) => ofResult[result] as number) : Uint32Array.from(ofBenchmark.keys()).filter((q) => ofBenchmark[q] === benchmark);
  const each = Uint32Array.from({ length: question.length + 1 }, (_, row) => row);
  const results = { starts: answered ? each : new Uint32Array(question.length + 1), members: asked };
  return { data, benchmark, size: question.length, runs: 1, answered, questions: { starts: each, members: question }, results, cells: results };
}

const baseOfScale = ({ data, view, size, runs, questions, cells }: Scale): Base =>
  ({ data, benchmark: view.benchmark, size, runs, answered: true, questions, results: joined(cells, runs), cells });

/** The table of a benchmark in the page of one run. */
export function rowsOf(data: Data, texts: Texts, benchmark: number): Rows {
  const base = baseOfRun(data, benchmark);
  const { results, questions, answered } = base;
  const named = fieldsOf(base, null);
  const column = (name: string): Numbers => picked(data.column(`results.${name}`), results.members);
  const zeros = new Uint8Array(base.size);
  const prompt = named.findIndex(({ d }) => d >= 0 && data.dimension(d).name === "prompt" && data.dimension(d).of === "results");
  return made(base, texts, named, {
    question: questions.members,
    numerator: answered ? column("numerator") : zeros,
    denominator: answered ? column("denominator") : zeros,
    asked: prompt < 0 ? null : { field: prompt, numerator: column("prompt_numerator"), denominator: column("prompt_denominator") },
    compared: null,
    key: (row) => keyOfResult(data, questionOf(base, row), resultOf(base, row)),
  });
}

export const keyOfResult = (data: Data, question: number, result: number | undefined): string =>
  keyText(result === undefined ? { benchmark: data.benchmark(question).name, item: data.id(question), technique: "", variant: "", sample: 0 } : data.key(result));

const known = new WeakMap<Scale, { readonly base: Base; readonly fields: readonly Named[] }>();

/** The table of a measure in the page of several runs, with the flips between two of them. */
export function unitsOf(data: Data, texts: Texts, place: number, pair: PairOfRuns): Rows {
  const scale = scaleAt(data, place);
  let found = known.get(scale);
  if (found === undefined) {
    const base = baseOfScale(scale);
    known.set(scale, (found = { base, fields: fieldsOf(base, scale) }));
  }
  const { base, fields } = found;
  const flips = flipsOf(scale, pair);
  const flip = { ...choice("flip", ["worse", "better", "same", "open"], { codes: flips }, ["worse", "better", "same", "not compared"]), also: ["way"] };
  const names = data.bundle.head.runs.map((run) => run.name);
  // The fields of the chosen runs can also be typed as `new` and `baseline`, unless a run has that name.
  const chosen = fields.map((each): Named => {
    const more = (["new", "baseline"] as const).filter((name) => !names.includes(name) && each.field.name === runField(pair[name]));
    return more.length === 0 ? each : { ...each, field: { ...each.field, also: [...(each.field.also ?? []), ...more] } };
  });
  const zeros = new Uint8Array(scale.size);
  return made(base, texts, [{ field: flip, facet: true, d: -1 }, ...chosen], {
    question: Uint32Array.from({ length: scale.size }, (_, unit) => unit),
    numerator: zeros,
    denominator: zeros,
    asked: null,
    compared: { scale, pair, flips },
    key: (row) => scale.names[row] as string,
  });
}

type Particular = Pick<Rows, "question" | "numerator" | "denominator" | "asked" | "compared" | "key">;

function made(base: Base, texts: Texts, named: readonly Named[], particular: Particular): Rows {
  const orders = new Map<string, Uint32Array | null>();
  const ordered = (sort: string): Uint32Array | null => {
    const before = orders.get(sort);
    if (before !== undefined) return before;
    const ranks = ranksOf(base, particular.compared, sort.replace(/^-/, ""));
    const order = ranks === null ? null : orderOf(ranks, sort.startsWith("-"));
    orders.set(sort, order);
    return order;
  };
  return {
    ...base,
    ...particular,
    fields: named.map(({ field }) => field),
    facets: named.flatMap(({ facet }, place) => (facet ? [place] : [])),
    dimension: named.map(({ d }) => d),
    place: (name) => {
      const found = named.findIndex(({ field, d }) => d === -1 && field.name === name);
      return found < 0 ? ABSENT : found;
    },
    order: (sort, otherwise) => ordered(sort === "" ? otherwise : sort) ?? ordered(otherwise) ?? Uint32Array.from({ length: base.size }, (_, row) => row),
    search: (words, mask, rows) => { texts.find(words, mask, rows, base.questions, base.results); },
    version: () => texts.version + taggedVersion() * 1e6,
  };
}

/** Elements of a column at places, in its type. */
const picked = (column: Numbers, places: Uint32Array): Numbers => {
  const make = column.constructor as new (length: number) => Numbers;
  const elements = new make(places.length);
  for (let i = 0; i < places.length; i++) elements[i] = column[places[i] as number] as number;
  return elements;
};

// ---- order ---------------------------------------------------------------------------------------------------------

function ranksOf(base: Base, compared: Compared | null, name: string): Uint32Array | null {
  const { data, size, answered } = base;
  const { head, tables } = data.bundle;
  const first = Uint32Array.from({ length: size }, (_, row) => questionOf(base, row));
  // The ranks of words that stand in many rows are found once.
  const words = (column: Numbers): Uint32Array => {
    const places = first.map((question) => column[question] as number);
    const used = [...new Set(places)];
    const ranks = ranksOfTexts(used.map((word) => data.word(word)));
    const rankOf = new Map(used.map((word, place) => [word, ranks[place] as number]));
    return places.map((word) => rankOf.get(word) as number);
  };
  if (name === "question") return words(data.column("questions.text"));
  if (compared !== null) {
    const { scale, flips } = compared;
    if (name === "id") return ranksOfTexts(scale.names);
    if (name === "flip") return Uint32Array.from(flips);
    if (name === "right") return Uint32Array.from(scale.right);
    const run = Number(/^run(\d+)$/.exec(name)?.[1] ?? 0) - 1;
    return run < 0 || run >= scale.runs ? null : ranksOfNumbers(Float32Array.from({ length: size }, (_, unit) => scale.values[unit * scale.runs + run] as number));
  }
  if (name === "id") return words(data.column("questions.id"));
  if (!answered) return null;
  const column = (of: string): Numbers => picked(data.column(`results.${of}`), base.results.members);
  const mapped = (of: string, by: ArrayLike<number>): Uint32Array => Uint32Array.from(column(of), (value) => by[value] ?? 0);
  switch (name) {
    case "outcome": return mapped("outcome", head.outcomes.map((outcome) => FIRST.indexOf(outcome)));
    case "pair": return mapped("verdict", Array.from({ length: 2 ** VERDICTS.length }, (_, set) => (FIRST_PAIRS.indexOf(set) + 8) % 8));
    case "seconds": case "confidence": return ranksOfNumbers(column(name));
    case "read": case "key": return mapped(name === "read" ? "extracted" : "answers", ranksOfTexts(tables.lists.map((list) => list.join(", "))));
    default: return null;
  }
}

// ---- fields --------------------------------------------------------------------------------------------------------

/** A field, whether it is counted beside the list, and its dimension (-1: a field of our own). */
interface Named {
  readonly field: Field;
  readonly facet: boolean;
  readonly d: number;
}

const OWN = [
  "outcome", "pair", "technique", "rotation", "sample", "is", "tag", "read", "read_text", "key", "key_text", "id", "seconds", "confidence",
  "flip", "way", "agree", "right_in", "wrong_in", "scored_in", "new", "baseline",
];
const isOwn = (name: string): boolean => OWN.includes(slug(name)) || /^run_?\d+$/.test(slug(name));

/** A field of values that stand once each in a list. */
const choice = (name: string, values: readonly string[], codes: Codes, shown: readonly string[] = values): Field => ({
  name,
  label: name,
  takes: "value",
  values: values.map((value, place) => ({ name: value, label: shown[place] ?? value })),
  codes,
});

/** The values of each set of bits. */
const bits = (values: number): Pick<Codes, "codes" | "offsets"> => {
  const codes: number[] = [];
  const offsets = [0];
  for (let set = 0; set < 2 ** values; set++) {
    for (let value = 0; value < values; value++) if ((set >> value) % 2 === 1) codes.push(value);
    offsets.push(codes.length);
  }
  return { codes: Uint8Array.from(codes), offsets: Uint16Array.from(offsets) };
};

function fieldsOf(base: Base, scale: Scale | null): readonly Named[] {
  const { data, questions, results, answered } = base;
  const { head } = data.bundle;
  const about = head.benchmarks[base.benchmark];
  const facet = (field: Field): Named => ({ field, facet: true, d: -1 });
  const typed = (field: Field): Named => ({ field, facet: false, d: -1 });
  const some = (is: boolean, fields: () => readonly Named[]): readonly Named[] => (is ? fields() : []);
  const outcomes = (lists: Lists, name: string, shown = name): Field => ({ ...choice(name, head.outcomes, gathered(lists, { codes: data.column("results.outcome") })), label: shown });
  const one = answered && scale === null;
  return [
    ...some(one, () => [facet({ ...outcomes(results, "outcome"), byAnswer: true })]),
    ...some(one && about?.pairs === true, () => [facet({ ...pairField(base), units: Int32Array.from(questions.members, (q) => data.at("questions.pair", q)) })]),
    ...some(scale !== null, () => [facet({ ...choice("agree", ["wrong", "right", "apart"], agreements(scale as Scale), ["a wrong one", "the right one", "not the same"]), label: "all runs read the same option" })]),
    ...(about?.dimensions ?? []).map((d): Named => ({ field: dimensionField(base, d), facet: true, d })),
    ...some(one, () => [...waysOf(base).map(facet), typed(choice("technique", head.techniques, gathered(results, { codes: data.column("results.technique") })))]),
    ...some(scale !== null, () => (["right", "wrong", "scored"] as const).map((name) =>
      typed({ name: `${name}_in`, label: name === "scored" ? "runs with a score" : `runs that are ${name}`, takes: "number", values: [], numbers: (scale as Scale)[name] }))),
    ...some(answered, () => [
      typed(marked(base)),
      ...some(scale === null, () => [typed(reviewed(base))]),
      typed(letters("read", data, results, data.column("results.extracted"))),
      ...(["key_text", "read_text"] as const).map((name) => typed(worded(name, data, results))),
    ]),
    typed(answered ? letters("key", data, results, data.column("results.answers")) : letters("key", data, questions, data.column("questions.answers"))),
    typed(identity(data, questions)),
    ...some(answered, () => (["seconds", "confidence"] as const).map((name) => typed({ name, label: name, takes: "number", values: [], numbers: data.column(`results.${name}`), among: results }))),
    ...some(scale !== null, () => head.runs.map(({ name }, run) => facet({ ...outcomes(inRun(base, run), runField(run), `${run + 1} · ${name}`), also: [name] }))),
    ...some(scale !== null && about?.pairs === true, () => [typed(pairField(base))]),
  ];
}

/** The answers to each row in one run. */
function inRun({ cells: { starts, members }, size, runs }: Base, run: number): Lists {
  const begins = new Uint32Array(size + 1);
  const of: number[] = [];
  for (let row = 0; row < size; row++) {
    const cell = row * runs + run;
    for (let at = starts[cell] as number, end = starts[cell + 1] as number; at < end; at++) of.push(members[at] as number);
    begins[row + 1] = of.length;
  }
  return { starts: begins, members: Uint32Array.from(of) };
}

const pairField = ({ data, results }: Base): Field =>
  ({ name: "pair", label: "pair", takes: "value", values: VERDICTS, codes: gathered(results, { ...bits(VERDICTS.length), of: data.column("results.verdict") }), byAnswer: true });

function dimensionField({ data, questions, results }: Base, d: number): Field {
  const { name, of, values } = data.dimension(d);
  return {
    name: isOwn(name) ? `tag_${name}` : name,
    label: label(name),
    takes: "value",
    values: values.map((value) => ({ name: value.value, label: value.title, also: value.short === "" ? [] : value.short.split(", ") })),
    codes: gathered(of === "questions" ? questions : results, { codes: data.column(`tags/${d}.values`), offsets: data.column(`tags/${d}.offsets`) }),
    byAnswer: of === "results" && name !== "prompt",
  };
}

/** Rotations and samples, if there are any. */
function waysOf({ data, results }: Base): readonly Field[] {
  const rotations = data.bundle.head.variants.map((variant) => ROTATION.exec(variant)?.[1] ?? "");
  const shifts = [...new Set(rotations)].filter((shift) => shift !== "").sort((x, y) => Number(x.slice(1)) - Number(y.slice(1)));
  const samples = data.column("results.sample");
  let most = 0;
  for (const result of results.members) most = Math.max(most, samples[result] as number);
  const numbers = Array.from({ length: most }, (_, sample) => String(sample + 1));
  // Places before the first value, as that of sample 0, which is asked once, have none.
  const offsetsOf = (has: readonly boolean[]): Uint32Array => {
    let sum = 0;
    return Uint32Array.from([0, ...has.map((each) => (sum += Number(each)))]);
  };
  const rotated = { codes: Uint16Array.from(rotations.flatMap((shift) => (shift === "" ? [] : [shifts.indexOf(shift)]))), offsets: offsetsOf(rotations.map((shift) => shift !== "")), of: data.column("results.variant") };
  const sampled = { codes: Uint32Array.from(numbers.keys()), offsets: offsetsOf([false, ...numbers.map(() => true)]), of: samples };
  return [
    ...(shifts.length > 0 ? [choice("rotation", shifts, gathered(results, rotated))] : []),
    ...(most > 0 ? [choice("sample", numbers, gathered(results, sampled))] : []),
  ];
}

function marked({ data, results }: Base): Field {
  const marks = data.column("results.marks");
  return {
    name: "is",
    label: "mark",
    takes: "value",
    values: MARKS,
    holds: (values, mask) => {
      const wanted = values.reduce((sum, value) => sum | (value === TAGGED ? 0 : 1 << value), 0);
      const tagged = values.includes(TAGGED);
      markAny(results, mask, (result) => ((marks[result] as number) & wanted) !== 0 || (tagged && isTagged(result)));
    },
  };
}

const reviewed = ({ results }: Base): Field => ({
  name: "tag",
  label: "your tag",
  takes: "value",
  values: TAG_NAMES.map((tag) => ({ name: tag, label: label(tag) })),
  holds: (values, mask) => {
    const wanted = values.map((value) => TAG_NAMES[value] as string);
    markAny(results, mask, (result) => tagsOf(result).some((tag) => wanted.includes(tag)));
  },
});

/** The letters of an answer, or its text: values if they are few, else looked up. "none" stands for an empty list. */
function letters(name: string, data: Data, lists: Lists, of: Numbers): Field {
  const { lists: all } = data.bundle.tables;
  const used = new Uint8Array(all.length);
  for (const member of lists.members) used[of[member] as number] = 1;
  const none = all.some((list, i) => used[i] === 1 && list.includes("none")) ? "nothing" : "none";
  const texts = [...new Set(all.flatMap((list, i) => (used[i] === 0 ? [] : list.length === 0 ? [none] : list)))];
  const field: Field = {
    name,
    label: name === "read" ? "option read" : "key",
    takes: "value",
    values: texts.map((text) => ({ name: text, label: text })),
    byAnswer: name === "read",
    holds: (values, mask) => {
      const wanted = new Set(values.map((value) => texts[value]));
      const has = Uint8Array.from(all, (list) => Number(list.length === 0 ? wanted.has(none) : list.some((text) => wanted.has(text))));
      markAny(lists, mask, (member) => has[of[member] as number] === 1);
    },
  };
  if (texts.length <= LISTED) return field;
  return {
    ...field,
    find: (text) => {
      const exact = texts.indexOf(text);
      return exact >= 0 ? [exact] : texts.flatMap((each, i) => (slug(each) === slug(text) && slug(text) !== "" ? [i] : []));
    },
    like: (text, most) => beginning(texts, text, most),
  };
}

const beginning = (texts: readonly string[], typed: string, most: number): string[] =>
  texts.filter((text) => text.toLowerCase().includes(typed.toLowerCase())).slice(0, most);

/** Rows by the id of a question, or by that of its pair; `*` at the end stands for any rest. */
function identity(data: Data, questions: Lists): Field {
  const ids = data.column("questions.id");
  const pairs = data.column("questions.pair");
  const words = (): readonly number[] => [...new Set([...questions.members].flatMap((q) => [ids[q] as number, pairs[q] as number]))].filter((word) => word >= 0);
  return {
    name: "id",
    label: "id",
    takes: "identity",
    values: [],
    find: (text) => {
      const wanted = text.toLowerCase();
      const begin = wanted.slice(0, -1);
      const holds = wanted.endsWith("*") ? (word: string): boolean => word.toLowerCase().startsWith(begin) : (word: string): boolean => word.toLowerCase() === wanted;
      return words().filter((word) => holds(data.word(word)));
    },
    like: (text, most) => {
      const texts = [...new Set(questions.members)].map((q) => data.id(q));
      const found = beginning(texts, text.replace(/\*$/, ""), most);
      return found.length > 0 ? found : texts.slice(0, most);
    },
    holds: (values, mask) => {
      const wanted = new Set(values);
      markAny(questions, mask, (q) => wanted.has(ids[q] as number) || wanted.has(pairs[q] as number));
    },
  };
}
