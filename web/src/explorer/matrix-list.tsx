// The rows of the matrix: a unit each, with a column for each run.
import type { ComponentChildren } from "preact";

import { FLIPS, runField, unitName, type MatrixTable, type Scale } from "../matrix";
import type { Page } from "../page";
import { count, flat } from "../text";
import { Grid, type GridColumn } from "../ui/listing";
import { Outcome } from "../ui/outcome";
import { Visible } from "../ui/text";
import { Way } from "../ui/way";

const LINES = 2; // answers of a unit in a row
const WIDE = 5; // runs that have room for words

interface ListOf {
  readonly page: Page;
  readonly table: MatrixTable;
  readonly rows: Uint32Array;
}

/** The outcome in one run: of several answers, the number that are correct. */
const Cell = ({ scale, unit, run, bare }: { readonly scale: Scale; readonly unit: number; readonly run: number; readonly bare: boolean }) => {
  const { data } = scale;
  const results = scale.resultsOf(unit, run);
  const [only] = results;
  if (only === undefined) return <span class="quiet">not asked</span>;
  if (results.length > 1) {
    const right = results.filter((result) => data.outcome(result) === "correct").length;
    const sign = scale.signs(unit, run);
    return <span class="cell" title={`${sign}: ${right} of ${results.length} answers are correct`}><Outcome name={sign} bare /><span class="sr">{sign} </span> {count(right)}/{count(results.length)}</span>;
  }
  const outcome = data.outcome(only);
  const read = data.extracted(only).join(", ");
  return (
    <span class="cell" title={flat(`${outcome}, read: ${read || "none"}`)}>
      <Outcome name={outcome} bare={bare} />{bare && <span class="sr">{outcome} </span>} <span class="quiet read"><Visible text={read} /></span>
    </span>
  );
};

/** Two runs have room for the outcome of each answer to a pair. */
const Members = ({ scale, unit, run }: { readonly scale: Scale; readonly unit: number; readonly run: number }) => {
  const { data } = scale;
  const results = scale.resultsOf(unit, run);
  if (results.length < 2) return <Cell scale={scale} unit={unit} run={run} bare={false} />;
  return (
    <span class="members">
      {results.slice(0, LINES).map((result) => (
        <span key={result}><Outcome name={data.outcome(result)} /> <span class="quiet"><Visible text={data.extracted(result).join(", ")} /></span></span>
      ))}
      {results.length > LINES && <span class="quiet">and {results.length - LINES} more</span>}
    </span>
  );
};

const textOf = (scale: Scale, unit: number): string => [...new Set(scale.questionsOf(unit).map((question) => scale.data.text(question)))].join(" · ");

function columnsOf(table: MatrixTable, names: readonly string[], width: number): readonly GridColumn[] {
  const { scale, flips, pair } = table;
  const { runs } = scale;
  const column = (name: string, head: ComponentChildren, wide: string, cell: GridColumn["cell"]): GridColumn => ({ name, head, width: wide, sorts: true, cell });
  const id = column("id", "Id", width < 620 ? "4.5rem" : "minmax(4.5rem, 8rem)", (unit) => <Visible text={scale.units[unit] ?? ""} />);
  const question = column("question", "Question", `minmax(${runs > WIDE ? 7 : 9}rem, 1fr)`, (unit) => <span class="clamp" dir="auto" title={flat(textOf(scale, unit))}><Visible text={textOf(scale, unit)} /></span>);
  const flip = column("flip", "Flip", "5rem", (unit) => {
    const way = FLIPS[flips[unit] ?? FLIPS.length];
    return way === "better" || way === "worse" ? <Way way={way} /> : <span class="quiet">{way === "same" ? "same" : "–"}</span>;
  });
  const right = column("right", scale.view.lower ? "Best in" : "Right in", "5rem", (unit) => <span class="right-in">{count(scale.right[unit] ?? 0)} <span class="quiet">of {count(runs)}</span></span>);
  if (width < 620) return [id, right, question];
  const bare = runs > WIDE;
  const wide = runs === 2 ? "minmax(8rem, 13rem)" : bare ? "minmax(3.4rem, 5rem)" : "minmax(6.6rem, 9rem)";
  const outcomes = names.map((name, run) =>
    column(
      runField(run),
      <span class="run-head" title={flat(`${run + 1} · ${name}${run === pair.baseline ? " (baseline)" : run === pair.new ? " (new)" : ""}`)}>{run + 1} <Visible text={name} /></span>,
      wide,
      (unit) => (runs === 2 ? <Members scale={scale} unit={unit} run={run} /> : <Cell scale={scale} unit={unit} run={run} bare={bare} />),
    ),
  );
  return [id, right, flip, question, ...outcomes];
}

export const MatrixList = ({ page, table, rows }: ListOf) => {
  const { state, go } = page;
  const { scale } = table;
  const { units, runs } = scale;
  const names = page.head.runs.map((run) => run.name);
  // A row is high enough for two answers of each of two runs.
  const several = runs === 2 && scale.results.length > scale.size * runs;
  return (
    <Grid
      label={`${count(rows.length)} ${unitName(scale)}s by ${runs} runs`}
      class={several ? "matrix flips pairs" : "matrix flips"}
      rows={rows}
      high={several ? 66 : 46}
      columns={(width) => columnsOf(table, names, width)}
      sort={state.sort}
      onSort={(sort) => { go({ sort }); }}
      item={state.item}
      shows={(row, item) => units[row] === item}
      open={(row) => { go({ item: units[row] ?? null }); }}
      link={(row) => page.link({ item: units[row] ?? null })}
    />
  );
};
