// Selecting, counting and sorting answers over typed arrays. The answers to one question count as one question.
// Places lie within the columns of one table, so elements are there.
/* eslint-disable @typescript-eslint/non-nullable-type-assertion-style */
import type { Clause, Name } from "./query";
import type { Numbers } from "./read";

/** The places of values by row: one each, or, with `offsets`, a list each. `of` maps a row to its place in both. */
export interface Codes {
  readonly codes: Numbers;
  readonly offsets?: Numbers;
  readonly of?: Numbers;
}

/** Lists of places, one after the other: list i is `members[starts[i]]` to `members[starts[i + 1] - 1]`. */
export interface Lists {
  readonly starts: Uint32Array;
  readonly members: Uint32Array;
}

export const listAt = ({ starts, members }: Lists, place: number): readonly number[] => [...members.subarray(starts[place], starts[place + 1])];

/** The lists of each `step`-th place and those that follow it, joined. */
export const joined = ({ starts, members }: Lists, step: number): Lists =>
  step === 1 ? { starts, members } : { starts: Uint32Array.from({ length: (starts.length - 1) / step + 1 }, (_, place) => starts[place * step] as number), members };

/** A field of rows. It has `codes` (values), `numbers` (NaN: none), or `holds`, which fills a mask by itself. */
export interface Field extends Name {
  readonly codes?: Codes;
  readonly numbers?: Numbers;
  /** The places of a row's numbers; without it, each row has one. One number that holds is enough. */
  readonly among?: Lists;
  readonly holds?: (values: readonly number[], mask: Uint8Array) => void;
  /** Whether its values are made by the answer itself: rows that are selected by them have no score of their own. */
  readonly byAnswer?: boolean;
  /** What counts as one in place of a question, such as a pair, by row (-1: nothing). Such fields have few values. */
  readonly units?: Numbers;
}

/** Rows (answers, or questions without one) of one table. */
export interface Table {
  readonly size: number;
  /** The question of each row; the rows of a question follow one another. */
  readonly question: Numbers;
  readonly fields: readonly Field[];
  /** The terms of the score, by which answers to a question add up to one; `asked`: those to one prompt do. */
  readonly numerator: Numbers;
  readonly denominator: Numbers;
  readonly asked: { readonly field: number; readonly numerator: Numbers; readonly denominator: Numbers } | null;
  /** Mark those of some rows (null: all) whose texts hold the words, which are lower case. */
  readonly search: (words: string, mask: Uint8Array, rows: Uint32Array | null) => void;
  /** Changes when a search may find more. */
  readonly version: () => number;
}

export interface Sum {
  readonly questions: number;
  readonly answers: number;
  readonly numerator: number;
  readonly denominator: number;
}

/** Sums by value of a field, over rows that hold all clauses but those of the field itself. */
export interface Facet {
  readonly questions: Uint32Array;
  readonly numerator: Float64Array;
  readonly denominator: Float64Array;
}

export interface Selection {
  /** The rows that all clauses hold for, in the order of the table. */
  readonly rows: Uint32Array;
  readonly sum: Sum;
  readonly facets: ReadonlyMap<number, Facet>;
}

const MASKS = 24; // masks that are kept
const masks = new WeakMap<Table, Map<string, Uint8Array>>();

/**
 * 1 for each row that a clause holds for, before its `not`. The same clause gives the same array.
 * `rows`: those that matter; a search in texts may leave the others 0.
 */
