// How long answers took and how many tokens they had, over the course of a run.
import { useEffect, useState } from "preact/hooks";

import { ask, pathOfRun } from "../server";
import type { Pace, PlotBlock, PlotSeries } from "../served";
import { flat } from "../text";
import { Table } from "../ui/table";
import { Visible } from "../ui/text";
import { useLoaded } from "./feed";

const [WIDTH, HEIGHT] = [640, 140];

const lineOf = ({ x, y }: PlotBlock, { points }: PlotSeries): string =>
  points.flatMap((point) => (point.y === null ? [] : [`${(WIDTH * (point.x - x.low)) / (x.high - x.low)},${HEIGHT * (1 - (point.y - y.low) / (y.high - y.low))}`])).join(" ");

/** One plot, and the same as a table. */
const Plotted = ({ plot }: { readonly plot: PlotBlock }) => {
  const { title, across, up, y, series } = plot;
  const rows = series.flatMap((each) => each.points.map((point) => ({ series: each.title, point })));
  return (
    <figure class="trend">
      <figcaption><strong><Visible text={title} /></strong></figcaption>
      <div class="trend-chart">
        <span class="top-label">{y.ticks.at(-1)?.label}</span>
        <span class="bottom-label">{y.ticks[0]?.label} {up}</span>
        <svg width="100%" height={HEIGHT} viewBox={`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" aria-hidden="true" focusable="false">
          {series.map((each, tone) => <polyline key={each.title} class={`path t${tone}`} fill="none" vector-effect="non-scaling-stroke" points={lineOf(plot, each)} />)}
        </svg>
      </div>
      <p class="key">{across}. {series.map(({ title: name }, tone) => <span key={name}><svg width="18" height="8" aria-hidden="true" focusable="false"><line class={`path t${tone}`} x2="18" y1="4" y2="4" /></svg> {name} </span>)}</p>
      <details>
        <summary>As a table</summary>
        <Table
          label={flat(title)}
          rows={rows}
          rowKey={({ series: name, point }) => `${name} ${point.x}`}
          columns={[
            { key: "series", head: "", heading: true, cell: ({ series: name }) => name },
            { key: "value", head: up, cell: ({ point }) => <data value={point.y ?? ""}><Visible text={point.label ?? ""} /></data>, by: ({ point }) => point.y },
          ]}
        />
      </details>
    </figure>
  );
};

const Plots = ({ name, version }: { readonly name: string; readonly version: number }) => {
  const { value, problem, again } = useLoaded((signal) => ask<Pace>(`${pathOfRun(name)}/pace`, { signal }));
  useEffect(() => { again(); }, [version, again]);
  if (problem !== "") return <p class="alert" role="alert">{problem}</p>;
  if (value === null) return <p role="status">Reading the times.</p>;
  if (value.plots.length === 0) return <p class="quiet">No answer has a time or a number of tokens.</p>;
  return <div class="trends">{value.plots.map((plot) => <Plotted key={plot.title} plot={plot} />)}</div>;
};

/** The plots of a run, read when they are opened, and again when its results change. */
export const PaceOf = ({ name, version }: { readonly name: string; readonly version: number }) => {
  const [open, setOpen] = useState(false);
  return (
    <details class="pace" onToggle={({ currentTarget }) => { setOpen(currentTarget.open); }}>
      <summary>Time and tokens of answers</summary>
      {open && <Plots name={name} version={version} />}
    </details>
  );
};
