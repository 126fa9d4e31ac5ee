// The list of answers: rows of one height, of which those in sight are drawn; as a table, as images, or as pairs.
/* eslint-disable @typescript-eslint/non-nullable-type-assertion-style */
import { useEffect, useState } from "preact/hooks";

import type { Answered } from "../bundle";
import { keyText } from "../key";
import type { Page } from "../page";
import type { Numbers } from "../read";
import type { Rows } from "../table";
import { count, flat, took } from "../text";
import { Grid, useListing, type GridColumn, type ListingOf } from "../ui/listing";
import { Outcome } from "../ui/outcome";
import { Visible } from "../ui/text";
import { pairsOf, verdictOf, type Found, type Source } from "./selecting";
import { Thumbnail } from "./thumbnail";

const HEIGHT = { table: 46, pairs: 66, images: 214 };
const CARD = 176; // least width of an image
const CUT = 400; // characters of a response in a row

interface ListOf {
  readonly page: Page;
  readonly source: Source;
  readonly found: Found;
  /** Words that the query searches for, in lower case. */
  readonly words: readonly string[];
}

export const List = ({ page, source, found, words }: ListOf) => {
  const { table, rows, layout } = found;
  const key = (row: number): string => keyText(source.key(table, row));
  const shows = (row: number, item: string): boolean =>
    key(row) === item || (layout === "pairs" && pairsOf(source, table).members(row).some((each) => key(each) === item));
  const listing = {
    rows,
    high: HEIGHT[layout],
    item: page.state.item,
    shows,
    open: (row: number) => { page.go({ item: key(row) }); },
    link: (row: number) => page.link({ item: key(row) }),
  };
  const name = `${count(rows.length)} ${layout === "pairs" ? "pairs" : "answers"}`;
  if (layout === "images") return <Cards source={source} found={found} listing={listing} name={name} />;
  return (
    <Grid
      {...listing}
      label={name}
      class={layout}
      columns={(width) => (layout === "pairs" ? pairColumns(source, found) : tableColumns(source, found, words, width))}
      sort={page.state.sort}
      onSort={(sort) => { page.go({ sort }); }}
    />
  );
};

interface CardsOf {
  readonly source: Source;
  readonly found: Found;
  readonly listing: Omit<ListingOf, "across" | "head">;
  readonly name: string;
}

const Cards = ({ source, found, listing, name }: CardsOf) => {
  const across = (width: number): number => Math.max(1, Math.floor(width / CARD));
  const { box, across: number, lines, first, drawn, key, open, link } = useListing({ ...listing, head: 0, across });
  const { table, rows } = found;
  const { high } = listing;
  return (
    <div class="list images" ref={box} role="list" aria-label={name} onKeyDown={key}>
      <div class="all" style={{ height: `${lines * high}px` }}>
        {drawn.map((row, i) => {
          const place = first * number + i;
          const question = table.question[row] as number;
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
              <Thumbnail data={source.data} question={question} />
              <p><OutcomeOf source={source} found={found} row={row} /> {link(place, row, <Label source={source} found={found} row={row} />)}</p>
              <p class="text" title={flat(source.data.text(question))}><Visible text={source.data.text(question)} /></p>
            </div>
          );
        })}
      </div>
    </div>
  );
};

// ---- cells ---------------------------------------------------------------------------------------------------------

interface RowOf {
  readonly source: Source;
  readonly found: Found;
  readonly row: number;
}

const Label = ({ source, found, row }: RowOf) => {
  const { item, variant, sample, technique } = source.key(found.table, row);
  const ways = [...(found.techniques.length > 1 ? [technique] : []), ...(variant === "" ? [] : [variant]), ...(sample === 0 ? [] : [`sample ${sample}`])];
  return (
    <>
      <Visible text={item} />
      {ways.length > 0 && <span class="quiet"> <Visible text={ways.join(", ")} /></span>}
    </>
  );
};

const OutcomeOf = ({ source, found, row }: RowOf) => (found.table.result === null ? null : <Outcome name={source.data.outcome(found.table.result[row] as number)} />);

/** The letters read and right; the texts of an open question. */
const Read = ({ source, found, row }: RowOf) => {
  const result = found.table.result?.[row];
  if (result === undefined) return null;
  const [read, right] = [source.data.extracted(result).join(", "), source.data.right(result).join(", ")];
  return (
    <span title={flat(`read: ${read || "none"}; key: ${right || "withheld"}`)}>
      <Visible text={read || "–"} /> <span class="quiet">/ <Visible text={right || "–"} /></span>
    </span>
  );
};

