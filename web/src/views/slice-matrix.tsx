// A measure by slice and run: a row for each value of a dimension, a column for each run of the leaderboard.
import { useState } from "preact/hooks";

import type { ComparisonView, ScaleView, SliceMatrix, SliceMatrixCell, SliceMatrixRow } from "../bundle";
import type { Page } from "../page";
import { capital, count, flat, plural } from "../text";
import { Visible } from "../ui/text";
import { queryOf } from "./differences";

interface Shown {
  readonly page: Page;
  readonly of: ComparisonView;
}

const SIGNS = { "": "", better: "▲", worse: "▼" } as const;

export const Slices = ({ page, of }: Shown) => {
  const [chosen, choose] = useState({ scale: of.matrices[0]?.scale ?? 0, dimension: of.matrices[0]?.dimension ?? "" });
  if (of.matrices.length === 0) return null;
  const scales = [...new Set(of.matrices.map((matrix) => matrix.scale))];
  const dimensions = of.matrices.filter((matrix) => matrix.scale === chosen.scale);
  const matrix = dimensions.find((each) => each.dimension === chosen.dimension) ?? dimensions[0];
  const scale = of.scales[chosen.scale];
  if (matrix === undefined || scale === undefined) return null;
  return (
    <section id="slices" aria-labelledby="slices-title">
      <h2 id="slices-title">Slices by run</h2>
      <p class="chooser">
        <label>
          Measure{" "}
          <select value={`${chosen.scale}`} onChange={(event) => { choose({ ...chosen, scale: Number(event.currentTarget.value) }); }}>
            {scales.map((place) => <option key={place} value={`${place}`}>{flat(titleOf(page, of.scales[place]))}</option>)}
          </select>
        </label>{" "}
        <label>
          by{" "}
          <select value={matrix.dimension} onChange={(event) => { choose({ ...chosen, dimension: event.currentTarget.value }); }}>
            {dimensions.map((each) => <option key={each.dimension} value={each.dimension}>{flat(each.title)}</option>)}
          </select>
        </label>
      </p>
      <Matrix page={page} scale={scale} of={matrix} few={of.few} />
    </section>
  );
};

const titleOf = (page: Page, scale: ScaleView | undefined): string => {
  if (scale === undefined) return "";
  const benchmark = page.head.benchmarks[scale.benchmark];
  return `${benchmark?.title ?? ""}, ${page.head.techniques[scale.technique] ?? ""}: ${scale.title}`;
};

interface MatrixOf {
  readonly page: Page;
  readonly scale: ScaleView;
  readonly of: SliceMatrix;
  readonly few: number;
}

const Matrix = ({ page, scale, of, few }: MatrixOf) => {
  const runs = of.rows[0]?.cells.map((cell) => cell.run) ?? [];
  const named = (run: number): string => page.head.runs[run]?.name ?? "";
  const shown = of.rows.flatMap((row) => row.cells.filter((cell) => (cell.sure ?? "") !== "")).length;
  return (
    <>
      <div class="scroll" tabIndex={0} role="group" aria-label={flat(`${titleOf(page, scale)} by ${of.title} and run`)}>
        <table class="heatmap runs-by-slice">
          <thead>
            <tr>
              <th scope="col">{capital(of.title)}</th>
              {runs.map((run) => <th key={run} scope="col"><Visible text={named(run)} /></th>)}
            </tr>
          </thead>
          <tbody>
            {of.rows.map((row) => (
              <tr key={row.value}>
                <th scope="row"><Visible text={row.title} />{row.short !== "" && <span class="quiet"> <Visible text={row.short} /></span>}</th>
                {row.cells.map((cell) => <Field key={cell.run} page={page} scale={scale} of={of} row={row} cell={cell} />)}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      <p class="key">
        Percent, and below it the number of {scale.unit === "pair" ? "pairs" : "questions"}; under {few}, counts in grey. {scale.lower && "Less is better. "}
        {of.fixed ? "These slices were fixed before the runs. " : "These slices are exploratory. "}
        {shown === 0 ? "No field is coloured: in no slice is a difference from the baseline shown. " : `${plural(shown, "field")} coloured. `}
        A field is coloured only if the run is shown to be better (▲) or worse (▼) there than <Visible text={named(runs[0] ?? 0)} />: adjusted p at most 0.05, by
        Holm over all fields with a run's difference from it. A field leads to its questions.
      </p>
    </>
  );
};

interface FieldOf extends Omit<MatrixOf, "few"> {
  readonly row: SliceMatrixRow;
  readonly cell: SliceMatrixCell;
}

const Field = ({ page, scale, of, row, cell }: FieldOf) => {
  const baseline = of.rows[0]?.cells[0]?.run ?? 0;
  const [run, against] = [page.head.runs[cell.run]?.name ?? "", page.head.runs[baseline]?.name ?? ""];
  const benchmark = page.head.benchmarks[scale.benchmark]?.name ?? "";
  const technique = page.head.techniques[scale.technique] ?? "";
  const sure = cell.sure ?? "";
  const href = page.link({
    view: "questions",
    section: "",
    run: cell.run === baseline ? "" : run,
    against: cell.run === baseline ? "" : against,
    benchmark,
    technique,
    measure: scale.measure,
    query: queryOf({ [of.dimension]: row.value }, null),
    item: null,
  });
  if (cell.value === null) return <td class="empty"><span class="sr">no value</span></td>;
  const difference = (cell.difference_shown ?? "") === "" ? "" : `; ${cell.difference_shown ?? ""} points from ${against}${sure === "" ? ", not shown" : `, ${sure}`}`;
  const told = `${row.title}, ${run}: ${cell.shown}${cell.few ? "" : " %"}${cell.interval === "" ? "" : `, 95 % interval ${cell.interval}`}, ${plural(cell.n, scale.unit === "pair" ? "pair" : "question")}${difference}`;
  return (
    <td class={`${sure === "" ? "" : `w-${sure}-field`}${cell.few ? " thin" : ""}`}>
      <a href={href} title={flat(told)}>
        <span aria-hidden="true">
          <b>{SIGNS[sure]}{cell.shown}</b> <small>{cell.few ? "" : count(cell.n)}</small>
        </span>
        <data
          class="sr"
          value={cell.value}
          data-low={cell.low ?? ""}
          data-high={cell.high ?? ""}
          data-n={cell.n}
          data-run={flat(run)}
          data-benchmark={benchmark}
          data-technique={technique}
          data-measure={scale.measure}
          data-slice={`${of.dimension}=${row.value}`}
          data-difference={cell.difference ?? ""}
          data-adjusted={cell.adjusted ?? ""}
          data-sure={sure}
        >
          <Visible text={told} />
        </data>
      </a>
    </td>
  );
};
