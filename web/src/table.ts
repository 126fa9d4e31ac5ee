// The answers to one benchmark as a table that the query line filters: its fields, and the search in its texts.
// Places lie within the columns of one table, so elements are there.
/* eslint-disable @typescript-eslint/non-nullable-type-assertion-style */
import type { Data } from "./data";
import { ranksOfNumbers, ranksOfTexts, type Codes, type Field, type Table } from "./filter";
import { slug, type Value } from "./query";
import type { Numbers } from "./read";
import { TAG_NAMES } from "./reviews";
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

/** A table with what the page needs to draw its rows. */
export interface Rows extends Table {
  /** The place of the benchmark. */
  readonly benchmark: number;
  /** The result of each row; null if the page has questions alone. */
  readonly result: Numbers | null;
  /** Fields whose counts stand beside the list. */
  readonly facets: readonly number[];
  /** The place of a field of our own by its name, one that no clause has without. */
  readonly place: (name: string) => number;
  /** The dimension that a field stands for, -1 for fields of our own. */
  readonly dimension: readonly number[];
  /** Ranks of rows by the name of a column, for `orderOf`; null for a column without ranks. */
  readonly ranks: (column: string) => Uint32Array | null;
}

/** Elements of a column at places; null: all elements. */
const gather = (column: Numbers, places: Numbers | null): Numbers => {
  if (places === null) return column;
  const make = column.constructor as new (length: number) => Numbers;
  const made = new make(places.length);
  for (let i = 0; i < places.length; i++) made[i] = column[places[i] as number] as number;
  return made;
};

/** Lists of values by row; a column of values if each row has one. `of` is the place of the list of a row. */
const byRow = (values: Numbers, offsets: Numbers, of: Numbers): Codes => {
  const starts = new Uint32Array(of.length + 1);
  let one = true;
  for (let row = 0; row < of.length; row++) {
    const place = of[row] as number;
    const length = (offsets[place + 1] as number) - (offsets[place] as number);
    if (length !== 1) one = false;
    starts[row + 1] = (starts[row] as number) + length;
  }
  const codes = new Uint32Array(starts[of.length] as number);
  let next = 0;
  for (const place of of) {
    for (let at = offsets[place] as number, end = offsets[place + 1] as number; at < end; at++) codes[next++] = values[at] as number;
  }
  return one ? { codes } : { codes, offsets: starts };
};

/** Numbers of one type, which loops over many columns read faster. */
const wide = (column: Numbers): Uint32Array => {
  const made = new Uint32Array(column.length);
  made.set(column);
  return made;
};

/** Elements looked up in a small table. */
const mapped = (column: Numbers, by: readonly number[]): Uint32Array => {
  const made = new Uint32Array(column.length);
  for (let row = 0; row < made.length; row++) made[row] = by[column[row] as number] ?? 0;
  return made;
};

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

/** A field of values that stand once each in a list of texts. */
const choice = (name: string, values: readonly string[], codes: Codes): Field => ({
  name,
  label: name,
  takes: "value",
  values: values.map((value) => ({ name: value, label: value })),
  codes,
});

