// Where a run fails: the worst slices, confused options, preferred positions, kinds of errors. Each leads to its questions.
import type { ComponentChildren } from "preact";

import type {
  Cell,
  ErrorKindRow,
  ErrorKindTable,
  ErrorKindsView,
  FailingPart,
  MatrixField,
  OptionMatrix,
  Positions,
  TextRows,
  WorstSlice,
  WorstSlices,
} from "../bundle";
import type { Page } from "../page";
import "../style/failing.css";
import { count, counted, flat, label, layoutFor, percent, plural, SLICE, unitOf } from "../text";
import { Value } from "../ui/number";
import { Fold } from "../ui/fold";
import { Outcome } from "../ui/outcome";
import { Axis, Strip } from "../ui/strip";
import { Visible } from "../ui/text";

const SAME = 3; // names of a slice beside its first
type To = (query: string, unit?: string) => string;

/** The links to questions of one benchmark, as asked by one technique. */
const linker =
  (page: Page, benchmark: string, technique: string): To =>
  (query, unit = "") =>
    page.link({ view: "questions", benchmark, technique, query, sort: "", layout: layoutFor(unit), item: null, section: "" });

const Linked = ({ to, query, children }: { readonly to: To; readonly query: string; readonly children: ComponentChildren }) =>
  query === "" ? <>{children}</> : <a href={to(query)}>{children}</a>;

const Scroll = ({ name, children }: { readonly name: string; readonly children: ComponentChildren }) => (
  <div class="scroll" tabIndex={0} role="group" aria-label={flat(name)}>
    {children}
  </div>
);

// ---- worst slices ---------------------------------------------------------------------------------------------------

/** A measure as it is drawn: of few units without an interval, as its text. */
const sureOf = (cell: Cell): Cell => (cell.few ? { ...cell, low: null, high: null } : cell);

const Slice = ({ row, of, to }: { readonly row: WorstSlice; readonly of: WorstSlices; readonly to: To }) => {
  const { cell } = row;
  const overall = of.overall.value === null ? {} : { overall: of.overall.value };
  return (
    <tr class={cell.few ? "few" : ""}>
      <th scope="row">
        <a href={to(row.query, cell.unit)}><Visible text={row.title} /></a>{" "}
        <span class="quiet"><Visible text={row.dimension} /></span>
        {row.beyond && <> <span class="mark">{of.better === "higher" ? "below" : "above"} overall</span></>}
        {row.same.length > 0 && <small class="same">the same questions: <Visible text={row.same.slice(0, SAME).join(", ")} />{row.same.length > SAME && ` and ${count(row.same.length - SAME)} more`}</small>}
      </th>
      <td class="right main"><Value of={cell} /></td>
      <td class="quiet">{cell.interval}</td>
      <td class="right quiet"><data value={cell.n}>{count(cell.n)}</data></td>
      <td class="chart">{cell.percent && <Strip of={{ ...sureOf(cell), references: { ...cell.references, ...overall } }} width={110} />}</td>
    </tr>
  );
};

const SliceTable = ({ rows, of, to, name }: {
  readonly rows: readonly WorstSlice[];
  readonly of: WorstSlices;
  readonly to: To;
  readonly name: string;
}) => (
  <Scroll name={name}>
    <table class="forest worst">
      <thead>
        <tr>
          <th scope="col">Slice</th>
          <th scope="col" class="right">{label(of.measure)}{of.overall.percent ? ", %" : ""}</th>
          <th scope="col">95 % interval</th>
          <th scope="col" class="right">n, {unitOf(rows[0]?.cell.unit ?? "")}</th>
          <th scope="col">{of.overall.percent && <Axis />}<span class="sr">Chart</span></th>
        </tr>
      </thead>
      <tbody>{rows.map((row) => <Slice row={row} of={of} to={to} />)}</tbody>
    </table>
  </Scroll>
);

