/** A difference and its bounds on an axis from -`end` to `end`, with a line at 0. */
export interface GapOf {
  readonly difference: number | null;
  readonly low: number | null;
  readonly high: number | null;
}

const WIDTH = 170;

export const Gap = ({ of, end }: { readonly of: GapOf; readonly end: number }) => {
  const place = (value: number): string => `${(50 + (50 * Math.max(-end, Math.min(end, value))) / end).toFixed(2)}%`;
  return (
    <svg class="strip gap" width={WIDTH} height={16} aria-hidden="true" focusable="false">
      <line class="zero" x1="50%" x2="50%" y1={0} y2={16} />
      {of.low !== null && of.high !== null && <line class="range" x1={place(of.low)} x2={place(of.high)} y1={8} y2={8} />}
      {of.difference !== null && <circle class={of.low === null ? "hollow" : ""} cx={place(of.difference)} cy={8} r={3.5} />}
    </svg>
  );
};

export const GapAxis = ({ end }: { readonly end: number }) => {
  const shown = Number((100 * end).toPrecision(6));
  return (
    <>
      <span class="axis gap" aria-hidden="true">
        <i>−{shown}</i>
        <i>0</i>
        <i>+{shown}</i>
      </span>
      <span class="sr">Chart of the difference</span>
    </>
  );
};
