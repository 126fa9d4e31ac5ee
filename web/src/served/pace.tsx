// How long answers took and how many tokens they had, over the course of a run.
import { useEffect, useState } from "preact/hooks";

import { PlotView } from "../blocks";
import { ask, pathOfRun } from "../server";
import type { Pace } from "../served";
import { Visible } from "../ui/text";
import { useLoaded } from "./feed";

const Plots = ({ name, version }: { readonly name: string; readonly version: number }) => {
  const { value, problem, again } = useLoaded((signal) => ask<Pace>(`${pathOfRun(name)}/pace`, { signal }));
  useEffect(() => { again(); }, [version, again]);
  if (problem !== "") return <p class="alert" role="alert">{problem}</p>;
  if (value === null) return <p role="status">Reading the times.</p>;
  if (value.plots.length === 0) return <p class="quiet">No answer has a time or a number of tokens.</p>;
  return <div class="trends">{value.plots.map((plot) => <div key={plot.title}><h3><Visible text={plot.title} /></h3><PlotView of={plot} /></div>)}</div>;
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