/** The text of an answer, around the first of the words that were searched for. */
export const Snippet = ({ text, words }: { readonly text: string; readonly words: readonly string[] }) => {
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

/** The texts of a result, which may have to be read first. */
const useAnswered = (source: Source, result: number): Answered | undefined => {
  const there = source.data.bundle.answers.at(result);
  const [, setRead] = useState(-1);
  useEffect(() => {
    if (there !== undefined) return undefined;
    let open = true;
    void source.data.bundle.answers.get(result).then(() => { if (open) setRead(result); });
    return () => { open = false; };
  }, [source, result, there]);
  return there;
};

const Response = ({ source, result, words }: { readonly source: Source; readonly result: number; readonly words: readonly string[] }) => {
  const answered = useAnswered(source, result);
  if (answered === undefined) return <span class="quiet">being read</span>;
  const { response, logprobs } = answered;
  if (response === null || response === undefined) return <span class="quiet">no answer</span>;
  if (response === "") return <span class="quiet">{logprobs ? "no text: likelihood of options" : "an empty text"}</span>;
  return <Snippet text={response} words={words} />;
};

const lengths = new WeakMap<Rows, number>();
/** The number of characters of the longest id. */
const longest = (source: Source, table: Rows): number => {
  const known = lengths.get(table);
  if (known !== undefined) return known;
  let length = 0;
  const ids = source.data.column("questions.id");
  for (const question of table.question) length = Math.max(length, source.data.word(ids[question] as number).length);
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

function tableColumns(source: Source, found: Found, words: readonly string[], width: number): readonly GridColumn[] {
  const { table } = found;
  const { data } = source;
  const { result } = table;
  const question = (row: number): number => table.question[row] as number;
  const ways = table.fields.some((field) => field.name === "sample" || field.name === "rotation") || data.bundle.head.variants.some((variant) => variant !== "") || found.techniques.length > 1;
  const id: GridColumn = { name: "id", head: "Id", width: ways ? "minmax(6rem, 11rem)" : `${Math.min(18, Math.max(5, longest(source, table) + 2))}ch`, sorts: true, cell: (row) => <Label source={source} found={found} row={row} /> };
  const text: GridColumn = { name: "question", head: "Question", width: "minmax(0, 1fr)", sorts: true, cell: (row) => <span class="clamp" dir="auto"><Snippet text={data.text(question(row))} words={words} /></span> };
  const few = table.facets.map((field) => table.dimension[field] ?? -1).filter((d) => d >= 0 && data.dimension(d).name !== "kind").slice(0, 3);
  const tags: GridColumn = {
    name: "tags",
    head: "Tags",
    width: "minmax(0, 0.6fr)",
    sorts: false,
    cell: (row) => <span class="clamp quiet"><Visible text={few.flatMap((d) => data.tags(d, question(row), result?.[row] ?? null).slice(0, 1).map((value) => data.dimension(d).values[value]?.title ?? "")).join(" · ")} /></span>,
  };
  if (result === null) return [id, text, ...(width > 500 ? [tags] : [])];
  const of = (row: number): number => result[row] as number;
  const outcome: GridColumn = { name: "outcome", head: "Outcome", width: "6.8rem", sorts: true, cell: (row) => <OutcomeOf source={source} found={found} row={row} /> };
  if (width < 620) return [id, outcome, text];
  const number = (name: "seconds" | "confidence", head: string, show: (value: number) => string): readonly GridColumn[] => {
    const values = data.column(`results.${name}`);
    if (!hasNumbers(values)) return [];
    return [{ name, head, width: "4.8rem", sorts: true, down: true, cell: (row) => { const value = values[of(row)] as number; return Number.isNaN(value) ? <span class="quiet">–</span> : show(value); } }];
  };
  return [
    id,
    outcome,
    text,
    { name: "response", head: "Response", width: "minmax(0, 1.2fr)", sorts: false, cell: (row) => <span class="clamp" dir="auto"><Response source={source} result={of(row)} words={words} /></span> },
    { name: "read", head: "Read / key", width: "minmax(5rem, 7rem)", sorts: true, cell: (row) => <span class="clamp"><Read source={source} found={found} row={row} /></span> },
    ...(width > 1150 ? [tags] : []),
    ...number("confidence", "Conf.", (value) => `${Math.round(100 * value)} %`),
    ...number("seconds", "Time", took),
  ];
}

function pairColumns(source: Source, found: Found): readonly GridColumn[] {
  const { table } = found;
  const { data } = source;
  const members = (row: number): readonly number[] => pairsOf(source, table).members(row);
  const pair = (row: number): string => data.pair(table.question[row] as number) ?? data.id(table.question[row] as number);
  return [
    { name: "id", head: "Pair", width: "minmax(4.5rem, 9rem)", sorts: true, cell: (row) => <Visible text={pair(row)} /> },
    { name: "pair", head: "Verdict", width: "minmax(7rem, 11rem)", sorts: true, cell: (row) => <span class="clamp">{verdictOf(source, table, row).join(", ") || "no pair"}</span> },
    {
      name: "answers",
      head: "Answers",
      width: "minmax(12rem, 18rem)",
      sorts: false,
      cell: (row) => (
        <span class="members">
          {members(row).map((each) => (
            <span key={each}>
              <OutcomeOf source={source} found={found} row={each} /> <Read source={source} found={found} row={each} />
            </span>
          ))}
        </span>
      ),
    },
    {
      name: "question",
      head: "Question",
      width: "minmax(0, 1fr)",
      sorts: true,
      cell: (row) => <span class="clamp" dir="auto"><Visible text={[...new Set(members(row).map((each) => data.text(table.question[each] as number)))].join(" · ")} /></span>,
    },
  ];
}