const Worst = ({ of, to }: { readonly of: WorstSlices; readonly to: To }) => {
  const hidden = of.ranked - of.rows.length;
  return (
    <>
      {of.rows.length > 0 && <SliceTable rows={of.rows} of={of} to={to} name={`Worst slices by ${label(of.measure)}`} />}
      <p class="key">
        {of.better === "lower" && `Less ${label(of.measure)} is better. `}
        Overall: <Value of={of.overall} />{of.overall.percent && !of.overall.few && " %"} of {counted(of.overall.n, of.overall.unit)}.{" "}
        {[...of.rows, ...of.apart].some((row) => row.cell.unit === "image slots") && "Image slots: a pair counts once for each of its images in the slice. "}
        {of.notes.join(" ")}
        {hidden > 0 && ` ${plural(hidden, "further slice")}: see Slices.`}
        {of.rows.length > 0 && of.overall.percent && " Grey line: the overall value."}
        {of.rows.some((row) => "random" in row.cell.references) && " Orange line: chance."}
      </p>
      {of.unranked > 0 && (
        <details class="folded">
          <summary>{plural(of.unranked, "slice")} without an interval, not ranked</summary>
          <p class="key">They have too few questions, or too few independent groups of questions. They may be worse than those above.</p>
          <SliceTable rows={of.apart} of={of} to={to} name={`Slices without an interval, ${label(of.measure)}`} />
          {of.unranked > of.apart.length && <p class="key">{plural(of.unranked - of.apart.length, "more slice")} without an interval: see Slices.</p>}
        </details>
      )}
    </>
  );
};

const WorstOfPart = ({ part, to }: { readonly part: FailingPart; readonly to: To }) => (
  <>
    {part.worst.map((of, place) => (
      <Fold open={place === Math.max(0, part.worst.findIndex(({ rows }) => rows.length > 0))} title={<Visible text={`Worst slices by ${label(of.measure)}`} />}><Worst of={of} to={to} /></Fold>
    ))}
  </>
);

// ---- options --------------------------------------------------------------------------------------------------------

const NO_OPTION = ["refused", "abstained", "unparsed"];

const FieldOf = ({ field, of, row, column, to }: {
  readonly field: MatrixField;
  readonly of: OptionMatrix;
  readonly row: number;
  readonly column: number;
  readonly to: To;
}) => {
  const from = of.rows[row];
  const read = of.columns[column];
  if (from === undefined || read === undefined) return null;
  const right = from.right === column;
  const marks = [field.level > 0 ? `l${field.level}` : "", right ? "right-option" : "", field.count === 0 ? "none" : ""];
  return (
    <td class={marks.filter(Boolean).join(" ")}>
      <Linked to={to} query={field.query}>
        <data value={field.count} data-matrix={of.by} data-correct={flat(from.label)} data-read={flat(read.label)}>{count(field.count)}</data>
        {field.count > 0 && field.share !== "" && <small>{field.share} %</small>}
        {field.query !== "" && <span class="sr"> of {of.unit} with {flat(from.label)} correct: read as {flat(read.label)}</span>}
      </Linked>
    </td>
  );
};

const Matrix = ({ of, to }: { readonly of: OptionMatrix; readonly to: To }) => {
  const by = of.by === "text" ? "text" : "position";
  const left = of.left_out.map(({ label: why, count: number }) => `${count(number)} ${why}`).join("; ");
  return (
    <>
      <Scroll name={`Correct option and option read, by ${by}`}>
        <table class={`confusion by-${of.by}`}>
          <thead>
            <tr>
              <th scope="col">correct <span aria-hidden="true">↓</span> read <span aria-hidden="true">→</span></th>
              {of.columns.map((column) => (
                <th scope="col" class={column.option ? "" : "no-option"}><span class="clip" title={flat(column.label)}><Visible text={column.label} /></span></th>
              ))}
              <th scope="col" class="right">n</th>
            </tr>
          </thead>
          <tbody>
            {of.rows.map((row, place) => (
              <tr>
                <th scope="row"><span class="clip" title={flat(row.label)}><Linked to={to} query={row.query}><Visible text={row.label} /></Linked></span></th>
                {row.fields.map((field, column) => <FieldOf field={field} of={of} row={place} column={column} to={to} />)}
                <td class="right quiet"><data value={row.count}>{count(row.count)}</data></td>
              </tr>
            ))}
          </tbody>
        </table>
      </Scroll>
      <p class="key">
        {plural(of.count, of.unit.replace(/s$/, ""))} with one correct option. Rows: the correct option; columns: the option or outcome that was read. Framed: correct.
        Shades: the share of a row; fields with fewer than ten questions have none.
        {NO_OPTION.every((outcome) => of.columns.every((column) => column.option || column.label !== outcome)) && " No answer was refused, abstained or unparsed."}
        {of.by === "text" ? " Not every question offers each option." : ""}
        {of.folded > 0 && ` ${plural(of.folded, "rarer option")} share one row and one column.`}
        {left !== "" && ` Left out, answers: ${left}.`}
      </p>
    </>
  );
};

