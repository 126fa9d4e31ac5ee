// The list: rows of one height, of which those in sight are drawn; as a table, as images, or as pairs.
/* eslint-disable @typescript-eslint/non-nullable-type-assertion-style */
import type { ComponentChildren } from "preact";

import { lackOf, useAnswered } from "../answered";
import type { Data } from "../data";
import { listAt } from "../filter";
import type { Page } from "../page";
import type { Numbers } from "../read";
import { FLIPS, unitName } from "../scale";
import { questionOf, resultOf, runField, type Rows } from "../table";
import { count, flat, took } from "../text";
import { Grid, useListing, type GridColumn, type ListingOf } from "../ui/listing";
import { Outcome } from "../ui/outcome";
import { Visible } from "../ui/text";
import { Way } from "../ui/way";
import { pairsOf, verdictOf, type Found } from "./selecting";
import { Thumbnail } from "./thumbnail";

const HEIGHT = { table: 46, pairs: 66, images: 214 };
const CARD = 176; // least width of an image
const CUT = 400; // characters of a response in a row
const LINES = 2; // answers in a cell
const WIDE = 5; // runs that have room for words

interface ListOf {
  readonly page: Page;
  readonly found: Found;
  /** Words that the query searches for, in lower case. */
  readonly words: readonly string[];
}

export const List = ({ page, found, words }: ListOf) => {
  const { table, rows, layout } = found;
  const { compared, key } = table;
  // Two runs have room for two answers each.
  const high = layout === "table" && table.runs === 2 && table.results.members.length > table.size * 2 ? "pairs" : layout;
  const listing = {
    rows,
    high: HEIGHT[high],
    item: page.state.item,
    shows: (row: number, item: string): boolean => key(row) === item || (layout === "pairs" && pairsOf(table).members(row).some((each) => key(each) === item)),
    open: (row: number) => { page.go({ item: key(row) }); },
    link: (row: number) => page.link({ item: key(row) }),
  };
  const name = compared === null ? `${count(rows.length)} ${layout === "pairs" ? "pairs" : "answers"}` : `${count(rows.length)} ${unitName(compared.scale)}s by ${table.runs} runs`;
  if (layout === "images") return <Cards found={found} listing={listing} name={name} />;
  return (
    <Grid
      {...listing}
      label={name}
      class={compared === null ? layout : `matrix flips${high === "pairs" ? " pairs" : ""}`}
      columns={(width) => (compared !== null ? runColumns(table, width) : layout === "pairs" ? pairColumns(table) : answerColumns(found, words, width))}
      sort={page.state.sort}
      onSort={(sort) => { page.go({ sort }); }}
    />
  );
};

interface CardsOf {
  readonly found: Found;
  readonly listing: Omit<ListingOf, "across" | "head">;
  readonly name: string;
}

const Cards = ({ found, listing, name }: CardsOf) => {
  const across = (width: number): number => Math.max(1, Math.floor(width / CARD));
  const { box, across: number, lines, first, drawn, key, open, link } = useListing({ ...listing, head: 0, across });
  const { table, rows } = found;
  const { data } = table;
  const { high } = listing;
  return (
    <div class="list images" ref={box} role="list" aria-label={name} onKeyDown={key}>
      <div class="all" style={{ height: `${lines * high}px` }}>
        {drawn.map((row, i) => {
          const place = first * number + i;
          const question = questionOf(table, row);
          return (
            <div
              key={place}
              class="card"
              role="listitem"
              aria-setsize={rows.length}
              aria-posinset={place + 1}
              style={{ top: `${Math.floor(place / number) * high}px`, left: `${(100 / number) * (place % number)}%`, width: `${100 / number}%` }}
              onClick={() => { open(place, row); }}
            >
              <Thumbnail data={data} question={question} />
              <p>{table.compared === null ? <OutcomeOf table={table} row={row} /> : <RightIn table={table} row={row} />} {link(place, row, <Label found={found} row={row} />)}</p>
              <p class="text" title={flat(data.text(question))}><Visible text={data.text(question)} /></p>
            </div>
          );
        })}
      </div>
    </div>
  );
};

// ---- cells ---------------------------------------------------------------------------------------------------------

interface RowOf {
  readonly table: Rows;
  readonly row: number;
}

const Label = ({ found: { table, techniques }, row }: { readonly found: Found; readonly row: number }) => {
  const { data, compared } = table;
  const result = resultOf(table, row);
  if (compared !== null) return <Visible text={table.key(row)} />;
  const { variant = "", sample = 0, technique = "" } = result === undefined ? {} : data.key(result);
  const ways = [...(techniques.length > 1 ? [technique] : []), ...(variant === "" ? [] : [variant]), ...(sample === 0 ? [] : [`sample ${sample}`])];
  return (
    <>
      <Visible text={data.id(questionOf(table, row))} />
      {ways.length > 0 && <span class="quiet"> <Visible text={ways.join(", ")} /></span>}
    </>
  );
};

