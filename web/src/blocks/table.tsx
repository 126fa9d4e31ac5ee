// A table: sorted by its headings, in groups, with intervals drawn on the axis of their column, and saved as a file.
import { useState } from "preact/hooks";

import type { FigureCell, PageColumn, PageRow, TableBlock } from "../bundle";
import { csv, save } from "../csv";
import { count, flat, FEW, plural } from "../text";
import { Plot, Sample, Scale } from "../ui/plot";
import { Visible } from "../ui/text";
import { Choice } from "./choice";
import { isFigure, levelName, linesOf, Linked, spotOf, Value, type Held } from "./figure";
import { firstOrder, sorted, turned, type Order } from "./sorting";

/** A group shows so many more rows when asked. */
const MORE = 200;
/** A note of more characters needs a wide column. */
const LONG = 80;
/** A table of so few columns fits a screen: its headings stay in sight. */
const FITS = 7;
/** So many columns fit a sheet of paper in its usual size. */
const PRINTS = 8;

/** What is drawn of a column, each in a column of its own. */
interface Part {
  readonly place: number;
  readonly column: PageColumn;
  readonly draws: "value" | "interval" | "marks" | "units";
}

/** The columns that have a drawing. Only one is drawn at a time, with its intervals and units; of others, values alone. */
const drawable = ({ columns }: TableBlock): readonly number[] => columns.flatMap(({ axis = null }, place) => (axis === null ? [] : [place]));

/** `drawn`: the column that is drawn; null for all. */
const partsOf = (of: TableBlock, drawn: number | null): readonly Part[] =>
  of.columns.flatMap((column, place) => {
    const { interval = "", units = "", axis = null } = column;
    if (axis !== null && drawn !== null && drawn !== place) return [{ place, column, draws: "value" }];
    const draws = ["value", interval !== "" && "interval", axis !== null && "marks", units !== "" && "units"] as const;
    return draws.flatMap((each) => (each === false ? [] : [{ place, column, draws: each }]));
  });

/** The column whose cells name their rows. */
const headingOf = ({ columns }: TableBlock): number => Math.max(0, columns.findIndex(({ kind = "text" }) => kind === "text"));

const lookOf = ({ column: { kind = "text", interval = "" }, draws }: Part): string =>
  draws === "value" ? (kind === "text" ? "" : interval !== "" ? "right main" : "right") : draws === "units" ? "right units" : draws;

interface HeadingOf {
  readonly part: Part;
  readonly order: Order | null;
  readonly turn: (part: Part) => void;
}

const Heading = ({ part, order, turn }: HeadingOf) => {
  const { place, column, draws } = part;
  if (draws === "marks") return <th scope="col" class="marks"><span class="sr">Drawing</span>{column.axis && <Scale axis={column.axis} />}</th>;
  if (draws === "interval") return <th scope="col" class="interval"><Visible text={column.interval ?? ""} /></th>;
  const own = order?.place === place && order.units === (draws === "units");
  return (
    <th scope="col" class={lookOf(part)} aria-sort={!own ? "none" : order.down ? "descending" : "ascending"}>
      <button type="button" class="sort" onClick={() => { turn(part); }}>
        <Visible text={draws === "units" ? (column.units ?? "") : column.title} />
        {draws === "value" && column.better === "lower" && <span class="less">less is better</span>}
      </button>
    </th>
  );
};

/** The words of a cell as a text. */
const Held = ({ of }: { readonly of: Held }) =>
  isFigure(of) ? <Value of={of} /> : typeof of === "number" ? <data value={of}>{count(of)}</data> : <Visible text={of ?? ""} />;

const Cell = ({ part, row, heading }: { readonly part: Part; readonly row: PageRow; readonly heading: number }) => {
  const { place, column, draws } = part;
  const held = row.cells[place];
  const figure = isFigure(held) ? held : null;
  const look = `${lookOf(part)}${figure?.few === true ? " few" : ""}`;
  const aside = (figure?.aside ?? "") === "" ? null : <span class="aside-of"><Visible text={figure?.aside ?? ""} /></span>;
  if (draws === "interval") return <td class={look}><Visible text={figure?.interval ?? ""} />{aside}</td>;
  if (draws === "units") return <td class={look}>{figure !== null && <data value={figure.n ?? ""}><Visible text={figure.units ?? ""} /></data>}</td>;
  if (draws === "marks") return <td class={look}>{figure !== null && column.axis && <Plot axis={column.axis} spots={[spotOf(figure)]} lines={linesOf(figure)} />}</td>;
  const words = <Linked to={row.links?.[String(place)]}><Held of={held} /></Linked>;
  const noted = (row.note ?? "").length > LONG ? `${look} noted` : look;
  if (place === heading) return <th scope="row" class={noted}>{words}{(row.note ?? "") !== "" && <small><Visible text={row.note ?? ""} /></small>}</th>;
  return <td class={look}>{words}{(column.interval ?? "") !== "" && <small class="below"><Visible text={figure?.interval ?? ""} />{aside}</small>}</td>;
};

interface GroupOf {
  readonly title: string;
  readonly rows: readonly PageRow[];
  readonly parts: readonly Part[];
  readonly heading: number;
  /** Rows at first; 0: all. */
  readonly first: number;
}