const Preferred = ({ of, to }: { readonly of: Positions; readonly to: To }) => (
  <>
    <Scroll name="Positions: chosen and correct">
      <table class="positions">
        <thead>
          <tr>
            <th scope="col">Position</th>
            <th scope="col" class="right">offered</th>
            <th scope="col" class="right">chosen</th>
            <th scope="col" class="right">%</th>
            <th scope="col" class="right">correct</th>
            <th scope="col" class="right">%</th>
            <th scope="col"><Axis /><span class="sr">Chart</span></th>
            <th scope="col" class="right">correct when chosen</th>
          </tr>
        </thead>
        <tbody>
          {of.rows.map((row) => {
            const at = (number: number): string => `${((100 * number) / row.offered).toFixed(2)}%`;
            return (
              <tr class={row.few ? "few" : ""}>
                <th scope="row"><Visible text={row.letter} /></th>
                <td class="right">{count(row.offered)}</td>
                <td class="right main"><Linked to={to} query={row.chosen > 0 ? row.read : ""}><data value={row.chosen} data-position={flat(row.letter)} data-number="chosen">{count(row.chosen)}</data></Linked></td>
                <td class="right">{row.few ? "" : percent(row.chosen, row.offered)}</td>
                <td class="right"><Linked to={to} query={row.correct > 0 ? row.key : ""}><data value={row.correct} data-position={flat(row.letter)} data-number="correct">{count(row.correct)}</data></Linked></td>
                <td class="right">{row.few ? "" : percent(row.correct, row.offered)}</td>
                <td class="chart">
                  <svg class="strip" width={110} height={16} aria-hidden="true" focusable="false">
                    <rect class="bar" y={4} height={8} width={at(row.chosen)} />
                    <line class="ref key" x1={at(row.correct)} x2={at(row.correct)} y1={1} y2={15} />
                  </svg>
                </td>
                <td class="right">{count(row.hits)}{!row.few && row.chosen > 0 && <span class="quiet"> ({percent(row.hits, row.chosen)} %)</span>}</td>
              </tr>
            );
          })}
        </tbody>
      </table>
    </Scroll>
    <p class="key">
      {of.unit === "answers" ? "Answers to choice questions" : "Choice questions"} with a score, by the letter as shown. Bar: the share that chose this position. Line: the share in which it is correct. Without a
      preference for positions, bar and line agree.
      {of.folded > 0 && ` ${plural(of.folded, "further position")} not shown.`}
    </p>
  </>
);

// ---- kinds of errors ------------------------------------------------------------------------------------------------

const Kind = ({ row, named, page }: { readonly row: ErrorKindRow; readonly named: boolean; readonly page: Page }) => {
  const { cell } = row;
  return (
    <tr class={cell.few ? "few" : ""}>
      <td><Visible text={cell.benchmark} /></td>
      {named && <td><Visible text={row.place} /></td>}
      <th scope="row"><Linked to={linker(page, cell.benchmark, "")} query={row.count > 0 ? row.query : ""}><Visible text={cell.name} /></Linked></th>
      <td class="right main"><data value={cell.value ?? ""} data-kind={flat(cell.name)} data-of={flat(cell.benchmark)} data-place={flat(row.place)}>{cell.shown}</data></td>
      <td class="quiet">{cell.interval}</td>
      <td class="chart"><Strip of={sureOf(cell)} width={110} /></td>
      <td class="right">{count(row.count)}</td>
      <td class="right quiet">{row.classified}</td>
    </tr>
  );
};

const KindsTable = ({ of, page }: { readonly of: ErrorKindTable; readonly page: Page }) => (
  <>
    <Scroll name={`Kinds of errors${of.dimension === "" ? "" : ` by ${of.dimension}`}`}>
      <table class="forest kinds">
        <thead>
          <tr>
            <th scope="col">Benchmark</th>
            {of.dimension !== "" && <th scope="col"><Visible text={of.dimension} /></th>}
            <th scope="col">Kind of error</th>
            <th scope="col" class="right">%</th>
            <th scope="col">95 % interval</th>
            <th scope="col"><Axis /><span class="sr">Chart</span></th>
            <th scope="col" class="right">answers</th>
            <th scope="col" class="right">classified, of wrong answers</th>
          </tr>
        </thead>
        <tbody>{of.rows.map((row) => <Kind row={row} named={of.dimension !== ""} page={page} />)}</tbody>
      </table>
    </Scroll>
    {of.folded > 0 && <p class="key">{plural(of.folded, "further row")}: see errors.csv.</p>}
  </>
);