const OutcomeOf = ({ table, row }: RowOf) => {
  const result = resultOf(table, row);
  return result === undefined ? null : <Outcome name={table.data.outcome(result)} />;
};

/** The letters read and right; the texts of an open question. */
const Read = ({ table, row }: RowOf) => {
  const { data } = table;
  const result = resultOf(table, row);
  if (result === undefined) return null;
  const [read, right] = [data.extracted(result).join(", "), data.right(result).join(", ")];
  return (
    <span title={flat(`read: ${read || "none"}; key: ${right || "withheld"}`)}>
      <Visible text={read || "–"} /> <span class="quiet">/ <Visible text={right || "–"} /></span>
    </span>
  );
};

/** The number of runs that are right. */
const RightIn = ({ table: { compared, runs }, row }: RowOf) => <span class="right-in">{count(compared?.scale.right[row] ?? 0)} <span class="quiet">of {count(runs)}</span></span>;

/** The outcome in one run: of several answers, the number that are correct, or each of them where two runs have room. */
const Cell = ({ table, row, run }: RowOf & { readonly run: number }) => {
  const { data, runs, compared } = table;
  const bare = runs > WIDE;
  const results = listAt(table.cells, row * runs + run);
  const [only] = results;
  if (only === undefined) return <span class="quiet">not asked</span>;
  const read = (result: number): string => data.extracted(result).join(", ");
  if (results.length === 1) {
    const outcome = data.outcome(only);
    return (
      <span class="cell" title={flat(`${outcome}, read: ${read(only) || "none"}`)}>
        <Outcome name={outcome} bare={bare} />{bare && <span class="sr">{outcome} </span>} <span class="quiet read"><Visible text={read(only)} /></span>
      </span>
    );
  }
  if (runs === 2) {
    return (
      <span class="members">
        {results.slice(0, LINES).map((result) => <span key={result}><Outcome name={data.outcome(result)} /> <span class="quiet"><Visible text={read(result)} /></span></span>)}
        {results.length > LINES && <span class="quiet">and {results.length - LINES} more</span>}
      </span>
    );
  }
  const right = results.filter((result) => data.outcome(result) === "correct").length;
  const sign = compared?.scale.signs(row, run) ?? "unscored";
  return <span class="cell" title={`${sign}: ${right} of ${results.length} answers are correct`}><Outcome name={sign} bare /><span class="sr">{sign} </span> {count(right)}/{count(results.length)}</span>;
};

/** The text of an answer, around the first of the words that were searched for. */
const Snippet = ({ text, words }: { readonly text: string; readonly words: readonly string[] }) => {
  const lower = text.toLowerCase();
  const found = lower.length === text.length ? words.map((each) => [lower.indexOf(each), each.length] as const).filter(([at]) => at >= 0).sort(([x], [y]) => x - y)[0] : undefined;
  if (found === undefined) return <Visible text={text.slice(0, CUT)} />;
  const [at, long] = found;
  const start = at > 60 ? at - 30 : 0;
  return (
    <>
      {start > 0 && "… "}
      <Visible text={text.slice(start, at)} />
      <mark><Visible text={text.slice(at, at + long)} /></mark>
      <Visible text={text.slice(at + long, start + CUT)} />
    </>
  );
};

const Response = ({ data, result, words }: { readonly data: Data; readonly result: number; readonly words: readonly string[] }) => {
  const answered = useAnswered(data, result);
  const lack = lackOf(data, answered);
  return lack !== "" ? <span class="quiet">{lack}</span> : <Snippet text={answered?.response ?? ""} words={words} />;
};

const lengths = new WeakMap<Rows, number>();
/** The number of characters of the longest id. */
const longest = (table: Rows): number => {
  const known = lengths.get(table);
  if (known !== undefined) return known;
  let length = 0;
  const ids = table.data.column("questions.id");
  for (const question of table.questions.members) length = Math.max(length, table.data.word(ids[question] as number).length);
  lengths.set(table, length);
  return length;
};

const given = new WeakMap<Numbers, boolean>();
/** Whether a column has any number. */
const hasNumbers = (values: Numbers): boolean => {
  const known = given.get(values) ?? values.some((value) => !Number.isNaN(value));
  given.set(values, known);
  return known;
};

// ---- columns -------------------------------------------------------------------------------------------------------

const column = (name: string, head: ComponentChildren, width: string, cell: GridColumn["cell"], sorts = true): GridColumn => ({ name, head, width, sorts, cell });

/** The texts of a row's questions. */
const textOf = (table: Rows, row: number): string => [...new Set(listAt(table.questions, row).map((question) => table.data.text(question)))].join(" · ");

