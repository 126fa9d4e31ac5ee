/** A value and its interval on an axis from 0 to 1, with lines for models that do not look. */
export interface StripOf {
  readonly value: number | null;
  readonly low: number | null;
  readonly high: number | null;
  readonly references?: Readonly<Record<string, number>>;
}

const LINES: readonly string[] = ["random", "image_blind", "blank", "overall"];
const place = (value: number): string => `${(100 * value).toFixed(2)}%`;

export const Strip = ({ of, width = 150 }: { readonly of: StripOf; readonly width?: number }) => (
  <svg class="strip" width={width} height={16} aria-hidden="true" focusable="false">
    {LINES.flatMap((name) => {
      const value = of.references?.[name];
      return value === undefined ? [] : [<line class={`ref ${name}`} x1={place(value)} x2={place(value)} y1={1} y2={15} />];
    })}
    {of.low !== null && of.high !== null && <line class="range" x1={place(of.low)} x2={place(of.high)} y1={8} y2={8} />}
    {of.value !== null && <circle class={of.low === null ? "hollow" : ""} cx={place(of.value)} cy={8} r={3.5} />}
  </svg>
);

export const Axis = () => (
  <span class="axis" aria-hidden="true">
    <i>0</i>
    <i>50</i>
    <i>100 %</i>
  </span>
);