/** The table of a benchmark in one run. */
export function rowsOf(data: Data, texts: Texts, benchmark: number, run = 0): Rows {
  const { head } = data.bundle;
  const ofBenchmark = data.column("questions.benchmark");
  const several = head.benchmarks.length > 1 || head.runs.length > 1;
  const answered = data.results > 0;
  const ofResult = data.column("results.question");
  const runs = data.column("results.run");
  let places: Numbers | null = null;
  if (answered) {
    const order = data.byQuestion;
    if (several || order.some((result, place) => result !== place)) {
      places = order.filter((result) => ofBenchmark[ofResult[result] as number] === benchmark && runs[result] === run);
    }
  } else {
    places = Uint32Array.from(ofBenchmark.keys()).filter((question) => ofBenchmark[question] === benchmark);
  }
  const question = wide(answered ? gather(ofResult, places) : (places as Numbers));
  const result = answered ? wide(places ?? new Uint32Array(data.results).map((_, place) => place)) : null;
  const size = question.length;
  const column = (name: string): Numbers => gather(data.column(`results.${name}`), places);
  const zeros = new Uint8Array(size);

  const fields: Field[] = [];
  const dimension: number[] = [];
  const facets: number[] = [];
  const add = (field: Field, facet: boolean, d = -1): number => {
    if (facet) facets.push(fields.length);
    fields.push(field);
    dimension.push(d);
    return fields.length - 1;
  };
  if (answered) {
    add({ ...choice("outcome", head.outcomes, { codes: wide(column("outcome")) }), byAnswer: true }, true);
    if (head.benchmarks[benchmark]?.pairs === true) {
      const units = gather(data.column("questions.pair"), question);
      add({ name: "pair", label: "pair", takes: "value", values: VERDICTS, codes: { ...bits(VERDICTS.length), of: column("verdict") }, units, byAnswer: true }, true);
    }
  }
  const dimensions = head.benchmarks[benchmark]?.dimensions ?? [];
  const own = ["outcome", "pair", "technique", "rotation", "sample", "is", "tag", "read", "read_text", "key", "key_text", "id", "seconds", "confidence"];
  let asked: Table["asked"] = null;
  for (const d of dimensions) {
    const { name, of, values } = data.dimension(d);
    const field: Field = {
      name: own.includes(slug(name)) ? `tag_${name}` : name,
      label: label(name),
      takes: "value",
      values: values.map((value) => ({ name: value.value, label: value.title, also: value.short === "" ? [] : value.short.split(", ") })),
      codes: byRow(data.column(`tags/${d}.values`), data.column(`tags/${d}.offsets`), of === "questions" ? question : (result ?? question)),
      byAnswer: of === "results" && name !== "prompt",
    };
    const place = add(field, true, d);
    if (answered && of === "results" && name === "prompt") {
      asked = { field: place, numerator: column("prompt_numerator"), denominator: column("prompt_denominator") };
    }
  }
  if (answered) {
    const variants = column("variant");
    const rotations = head.variants.map((variant) => ROTATION.exec(variant)?.[1] ?? "");
    const shifts = [...new Set(rotations)].filter((shift) => shift !== "").sort((x, y) => Number(x.slice(1)) - Number(y.slice(1)));
    if (shifts.length > 0) {
      const lists = rotations.map((shift) => shifts.indexOf(shift));
      const offsets = [0];
      for (const shift of lists) offsets.push((offsets.at(-1) ?? 0) + (shift < 0 ? 0 : 1));
      add(choice("rotation", shifts, { codes: Uint16Array.from(lists.filter((shift) => shift >= 0)), offsets: Uint32Array.from(offsets), of: variants }), true);
    }
    const samples = column("sample");
    let most = 0;
    for (const sample of samples) most = Math.max(most, sample);
    if (most > 0) {
      // Sample 0, asked once, has no place among the values.
      const offsets = Uint32Array.from({ length: most + 2 }, (_, sample) => Math.max(0, sample - 1));
      const numbers = Array.from({ length: most }, (_, sample) => String(sample + 1));
      add(choice("sample", numbers, { codes: Uint32Array.from(numbers.keys()), offsets, of: samples }), true);
    }
    add(choice("technique", head.techniques, { codes: wide(column("technique")) }), false);
    const marks = column("marks");
    add({
      name: "is",
      label: "mark",
      takes: "value",
      values: MARKS,
      holds: (values, mask) => {
        const wanted = values.reduce((sum, value) => sum | (value === TAGGED ? 0 : 1 << value), 0);
        const tagged = values.includes(TAGGED);
        for (let row = 0; row < size; row++) {
          if (((marks[row] as number) & wanted) !== 0 || (tagged && result !== null && isTagged(result[row] as number))) mask[row] = 1;
        }
      },
    }, false);
    add({
      name: "tag",
      label: "your tag",
      takes: "value",
      values: TAG_NAMES.map((tag) => ({ name: tag, label: label(tag) })),
      holds: (values, mask) => {
        const wanted = values.map((value) => TAG_NAMES[value] as string);
        for (let row = 0; row < size; row++) {
          if (result !== null && tagsOf(result[row] as number).some((tag) => wanted.includes(tag))) mask[row] = 1;
        }
      },
    }, false);
    add(letters("read", data, column("extracted")), false);
    if (result !== null) for (const name of ["key_text", "read_text"] as const) add(worded(name, data, result), false);
  }
  add(letters("key", data, answered ? column("answers") : gather(data.column("questions.answers"), question)), false);
  add(identity(data, question), false);
  if (answered) {
    add({ name: "seconds", label: "seconds", takes: "number", values: [], numbers: column("seconds") }, false);
    add({ name: "confidence", label: "confidence", takes: "number", values: [], numbers: column("confidence") }, false);
  }
  const place = (name: string): number => {
    const found = fields.findIndex((field, i) => dimension[i] === -1 && field.name === name);
    return found < 0 ? ABSENT : found;
  };
  const ranks = (name: string): Uint32Array | null => {
    const words = (of: Numbers): Uint32Array => {
      const places = gather(of, question);
      const used = new Int32Array(data.bundle.tables.words.length).fill(-1);
      const texts: string[] = [];
      for (const word of places) if (used[word] === -1) used[word] = texts.push(data.word(word)) - 1;
      const ranks = ranksOfTexts(texts);
      const made = new Uint32Array(places.length);
      for (let row = 0; row < made.length; row++) made[row] = ranks[used[places[row] as number] as number] as number;
      return made;
    };
    if (name === "id") return words(data.column("questions.id"));
    if (name === "question") return words(data.column("questions.text"));
    if (!answered) return null;
    if (name === "outcome") {
      return mapped(column("outcome"), head.outcomes.map((outcome) => FIRST.indexOf(outcome)));
    }
    if (name === "pair") return mapped(column("verdict"), Array.from({ length: 2 ** VERDICTS.length }, (_, set) => (FIRST_PAIRS.indexOf(set) + 8) % 8));
    if (name === "seconds" || name === "confidence") return ranksOfNumbers(column(name));
    if (name === "read" || name === "key") {
      return mapped(column(name === "read" ? "extracted" : "answers"), [...ranksOfTexts(data.bundle.tables.lists.map((list) => list.join(", ")))]);
    }
    return null;
  };
  const table: Rows = {
    benchmark,
    size,
    question,
    result,
    fields,
    facets,
    dimension,
    place,
    ranks,
    numerator: answered ? column("numerator") : zeros,
    denominator: answered ? column("denominator") : zeros,
    asked,
    search: (words, mask, rows) => {
      texts.find(words, mask, rows, question, result);
    },
    version: () => texts.version + taggedVersion() * 1e6,
  };
  return table;
}

