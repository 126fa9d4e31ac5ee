// A benchmark's headline measures by every dimension, in one table: one axis for all dimensions.
import { useState } from "preact/hooks";

import type { Cell, SliceGroup, SliceMeasure, SliceRow, SlicesView } from "../bundle";
import type { Page } from "../page";
import "../style/slices.css";
import { count, FEW, inLayout, plural, SLICE, unitFor, unitOf } from "../text";
import { Value } from "../ui/number";
import { Plot, Sample, Scale } from "../ui/plot";
import { Visible } from "../ui/text";
import { AbilityChart, PublishedTable, Reliability, SpreadChart } from "./charts";
import { Heat } from "./heat";

/** Dimensions with more values are folded at first, and those with one, which says what the whole benchmark does. */
const OPEN = 24;
/** Rows of an open dimension at first: drawing thousands takes seconds. */
const ROWS = 200;
/** With more measures a table scrolls sideways, and its heading cannot stay in sight. */
const NARROW = 4;
/** Benchmarks and techniques that are open at first. */
const FIRST = 3;

export type By = "default" | "name" | "value" | "n";
interface Order {
  readonly by: By;
  readonly down: boolean;
}

/** The interval of a measure, or in words why it has none. */
export const intervalOf = (cell: Cell): string => {
  if (cell.interval !== "") return cell.interval;
  if (cell.value === null) return "undefined";
  return cell.few ? `under ${FEW}` : "no interval";
};

const sure = (row: SliceRow, m: number): number => {
  const cell = row.cells[m];
  return cell?.value == null || cell.few ? Number.NaN : cell.value;
};

/** Rows in an order; values of few units, which are noise, stand last however values are sorted. */
export const sorted = (group: SliceGroup, order: Order, m: number): readonly SliceRow[] => {
  if (order.by === "default" && group.ordered) return group.rows;
  const names = (a: SliceRow, b: SliceRow): number => a.title.localeCompare(b.title, "en", { numeric: true });
  const direction = order.down ? -1 : 1;
  return [...group.rows].sort((a, b) => {
    if (order.by === "name") return direction * names(a, b);
    if (order.by === "n") return direction * ((a.cells[m]?.n ?? 0) - (b.cells[m]?.n ?? 0)) || names(a, b);
    const [x, y] = [sure(a, m), sure(b, m)];
    if (Number.isNaN(x) || Number.isNaN(y)) return Number(Number.isNaN(x)) - Number(Number.isNaN(y)) || names(a, b);
    return direction * (x - y) || names(a, b);
  });
};

const Measured = ({ cell, measure }: { readonly cell: Cell | null | undefined; readonly measure: SliceMeasure }) => {
  if (cell == null) return <><td /><td /><td class="plots" /><td /></>;
  const thin = cell.few ? " thin" : "";
  return (
    <>
      <td class={`right main${thin}`}><Value of={cell} /><small class="below">{intervalOf(cell)}</small></td>
      <td class="quiet bounds">{intervalOf(cell)}</td>
      <td class="plots">
        <Plot
          axis={measure.axis}
          spots={[{ ...cell, tone: cell.few ? "few" : "" }]}
          lines={[
            { at: measure.whole.value, tone: "whole" },
            { at: cell.references["random"], tone: "random" },
            { at: cell.references["image_blind"], tone: "blind" },
          ]}
        />
      </td>
      <td class="right quiet"><data value={cell.n}>{count(cell.n)}</data>{cell.unit !== measure.unit && <small> {unitFor(cell.n, cell.unit)}</small>}</td>
    </>
  );
};

const Others = ({ cells, m }: { readonly cells: readonly (Cell | null)[]; readonly m: number }) => (
  <>
    {cells.map((cell, k) =>
      k === m ? null : <td class={`right other${cell?.few === true ? " thin" : ""}`}>{cell !== null && <Value of={cell} />}</td>,
    )}
  </>
);

const Group = ({
  group,
  view,
  m,
  order,
  measure,
}: {
  readonly group: SliceGroup;
  readonly view: SlicesView;
  readonly m: number;
  readonly order: Order;
  readonly measure: SliceMeasure;
}) => {
  const [open, setOpen] = useState(group.rows.length > 1 && group.rows.length <= OPEN);
  const [rows, setRows] = useState(ROWS);
  const left = group.rows.length - rows;
  return (
    <tbody>
      <tr class="group">
        <th scope="rowgroup" colSpan={4 + view.measures.length}>
          <button type="button" aria-expanded={open} onClick={() => { setOpen(!open); }}>
            By <Visible text={group.title} />
          </button>{" "}
          <span class="quiet">{plural(group.rows.length, "value")}</span>
        </th>
      </tr>
      {open &&
        sorted(group, order, m).slice(0, rows).map((row) => (
          <tr key={row.value}>
            <th scope="row">
              <a href={inLayout(row.href, measure.unit)}><Visible text={row.title} /></a>
              {row.short !== "" && <span class="short"> <Visible text={row.short} /></span>}
            </th>
            <Measured cell={row.cells[m]} measure={measure} />
            <Others cells={row.cells} m={m} />
          </tr>
        ))}
      {open && left > 0 && (
        <tr>
          <td colSpan={4 + view.measures.length}>
            <button type="button" onClick={() => { setRows(group.rows.length); }}>Show {plural(left, "more value")}</button>
          </td>
        </tr>
      )}
    </tbody>
  );
};

