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

/** A field of rows. It has `codes` (values), `numbers` (NaN: none), or `holds`, which fills a mask by itself. */
export interface Field extends Name {
  readonly codes?: Codes;
  readonly numbers?: Numbers;
  readonly holds?: (values: readonly number[], mask: Uint8Array) => void;
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
  /** Mark the rows whose texts hold the words, which are lower case. */
  readonly search: (words: string, mask: Uint8Array) => void;
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
  /** 1 for each row that all clauses hold for. */
  readonly mask: Uint8Array;
  readonly sum: Sum;
  readonly facets: ReadonlyMap<number, Facet>;
  /** The number of rows that each clause alone holds for. */
  readonly alone: readonly number[];
}

const MASKS = 24; // masks that are kept
const masks = new WeakMap<Table, Map<string, Uint8Array>>();

/** 1 for each row that a clause holds for, before its `not`. The same clause gives the same array. */
export function maskOf(table: Table, clause: Clause): Uint8Array {
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
  if (words) table.search(clause.text.toLowerCase(), mask);
  else if (field?.holds) field.holds(clause.values, mask);
  else if (field?.numbers) compare(field.numbers, clause, mask);
  else if (field?.codes) among(field.codes, new Set(clause.values), field.values.length, mask);
  kept.set(key, mask);
  if (kept.size > MASKS) kept.delete(kept.keys().next().value ?? "");
  return mask;
}

function compare(numbers: Numbers, { operator, values }: Clause, mask: Uint8Array): void {
  // Columns of 32 bits hold 0.1 rounded: so is the number that is compared with them.
  const typed = values[0] ?? NaN;
  const than = numbers instanceof Float32Array ? Math.fround(typed) : typed;
  for (let row = 0; row < mask.length; row++) {
    const value = numbers[row] as number;
    const holds =
      operator === ">" ? value > than : operator === "<" ? value < than : operator === ">=" ? value >= than : operator === "<=" ? value <= than : value === than;
    if (holds) mask[row] = 1;
  }
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
  const alone = clauses.map((clause, i) => {
    const group = clause.field < 0 ? -1 - i : clause.field;
    const place = groups.get(group) ?? Math.min(groups.size + 1, SEVERAL - 1);
    groups.set(group, place);
    const mask = maskOf(table, clause);
    const wanted = clause.not ? 0 : 1;
    let holding = 0;
    for (let row = 0; row < table.size; row++) {
      if (mask[row] === wanted) holding++;
      else if (failed[row] === 0) failed[row] = place;
      else if (failed[row] !== place) failed[row] = SEVERAL;
    }
    return holding;
  });
  const asked = table.asked;
  const ofPrompt = asked !== null && clauses.some((clause) => clause.field === asked.field && !clause.not);
  const terms = ofPrompt ? asked : table;
  const mask = new Uint8Array(table.size);
  let [questions, answers, numerator, denominator, last] = [0, 0, 0, 0, -1];
  for (let row = 0; row < table.size; row++) {
    if (failed[row] !== 0) continue;
    mask[row] = 1;
    answers++;
    numerator += terms.numerator[row] as number;
    denominator += terms.denominator[row] as number;
    const question = table.question[row] as number;
    if (question !== last) questions++;
    last = question;
  }
  const counted = facets.map((place): [number, Facet] => {
    const own = groups.get(place) ?? 0;
    const by = asked !== null && asked.field === place ? asked : terms;
    return [place, count(table, place, failed, own, by)];
  });
  // Thirds of three samples are one.
  const sum = { questions, answers, numerator: round(numerator), denominator: round(denominator) };
  return { mask, sum, facets: new Map(counted), alone };
}

export const round = (number: number): number => Number(number.toFixed(9));

type Terms = Pick<Table, "numerator" | "denominator">;

function count(table: Table, field: number, failed: Uint16Array, own: number, terms: Terms): Facet {
  const { codes, values, units } = table.fields[field] ?? {};
  const number = values?.length ?? 0;
  const facet = { questions: new Uint32Array(number), numerator: new Float64Array(number), denominator: new Float64Array(number) };
  if (codes === undefined) return facet;
  const { questions, numerator, denominator } = facet;
  const last = new Int32Array(number).fill(-1);
  const seen = new Map<number, number>();
  const one = codes.offsets === undefined;
  for (let row = 0; row < table.size; row++) {
    const why = failed[row] as number;
    if (why !== 0 && why !== own) continue;
    const place = codes.of === undefined ? row : (codes.of[row] as number);
    const question = table.question[row] as number;
    const start = one ? place : ((codes.offsets)[place] as number);
    const end = one ? place + 1 : ((codes.offsets)[place + 1] as number);
    for (let at = start; at < end; at++) {
      const value = codes.codes[at] as number;
      if (at > start && codes.codes.subarray(start, at).includes(value)) continue;
      numerator[value] = (numerator[value] as number) + (terms.numerator[row] as number);
      denominator[value] = (denominator[value] as number) + (terms.denominator[row] as number);
      if (units !== undefined) {
        const unit = units[row] as number;
        const before = seen.get(unit) ?? 0;
        if (unit < 0 || (before & (1 << value)) !== 0) continue;
        seen.set(unit, before | (1 << value));
        questions[value] = (questions[value] as number) + 1;
      } else if (last[value] !== question) {
        last[value] = question;
        questions[value] = (questions[value] as number) + 1;
      }
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

const digits = (text: string): string => text.toLowerCase().replace(/\d+/g, (number) => number.padStart(9, "0"));

/** Ranks of texts, numbers in them by value: `q2` stands before `q10`. */
export function ranksOfTexts(texts: readonly string[]): Uint32Array {
  const keys = texts.map(digits);
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
  return Uint32Array.from(packed, (both) => both % ROWS);
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
  const rows = new Uint32Array(selection.sum.answers);
  const { mask } = selection;
  let next = 0;
  for (let i = 0; i < mask.length; i++) {
    const row = order === null ? i : (order[i] as number);
    if (mask[row] === 1) rows[next++] = row;
  }
  return rows;
}