/** The letters of an answer, or its text: values if they are few, else looked up. "none" stands for an empty list. */
function letters(name: string, data: Data, of: Numbers): Field {
  const { lists } = data.bundle.tables;
  const used = new Uint8Array(lists.length);
  for (const list of of) used[list] = 1;
  const names = new Map<string, number>();
  const none = lists.some((list, i) => used[i] === 1 && list.includes("none")) ? "nothing" : "none";
  const codes: number[] = [];
  const offsets = [0];
  lists.forEach((list, i) => {
    for (const text of used[i] === 1 ? (list.length === 0 ? [none] : list) : []) {
      const place = names.get(text) ?? names.size;
      names.set(text, place);
      codes.push(place);
    }
    offsets.push(codes.length);
  });
  const texts = [...names.keys()];
  const field: Field = {
    name,
    label: name === "read" ? "option read" : "key",
    takes: "value",
    values: texts.map((text) => ({ name: text, label: text })),
    byAnswer: name === "read",
    codes: { codes: Uint32Array.from(codes), offsets: Uint32Array.from(offsets), of },
  };
  if (texts.length <= LISTED) return field;
  return {
    ...field,
    find: (text) => {
      const exact = names.get(text);
      return exact === undefined ? texts.flatMap((each, i) => (slug(each) === slug(text) && slug(text) !== "" ? [i] : [])) : [exact];
    },
    like: (text, most) => beginning(texts, text, most),
  };
}

function beginning(texts: readonly string[], typed: string, most: number): string[] {
  const wanted = typed.toLowerCase();
  const found: string[] = [];
  for (const text of texts) {
    if (found.length >= most) break;
    if (text.toLowerCase().includes(wanted)) found.push(text);
  }
  return found;
}

/** Questions by their id, or by the id of their pair; `*` at the end stands for any rest. */
function identity(data: Data, question: Numbers): Field {
  const ids = data.column("questions.id");
  const pairs = data.column("questions.pair");
  const questions = [...new Set(question)];
  const places = (of: Numbers, q: number): number => of[q] as number;
  const matches = (text: string): ((word: string) => boolean) => {
    const wanted = text.toLowerCase();
    const begin = wanted.slice(0, -1);
    return wanted.endsWith("*") ? (word) => word.toLowerCase().startsWith(begin) : (word) => word.toLowerCase() === wanted;
  };
  return {
    name: "id",
    label: "id",
    takes: "identity",
    values: [],
    find: (text) => {
      const holds = matches(text);
      const found = new Set<number>();
      for (const q of questions) {
        const [id, pair] = [places(ids, q), places(pairs, q)];
        if (holds(data.word(id))) found.add(id);
        if (pair >= 0 && holds(data.word(pair))) found.add(pair);
      }
      return [...found];
    },
    like: (text, most) => {
      const begin = text.toLowerCase().replace(/\*$/, "");
      const found: string[] = [];
      for (const q of questions) {
        if (found.length >= most) break;
        const word = data.word(places(ids, q));
        if (word.toLowerCase().includes(begin)) found.push(word);
      }
      return found.length > 0 ? found : questions.slice(0, most).map((q) => data.word(places(ids, q)));
    },
    holds: (values, mask) => {
      const wanted = new Set(values);
      for (let row = 0; row < mask.length; row++) {
        const q = question[row] as number;
        if (wanted.has(ids[q] as number) || wanted.has(pairs[q] as number)) mask[row] = 1;
      }
    },
  };
}