const Heading = ({
  text,
  by,
  order,
  set,
  right = false,
}: {
  readonly text: string;
  readonly by: By;
  readonly order: Order;
  readonly set: (order: Order) => void;
  readonly right?: boolean;
}) => {
  const here = order.by === by || (order.by === "default" && by === "value");
  return (
    <th scope="col" class={right ? "right" : ""} aria-sort={here ? (order.down ? "descending" : "ascending") : "none"}>
      <button type="button" onClick={() => { set({ by, down: here ? !order.down : by !== "name" }); }}><Visible text={text} /></button>
    </th>
  );
};

export const SliceTable = ({ view, name }: { readonly view: SlicesView; readonly name: string }) => {
  const [m, choose] = useState(0);
  const [order, setOrder] = useState<Order>({ by: "default", down: true });
  const measure = view.measures[m] ?? view.measures[0];
  if (measure === undefined || view.groups.length === 0) return null;
  const { references } = measure.whole;
  const cells = view.groups.flatMap((group) => group.rows.flatMap((row) => row.cells[m] ?? []));
  return (
    <>
      {view.measures.length > 1 && (
        <fieldset class="choose">
          <legend>Drawn measure</legend>
          {view.measures.map((each, k) => (
            <label>
              <input type="radio" name={name} checked={k === m} onChange={() => { choose(k); }} /> <Visible text={each.title} />
            </label>
          ))}
        </fieldset>
      )}
      <div class={`scroll${view.measures.length <= NARROW ? " whole" : ""}`} tabIndex={0} role="group" aria-label={`${view.title}: slices`}>
        <table class="slicetable">
          <thead>
            <tr>
              <Heading text="Slice" by="name" order={order} set={setOrder} />
              <Heading text={`${measure.title}${measure.percent ? ", %" : ""}`} by="value" order={order} set={setOrder} right />
              <th scope="col" class="bounds">95 % interval</th>
              <th scope="col" class="plots"><span class="sr">Drawing</span><Scale axis={measure.axis} /></th>
              <Heading text={`n, ${unitOf(measure.unit)}`} by="n" order={order} set={setOrder} right />
              {view.measures.map((each, k) =>
                k === m ? null : <th scope="col" class="right other"><Visible text={`${each.title}${each.percent ? ", %" : ""}`} /></th>,
              )}
            </tr>
          </thead>
          <tbody class="all">
            <tr>
              <th scope="row">All questions</th>
              <Measured cell={measure.whole} measure={measure} />
              <Others cells={view.measures.map((each) => each.whole)} m={m} />
            </tr>
          </tbody>
          {view.groups.map((group) => (
            <Group key={group.dimension} group={group} view={view} m={m} order={order} measure={measure} />
          ))}
        </table>
      </div>
      <p class="key">
        <span><Sample spot={{ value: 0.5, low: 0.1, high: 0.9 }} /> value and 95 % interval</span>
        <span><Sample spot={{ value: 0.5 }} /> no interval</span>
        <span><Sample line="whole" /> all questions</span>
        {references["random"] !== undefined && <span><Sample line="random" /> chance: guessing</span>}
        {references["image_blind"] !== undefined && <span><Sample line="blind" /> image ignored: the same answer to both questions of a pair</span>}
        {measure.better === "lower" && <strong>Less is better.</strong>}
        {cells.some((cell) => cell.few) && (
          <span>Under {FEW} questions or pairs: counts in grey, last in order: too few for a percentage.</span>
        )}
        {cells.some((cell) => !cell.few && cell.low === null) && (
          <span>An interval needs {FEW} independent groups (questions that share images, patients or cases are one group).</span>
        )}
        {measure.unit === "image slots" && <span>Image slots: a pair counts once for each of its images in the slice.</span>}
      </p>
    </>
  );
};

const Part = ({ view, k }: { readonly view: SlicesView; readonly k: number }) => (
  <details class="part" open={k < FIRST} id={`slices-${k + 1}`}>
    <summary><h3><Visible text={view.title} /></h3></summary>
    <SliceTable view={view} name={`measure-${k}`} />
    {view.heat !== null && <Heat of={view.heat} view={view} />}
    {view.abilities !== null && <AbilityChart of={view.abilities} name={view.title} />}
    {view.spreads.length > 0 && <SpreadChart of={view.spreads} name={view.title} />}
    {view.calibrations.map((each) => <Reliability of={each} name={view.title} />)}
    {view.published !== null && <PublishedTable of={view.published} name={view.title} />}
  </details>
);

export const Slices = ({ page }: { readonly page: Page }) => {
  const views = page.head.run?.slices ?? [];
  if (views.length === 0) return null;
  return (
    <section id="slices" aria-labelledby="slices-title">
      <h2 id="slices-title">Slices</h2>
      <p class="key">{SLICE}</p>
      {views.length > 1 && (
        <p class="jump">
          {views.map((view, k) => (
            <a href={page.link({ section: `slices-${k + 1}` })}><Visible text={view.title} /></a>
          ))}
        </p>
      )}
      {views.map((view, k) => <Part view={view} k={k} />)}
    </section>
  );
};
