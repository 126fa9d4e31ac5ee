// A list of which only the rows in sight are drawn: arrow keys move in it, and it keeps its place behind a dialog.
import type { ComponentChildren } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";

import { useKeys } from "../keys";

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

export interface ListingOf {
  readonly rows: Uint32Array;
  /** The height of a line in pixels. */
  readonly high: number;
  /** The height of the heading, which covers lines. */
  readonly head: number;
  /** Rows in a line. */
  readonly across?: (width: number) => number;
  readonly item: string | null;
  /** Whether a row shows the item of this key. */
  readonly shows: (row: number, key: string) => boolean;
  readonly open: (row: number) => void;
  readonly link: (row: number) => string;
}

const MORE = 6; // lines drawn beyond those in sight

export function useListing({ rows, high, head, across: of = () => 1, item, shows, open: show, link: href }: ListingOf) {
  const box = useRef<HTMLDivElement>(null);
  const view = useView(box);
  const [at, setAt] = useState(0);
  const wanted = useRef(false);
  const across = of(view.width);
  const lines = Math.ceil(rows.length / across);
  const first = Math.max(0, Math.floor(view.top / high) - MORE);
  const last = Math.min(lines, Math.ceil((view.top + view.height) / high) + MORE);
  const active = Math.min(at, Math.max(0, rows.length - 1));

  // A row that is not drawn yet gets the focus when it is.
  const settle = (place: number): void => {
    const found = wanted.current ? box.current?.querySelector<HTMLElement>(`[data-place="${place}"]`) : null;
    if (found === null || found === undefined) return;
    wanted.current = false;
    found.focus({ preventScroll: true });
  };
  const reach = (place: number): void => {
    const next = Math.max(0, Math.min(rows.length - 1, place));
    const top = Math.floor(next / across) * high;
    const element = box.current;
    if (element !== null) {
      if (top < element.scrollTop) element.scrollTop = top;
      else if (top + high + head > element.scrollTop + element.clientHeight) element.scrollTop = top + high + head - element.clientHeight;
    }
    wanted.current = true;
    setAt(next);
    settle(next);
  };
  useLayoutEffect(() => { settle(active); });
  // A new selection begins at its top.
  const before = useRef(rows);
  useLayoutEffect(() => {
    if (before.current !== rows && box.current !== null && item === null) {
      box.current.scrollTop = 0;
      setAt(0);
    }
    before.current = rows;
  }, [rows, item]);
  // An item that is closed gives the focus to its row, which may be another than the one that was opened.
  const opened = useRef(item);
  useLayoutEffect(() => {
    const closed = item === null ? opened.current : null;
    opened.current = item;
    if (closed === null) return;
    const place = rows.findIndex((row) => shows(row, closed));
    if (place >= 0) reach(place);
  });
  const key = (event: KeyboardEvent): void => {
    const page = Math.max(1, Math.floor(view.height / high) - 1) * across;
    const steps: Readonly<Record<string, number>> = {
      ArrowDown: across,
      ArrowUp: -across,
      PageDown: page,
      PageUp: -page,
      Home: -rows.length,
      End: rows.length,
      ...(across > 1 ? { ArrowRight: 1, ArrowLeft: -1 } : {}),
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
    show(row);
  };
  const link = (place: number, row: number, content: ComponentChildren) => (
    <a
      href={href(row)}
      data-place={place}
      tabIndex={place === active ? 0 : -1}
      onClick={(event) => { event.preventDefault(); event.stopPropagation(); open(place, row); }}
      onFocus={() => { setAt(place); }}
    >
      {content}
    </a>
  );
  return { box, view, across, lines, first, active, drawn: Array.from(rows.subarray(first * across, last * across)), key, open, link };
}

export interface GridColumn {
  readonly name: string;
  readonly head: ComponentChildren;
  readonly width: string;
  readonly sorts: boolean;
  /** Whether the first click on the heading sorts from the largest. */
  readonly down?: boolean;
  readonly cell: (row: number) => ComponentChildren;
}

interface GridOf extends Omit<ListingOf, "across" | "head"> {
  readonly label: string;
  readonly class: string;
  readonly columns: (width: number) => readonly GridColumn[];
  readonly sort: string;
  readonly onSort: (sort: string) => void;
}

const HEAD = 34;

/** Rows of one height in columns. */
export const Grid = ({ label, class: name, columns: of, sort, onSort, ...listing }: GridOf) => {
  const { box, view, lines, first, active, drawn, key, open, link } = useListing({ ...listing, head: HEAD });
  const { rows, high } = listing;
  const columns = of(view.width);
  const template = { gridTemplateColumns: columns.map((column) => column.width).join(" ") };
  return (
    <div class={`list ${name}`} ref={box} role="grid" aria-label={label} aria-rowcount={rows.length + 1} aria-colcount={columns.length} onKeyDown={key}>
      <div class="row head" role="row" aria-rowindex={1} style={template}>
        {columns.map((column) => <Heading key={column.name} column={column} sort={sort} onSort={onSort} />)}
      </div>
      <div class="all" role="rowgroup" style={{ height: `${lines * high}px` }}>
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

const Heading = ({ column, sort, onSort }: { readonly column: GridColumn } & Pick<GridOf, "sort" | "onSort">) => {
  const sorted = sort === column.name ? "ascending" : sort === `-${column.name}` ? "descending" : "none";
  const next = column.down === true ? { none: `-${column.name}`, descending: column.name, ascending: "" } : { none: column.name, ascending: `-${column.name}`, descending: "" };
  return (
    <div role="columnheader" class={`c-${column.name}`} aria-sort={column.sorts ? sorted : undefined}>
      {column.sorts ? <button type="button" onClick={() => { onSort(next[sorted]); }}>{column.head}</button> : column.head}
    </div>
  );
};