/** The texts of questions and answers in lower case, and the search in them. Answers are read in the background. */
export class Texts {
  readonly #data: Data;
  readonly #responses: (string | undefined)[] = [];
  #words: (string | undefined)[] = [];
  #errors: Int32Array | null = null;
  #reading: Promise<void> | null = null;
  /** Results whose responses have been read. */
  read = 0;
  /** Changes when a search may find more. */
  version = 0;

  constructor(data: Data) {
    this.#data = data;
  }

  get complete(): boolean {
    return this.read >= this.#data.results;
  }

  /** Read all responses; `step` is called now and then, and at the end. */
  load(step: () => void): Promise<void> {
    let told = performance.now();
    const { answers } = this.#data.bundle;
    if (answers.none) {
      this.read = this.#data.results;
      step();
      return Promise.resolve();
    }
    this.#reading ??= answers.all((results) => {
      for (let result = this.read; result < results; result++) {
        this.#responses[result] = answers.at(result)?.response?.toLowerCase();
      }
      this.read = results;
      if (!this.complete && performance.now() - told < 400) return;
      told = performance.now();
      this.version += 1;
      step();
    });
    return this.#reading;
  }

  /** Mark those of some rows whose id, question, options, response or reason of an error hold the words, in lower case. */
  find(words: string, mask: Uint8Array, rows: Uint32Array | null, question: Numbers, result: Numbers | null): void {
    const data = this.#data;
    const [ids, texts, options, pairs] = ["id", "text", "options", "pair"].map((name) => data.column(`questions.${name}`)) as [Numbers, Numbers, Numbers, Numbers];
    const { words: all, options: offered } = data.bundle.tables;
    this.prepare();
    // Each word once, then the rows: no call for a row.
    const holding = new Uint8Array(all.length);
    for (let word = 0; word < holding.length; word++) if (this.#words[word]?.includes(words) === true) holding[word] = 1;
    const offering = new Uint8Array(offered.length);
    for (let place = 0; place < offering.length; place++) {
      for (const [, text] of offered[place] as readonly (readonly [string, number])[]) if (holding[text] === 1) offering[place] = 1;
    }
    const responses = this.#responses;
    const reasons = this.#reasons();
    for (let i = 0, end = rows?.length ?? mask.length; i < end; i++) {
      const row = rows === null ? i : (rows[i] as number);
      const q = question[row] as number;
      if (
        holding[ids[q] as number] === 1 ||
        holding[texts[q] as number] === 1 ||
        offering[options[q] as number] === 1 ||
        holding[pairs[q] as number] === 1 ||
        (result !== null && (responses[result[row] as number]?.includes(words) === true || holding[reasons?.[result[row] as number] ?? -1] === 1))
      ) {
        mask[row] = 1;
      }
    }
  }

  /** Make the first search as fast as those that follow. */
  prepare(): void {
    if (this.#words.length === 0) this.#words = this.#searchable();
  }

  /** The word that is the reason of each error, -1 for other results; null where reasons stand among the answers. */
  #reasons(): Int32Array | null {
    const data = this.#data;
    if (!data.bundle.columns.has("results.why")) return null;
    if (this.#errors === null) {
      const [why, outcome] = [data.column("results.why"), data.column("results.outcome")];
      const error = data.bundle.head.outcomes.indexOf("error");
      this.#errors = Int32Array.from(why, (word, r) => (outcome[r] === error ? word : -1));
    }
    return this.#errors;
  }

  /** The words that a search may find, in lower case: ids, questions, options and reasons of errors, not of scores. */
  #searchable(): (string | undefined)[] {
    const data = this.#data;
    const { words, options } = data.bundle.tables;
    const found = new Array<string | undefined>(words.length).fill(undefined);
    const add = (word: number): void => {
      if (word >= 0) found[word] ??= (words[word] ?? "").toLowerCase();
    };
    for (const name of ["id", "text", "pair"]) data.column(`questions.${name}`).forEach(add);
    this.#reasons()?.forEach(add);
    for (const offered of options) for (const [, text] of offered) add(text);
    return found;
  }
}