function maskOf(table: Table, clause: Clause, rows: Uint32Array | null = null): Uint8Array {
  const kept = masks.get(table) ?? new Map<string, Uint8Array>();
  masks.set(table, kept);
  const words = clause.field < 0;
  const field = table.fields[clause.field];
  const changes = words || field?.holds !== undefined;
  const key = words ? `"${table.version()} ${clause.text}` : `${clause.field}${clause.operator}${clause.values.join()}${changes ? ` ${table.version()}` : ""}`;
  const before = kept.get(key);
  if (before !== undefined) {
    kept.delete(key);
    kept.set(key, before);
    return before;
  }
  const mask = new Uint8Array(table.size);
  if (words) {
    table.search(clause.text.toLowerCase(), mask, rows);
    if (rows !== null) return mask;
  } else if (field?.holds) field.holds(clause.values, mask);
  else if (field?.numbers) compare(field.numbers, field.among, clause, mask);
  else if (field?.codes) among(field.codes, new Set(clause.values), field.values.length, mask);
  kept.set(key, mask);
  if (kept.size > MASKS) kept.delete(kept.keys().next().value ?? "");
  return mask;
}

function compare(numbers: Numbers, lists: Lists | undefined, { operator, values }: Clause, mask: Uint8Array): void {
  // Columns of 32 bits hold 0.1 rounded: so is the number that is compared with them.
  const typed = values[0] ?? NaN;
  const than = numbers instanceof Float32Array ? Math.fround(typed) : typed;
  const within = (values[1] ?? 0) * (1 + 1e-6);
  const holds = (value: number): boolean =>
    operator === ">" ? value > than : operator === "<" ? value < than : operator === ">=" ? value >= than : operator === "<=" ? value <= than : Math.abs(value - than) <= within;
  if (lists === undefined) {
    for (let row = 0; row < mask.length; row++) if (holds(numbers[row] as number)) mask[row] = 1;
  } else markAny(lists, mask, (place) => holds(numbers[place] as number));
}

/** Mark the rows of which one member holds. */
export function markAny({ starts, members }: Lists, mask: Uint8Array, holds: (member: number) => boolean): void {
  for (let row = 0; row < mask.length; row++) {
    for (let at = starts[row] as number, end = starts[row + 1] as number; at < end; at++) {
      if (!holds(members[at] as number)) continue;
      mask[row] = 1;
      break;
    }
  }
}

/** The values of all members of each row. */
export function gathered({ starts, members }: Lists, { codes, offsets, of }: Codes): Codes {
  const size = starts.length - 1;
  const ends = new Uint32Array(size + 1);
  let one = true;
  for (let row = 0; row < size; row++) {
    let length = 0;
    for (let at = starts[row] as number, end = starts[row + 1] as number; at < end; at++) {
      const place = of === undefined ? (members[at] as number) : (of[members[at] as number] as number);
      length += offsets === undefined ? 1 : (offsets[place + 1] as number) - (offsets[place] as number);
    }
    if (length !== 1) one = false;
    ends[row + 1] = (ends[row] as number) + length;
  }
  const made = new Uint32Array(ends[size] as number);
  let next = 0;
  for (let at = starts[0] as number, end = starts[size] as number; at < end; at++) {
    const place = of === undefined ? (members[at] as number) : (of[members[at] as number] as number);
    if (offsets === undefined) made[next++] = codes[place] as number;
    else for (let value = offsets[place] as number; value < (offsets[place + 1] as number); value++) made[next++] = codes[value] as number;
  }
  return one ? { codes: made } : { codes: made, offsets: ends };
}

function among({ codes, offsets, of }: Codes, wanted: ReadonlySet<number>, values: number, mask: Uint8Array): void {
  const is = new Uint8Array(values);
  for (const value of wanted) is[value] = 1;
  for (let row = 0; row < mask.length; row++) {
    const place = of === undefined ? row : (of[row] as number);
    if (offsets === undefined) {
      mask[row] = is[codes[place] as number] as number;
      continue;
    }
    for (let i = offsets[place] as number, end = offsets[place + 1] as number; i < end; i++) {
      if (is[codes[i] as number] === 1) {
        mask[row] = 1;
        break;
      }
    }
  }
}

const SEVERAL = 0xffff;

