// Drawings inside tables: values, intervals and reference lines on one axis, drawn as wide as their column.
import type { Axis } from "../bundle";
import { flat } from "../text";

/** A value and its interval; without an interval the dot is hollow. */
export interface Spot {
  readonly value: number | null;
  readonly low?: number | null;
  readonly high?: number | null;
  readonly shape?: "dot" | "small" | "tick" | "diamond" | "triangle";
  readonly tone?: string;
}

/** A line over the height of the row, such as chance. */
export interface Line {
  readonly at: number | null | undefined;
  readonly tone: string;
}

const HEIGHT = 24;
const MIDDLE = HEIGHT / 2;

/** The place of a value on an axis, as a percentage of its width; values outside stand at its ends. */
export const place = (axis: Axis, value: number): string => {
  const share = (value - axis.low) / (axis.high - axis.low);
  return `${(100 * Math.min(1, Math.max(0, Number.isFinite(share) ? share : 0))).toFixed(2)}%`;
};

const SHAPES: Readonly<Record<string, string>> = {
  tick: "M0 -7V7",
  diamond: "M0 -5L5 0L0 5L-5 0Z",
  triangle: "M0 -5L5 4H-5Z",
};

const Mark = ({ axis, spot }: { readonly axis: Axis; readonly spot: Spot }) => {
  if (spot.value === null) return null;
  const { shape = "dot", tone = "", low, high } = spot;
  const at = place(axis, spot.value);
  const round = shape === "dot" || shape === "small";
  const known = typeof low === "number" && typeof high === "number";
  return (
    <g class={tone}>
      {known && <line class="range" x1={place(axis, low)} x2={place(axis, high)} y1={MIDDLE} y2={MIDDLE} />}
      {round ? (
        <circle class={shape === "dot" && !known ? "hollow" : ""} cx={at} cy={MIDDLE} r={shape === "dot" ? 4 : 2.5} />
      ) : (
        <svg x={at} y={MIDDLE} overflow="visible">
          <path class={shape} d={SHAPES[shape]} />
        </svg>
      )}
    </g>
  );
};

export const Plot = ({ axis, spots, lines = [] }: { readonly axis: Axis; readonly spots: readonly Spot[]; readonly lines?: readonly Line[] }) => (
  <svg class="plot" width="100%" height={HEIGHT} aria-hidden="true" focusable="false">
    {axis.ticks.map((tick) => (
      <line class={tick.at === 0 && axis.low < 0 ? "zero" : "grid"} x1={place(axis, tick.at)} x2={place(axis, tick.at)} y1={0} y2={HEIGHT} />
    ))}
    {lines.map(
      ({ at, tone }) =>
        typeof at === "number" && <line class={`at ${tone}`} x1={place(axis, at)} x2={place(axis, at)} y1={0} y2={HEIGHT} />,
    )}
    {spots.map((spot) => (
      <Mark axis={axis} spot={spot} />
    ))}
  </svg>
);

/** The labels of an axis, above its column. */
export const Scale = ({ axis }: { readonly axis: Axis }) => (
  <svg class="scale" width="100%" height={16} aria-hidden="true" focusable="false">
    {axis.ticks.map((tick, k) => (
      <text
        class={k % (axis.ticks.length - 1) === 0 ? "" : "minor"}
        x={place(axis, tick.at)}
        y={12}
        text-anchor={k === axis.ticks.length - 1 ? "end" : k === 0 ? "start" : "middle"}
      >
        {flat(tick.label)}
      </text>
    ))}
  </svg>
);

/** A sample of a mark, for the key below a table. */
export const Sample = ({ spot, line }: { readonly spot?: Spot; readonly line?: string }) => (
  <svg class="plot sample" width={26} height={16} viewBox={`0 ${MIDDLE - 8} 26 16`} aria-hidden="true" focusable="false">
    {line !== undefined && <line class={`at ${line}`} x1={13} x2={13} y1={0} y2={HEIGHT} />}
    {spot !== undefined && <Mark axis={{ low: 0, high: 1, ticks: [] }} spot={spot} />}
  </svg>
);
