// The selection that a state of the page asks for: query, technique, order, pairs, and how to run it again.
/* eslint-disable @typescript-eslint/non-nullable-type-assertion-style */
import type { BenchmarkHead } from "../bundle";
import type { Data } from "../data";
import { inOrder, select, type Selection } from "../filter";
import { whenIdle } from "../idle";
import { parseKey } from "../key";
import { parse, resolve, type Clause, type Problem, type Term } from "../query";
import type { State } from "../route";
import { pairOf, scaleOf } from "../scale";
import { Texts } from "../search";
import { questionOf, resultOf, rowsOf, unitsOf, VERDICTS, type Rows } from "../table";

/** What was read of a bundle once: its tables, and the texts. */
export class Source {
  readonly data: Data;
  readonly texts: Texts;
  readonly #tables = new Map<string, Rows>();
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

  /** The table that a state names; null if several runs share no measure of single questions. */
  table(state: State): Rows | null {
    const { head } = this.data.bundle;
    if (head.kind !== "comparison") {
      const benchmark = benchmarkOf(this.data, state);
      return this.#once(String(benchmark), () => rowsOf(this.data, this.texts, benchmark));
    }
    const scale = scaleOf(head, state);
    const pair = pairOf(head.runs.map((run) => run.name), head.pairs ?? [], state);
    return scale < 0 ? null : this.#once(`${scale} ${pair.new} ${pair.baseline}`, () => unitsOf(this.data, this.texts, scale, pair));
  }

  #once(name: string, make: () => Rows): Rows {
    const table = this.#tables.get(name) ?? make();
    this.#tables.set(name, table);
    return table;
  }

  /** Sort and search once while nobody waits, so that the first click is as fast as the next. */
  prepare(): void {
    const tasks = [
      (): void => { this.texts.prepare(); },
      ...[...this.#tables.values()].flatMap((table) => ["id", "question"].map((name) => (): void => { table.order(name, ""); })),
    ];
    const next = (): void => {
      tasks.shift()?.();
      if (tasks.length > 0) whenIdle(next);
    };
    whenIdle(next);
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

/** Pairs are rows of their own in the page of several runs. */
export const layoutsOf = (about: BenchmarkHead, { answered, compared }: Rows): readonly Layout[] => LAYOUTS.filter((layout) => layout !== "pairs" || (about.pairs && answered && compared === null));

const layoutOf = (about: BenchmarkHead, state: State, table: Rows): Layout => layoutsOf(about, table).find((layout) => layout === state.layout) ?? "table";

/** Select by a state; a term for which `pending` is true is still being typed, and left out. */
export function find(table: Rows, state: State, query: string, pending: (term: Term) => boolean = () => false): Found {
  const about = table.data.bundle.head.benchmarks[table.benchmark] as BenchmarkHead;
  const terms = parse(query);
  const { clauses, problems: all } = resolve(terms, table.fields);
  const problems = all.filter((problem) => !pending(problem.term));
  const chosen = techniquesOf(table, state, clauses);
  const selection = select(table, [...clauses, ...chosen.clauses], table.facets);
  const layout = layoutOf(about, state, table);
  const rows = problems.length > 0 ? new Uint32Array() : inOrder(selection, table.order(state.sort, table.compared !== null ? "flip" : layout === "pairs" ? "pair" : "outcome"));
  return {
    table, about, layout, clauses, problems, selection,
    terms: terms.filter((term) => !all.some((problem) => problem.term === term)),
    techniques: chosen.techniques,
    rows: layout === "pairs" ? pairsOf(table).first(rows) : rows,
  };
}

/** The techniques whose answers are listed, and the clause that selects them if the query does not. */
function techniquesOf(table: Rows, state: State, clauses: readonly Clause[]): { readonly techniques: readonly string[]; readonly clauses: readonly Clause[] } {
  const { compared } = table;
  if (compared !== null) return { techniques: [table.data.bundle.head.techniques[compared.scale.view.technique] ?? ""], clauses: [] };
  const technique = table.place("technique");
  const named = table.fields[technique]?.values.map((value) => value.name) ?? [];
  if (named.length < 2) return { techniques: named, clauses: [] };
  const asked = clauses.filter((clause) => clause.field === technique);
  if (asked.length > 0) return { techniques: named.filter((_, place) => asked.every((clause) => clause.values.includes(place) !== clause.not)), clauses: [] };
  // Answers by several techniques are answers to the same questions: one technique is listed at a time.
  const chosen = Math.max(0, named.indexOf(techniqueOf(table, state)));
  return { techniques: named.slice(chosen, chosen + 1), clauses: [{ field: technique, not: false, values: [chosen], operator: ":", text: "" }] };
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

export function pairsOf(table: Rows): Pairs {
  const before = known.get(table);
  if (before !== undefined) return before;
  const { data } = table;
  const pairs = data.column("questions.pair");
  const ways = ["technique", "variant", "sample"].map((name) => data.column(`results.${name}`));
  const places = new Map<string, number>();
  const of = new Uint32Array(table.size);
  const lists: number[][] = [];
  for (let row = 0; row < table.size; row++) {
    const pair = pairs[questionOf(table, row)] as number;
    const name = pair < 0 ? `row ${row}` : [pair, ...ways.map((way) => way[resultOf(table, row) ?? 0])].join(" ");
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

export function pairSum({ table, rows }: Found): PairSum {
  const verdicts = table.data.column("results.verdict");
  const bit = (name: string): number => 1 << VERDICTS.findIndex((verdict) => verdict.name === name);
  const [both, same, invalid, incomplete] = [bit("both_right"), bit("confused"), bit("invalid"), bit("incomplete")];
  const sum = { pairs: 0, right: 0, scored: 0, confused: 0, valid: 0 };
  for (const row of rows) {
    const verdict = verdicts[resultOf(table, row) ?? 0] as number;
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

/** The verdict on the pair of a result, in words. */
export const verdictOf = (data: Data, result: number): readonly string[] => {
  const set = data.column("results.verdict")[result] as number;
  return VERDICTS.filter((_, place) => ((set >> place) & 1) === 1).map((verdict) => verdict.label);
};

// ---- score and command ---------------------------------------------------------------------------------------------

/** Whether the selection has a score: not if several techniques answered, or if it was made by the answers themselves. */
export const hasScore = ({ about, clauses, table, techniques }: Found): boolean =>
  about.score !== "" && table.answered && table.compared === null && techniques.length < 2 && !clauses.some(({ field }) => table.fields[field]?.byAnswer === true);

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

export function commandOf({ about, clauses, table, techniques }: Found): Command {
  const { data } = table;
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
export const keysOf = ({ table, rows }: Found): readonly string[] => Array.from(rows, table.key);