/** Select rows, and count them by the values of `facets` (places of fields). */
export function select(table: Table, clauses: readonly Clause[], facets: readonly number[]): Selection {
  // Clauses of one field are one group: a row that fails only them still counts in the facet of the field.
  const groups = new Map<number, number>();
  const failed = new Uint16Array(table.size);
  for (const clause of clauses) {
    if (clause.field < 0) continue;
    const group = groups.get(clause.field) ?? groups.size + 1;
    groups.set(clause.field, group);
    const mask = maskOf(table, clause);
    const wanted = clause.not ? 0 : 1;
    for (let row = 0; row < mask.length; row++) {
      if (mask[row] !== wanted) failed[row] = failed[row] === 0 || failed[row] === group ? group : SEVERAL;
    }
  }
  // Words have no facet: a row without them counts nowhere, and need not be searched for further words.
  let first = true;
  for (const clause of clauses) {
    if (clause.field >= 0) continue;
    const rows = first ? null : left(failed);
    const mask = maskOf(table, clause, rows);
    const wanted = clause.not ? 0 : 1;
    for (let row = 0; row < mask.length; row++) if (mask[row] !== wanted) failed[row] = SEVERAL;
    first = false;
  }
  const asked = table.asked;
  const ofPrompt = asked !== null && clauses.some((clause) => clause.field === asked.field && !clause.not);
  const terms = ofPrompt ? asked : table;
  const rows = passing(failed, 0);
  const { numerator: above, denominator: below } = terms;
  const { question } = table;
  let [questions, numerator, denominator, last] = [0, 0, 0, -1];
  for (const row of rows) {
    numerator += above[row] as number;
    denominator += below[row] as number;
    const of = question[row] as number;
    if (of !== last) questions++;
    last = of;
  }
  const counted = facets.map((place): [number, Facet] => {
    const own = groups.get(place);
    const by = asked !== null && asked.field === place ? asked : terms;
    return [place, count(table, place, own === undefined ? rows : passing(failed, own), by)];
  });
  // Thirds of three samples are one.
  const sum = { questions, answers: rows.length, numerator: round(numerator), denominator: round(denominator) };
  return { rows, sum, facets: new Map(counted) };
}

/** The number of rows that a clause alone holds for. */
export function alone(table: Table, clause: Clause): number {
  let holding = 0;
  for (const holds of maskOf(table, clause)) holding += holds;
  return clause.not ? table.size - holding : holding;
}

/** The rows that may still count somewhere. */
function left(failed: Uint16Array): Uint32Array {
  const rows = new Uint32Array(failed.length);
  let next = 0;
  for (let row = 0; row < failed.length; row++) if (failed[row] !== SEVERAL) rows[next++] = row;
  return rows.subarray(0, next);
}

/** The rows that fail no clause, or only those of one group. */
function passing(failed: Uint16Array, group: number): Uint32Array {
  const rows = new Uint32Array(failed.length);
  let next = 0;
  for (let row = 0; row < failed.length; row++) {
    const why = failed[row] as number;
    if (why === 0 || why === group) rows[next++] = row;
  }
  return rows.subarray(0, next);
}

export const round = (number: number): number => Number(number.toFixed(9));

type Terms = Pick<Table, "numerator" | "denominator">;

