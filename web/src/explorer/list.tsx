// The list of answers: rows of one height, of which those in sight are drawn; as a table, as images, or as pairs.
/* eslint-disable @typescript-eslint/non-nullable-type-assertion-style */
import type { ComponentChildren } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";

import type { Answered } from "../bundle";
import { keyText } from "../key";
import { useKeys } from "../keys";
import type { Page } from "../page";
import type { Numbers } from "../read";
import type { Rows } from "../table";
import { count, flat, took } from "../text";
import { Outcome } from "../ui/outcome";
import { Visible } from "../ui/text";
import { pairsOf, verdictOf, type Found, type Source } from "./selecting";
import { Thumbnail } from "./thumbnail";

const HEIGHT = { table: 46, pairs: 66, images: 214 };
const CARD = 176; // least width of an image
const MORE = 6; // rows drawn beyond those in sight
const CUT = 400; // characters of a response in a row

interface ListOf {
  readonly page: Page;
  readonly source: Source;
  readonly found: Found;
  /** Words that the query searches for, in lower case. */
  readonly words: readonly string[];
}

interface ListColumn {
  readonly name: string;
  readonly head: string;
  readonly width: string;
  readonly sorts: boolean;
  /** Whether the first click on the heading sorts from the largest. */
  readonly down?: boolean;
  readonly cell: (row: number) => ComponentChildren;
}

/** The size of an element, and how far it is scrolled. */
const useView = (element: { readonly current: HTMLElement | null }) => {
  const [view, setView] = useState({ width: 900, height: 600, top: 0 });
  useLayoutEffect(() => {
    const found = element.current;
    if (found === null) return undefined;
    const measure = (): void => {
      const { clientWidth: width, clientHeight: height, scrollTop: top } = found;
      setView((before) => (before.width === width && before.height === height && before.top === top ? before : { width, height, top }));
    };
    measure();
    found.addEventListener("scroll", measure, { passive: true });
    const observer = new ResizeObserver(measure);
    observer.observe(found);
    return () => {
      found.removeEventListener("scroll", measure);
      observer.disconnect();
    };
  }, [element]);
  return view;
};

