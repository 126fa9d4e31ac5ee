// Trends of comparable runs, one small chart for each measure, and the history of gates.
import { PlotView } from "../blocks";
import type { RunEntry } from "../served";
import { capital, count, plural } from "../text";
import { Table } from "../ui/table";
import { Visible } from "../ui/text";
import { gatedRuns, plotOf, trendsOf, when, type GatedRun, type Trend } from "./over-time";
import { runLink } from "./routes";

/** Charts that are drawn at first. */
const CHARTS = 12;
const GATES = 20;

const TrendOf = ({ trend, several }: { readonly trend: Trend; readonly several: boolean }) => {
  const first = trend.points[0];
  if (first === undefined) return null;
  const { benchmark, technique, title, lower = false } = first.number;
  const about = [...new Set(trend.points.map(({ run }) => [run.label, run.part].filter((text) => text !== "").join(", ")))].filter((text) => text !== "");
  return (
    <div class="trend">
      <h3>{capital(title)} <Visible text={benchmark} />{several && <> (<Visible text={technique} />)</>}</h3>
      {about.length > 0 && <small class="quiet"><Visible text={about.join(" · ")} /></small>}
      {trend.setups > 1 && <small class="quiet">Set-up {trend.setup} of {trend.setups}, which are not comparable</small>}
      {lower && <small class="quiet">Less is better.</small>}
      <PlotView of={plotOf(trend)} />
    </div>
  );
};

export const Trends = ({ runs }: { readonly runs: readonly RunEntry[] }) => {
  const { trends, left } = trendsOf(runs);
  if (trends.length === 0) return null;
  const several = new Set(trends.map(({ points }) => points[0]?.number.technique)).size > 1;
  return (
    <section id="trends" aria-labelledby="trends-title">
      <h2 id="trends-title">Over time</h2>
      <p class="quiet">
        Each chart has the finished runs with one data set, prompt, extraction, judge and selection, the earliest first; their models may differ. Bars are 95 % intervals of single runs:
        compare runs to learn whether they differ.{left > 0 && ` ${plural(left, "run is", "runs are")} left out, since ${left === 1 ? "it is" : "they are"} not finished, or ${left === 1 ? "its" : "their"} numbers are not known to be of the present results: type medvqa report RUN.`}
      </p>
      <div class="trends">{trends.slice(0, CHARTS).map((trend) => <TrendOf key={trend.key} trend={trend} several={several} />)}</div>
      {trends.length > CHARTS && (
        <details>
          <summary>{plural(trends.length - CHARTS, "more chart")}</summary>
          <div class="trends">{trends.slice(CHARTS).map((trend) => <TrendOf key={trend.key} trend={trend} several={several} />)}</div>
        </details>
      )}
    </section>
  );
};

const LOOKS: Readonly<Record<GatedRun["gate"]["result"], string>> = { passed: "v-pass", failed: "v-fail", inconclusive: "v-inconclusive", unknown: "v-none" };
const VERDICTS: Readonly<Record<GatedRun["gate"]["result"], string>> = { passed: "passed", failed: "failed", inconclusive: "inconclusive", unknown: "no verdict" };

export const GateWord = ({ gate }: { readonly gate: GatedRun["gate"] }) => (
  <>
    <span class={`verdict ${LOOKS[gate.result]}`}>{VERDICTS[gate.result]}</span>
    {gate.stale === true && <small class="quiet">may be of other results</small>}
  </>
);

export const GateHistory = ({ runs }: { readonly runs: readonly RunEntry[] }) => {
  const gated = gatedRuns(runs);
  if (gated.length === 0) return null;
  const counts = (["passed", "failed", "inconclusive", "unknown"] as const)
    .map((result) => [result, gated.filter(({ gate }) => gate.result === result).length] as const)
    .filter(([, number]) => number > 0);
  return (
    <section id="gates" aria-labelledby="gates-title">
      <h2 id="gates-title">Gates</h2>
      <p>{counts.map(([result, number]) => `${count(number)} ${VERDICTS[result]}`).join(", ")}, the latest first.</p>
      <Table
        label="Verdicts of gates"
        class="gates"
        rows={gated.slice(0, GATES)}
        rowKey={({ run }) => run.name}
        columns={[
          { key: "run", head: "run", heading: true, cell: ({ run }) => <a href={runLink(run.name)}><Visible text={run.name} /></a>, by: ({ run }) => run.name },
          { key: "model", head: "model", cell: ({ run }) => <Visible text={run.model} />, by: ({ run }) => run.model },
          { key: "started", head: "started", cell: ({ run }) => when(run.started), by: ({ run }) => run.started },
          { key: "verdict", head: "verdict", cell: ({ gate }) => <GateWord gate={gate} />, by: ({ gate }) => gate.result },
          { key: "baseline", head: "baseline", cell: ({ gate }) => <Visible text={gate.baseline ?? ""} />, by: ({ gate }) => gate.baseline ?? "" },
          { key: "attempt", head: "attempt", right: true, cell: ({ gate }) => (gate.attempt > 0 ? count(gate.attempt) : ""), by: ({ gate }) => gate.attempt },
          { key: "reason", head: "first reason", class: "reason", cell: ({ gate }) => <Visible text={gate.reason} /> },
        ]}
      />
      {gated.length > GATES && <p class="quiet">{plural(gated.length - GATES, "earlier verdict")} are not listed here.</p>}
    </section>
  );
};
