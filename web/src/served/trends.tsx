// Trends of comparable runs, one small chart for each measure, and the history of gates.
import type { RunEntry } from "../served";
import { capital, count, flat, plural } from "../text";
import { Table } from "../ui/table";
import { Visible } from "../ui/text";
import { axisOf, gatedRuns, hasInterval, trendsOf, when, type GatedRun, type Trend, type TrendAxis, type TrendPoint } from "./over-time";
import { runLink } from "./routes";

const HEIGHT = 120;
const TONES = 6;
/** Charts that are drawn at first. */
const CHARTS = 12;
const GATES = 20;

const across = (place: number, of: number): number => (of === 1 ? 50 : 4 + (92 * place) / (of - 1));
const down = (axis: TrendAxis, value: number): number => 10 + (HEIGHT - 20) * (1 - (value - axis.low) / (axis.high - axis.low));

const SHAPES = ["M-4 0a4 4 0 1 0 8 0a4 4 0 1 0-8 0Z", "M0-5L5 0L0 5L-5 0Z", "M0-5L5 4H-5Z", "M-4-4H4V4H-4Z", "M0 5L5-4H-5Z", "M-5-2H-2V-5H2V-2H5V2H2V5H-2V2H-5Z"];

const Mark = ({ tone }: { readonly tone: number }) => <path class={`mark t${tone}`} d={SHAPES[tone % SHAPES.length] ?? ""} />;

const valueOf = ({ number }: TrendPoint): string => `${number.shown}${hasInterval(number) ? ` (${number.interval ?? ""})` : ""}`;

const Chart = ({ trend: { points }, models, name }: { readonly trend: Trend; readonly models: readonly string[]; readonly name: string }) => {
  const axis = axisOf(points);
  const places = points.map((_, place) => across(place, points.length));
  const toneOf = (point: TrendPoint): number => models.indexOf(point.run.model) % TONES;
  return (
    <div class="trend-chart">
      <span class="top-label">{axis.labels[1]}</span>
      <span class="bottom-label">{axis.labels[0]}</span>
      <svg width="100%" height={HEIGHT} focusable="false" role="group" aria-label={flat(name)}>
        {[axis.low, axis.high].map((value) => <line class="grid" x1="0" x2="100%" y1={down(axis, value)} y2={down(axis, value)} />)}
        {points.map((point, place) => {
          const before = points.slice(0, place).map(({ run }) => run.model).lastIndexOf(point.run.model);
          const other = points[before];
          if (other === undefined) return null;
          return <line class={`path t${toneOf(point)}`} x1={`${places[before] ?? 0}%`} x2={`${places[place] ?? 0}%`} y1={down(axis, other.number.value ?? 0)} y2={down(axis, point.number.value ?? 0)} />;
        })}
        {points.map((point, place) => {
          const { number, run } = point;
          const x = `${places[place] ?? 0}%`;
          return (
            <g>
              {hasInterval(number) && <line class={`range t${toneOf(point)}`} x1={x} x2={x} y1={down(axis, number.low ?? 0)} y2={down(axis, number.high ?? 0)} />}
              <svg x={x} y={down(axis, number.value ?? 0)} overflow="visible">
                <a href={runLink(run.name)} tabIndex={-1}>
                  <title>{flat(`${run.name}, ${run.model}, ${when(run.started)}: ${valueOf(point)}`)}</title>
                  <rect class="hit" x={-9} y={-9} width={18} height={18} />
                  <Mark tone={toneOf(point)} />
                </a>
              </svg>
            </g>
          );
        })}
      </svg>
    </div>
  );
};

const TrendOf = ({ trend, several }: { readonly trend: Trend; readonly several: boolean }) => {
  const first = trend.points[0];
  const last = trend.points.at(-1);
  if (first === undefined || last === undefined) return null;
  const { benchmark, technique, title, lower = false } = first.number;
  const models = [...new Set(trend.points.map(({ run }) => run.model))];
  const about = [...new Set(trend.points.map(({ run }) => [run.label, run.part].filter((text) => text !== "").join(", ")))].filter((text) => text !== "");
  const name = `${capital(title)}, ${benchmark}${several ? ` (${technique})` : ""}`;
  return (
    <figure class="trend">
      <figcaption>
        <strong>{capital(title)}</strong> <Visible text={benchmark} />{several && <> (<Visible text={technique} />)</>}
        {about.length > 0 && <small class="quiet"><Visible text={about.join(" · ")} /></small>}
        {trend.setups > 1 && <small class="quiet">Set-up {trend.setup} of {trend.setups}, which are not comparable</small>}
        {lower && <small class="quiet">Less is better.</small>}
      </figcaption>
      <Chart trend={trend} models={models} name={name} />
      <p class="ends"><span>{when(first.run.started).slice(0, 10)}</span><span>{when(last.run.started).slice(0, 10)}</span></p>
      <ul class="models">
        {models.slice(0, TONES).map((model, tone) => (
          <li key={model}><svg width="12" height="12" viewBox="-6 -6 12 12" aria-hidden="true" focusable="false"><Mark tone={tone} /></svg> <Visible text={model} /></li>
        ))}
        {models.length > TONES && <li>{plural(models.length - TONES, "more model")}</li>}
      </ul>
      <details>
        <summary>{plural(trend.points.length, "run")} as a table</summary>
        <Table
          label={flat(name)}
          rows={trend.points}
          rowKey={({ run }) => run.name}
          columns={[
            { key: "run", head: "run", heading: true, cell: ({ run }) => <a href={runLink(run.name)}><Visible text={run.name} /></a>, by: ({ run }) => run.name },
            { key: "model", head: "model", cell: ({ run }) => <Visible text={run.model} />, by: ({ run }) => run.model },
            { key: "started", head: "started", cell: ({ run }) => when(run.started), by: ({ run }) => run.started },
            { key: "value", head: title, right: true, cell: ({ number }) => <data value={number.value ?? ""}>{number.shown}</data>, by: ({ number }) => number.value },
            { key: "interval", head: "95 % interval", right: true, cell: ({ number }) => number.interval },
            { key: "n", head: "n", right: true, cell: ({ number }) => count(number.n), by: ({ number }) => number.n },
          ]}
        />
      </details>
    </figure>
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