export const List = ({ page, source, found, words }: ListOf) => {
  const box = useRef<HTMLDivElement>(null);
  const view = useView(box);
  const [at, setAt] = useState(0);
  const [, setReached] = useState(0);
  const wanted = useRef(false);
  const { table, rows, layout } = found;
  const { state } = page;
  const high = HEIGHT[layout];
  const across = layout === "images" ? Math.max(1, Math.floor(view.width / CARD)) : 1;
  const lines = Math.ceil(rows.length / across);
  const first = Math.max(0, Math.floor(view.top / high) - MORE);
  const last = Math.min(lines, Math.ceil((view.top + view.height) / high) + MORE);
  const active = Math.min(at, Math.max(0, rows.length - 1));
  const drawn = Array.from(rows.subarray(first * across, last * across));

  const reach = (place: number): void => {
    const next = Math.max(0, Math.min(rows.length - 1, place));
    const top = Math.floor(next / across) * high;
    const element = box.current;
    if (element !== null) {
      const head = layout === "images" ? 0 : 34;
      if (top < element.scrollTop) element.scrollTop = top;
      else if (top + high + head > element.scrollTop + element.clientHeight) element.scrollTop = top + high + head - element.clientHeight;
    }
    wanted.current = true;
    setAt(next);
    // The row may be the active one already: then no state changes, and only this draws the list again.
    setReached((before) => before + 1);
  };
  useLayoutEffect(() => {
    if (!wanted.current) return;
    const link = box.current?.querySelector<HTMLElement>(`[data-place="${active}"]`);
    if (link === null || link === undefined) return;
    wanted.current = false;
    link.focus({ preventScroll: true });
  });
  // A new selection begins at its top.
  const before = useRef(rows);
  useLayoutEffect(() => {
    if (before.current !== rows && box.current !== null && state.item === null) {
      box.current.scrollTop = 0;
      setAt(0);
    }
    before.current = rows;
  }, [rows, state.item]);
  // An item that is closed gives the focus to its row, which may be another than the one that was opened.
  const opened = useRef(state.item);
  useLayoutEffect(() => {
    const closed = state.item === null ? opened.current : null;
    opened.current = state.item;
    if (closed === null) return;
    const place = rows.findIndex((row) => keyText(source.key(table, row)) === closed || (layout === "pairs" && pairsOf(source, table).members(row).some((each) => keyText(source.key(table, each)) === closed)));
    if (place >= 0) reach(place);
  });
  const key = (event: KeyboardEvent): void => {
    const page_ = Math.max(1, Math.floor(view.height / high) - 1) * across;
    const steps: Readonly<Record<string, number>> = {
      ArrowDown: across,
      ArrowUp: -across,
      PageDown: page_,
      PageUp: -page_,
      Home: -rows.length,
      End: rows.length,
      ...(layout === "images" ? { ArrowRight: 1, ArrowLeft: -1 } : {}),
    };
    const step = Object.hasOwn(steps, event.key) ? steps[event.key] : undefined;
    if (step === undefined || event.altKey || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    reach(active + step);
  };
  const move = (step: number): void => {
    // The first press shows the row that is next.
    reach(box.current?.contains(document.activeElement) === true ? active + step : active);
  };
  useKeys([{ keys: ["j"], run: () => { move(1); } }, { keys: ["k"], run: () => { move(-1); } }]);
  const open = (place: number, row: number): void => {
    setAt(place);
    box.current?.querySelector<HTMLElement>(`[data-place="${place}"]`)?.focus({ preventScroll: true });
    page.go({ item: keyText(source.key(table, row)) });
  };
  const link = (place: number, row: number, content: ComponentChildren) => (
    <a
      href={page.link({ item: keyText(source.key(table, row)) })}
      data-place={place}
      tabIndex={place === active ? 0 : -1}
      onClick={(event) => { event.preventDefault(); event.stopPropagation(); open(place, row); }}
      onFocus={() => { setAt(place); }}
    >
      {content}
    </a>
  );
  const name = `${count(rows.length)} ${layout === "pairs" ? "pairs" : "answers"}`;
  const style = { height: `${lines * high}px` };
  if (layout === "images") {
    return (
      <div class="list images" ref={box} role="list" aria-label={name} onKeyDown={key}>
        <div class="all" style={style}>
          {drawn.map((row, i) => {
            const place = first * across + i;
            return (
              <div
                key={place}
                class="card"
                role="listitem"
                aria-setsize={rows.length}
                aria-posinset={place + 1}
                style={{ top: `${Math.floor(place / across) * high}px`, left: `${(100 / across) * (place % across)}%`, width: `${100 / across}%` }}
                onClick={() => { open(place, row); }}
              >
                <Thumbnail data={source.data} question={table.question[row] as number} />
                <p><OutcomeOf source={source} found={found} row={row} /> {link(place, row, <Label source={source} found={found} row={row} />)}</p>
                <p class="text" title={flat(source.data.text(table.question[row] as number))}><Visible text={source.data.text(table.question[row] as number)} /></p>
              </div>
            );
          })}
        </div>
      </div>
    );
  }
  const columns = layout === "pairs" ? pairColumns(source, found) : tableColumns(source, found, words, view.width);
  const template = { gridTemplateColumns: columns.map((column) => column.width).join(" ") };
  return (
    <div class={`list ${layout}`} ref={box} role="grid" aria-label={name} aria-rowcount={rows.length + 1} aria-colcount={columns.length} onKeyDown={key}>
      <div class="row head" role="row" aria-rowindex={1} style={template}>
        {columns.map((column) => <Heading key={column.name} column={column} page={page} />)}
      </div>
      <div class="all" role="rowgroup" style={style}>
        {drawn.map((row, i) => {
          const place = first + i;
          return (
            <div key={place} class={place === active ? "row at" : "row"} role="row" aria-rowindex={place + 2} style={{ ...template, top: `${place * high}px` }} onClick={() => { open(place, row); }}>
              {columns.map((column, c) => (
                <div key={column.name} role={c === 0 ? "rowheader" : "gridcell"} class={`c-${column.name}`}>
                  {c === 0 ? link(place, row, column.cell(row)) : column.cell(row)}
                </div>
              ))}
            </div>
          );
        })}
      </div>
    </div>
  );
};

const Heading = ({ column, page }: { readonly column: ListColumn; readonly page: Page }) => {
  const { sort } = page.state;
  const sorted = sort === column.name ? "ascending" : sort === `-${column.name}` ? "descending" : "none";
  const next = column.down === true ? { none: `-${column.name}`, descending: column.name, ascending: "" } : { none: column.name, ascending: `-${column.name}`, descending: "" };
  return (
    <div role="columnheader" class={`c-${column.name}`} aria-sort={column.sorts ? sorted : undefined}>
      {column.sorts ? <button type="button" onClick={() => { page.go({ sort: next[sorted] }); }}>{column.head}</button> : column.head}
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

function tableColumns(source: Source, found: Found, words: readonly string[], width: number): readonly ListColumn[] {
  const { table } = found;
  const { data } = source;
  const { result } = table;
  const question = (row: number): number => table.question[row] as number;
  const ways = table.fields.some((field) => field.name === "sample" || field.name === "rotation") || data.bundle.head.variants.some((variant) => variant !== "") || found.techniques.length > 1;
  const id: ListColumn = { name: "id", head: "Id", width: ways ? "minmax(6rem, 11rem)" : `${Math.min(18, Math.max(5, longest(source, table) + 2))}ch`, sorts: true, cell: (row) => <Label source={source} found={found} row={row} /> };
  const text: ListColumn = { name: "question", head: "Question", width: "minmax(0, 1fr)", sorts: true, cell: (row) => <span class="clamp" dir="auto"><Snippet text={data.text(question(row))} words={words} /></span> };
  const few = table.facets.map((field) => table.dimension[field] ?? -1).filter((d) => d >= 0 && data.dimension(d).name !== "kind").slice(0, 3);
  const tags: ListColumn = {
    name: "tags",
    head: "Tags",
    width: "minmax(0, 0.6fr)",
    sorts: false,
    cell: (row) => <span class="clamp quiet"><Visible text={few.flatMap((d) => data.tags(d, question(row), result?.[row] ?? null).slice(0, 1).map((value) => data.dimension(d).values[value]?.title ?? "")).join(" · ")} /></span>,
  };
  if (result === null) return [id, text, ...(width > 500 ? [tags] : [])];
  const of = (row: number): number => result[row] as number;
  const outcome: ListColumn = { name: "outcome", head: "Outcome", width: "6.8rem", sorts: true, cell: (row) => <OutcomeOf source={source} found={found} row={row} /> };
  if (width < 620) return [id, outcome, text];
  const number = (name: "seconds" | "confidence", head: string, show: (value: number) => string): readonly ListColumn[] => {
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

function pairColumns(source: Source, found: Found): readonly ListColumn[] {
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
