// The selection that a state of the page asks for: query, technique, order, pairs, and how to run it again.
/* eslint-disable @typescript-eslint/non-nullable-type-assertion-style */
import type { BenchmarkHead } from "../bundle";
import type { Data, Key } from "../data";
import { inOrder, orderOf, select, type Selection } from "../filter";
import { keyText, parseKey } from "../key";
import { parse, resolve, type Clause, type Problem, type Term } from "../query";
import type { State } from "../route";
import { rowsOf, Texts, VERDICTS, type Rows } from "../table";

/** What was read of a bundle once: tables by benchmark, and the texts. */
export class Source {
  readonly data: Data;
  readonly texts: Texts;
  readonly #tables = new Map<number, Rows>();
  readonly #orders = new Map<string, Uint32Array | null>();
  static readonly #sources = new WeakMap<Data, Source>();

  private constructor(data: Data) {
    this.data = data;
    this.texts = new Texts(data);
  }

  static of(data: Data): Source {
    const known = Source.#sources.get(data) ?? new Source(data);
    Source.#sources.set(data, known);
    return known;
  }

  table(benchmark: number): Rows {
    const known = this.#tables.get(benchmark) ?? rowsOf(this.data, this.texts, benchmark);
    this.#tables.set(benchmark, known);
    return known;
  }

  /** All rows of a table by a column ("-" before its name: descending); null: in the order of the table. */
  order(table: Rows, sort: string): Uint32Array | null {
    const name = `${table.benchmark} ${sort}`;
    let order = this.#orders.get(name);
    if (order === undefined) {
      const ranks = table.ranks(sort.replace(/^-/, ""));
      order = ranks === null ? null : orderOf(ranks, sort.startsWith("-"));
      this.#orders.set(name, order);
    }
    return order;
  }

