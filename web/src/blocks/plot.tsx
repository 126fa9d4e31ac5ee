// Points, lines or bars over two axes; the table behind them says the same.
import type { Axis, PlotBlock, PlotPoint, PlotSeries } from "../bundle";
import { count, flat } from "../text";
import { Visible } from "../ui/text";
import { Linked } from "./figure";
import { Notes } from "./table";

const [WIDTH, HEIGHT] = [640, 300];
const [LEFT, RIGHT, TOP, BOTTOM] = [52, 16, 12, 52];
/** Labels below an axis of so many characters together fit one line. */
const ONE_LINE = 70;
const COLOURS = 6;
/** Shapes of series, so that colour is not the only sign. */
const SHAPES: readonly string[] = ["M-4 0a4 4 0 1 0 8 0a4 4 0 1 0 -8 0", "M0 -5.5L5.5 0L0 5.5L-5.5 0Z", "M0 -5L5 4H-5Z", "M-4 -4H4V4H-4Z", "M0 5L5 -4H-5Z", "M-5 -1.5H-1.5V-5H1.5V-1.5H5V1.5H1.5V5H-1.5V1.5H-5Z"];

const share = ({ low, high }: Axis, value: number): number => {
  const place = (value - low) / (high - low);
  return Number.isFinite(place) ? Math.min(1, Math.max(0, place)) : 0;
};
const across = (of: PlotBlock, x: number): number => LEFT + (WIDTH - LEFT - RIGHT) * share(of.x, x);
const up = (of: PlotBlock, y: number): number => HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * share(of.y, y);

/** The width of bars: most of the least distance between two of them. */
const barOf = (of: PlotBlock): number => {
  const places = [...new Set(of.series.flatMap(({ points }) => points.map(({ x }) => across(of, x))))].sort((a, b) => a - b);
  const gaps = places.slice(1).map((place, k) => place - (places[k] ?? 0));
  return 0.7 * Math.min(40, ...gaps);
};

const Point = ({ of, point, series, k, bar }: { readonly of: PlotBlock; readonly point: PlotPoint; readonly series: PlotSeries; readonly k: number; readonly bar: number }) => {
  const { y, low = null, high = null, label = "" } = point;
  if (y === null) return null;
  const x = across(of, point.x);
  const base = up(of, Math.min(of.y.high, Math.max(of.y.low, 0)));
  const top = up(of, y);
  const width = bar / of.series.length;
  const left = x - bar / 2 + k * width;
  const middle = series.drawn === "bars" ? left + width / 2 : x;
  const mark = (
    <>
      {series.drawn === "bars"
        ? <rect x={left} y={Math.min(base, top)} width={width} height={Math.abs(base - top)} />
        : <path class={low === null && series.drawn !== "line" ? "hollow" : undefined} d={SHAPES[k % SHAPES.length]} transform={`translate(${x} ${top})`} />}
      {low !== null && high !== null && <line class="range" x1={middle} x2={middle} y1={up(of, low)} y2={up(of, high)} />}
      {label !== "" && <title>{flat(label)}</title>}
    </>
  );
  // Links are in the table, too: the drawing is for the eye and the mouse.
  return point.link?.startsWith("#") === true ? <a href={point.link} tabindex={-1}>{mark}</a> : <g>{mark}</g>;
};

const Drawing = ({ of }: { readonly of: PlotBlock }) => {
  const bar = barOf(of);
  const crowded = of.x.ticks.reduce((sum, { label }) => sum + label.length + 2, 0) > ONE_LINE;
  return (
    <svg class="chart" viewBox={`0 0 ${WIDTH} ${HEIGHT}`} aria-hidden="true" focusable="false">
      {of.x.ticks.map(({ at, label }, k) => (
        <>
          <line class="grid" x1={across(of, at)} x2={across(of, at)} y1={TOP} y2={HEIGHT - BOTTOM} />
          <text x={across(of, at)} y={HEIGHT - BOTTOM + (crowded && k % 2 === 1 ? 28 : 15)} text-anchor="middle">{flat(label)}</text>
        </>
      ))}
      {of.y.ticks.map(({ at, label }) => (
        <>
          <line class="grid" x1={LEFT} x2={WIDTH - RIGHT} y1={up(of, at)} y2={up(of, at)} />
          <text x={LEFT - 6} y={up(of, at) + 4} text-anchor="end">{flat(label)}</text>
        </>
      ))}
      {of.diagonal === true && <Diagonal of={of} />}
      {of.series.map((series, k) => (
        <g class={`c${k % COLOURS}`}>
          {series.drawn === "line" && <polyline points={series.points.flatMap(({ x, y }) => (y === null ? [] : [`${across(of, x)},${up(of, y)}`])).join(" ")} />}
          {series.points.map((point) => <Point of={of} point={point} series={series} k={k} bar={bar} />)}
        </g>
      ))}
      <text class="title" x={(LEFT + WIDTH - RIGHT) / 2} y={HEIGHT - 6} text-anchor="middle">{flat(of.across)}</text>
      <text class="title" transform={`translate(12 ${(TOP + HEIGHT - BOTTOM) / 2}) rotate(-90)`} text-anchor="middle">{flat(of.up)}</text>
    </svg>
  );
};

const Diagonal = ({ of }: { readonly of: PlotBlock }) => {
  const [low, high] = [Math.max(of.x.low, of.y.low), Math.min(of.x.high, of.y.high)];
  return low < high ? <line class="diagonal" x1={across(of, low)} y1={up(of, low)} x2={across(of, high)} y2={up(of, high)} /> : null;
};

/** The points as a table, for those who do not see the drawing. */
const Numbers = ({ of }: { readonly of: PlotBlock }) => (
  <details class="numbers">
    <summary>Numbers</summary>
    <div class="scroll" tabIndex={0} role="group" aria-label="Numbers of the drawing">
      <table class="data">
        <thead><tr><th scope="col">Series</th><th scope="col"><Visible text={`${of.across}; ${of.up}`} /></th></tr></thead>
        <tbody>
          {of.series.flatMap(({ title, points }) => points.map(({ x, y, label = "", link }) => (
            <tr>
              <th scope="row"><Visible text={title} /></th>
              <td><Linked to={link}><data value={y ?? ""}><Visible text={label || `${count(x)}; ${y === null ? "–" : count(y)}`} /></data></Linked></td>
            </tr>
          )))}
        </tbody>
      </table>
    </div>
  </details>
);

export const PlotView = ({ of }: { readonly of: PlotBlock }) => (
  <figure class="plotted">
    <Drawing of={of} />
    {of.series.some(({ title }) => title !== "") && (
      <figcaption class="key">
        {of.series.map(({ title, drawn }, k) => (
          <span>
            <svg class="chart sample" width={16} height={16} viewBox="-8 -8 16 16" aria-hidden="true" focusable="false">
              <g class={`c${k % COLOURS}`}>{drawn === "bars" ? <rect x={-5} y={-6} width={10} height={12} /> : <path d={SHAPES[k % SHAPES.length]} />}</g>
            </svg>
            {" "}<Visible text={title} />
          </span>
        ))}
        {of.diagonal === true && <span>Dashed: both axes are equal.</span>}
      </figcaption>
    )}
    <Notes of={of.notes} />
    <Numbers of={of} />
  </figure>
);