function answerColumns(found: Found, words: readonly string[], width: number): readonly GridColumn[] {
  const { table } = found;
  const { data } = table;
  const ways = table.fields.some((field) => field.name === "sample" || field.name === "rotation") || data.bundle.head.variants.some((variant) => variant !== "") || found.techniques.length > 1;
  const id = column("id", "Id", ways ? "minmax(6rem, 11rem)" : `${Math.min(18, Math.max(5, longest(table) + 2))}ch`, (row) => <Label found={found} row={row} />);
  const text = column("question", "Question", "minmax(0, 1fr)", (row) => <span class="clamp" dir="auto"><Snippet text={data.text(questionOf(table, row))} words={words} /></span>);
  const few = table.facets.map((field) => table.dimension[field] ?? -1).filter((d) => d >= 0 && data.dimension(d).name !== "kind").slice(0, 3);
  const tags = column(
    "tags", "Tags", "minmax(0, 0.6fr)",
    (row) => <span class="clamp quiet"><Visible text={few.flatMap((d) => data.tags(d, questionOf(table, row), resultOf(table, row) ?? null).slice(0, 1).map((value) => data.dimension(d).values[value]?.title ?? "")).join(" · ")} /></span>,
    false,
  );
  if (!table.answered) return [id, text, ...(width > 500 ? [tags] : [])];
  const of = (row: number): number => resultOf(table, row) ?? 0;
  const outcome = column("outcome", "Outcome", "6.8rem", (row) => <OutcomeOf table={table} row={row} />);
  if (width < 620) return [id, outcome, text];
  const number = (name: "seconds" | "confidence", head: string, show: (value: number) => string): readonly GridColumn[] => {
    const values = data.column(`results.${name}`);
    if (!hasNumbers(values)) return [];
    return [{ ...column(name, head, "4.8rem", (row) => { const value = values[of(row)] as number; return Number.isNaN(value) ? <span class="quiet">–</span> : show(value); }), down: true }];
  };
  return [
    id,
    outcome,
    text,
    column("response", "Response", "minmax(0, 1.2fr)", (row) => <span class="clamp" dir="auto"><Response data={data} result={of(row)} words={words} /></span>, false),
    column("read", "Read / correct", "minmax(7.5rem, 8rem)", (row) => <span class="clamp"><Read table={table} row={row} /></span>),
    ...(width > 1150 ? [tags] : []),
    ...number("confidence", "Conf.", (value) => `${Math.round(100 * value)} %`),
    ...number("seconds", "Time", took),
  ];
}

function pairColumns(table: Rows): readonly GridColumn[] {
  const { data } = table;
  const members = (row: number): readonly number[] => pairsOf(table).members(row);
  const pair = (row: number): string => data.pair(questionOf(table, row)) ?? data.id(questionOf(table, row));
  return [
    column("id", "Pair", "minmax(4.5rem, 9rem)", (row) => <Visible text={pair(row)} />),
    column("pair", "Verdict", "minmax(7rem, 11rem)", (row) => <span class="clamp">{verdictOf(data, resultOf(table, row) ?? 0).join(", ") || "no pair"}</span>),
    column("answers", "Answers", "minmax(12rem, 18rem)", (row) => (
      <span class="members">
        {members(row).map((each) => <span key={each}><OutcomeOf table={table} row={each} /> <Read table={table} row={each} /></span>)}
      </span>
    ), false),
    column("question", "Question", "minmax(0, 1fr)", (row) => <span class="clamp" dir="auto"><Visible text={[...new Set(members(row).map((each) => textOf(table, each)))].join(" · ")} /></span>),
  ];
}

function runColumns(table: Rows, width: number): readonly GridColumn[] {
  const { data, runs, compared } = table;
  if (compared === null) return [];
  const { scale, flips, pair } = compared;
  const id = column("id", "Id", width < 620 ? "4.5rem" : "minmax(4.5rem, 8rem)", (row) => <Visible text={table.key(row)} />);
  const question = column("question", "Question", `minmax(${runs > WIDE ? 7 : 9}rem, 1fr)`, (row) => <span class="clamp" dir="auto" title={flat(textOf(table, row))}><Visible text={textOf(table, row)} /></span>);
  const flip = column("flip", "Flip", "5rem", (row) => {
    const way = FLIPS[flips[row] ?? FLIPS.length];
    return way === "better" || way === "worse" ? <Way way={way} /> : <span class="quiet">{way === "same" ? "same" : "–"}</span>;
  });
  const right = column("right", scale.view.lower ? "Best in" : "Right in", "5rem", (row) => <RightIn table={table} row={row} />);
  if (width < 620) return [id, right, question];
  const wide = runs === 2 ? "minmax(8rem, 13rem)" : runs > WIDE ? "minmax(3.4rem, 5rem)" : "minmax(6.6rem, 9rem)";
  const role = (run: number): string => (run === pair.baseline ? " (baseline)" : run === pair.new ? " (new)" : "");
  const outcomes = data.bundle.head.runs.map(({ name }, run) =>
    column(runField(run), <span class="run-head" title={flat(`${run + 1} · ${name}${role(run)}`)}>{run + 1} <Visible text={name} /></span>, wide, (row) => <Cell table={table} row={row} run={run} />));
  return [id, right, flip, question, ...outcomes];
}