  /** Sort and search once while nobody waits, so that the first click is as fast as the next. */
  prepare(): void {
    const idle = (task: () => void): void => {
      if ("requestIdleCallback" in window) requestIdleCallback(task);
      else setTimeout(task, 200);
    };
    const tasks = [
      (): void => { this.texts.prepare(); },
      ...[...this.#tables.values()].flatMap((table) => ["id", "question"].map((name) => (): void => { this.order(table, name); })),
    ];
    const next = (): void => {
      tasks.shift()?.();
      if (tasks.length > 0) idle(next);
    };
    idle(next);
  }

  key(table: Rows, row: number): Key {
    if (table.result !== null) return this.data.key(table.result[row] as number);
    const question = table.question[row] as number;
    return { benchmark: this.data.benchmark(question).name, item: this.data.id(question), technique: "", variant: "", sample: 0 };
  }
}

export type Layout = "table" | "images" | "pairs";
export const LAYOUTS: readonly Layout[] = ["table", "images", "pairs"];

/** What the query of a state selects. */
export interface Found {
  readonly table: Rows;
  readonly about: BenchmarkHead;
  readonly layout: Layout;
  /** The terms that name something known, each the term of a clause. */
  readonly terms: readonly Term[];
  readonly clauses: readonly Clause[];
  readonly problems: readonly Problem[];
  /** The techniques whose answers are listed. */
  readonly techniques: readonly string[];
  readonly selection: Selection;
  /** Rows in order; of pairs, the first row of each. */
  readonly rows: Uint32Array;
}

/** The benchmark that a state names, else that of its open item, else the first. */
export const benchmarkOf = (data: Data, state: State): number => {
  const name = state.benchmark === "" && state.item !== null ? parseKey(state.item).benchmark : state.benchmark;
  return Math.max(0, data.bundle.head.benchmarks.findIndex((each) => each.name === name));
};

const layoutOf = (about: BenchmarkHead, state: State, answered: boolean): Layout => {
  const known = LAYOUTS.find((layout) => layout === state.layout) ?? "table";
  return known === "pairs" && !(about.pairs && answered) ? "table" : known;
};

/** Select by a state; a term for which `pending` is true is still being typed, and left out. */
export function find(source: Source, state: State, query: string, pending: (term: Term) => boolean = () => false): Found {
  const { data } = source;
  const benchmark = benchmarkOf(data, state);
  const table = source.table(benchmark);
  const about = data.bundle.head.benchmarks[benchmark] as BenchmarkHead;
  const terms = parse(query);
  const resolved = resolve(terms, table.fields);
  const problems = resolved.problems.filter((problem) => !pending(problem.term));
  const { clauses } = resolved;
  const known_ = terms.filter((term) => !resolved.problems.some((problem) => problem.term === term));
  const technique = table.place("technique");
  const named = table.fields[technique]?.values.map((value) => value.name) ?? [];
  const asked = clauses.filter((clause) => clause.field === technique);
  const all: Clause[] = [...clauses];
  let techniques: string[] = named;
  if (named.length > 1) {
    if (asked.length === 0) {
      // Answers by several techniques are answers to the same questions: one technique is listed at a time.
      const chosen = Math.max(0, named.indexOf(techniqueOf(table, state)));
      all.push({ field: technique, not: false, values: [chosen], operator: ":", text: "" });
      techniques = named.slice(chosen, chosen + 1);
    } else {
      techniques = named.filter((_, place) => asked.every((clause) => clause.values.includes(place) !== clause.not));
    }
  }
  const selection = select(table, all, table.facets);
  const layout = layoutOf(about, state, table.result !== null);
  const fallback = layout === "pairs" ? "pair" : "outcome";
  const order = source.order(table, state.sort === "" ? fallback : state.sort) ?? source.order(table, fallback);
  const rows = problems.length > 0 ? new Uint32Array() : inOrder(selection, order);
  return { table, about, layout, terms: known_, clauses, problems, techniques, selection, rows: layout === "pairs" ? pairsOf(source, table).first(rows) : rows };
}

/** The technique of a state if the table has it, else the first one that has an answer there. */
function techniqueOf(table: Rows, state: State): string {
  const field = table.fields[table.place("technique")];
  const has = new Set(field?.codes?.codes);
  const there = field?.values.filter((_, place) => has.has(place)).map((value) => value.name) ?? [];
  const wanted = state.technique === "" && state.item !== null ? parseKey(state.item).technique : state.technique;
  return there.find((name) => name === wanted) ?? there[0] ?? "";
}

// ---- pairs ---------------------------------------------------------------------------------------------------------

/** The rows of pairs: the answers to both questions by the same technique, variant and sample. */
export interface Pairs {
  /** The place of the pair of each row; a question without a pair is one of its own. */
  readonly of: Uint32Array;
  readonly members: (row: number) => readonly number[];
  /** The first row of each pair, in the order of the rows. */
  readonly first: (rows: Uint32Array) => Uint32Array;
}

const known = new WeakMap<Rows, Pairs>();

export function pairsOf(source: Source, table: Rows): Pairs {
  const before = known.get(table);
  if (before !== undefined) return before;
  const { data } = source;
  const pairs = data.column("questions.pair");
  const column = (name: string): ((row: number) => number) => {
    const values = data.column(`results.${name}`);
    return (row) => values[(table.result ?? table.question)[row] as number] as number;
  };
  const [technique, variant, sample] = [column("technique"), column("variant"), column("sample")];
  const places = new Map<string, number>();
  const of = new Uint32Array(table.size);
  const lists: number[][] = [];
  for (let row = 0; row < table.size; row++) {
    const pair = pairs[table.question[row] as number] as number;
    const name = pair < 0 ? `row ${row}` : `${pair} ${technique(row)} ${variant(row)} ${sample(row)}`;
    const place = places.get(name) ?? lists.length;
    if (place === lists.length) {
      places.set(name, place);
      lists.push([]);
    }
    lists[place]?.push(row);
    of[row] = place;
  }
  const made: Pairs = {
    of,
    members: (row) => lists[of[row] as number] ?? [],
    first: (rows) => {
      const seen = new Uint8Array(lists.length);
      return rows.filter((row) => {
        const place = of[row] as number;
        if (seen[place] === 1) return false;
        seen[place] = 1;
        return true;
      });
    },
  };
  known.set(table, made);
  return made;
}

/** Pairs by verdict: those with both right of those scored, and those confused of those with two valid answers. */
export interface PairSum {
  readonly pairs: number;
  readonly right: number;
  readonly scored: number;
  readonly confused: number;
  readonly valid: number;
}

export function pairSum(found: Found, source: Source): PairSum {
  const verdicts = source.data.column("results.verdict");
  const bit = (name: string): number => 1 << VERDICTS.findIndex((verdict) => verdict.name === name);
  const [both, same, invalid, incomplete] = [bit("both_right"), bit("confused"), bit("invalid"), bit("incomplete")];
  const sum = { pairs: 0, right: 0, scored: 0, confused: 0, valid: 0 };
  for (const row of found.rows) {
    const verdict = verdicts[found.table.result?.[row] ?? 0] as number;
    if (verdict === 0) continue;
    sum.pairs++;
    if ((verdict & incomplete) !== 0) continue;
    sum.scored++;
    if ((verdict & both) !== 0) sum.right++;
    if ((verdict & invalid) !== 0) continue;
    sum.valid++;
    if ((verdict & same) !== 0) sum.confused++;
  }
  return sum;
}

/** The names of a row's verdict. */
export const verdictOf = (source: Source, table: Rows, row: number): readonly string[] => {
  const set = source.data.column("results.verdict")[table.result?.[row] ?? 0] as number;
  return VERDICTS.filter((_, place) => ((set >> place) & 1) === 1).map((verdict) => verdict.label);
};

// ---- score and command ---------------------------------------------------------------------------------------------

/** Whether the selection has a score: not if several techniques answered, or if it was made by the answers themselves. */
export const hasScore = ({ about, clauses, table, techniques }: Found): boolean =>
  about.score !== "" && table.result !== null && techniques.length < 2 && !clauses.some(({ field }) => table.fields[field]?.byAnswer === true);

/** Low and high of the score, if the selection is a slice of metrics.json: all, or one value of one dimension. */
export function intervalOf(found: Found): readonly [number, number] | null {
  const { about, clauses, table, techniques } = found;
  const [technique = ""] = techniques;
  if (techniques.length > 1 || found.problems.length > 0) return null;
  const others = clauses.filter((clause) => clause.field !== table.place("technique"));
  const [only] = others;
  let name = "";
  if (only !== undefined) {
    const d = table.dimension[only.field] ?? -1;
    if (others.length > 1 || only.not || only.values.length !== 1 || d < 0) return null;
    name = `${d}.${only.values[0] ?? ""}`;
  }
  const bounds = Object.hasOwn(about.intervals, technique) ? about.intervals[technique] : undefined;
  return bounds !== undefined && Object.hasOwn(bounds, name) ? (bounds[name] ?? null) : null;
}

/** The command that asks the questions of a selection again; `left` are terms that no option of pytest selects by. */
export interface Command {
  readonly expression: string;
  readonly line: string;
  readonly left: readonly string[];
}

export function commandOf(found: Found, data: Data): Command {
  const { about, clauses, table, techniques } = found;
  const left: string[] = [];
  const together: string[] = [];
  const parts: string[] = [];
  const used = new Set<number>();
  let prompts = "";
  for (const clause of clauses) {
    const d = table.dimension[clause.field] ?? -1;
    if (clause.field === table.place("technique")) continue;
    const dimension = d < 0 ? null : data.dimension(d);
    if (dimension?.name === "prompt" && dimension.of === "results" && !clause.not) {
      prompts = ` --prompt=${clause.values.map((value) => dimension.values[value]?.value ?? "").join(",")}`;
      continue;
    }
    const selects = clause.values.map((value) => dimension?.values[value]?.select ?? null);
    const shown = (clause.not ? "-" : "") + textOf(clause);
    if (selects.length === 0 || selects.some((select_) => select_ === null)) left.push(shown);
    else if (!clause.not && selects.length === 1 && !used.has(d)) together.push(selects[0] ?? "");
    else {
      const or = selects.map((each) => `lexicon(${each ?? ""})`).join(" or ");
      parts.push(clause.not ? `not ${selects.length > 1 ? `(${or})` : or}` : selects.length > 1 ? `(${or})` : or);
    }
    used.add(d);
  }
  const all = [...(together.length > 0 ? [`lexicon(${together.join(", ")})`] : []), ...parts];
  const expression = all.length === 1 ? (all[0] ?? "").replace(/^\((.*)\)$/, "$1") : all.join(" and ");
  const asked = techniques.length > 0 && techniques[0] !== "" ? ` --technique=${techniques.join(",")}` : "";
  return { expression, left, line: about.command + asked + prompts + (expression === "" ? "" : ` -m "${expression}"`) };
}

const textOf = (clause: Clause): string => (clause.field < 0 ? `"${clause.text}"` : clause.text);

/** The keys of the listed rows. */
export const keysOf = (source: Source, found: Found): readonly string[] =>
  Array.from(found.rows, (row) => keyText(source.key(found.table, row)));