function count(table: Table, field: number, rows: Uint32Array, terms: Terms): Facet {
  const { codes: known, values, units } = table.fields[field] ?? {};
  const number = values?.length ?? 0;
  const facet = { questions: new Uint32Array(number), numerator: new Float64Array(number), denominator: new Float64Array(number) };
  if (known === undefined) return facet;
  const { questions, numerator, denominator } = facet;
  const { codes, offsets, of } = known;
  const { numerator: above, denominator: below } = terms;
  const { question } = table;
  const last = new Int32Array(number).fill(-1);
  const seen = new Map<number, number>();
  const add = (value: number, row: number): void => {
    numerator[value] = (numerator[value] as number) + (above[row] as number);
    denominator[value] = (denominator[value] as number) + (below[row] as number);
    if (units !== undefined) {
      const unit = units[row] as number;
      const before = seen.get(unit) ?? 0;
      if (unit < 0 || (before & (1 << value)) !== 0) return;
      seen.set(unit, before | (1 << value));
      questions[value] = (questions[value] as number) + 1;
    } else if (last[value] !== question[row]) {
      last[value] = question[row] as number;
      questions[value] = (questions[value] as number) + 1;
    }
  };
  for (const row of rows) {
    const place = of === undefined ? row : (of[row] as number);
    if (offsets === undefined) {
      add(codes[place] as number, row);
      continue;
    }
    const start = offsets[place] as number;
    for (let at = start, end = offsets[place + 1] as number; at < end; at++) {
      const value = codes[at] as number;
      let first = start;
      while (codes[first] !== value) first++;
      if (first === at) add(value, row);
    }
  }
  for (let value = 0; value < number; value++) {
    numerator[value] = round(numerator[value] as number);
    denominator[value] = round(denominator[value] as number);
  }
  return facet;
}

// ---- order ---------------------------------------------------------------------------------------------------------

/** The rank of a row without a value: it stands last either way. */
export const LAST = 0xffffffff;
const ROWS = 2 ** 20;

/** Ranks of numbers: the order of 32-bit floats is that of their bits, turned for negative ones. */
export function ranksOfNumbers(numbers: Numbers): Uint32Array {
  const floats = Float32Array.from(numbers);
  const ranks = new Uint32Array(floats.buffer);
  for (let row = 0; row < ranks.length; row++) {
    const bits = ranks[row] as number;
    ranks[row] = Number.isNaN(numbers[row]) ? LAST : (bits & 0x80000000) !== 0 ? ~bits >>> 0 : (bits | 0x80000000) >>> 0;
  }
  return ranks;
}

/** A text to sort by, numbers in it by value: `q2` stands before `q10`. */
export const sortable = (text: string): string => text.toLowerCase().replace(/\d+/g, (number) => number.padStart(9, "0"));

/** Ranks of texts, numbers in them by value. */
export function ranksOfTexts(texts: readonly string[]): Uint32Array {
  const keys = texts.map(sortable);
  const sorted = [...new Set(keys)].sort();
  const places = new Map(sorted.map((key, place) => [key, place]));
  return Uint32Array.from(keys, (key) => places.get(key) ?? LAST);
}

/** All rows by their ranks; rows of one rank keep their order, rows without a rank are last. */
export function orderOf(ranks: Uint32Array, descending: boolean): Uint32Array {
  if (ranks.length > ROWS) return slowly(ranks, descending);
  // One double holds rank and row: 32 and 20 bits.
  const packed = new Float64Array(ranks.length);
  for (let row = 0; row < ranks.length; row++) {
    const rank = ranks[row] as number;
    packed[row] = (rank === LAST || !descending ? rank : LAST - 1 - rank) * ROWS + row;
  }
  packed.sort();
  const order = new Uint32Array(packed.length);
  for (let i = 0; i < order.length; i++) order[i] = (packed[i] as number) % ROWS;
  return order;
}

function slowly(ranks: Uint32Array, descending: boolean): Uint32Array {
  const key = (row: number): number => {
    const rank = ranks[row] as number;
    return rank === LAST || !descending ? rank : LAST - 1 - rank;
  };
  return Uint32Array.from(ranks.keys()).sort((x, y) => key(x) - key(y) || x - y);
}

/** The selected rows in an order of all rows; null: the order of the table. */
export function inOrder(selection: Selection, order: Uint32Array | null): Uint32Array {
  if (order === null) return selection.rows;
  if (selection.rows.length === order.length) return order;
  const mask = new Uint8Array(order.length);
  for (const row of selection.rows) mask[row] = 1;
  const rows = new Uint32Array(selection.rows.length);
  let next = 0;
  for (const row of order) {
    if (mask[row] === 1) rows[next++] = row;
  }
  return rows;
}