const Group = ({ title, rows, parts, heading, first }: GroupOf) => {
  const [open, setOpen] = useState(true);
  const [most, setMost] = useState(first === 0 ? rows.length : first);
  const left = rows.length - most;
  return (
    <tbody>
      {title !== "" && (
        <tr class="group">
          <th scope="rowgroup" colSpan={parts.length}>
            <button type="button" aria-expanded={open} onClick={() => { setOpen(!open); }}><Visible text={title} /></button>
            {!open && <span class="quiet"> {plural(rows.length, "row")}</span>}
          </th>
        </tr>
      )}
      {open && rows.slice(0, most).map((row) => (
        <tr>{parts.map((part) => <Cell part={part} row={row} heading={heading} />)}</tr>
      ))}
      {open && left > 0 && (
        <tr class="more">
          <td colSpan={parts.length}>
            <button type="button" onClick={() => { setMost(most + MORE); }}>Show {plural(Math.min(left, MORE), "more row")}</button>
            {left > MORE && <span class="quiet"> of {count(left)}</span>}
          </td>
        </tr>
      )}
    </tbody>
  );
};

/** Rows by their groups, in the order of their first rows. */
const groupsOf = (rows: readonly PageRow[]): ReadonlyMap<string, readonly PageRow[]> => {
  const groups = new Map<string, PageRow[]>();
  for (const row of rows) {
    const group = groups.get(row.group ?? "");
    if (group === undefined) groups.set(row.group ?? "", [row]);
    else group.push(row);
  }
  return groups;
};

/** What the marks of a table mean: those alone that it has. */
const Key = ({ of }: { readonly of: TableBlock }) => {
  const all = of.rows.flatMap(({ cells }) => cells.filter(isFigure));
  const drawn = of.rows.flatMap(({ cells }) => drawable(of).map((place) => cells[place])).filter(isFigure);
  const sure = drawn.filter((each) => each.few !== true);
  const levels = new Set(drawn.flatMap((each) => Object.keys(each.levels ?? {})));
  const known = (each: FigureCell): boolean => typeof each.low === "number";
  const marks = [
    sure.some(known) && <span><Sample spot={{ value: 0.5, low: 0.1, high: 0.9 }} /> value and 95 % interval</span>,
    sure.some((each) => each.value !== null && !known(each)) && <span><Sample spot={{ value: 0.5 }} /> no interval</span>,
    ...[...levels].map((name) => <span><Sample line={name} /> <Visible text={levelName(name)} /></span>),
    all.some((each) => each.few === true) && <span>Grey: under {FEW}, counts in place of percentages, last in order.</span>,
  ].filter((mark) => mark !== false);
  return marks.length === 0 ? null : <p class="key">{marks}</p>;
};

const named = ({ name = "", title }: PageColumn): string => name || title.toLowerCase().replace(/[^\p{L}\p{N}]+/gu, "_").replace(/^_|_$/g, "");

/** The table as the lines of a file: numbers in full, intervals and units in columns of their own. */
export const fileOf = (of: TableBlock): readonly (readonly (string | number | null)[])[] => {
  const grouped = of.rows.some(({ group = "" }) => group !== "");
  const parts = partsOf(of, null).filter(({ draws }) => draws !== "marks");
  const ends = { value: [""], interval: ["_low", "_high"], units: ["_n"], marks: [] } as const;
  const cells = (held: Held, draws: Part["draws"]): readonly (string | number | null)[] => {
    if (!isFigure(held)) return draws === "value" ? [held ?? null] : ends[draws].map(() => null);
    if (draws === "value") return [held.value ?? held.shown];
    return draws === "interval" ? [held.low ?? null, held.high ?? null] : [held.n ?? null];
  };
  return [
    [...(grouped ? ["group"] : []), ...parts.flatMap(({ column, draws }) => ends[draws].map((end) => named(column) + end))],
    ...of.rows.map((row) => [...(grouped ? [row.group ?? ""] : []), ...parts.flatMap(({ place, draws }) => cells(row.cells[place], draws))]),
  ];
};

const fileName = (title: string): string => `${title.toLowerCase().replace(/[^a-z0-9]+/g, "-").replace(/^-|-$/g, "").slice(0, 60) || "table"}.csv`;

export const TableView = ({ of }: { readonly of: TableBlock }) => {
  const [order, setOrder] = useState(() => firstOrder(of));
  const places = drawable(of);
  const [drawn, setDrawn] = useState(places[0] ?? -1);
  const parts = partsOf(of, drawn);
  const heading = headingOf(of);
  return (
    <>
      {places.length > 1 && (
        <Choice
          before="Drawn:"
          label={`Drawn in ${of.title || "this table"}`}
          names={places.map((place) => of.columns[place]?.title ?? "")}
          chosen={places.indexOf(drawn)}
          choose={(place) => { setDrawn(places[place] ?? -1); }}
        />
      )}
      <div class={`scroll${parts.length <= FITS ? " whole" : ""}`} tabIndex={0} role="group" aria-label={flat(of.title) || "Table"}>
        <table class={`data${drawn >= 0 ? " drawn" : ""}${parts.length > PRINTS ? " wide" : ""}`}>
          <thead>
            <tr>
              {parts.map((part) => (
                <Heading part={part} order={order} turn={({ place, draws }) => { setOrder(turned(of, order, place, draws === "units")); }} />
              ))}
            </tr>
          </thead>
          {[...groupsOf(of.rows)].map(([title, rows]) => (
            <Group key={title} title={title} rows={sorted(rows, order)} parts={parts} heading={heading} first={of.first ?? 0} />
          ))}
        </table>
      </div>
      <Key of={of} />
      <Notes of={of.notes} />
      <p class="offers">
        <button type="button" aria-label={`CSV of ${flat(of.title) || "this table"}`} onClick={() => { save(csv(fileOf(of)), fileName(of.title), "text/csv"); }}>CSV</button>
      </p>
    </>
  );
};

/** Sentences below a block. */
export const Notes = ({ of = [] }: { readonly of: readonly string[] | undefined }) =>
  <>{of.map((note) => <p class="key"><Visible text={note} /></p>)}</>;
