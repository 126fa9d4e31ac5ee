// Numbers of comparable runs over time, and the verdicts of gates, from the list of runs.
import type { Axis, PlotBlock } from "../bundle";
import type { GateAttempt, HeadlineNumber, RunEntry } from "../served";
import { count } from "../text";
import { runLink } from "./routes";

/** One number of a run in a trend. */
export interface TrendPoint {
  readonly run: RunEntry;
  readonly number: HeadlineNumber;
}

/** Numbers with one digest, of at least two runs, the earliest first. */
export interface Trend {
  readonly key: string;
  readonly points: readonly TrendPoint[];
  /** Its number among those of the same measure, from 1, and how many these are: their runs cannot be compared. */
  readonly setup: number;
  readonly setups: number;
}

/** Whether the numbers of a run are known to be of all its selected questions, as they are now. */
export const isWhole = ({ state, stale = false, unchecked = false }: RunEntry): boolean => state === "finished" && !stale && !unchecked;

const byTime = (one: RunEntry, other: RunEntry): number => (one.started < other.started ? -1 : one.started > other.started ? 1 : 0);

/** Trends in the order in which the latest runs have their numbers. `left`: runs whose numbers are in none, as they are not whole. */
export const trendsOf = (runs: readonly RunEntry[]): { readonly trends: readonly Trend[]; readonly left: number } => {
  const groups = new Map<string, TrendPoint[]>();
  for (const run of runs) {
    if (!isWhole(run) || run.started === "") continue;
    for (const number of run.numbers) {
      if (number.value === null) continue;
      const group = groups.get(number.comparable);
      if (group === undefined) groups.set(number.comparable, [{ run, number }]);
      else group.push({ run, number });
    }
  }
  const several = [...groups].filter(([, points]) => points.length > 1);
  const measureOf = ([first]: readonly TrendPoint[]): string => (first === undefined ? "" : [first.number.benchmark, first.number.technique, first.number.name].join("\n"));
  const trends = several.map(([key, points]) => {
    const alike = several.filter(([, others]) => measureOf(others) === measureOf(points)).map(([other]) => other);
    return { key, points: points.sort((one, other) => byTime(one.run, other.run)), setup: alike.indexOf(key) + 1, setups: alike.length };
  });
  return { trends, left: runs.filter((run) => run.numbers.length > 0 && (!isWhole(run) || run.started === "")).length };
};

const rounded = (value: number): string => String(Number(value.toPrecision(3)));

/** The axis of a trend: all values and intervals, with room, on round numbers. */
export const axisOf = (points: readonly TrendPoint[]): Axis => {
  const numbers = points.flatMap(({ number }) => [number.value, ...(hasInterval(number) ? [number.low, number.high] : [])].filter((value) => value !== null));
  const least = Math.min(...numbers);
  const most = Math.max(...numbers);
  const percent = points[0]?.number.percent ?? true;
  const room = (most - least) / 10 || Math.abs(most) / 10 || 1;
  const low = percent ? Math.min(0.95, Math.floor(least * 20) / 20) : least - room;
  const high = percent ? Math.max(low + 0.05, Math.ceil(most * 20) / 20) : most + room;
  return { low, high, ticks: [low, high].map((at) => ({ at, label: percent ? `${rounded(100 * at)} %` : rounded(at) })) };
};

/** A trend as a plot: a series for each model, and a point for each run. */
export const plotOf = ({ points }: Trend): PlotBlock => {
  const last = points.length - 1;
  const models = [...new Set(points.map(({ run }) => run.model))];
  return {
    block: "plot",
    title: "",
    across: "runs, the earliest first",
    up: "",
    x: { low: -0.5, high: last + 0.5, ticks: [0, last].map((at) => ({ at, label: when(points[at]?.run.started ?? "").slice(0, 10) })) },
    y: axisOf(points),
    series: models.map((title) => ({
      title,
      drawn: "line",
      points: points.flatMap(({ run, number }, x) => (run.model !== title ? [] : [{
        x,
        y: number.value,
        ...(hasInterval(number) ? { low: number.low, high: number.high } : {}),
        label: `${run.name}, ${when(run.started)}: ${number.shown}${hasInterval(number) ? ` (${number.interval ?? ""})` : ""}, n = ${count(number.n)}`,
        link: runLink(run.name),
      }])),
    })),
  };
};

/** Whether reports show an interval of a number: those of few units have counts alone. */
export const hasInterval = ({ interval = "", low, high }: HeadlineNumber): boolean => interval !== "" && low !== null && high !== null;

/** A run with the verdict of its gate. */
export interface GatedRun {
  readonly run: RunEntry;
  readonly gate: GateAttempt;
}

/** Runs with a gate, the latest first. */
export const gatedRuns = (runs: readonly RunEntry[]): readonly GatedRun[] =>
  runs
    .flatMap((run) => (run.gate == null ? [] : [{ run, gate: run.gate }]))
    .sort((one, other) => byTime(other.run, one.run));

/** A time of a run in this reader's time zone, such as 2026-11-22 23:13; the text itself if it is no time. */
export const when = (iso: string): string => {
  const time = new Date(iso);
  if (iso === "" || Number.isNaN(time.getTime())) return iso;
  const two = (number: number): string => String(number).padStart(2, "0");
  return `${time.getFullYear()}-${two(time.getMonth() + 1)}-${two(time.getDate())} ${two(time.getHours())}:${two(time.getMinutes())}`;
};

/** Whether a run has all the words of a filter, in any case. */
export const matches = ({ name, model, label, state, part, benchmarks, gate }: RunEntry, filter: string): boolean => {
  const text = [name, model, label, state, part, ...benchmarks, gate == null ? "" : `gate ${gate.result}`].join("\n").toLowerCase();
  return filter.toLowerCase().split(/\s+/).every((word) => text.includes(word));
};