const Texts = ({ of, name }: { readonly of: TextRows; readonly name: string }) => (
  <Scroll name={name}>
    <table>
      <thead><tr>{of.columns.map((column, place) => <th scope="col" class={of.right.includes(place) ? "right" : ""}><Visible text={column} /></th>)}</tr></thead>
      <tbody>
        {of.rows.map((row) => (
          <tr>{row.map((text, place) => <td class={of.right.includes(place) ? "right" : ""}><Visible text={text} /></td>)}</tr>
        ))}
      </tbody>
    </table>
  </Scroll>
);

const Kinds = ({ of, page }: { readonly of: ErrorKindsView; readonly page: Page }) => (
  <section id="kinds" aria-labelledby="kinds-title">
    <h3 id="kinds-title">Kinds of errors</h3>
    {of.tables.filter((table) => table.dimension === "").map((table) => <KindsTable of={table} page={page} />)}
    <ul class="remarks">{of.lines.map((line) => <li><Visible text={line} /></li>)}</ul>
    {of.tables.filter((table) => table.dimension !== "").map((table) => (
      <Fold open={false} title={<Visible text={`Kinds of errors by ${table.dimension}`} />}><KindsTable of={table} page={page} /></Fold>
    ))}
    {of.agreement !== null && (
      <>
        <h4>Agreement of the judge with people about kinds</h4>
        <Texts of={of.agreement} name="Agreement about kinds" />
      </>
    )}
  </section>
);

// ---- the section ----------------------------------------------------------------------------------------------------

/** Errors by their reason: a server that was gone is another matter than an image that is too large. */
const Errors = ({ part, to }: { readonly part: FailingPart; readonly to: To }) => (
  <>
    <h4>Errors by their reason</h4>
    <Scroll name="Errors by their reason">
      <table class="reasons">
        <thead><tr><th scope="col" class="right">{part.unit === "answers" ? "Answers" : "Questions"}</th><th scope="col">Reason; # stands for any number</th></tr></thead>
        <tbody>
          {part.errors.map(({ label: reason, count: number, query }) => (
            <tr key={reason}>
              <td class="right"><data value={number}>{count(number)}</data></td>
              <td class="wrap"><Linked to={to} query={query}><Visible text={reason} /></Linked></td>
            </tr>
          ))}
        </tbody>
      </table>
    </Scroll>
  </>
);

const Part = ({ part, page, place }: { readonly part: FailingPart; readonly page: Page; readonly place: number }) => {
  const to = linker(page, part.benchmark, part.technique);
  return (
    <section class="part" aria-labelledby={`failing-${place}`}>
      <h3 id={`failing-${place}`}><Visible text={part.title} /></h3>
      <p class="chips">
        {part.outcomes.map((outcome) => (
          <a class="chip" href={to(outcome.query)}>
            <Outcome name={outcome.label} /> <data value={outcome.count}>{count(outcome.count)}</data>
          </a>
        ))}
        <span class="quiet">
          {part.outcomes.length === 0 ? `All ${count(part.count)} ${part.unit} are correct.` : `of ${plural(part.count, part.unit.replace(/s$/, ""))}`}
        </span>
      </p>
      {part.errors.length > 0 && <Errors part={part} to={to} />}
      <div class="sides-of-failing">
        <div><WorstOfPart part={part} to={to} /></div>
        <div>
          {part.matrices.map((matrix, at) => (
            <Fold open={at === 0} title={<Visible text={`Confused options, by ${matrix.by}`} />}><Matrix of={matrix} to={to} /></Fold>
          ))}
          {part.positions !== null && <Fold open={false} title="Preferred positions"><Preferred of={part.positions} to={to} /></Fold>}
        </div>
      </div>
    </section>
  );
};

export const Failing = ({ page }: { readonly page: Page }) => {
  const failing = page.head.run?.failing;
  if (failing === undefined) return null;
  return (
    <section id="failing" aria-labelledby="failing-title">
      <h2 id="failing-title">Where it fails</h2>
      {failing.parts.some(({ worst }) => worst.length > 0) && <p class="key">{SLICE}</p>}
      {failing.parts.map((part, place) => <Part part={part} page={page} place={place} />)}
      {failing.parts.length === 0 && <p class="quiet">The run has no result.</p>}
      {failing.kinds !== null && <Kinds of={failing.kinds} page={page} />}
      {failing.unclassified && (
        <p class="quiet">
          The wrong answers are not classified. To sort them into kinds of errors, type <code>medvqa classify RUN</code>, with the folder of this run.
        </p>
      )}
    </section>
  );
};
