// The differences of one pair of runs: headline measures, and slices whose rows lead to their flips.
import type { ComponentChildren } from "preact";
import { Fragment } from "preact";

import type { BoardPair, BoardView, ComparedCell, ComparedMeasure, ComparisonView, PairedPartView, PairView, SlicedTable } from "../bundle";
import { flipped, flipsOf, pairOf, scaleAt } from "../scale";
import type { Page } from "../page";
import { printTerm } from "../query";
import { count, flat, label, plural } from "../text";
import { Fold } from "../ui/fold";
import { Gap, GapAxis } from "../ui/gap";
import { Table, type Identity, type TableColumn } from "../ui/table";
import { Visible } from "../ui/text";
import { Way } from "../ui/way";
import { Figure } from "./ranking";

const CROSSED = "+";
const OPEN = 24; // rows of a table that is open at first

/** The terms of the query line for the flips of a slice in one direction. */
export function queryOf(slice: Readonly<Record<string, string>>, way: "better" | "worse" | null): string {
  const terms = Object.entries(slice).flatMap(([dimension, value]) => {
    const [names, values] = [dimension.split(CROSSED), value.split(CROSSED)];
    const crossed = names.length === values.length ? names.map((name, i) => [name, values[i] ?? ""] as const) : [[dimension, value] as const];
    return crossed.map(([name, of]) => printTerm({ field: name, operator: ":", values: [of], not: false }));
  });
  return [...(way === null ? [] : [`flip:${way}`]), ...terms].join(" ");
}

interface Shown {
  readonly page: Page;
  readonly pair: PairView;
}

const flipsLink = ({ page, pair }: Shown, cell: ComparedCell, way: "better" | "worse" | null): string =>
  page.link({
    view: "questions",
    section: "",
    run: page.head.runs[pair.new]?.name ?? "",
    against: page.head.runs[pair.baseline]?.name ?? "",
    benchmark: cell.benchmark,
    technique: cell.technique,
    measure: cell.name,
    query: queryOf(cell.slice, way),
    item: null,
  });

export const Changed = ({ of, cell, way }: { readonly of: Shown; readonly cell: ComparedCell; readonly way: "better" | "worse" }) => {
  const number = way === "better" ? cell.gained : cell.lost;
  const figure = <Figure name={way === "better" ? "gained" : "lost"} value={number} text={count(number)} />;
  if (number === 0 || !cell.flips) return figure;
  return <a href={flipsLink(of, cell, way)} aria-label={flat(`${count(number)} flips of ${cell.title}: ${way}`)}>{figure}</a>;
};

function columnsOf(of: Shown, rows: readonly ComparedCell[], first: string, end: number): TableColumn<ComparedCell>[] {
  const few = rows.every((cell) => cell.few);
  const percent = rows.every((cell) => cell.percent);
  const unit = percent ? ", %" : "";
  const written = (cell: ComparedCell, text: string): string => (percent ? text : values(cell, text));
  const [baseline, new_] = of.pair.headings;
  const number = (key: string, head: ComponentChildren, cell: TableColumn<ComparedCell>["cell"], by: (cell: ComparedCell) => number | null, look = ""): TableColumn<ComparedCell> =>
    ({ key, head, right: true, class: look, cell, by });
  return [
    {
      key: "name",
      head: first,
      heading: true,
      by: (cell) => cell.title.toLowerCase(),
      cell: (cell) => (
        <>
          {cell.flips && cell.gained + cell.lost > 0 ? <a href={flipsLink(of, cell, null)}><Visible text={cell.title} /></a> : <Visible text={cell.title} />}
          {cell.short !== "" && <span class="quiet"> <Visible text={cell.short} /></span>}
          {cell.lower && Object.keys(cell.slice).length === 0 && <span class="quiet"> less is better</span>}
          {cell.sure !== "" && <> <Way way={cell.sure} /></>}
        </>
      ),
    },
    { key: "baseline", head: <><Visible text={baseline} />{unit}</>, right: true, class: "quiet", by: (cell) => cell.baseline, cell: (cell) => <Figure name="baseline" value={cell.baseline} text={written(cell, cell.texts.baseline)} /> },
    { key: "new", head: <><Visible text={new_} />{unit}</>, right: true, by: (cell) => cell.new, cell: (cell) => <Figure name="new" value={cell.new} text={written(cell, cell.texts.new)} /> },
    number("difference", percent ? "difference, points" : "difference", (cell) => <Figure name="difference" value={cell.difference} text={cell.texts.difference} />, (cell) => (cell.few ? null : cell.difference), "main"),
    ...(few
      ? []
      : [
          { key: "bounds", head: "95 % interval", class: "quiet", cell: (cell: ComparedCell) => cell.texts.bounds },
          { key: "chart", head: <GapAxis end={end} />, class: "chart", cell: (cell: ComparedCell) => (cell.few || !cell.percent ? "" : <Gap of={cell} end={end} />) },
        ]),
    number("gained", "better", (cell) => <Changed of={of} cell={cell} way="better" />, (cell) => cell.gained),
    number("lost", "worse", (cell) => <Changed of={of} cell={cell} way="worse" />, (cell) => cell.lost),
    number("units", "n", (cell) => <Figure name="units" value={cell.units} text={cell.texts.units} />, (cell) => cell.units, "quiet"),
    number("groups", <span title="independent units: questions about one patient or image form one group">groups</span>, (cell) => <Figure name="groups" value={cell.groups} text={count(cell.groups)} />, (cell) => cell.groups, "quiet"),
    number("adjusted", "adjusted p", (cell) => <Figure name="adjusted" value={cell.adjusted} text={cell.texts.adjusted} />, (cell) => cell.adjusted, "quiet"),
  ];
}

const headlineColumns = (of: Shown, part: PairedPartView, exact: boolean): TableColumn<ComparedCell>[] => [
  ...columnsOf(of, part.rows, "Measure", part.end),
  { key: "discordant", head: "flipped groups", right: true, class: "quiet", by: (cell) => cell.discordant_groups, cell: (cell) => <Figure name="discordant_groups" value={cell.discordant_groups} text={count(cell.discordant_groups)} /> },
  { key: "detectable", head: <span title="the true loss, in points, that such data would show in 80 % of comparisons">detectable</span>, right: true, class: "quiet", by: (cell) => cell.detectable, cell: (cell) => <Figure name="detectable" value={cell.detectable} text={cell.texts.detectable} /> },
  ...(exact ? [{ key: "mcnemar", head: "McNemar p", right: true, class: "quiet", by: (cell: ComparedCell) => cell.mcnemar, cell: (cell: ComparedCell) => <Figure name="mcnemar" value={cell.mcnemar} text={cell.texts.mcnemar} /> }] : []),
];

/** Whether a row's own interval lies to one side of 0, while its difference is not shown: too many others were tested beside it. */
export const alone = (cell: Pick<ComparedCell, "low" | "high" | "few" | "sure" | "adjusted">): boolean =>
  !cell.few && cell.sure === "" && cell.adjusted !== null && cell.low !== null && cell.high !== null && (cell.low > 0 || cell.high < 0);

export const Alone = ({ tests }: { readonly tests: number }) => (
  <p class="notes" data-alone>
    A row can have its whole interval on one side of 0 and still not be shown. Its interval is for this row alone. {tests > 1 ? `But ${count(tests)} differences` : "But several differences"} were
    tested here, and among so many a few look large by chance. So the p of each is corrected for all of them, and only a corrected p of at most 0.05
    counts. Such a row is a reason to test again with more questions, not proof of a difference.
  </p>
);

const rowClass = (cell: ComparedCell): string => `${cell.few ? "few " : ""}${cell.sure}`;
const identity = (cell: ComparedCell): Identity => ({
  "data-benchmark": cell.benchmark,
  "data-technique": cell.technique,
  "data-measure": cell.name,
  "data-slice": Object.entries(cell.slice).map(([name, value]) => `${name}=${value}`).join("; "),
});
const keyOf = (cell: ComparedCell): string => `${cell.name} ${Object.values(cell.slice).join(" ")}`;

const Slices = ({ of, measure, about }: { readonly of: Shown; readonly measure: ComparedMeasure; readonly about: string }) => (
  <>
    {measure.tables.map((table) => (
      <Fold
        key={table.dimension}
        title={<Visible text={`${label(measure.measure)} by ${label(table.dimension)}`} />}
        note={<Told of={table} lower={measure.lower} />}
        open={table.rows.length <= OPEN && of.page.head.comparison?.pairs.length === 1}
      >
        <Table
          rows={table.rows}
          columns={columnsOf(of, table.rows, flat(label(table.dimension)), measure.end)}
          label={flat(`${label(measure.measure)} by ${label(table.dimension)}: ${about}`)}
          class="forest versus"
          order={table.rows.every((cell) => cell.few) ? null : { key: "difference", down: measure.lower }}
          rowKey={keyOf}
          rowClass={rowClass}
          identity={identity}
        />
      </Fold>
    ))}
  </>
);

/** The number of slices, and of those whose difference is shown. */
const Told = ({ of, lower }: { readonly of: SlicedTable; readonly lower: boolean }) => (
  <>
    {plural(of.rows.length, "value")}, {of.fixed ? "fixed before the runs" : "exploratory"}{lower && ", less is better"}
    {(["better", "worse"] as const).map((way) => {
      const number = of.rows.filter((cell) => cell.sure === way).length;
      return number > 0 && <Fragment key={way}>, {number} <Way way={way} /></Fragment>;
    })}
  </>
);

const Part = ({ of, part, exact }: { readonly of: Shown; readonly part: PairedPartView; readonly exact: boolean }) => {
  const about = `${part.title}, ${of.page.head.runs[of.pair.new]?.name ?? ""}`;
  const [first, ...more] = part.slices;
  return (
    <>
      <h3><Visible text={part.title} /> <span class="quiet">{part.counted}</span></h3>
      {part.warnings.length > 0 && <ul class="notes">{part.warnings.map((note) => <li key={note}><Visible text={note} /></li>)}</ul>}
      <Table
        rows={part.rows}
        columns={headlineColumns(of, part, exact)}
        label={flat(`${about}: headline measures`)}
        class="forest versus headline"
        rowKey={keyOf}
        rowClass={rowClass}
          identity={identity}
      />
      {first !== undefined && <Slices of={of} measure={first} about={about} />}
      {more.length > 0 && (
        <Fold title="Slices of further measures" open={false}>
          {more.map((measure) => <Slices of={of} measure={measure} about={about} key={measure.measure} />)}
        </Fold>
      )}
    </>
  );
};

/** `NEW against BASELINE`. */
export const headingOf = (page: Page, pair: Pick<PairView, "new" | "baseline">): string =>
  `${page.head.runs[pair.new]?.name ?? ""} against ${page.head.runs[pair.baseline]?.name ?? ""}`;

/** The link to the differences of a pair. */
export const linkOf = (page: Page, pair: Pick<PairView, "new" | "baseline">): string =>
  page.link({ view: "summary", section: "differences", run: page.head.runs[pair.new]?.name ?? "", against: page.head.runs[pair.baseline]?.name ?? "" });

/** A value of a measure; its unit stands beside it where the column has several. */
export const values = (cell: ComparedCell, text: string): string => (cell.percent && !cell.few && text !== "" ? `${text} %` : text);

/** The pair that a state names, else the first that is compared. */
function chosenOf(page: Page, of: ComparisonView): Pick<PairView, "new" | "baseline"> {
  const names = page.head.runs.map((run) => run.name);
  const apart = new Set(of.apart.map(({ run }) => run));
  const compared = of.pairs.filter((pair) => pair.parts.length > 0);
  const ranked = compared.filter((pair) => !apart.has(pair.new) && !apart.has(pair.baseline));
  return pairOf(names, [...ranked, ...compared, ...of.pairs], page.state);
}

/** One pair of runs at a time, chosen by name. */
export const Differences = ({ page, of }: { readonly page: Page; readonly of: ComparisonView }) => {
  const chosen = chosenOf(page, of);
  const pair = of.pairs.find((each) => each.new === chosen.new && each.baseline === chosen.baseline);
  const [new_, baseline] = [page.head.runs[chosen.new]?.name ?? "", page.head.runs[chosen.baseline]?.name ?? ""];
  return (
    <section id="differences" aria-labelledby="differences-title" data-new={flat(new_)} data-baseline={flat(baseline)}>
      <h2 id="differences-title">
        {page.head.runs.length > 2 && "Differences: "}<Visible text={new_} /> against <Visible text={baseline} />
        {pair !== undefined && pair.differs !== "" && <span class="quiet"> <Visible text={pair.differs} /></span>}
      </h2>
      {page.head.runs.length > 2 && <Choose page={page} of={of} chosen={chosen} />}
      {pair === undefined ? <Overall page={page} of={of} chosen={chosen} /> : <Pair page={page} pair={pair} />}
    </section>
  );
};

interface Chosen {
  readonly page: Page;
  readonly of: ComparisonView;
  readonly chosen: Pick<PairView, "new" | "baseline">;
}

const Choose = ({ page, of, chosen }: Chosen) => {
  const go = (next: Pick<PairView, "new" | "baseline">): void => {
    page.go({ run: page.head.runs[next.new]?.name ?? "", against: page.head.runs[next.baseline]?.name ?? "", section: "" }, { replace: true });
  };
  const computed = (next: Pick<PairView, "new" | "baseline">): boolean => of.pairs.some((pair) => pair.new === next.new && pair.baseline === next.baseline);
  const others = (name: "new" | "baseline", other: number) =>
    page.head.runs.map((run, place) => place !== other && (
      <option key={place} value={`${place}`}>{flat(run.name)}{computed({ ...chosen, [name]: place }) ? "" : " (without slices)"}</option>
    ));
  return (
    <p class="chooser">
      <label>Run <select value={`${chosen.new}`} onChange={(event) => { go({ ...chosen, new: Number(event.currentTarget.value) }); }}>{others("new", chosen.baseline)}</select></label>{" "}
      <label>against <select value={`${chosen.baseline}`} onChange={(event) => { go({ ...chosen, baseline: Number(event.currentTarget.value) }); }}>{others("baseline", chosen.new)}</select></label>{" "}
      <button type="button" onClick={() => { go({ new: chosen.baseline, baseline: chosen.new }); }}>Swap</button>
    </p>
  );
};

const Pair = ({ page, pair }: Shown) => {
  const exact = pair.parts.some((part) => part.rows.some((cell) => cell.mcnemar !== null));
  return (
    <>
      {pair.refusals.length > 0 && <Refused of={pair.refusals} />}
      {pair.notes.length > 0 && <ul class="notes">{pair.notes.map((note) => <li key={note}><Visible text={note} /></li>)}</ul>}
      {pair.parts.map((part) => <Part of={{ page, pair }} part={part} exact={exact} key={`${part.benchmark}/${part.technique}`} />)}
      {pair.parts.some((part) => part.rows.some(alone)) && <Alone tests={page.head.comparison?.tests ?? 0} />}
      {pair.parts.length > 0 && <Key level={pair.level} few={page.head.comparison?.few ?? 0} tests={page.head.runs.length > 2 ? (page.head.comparison?.tests ?? 0) : 0} />}
    </>
  );
};

interface OverallRow {
  readonly board: BoardView;
  readonly pair: BoardPair;
  /** The units that changed; null while they are being read, or where the measure has none. */
  readonly gained: number | null;
  readonly lost: number | null;
}

/** The units of a board's measure that changed between two runs, counted from their values. */
function changedUnits(page: Page, of: ComparisonView, board: BoardView, pair: BoardPair): Pick<OverallRow, "gained" | "lost"> {
  const place = of.scales.findIndex(
    (scale) =>
      scale.measure === board.measure &&
      page.head.benchmarks[scale.benchmark]?.name === board.benchmark &&
      page.head.techniques[scale.technique] === board.technique,
  );
  if (page.data === null || place < 0) return { gained: null, lost: null };
  const flips = flipsOf(scaleAt(page.data, place), pair);
  return { gained: flipped(flips, "better"), lost: flipped(flips, "worse") };
}

/** Two runs of the leaderboard whose slices are not part of the bundle: their differences over all questions. */
const Overall = ({ page, of, chosen }: Chosen) => {
  const rows = of.boards.flatMap((board): readonly OverallRow[] => {
    const pair = board.pairs.find((each) => each.new === chosen.new && each.baseline === chosen.baseline);
    if (pair !== undefined) return [{ board, pair, ...changedUnits(page, of, board, pair) }];
    const turned = board.pairs.find((each) => each.new === chosen.baseline && each.baseline === chosen.new);
    if (turned === undefined) return [];
    const back = reversed(turned);
    return [{ board, pair: back, ...changedUnits(page, of, board, back) }];
  });
  const [new_, baseline] = [page.head.runs[chosen.new]?.name ?? "", page.head.runs[chosen.baseline]?.name ?? ""];
  const flips = ({ board }: OverallRow, ways = "worse,better"): string =>
    page.link({ view: "questions", section: "", run: new_, against: baseline, benchmark: board.benchmark, technique: board.technique, measure: board.measure, query: `flip:${ways}`, item: null });
  const columns: readonly TableColumn<OverallRow>[] = [
    { key: "benchmark", head: "Benchmark", heading: true, cell: ({ board }) => <Visible text={board.title} /> },
    { key: "measure", head: "Measure", cell: (row) => <><a href={flips(row)}>{label(row.board.measure)}</a>{row.board.lower && <span class="quiet"> less is better</span>}</> },
    { key: "difference", head: "difference, points", right: true, class: "main", by: ({ pair }) => pair.difference, cell: ({ pair }) => <Figure name="difference" value={pair.difference} text={pair.shown} /> },
    { key: "bounds", head: "95 % interval", class: "quiet", cell: ({ pair }) => pair.bounds },
    { key: "adjusted", head: "adjusted p", right: true, by: ({ pair }) => pair.adjusted, cell: ({ pair }) => <Figure name="adjusted" value={pair.adjusted} text={pair.adjusted === null ? "" : pair.adjusted < 0.001 ? "<0.001" : pair.adjusted.toFixed(3)} /> },
    { key: "way", head: "sign", cell: ({ pair }) => <Way way={pair.sure} /> },
    ...(["better", "worse"] as const).map((way): TableColumn<OverallRow> => {
      const number = (row: OverallRow): number | null => (way === "better" ? row.gained : row.lost);
      return {
        key: way,
        head: way,
        right: true,
        by: number,
        cell: (row) => number(row) !== null && (
          <a href={flips(row, way)}><Figure name={way === "better" ? "gained" : "lost"} value={number(row)} text={count(number(row) ?? 0)} /></a>
        ),
      };
    }),
  ];
  if (rows.length === 0) return <p class="notes">These two runs are not compared: they differ in more than one setting, or are not on one leaderboard.</p>;
  return (
    <>
      <Table
        rows={rows}
        columns={columns}
        label={flat(`${new_} against ${baseline}`)}
        class="forest versus"
        rowKey={({ board }) => `${board.benchmark}/${board.technique}/${board.measure}`}
        rowClass={({ pair }) => pair.sure}
        identity={({ board }) => ({ "data-new": flat(new_), "data-baseline": flat(baseline), "data-benchmark": board.benchmark, "data-technique": board.technique, "data-measure": board.measure, "data-slice": "" })}
      />
      <p class="key">
        A measure leads to the flips of the two runs. For their slices, type <code>medvqa report</code> with the folder of <Visible text={baseline} /> first
        and that of <Visible text={new_} /> second, or choose the two in <code>medvqa view</code>.
      </p>
    </>
  );
};

const TURNED = { better: "worse", worse: "better", "": "" } as const;
const minus = (value: number | null): number | null => (value === null ? null : -value);
const turned = (text: string): string => text.replace(/[+\-−]/g, (sign) => (sign === "+" ? "−" : "+"));

/** The difference the other way round. */
export const reversed = (pair: BoardPair): BoardPair => ({
  ...pair,
  new: pair.baseline,
  baseline: pair.new,
  difference: minus(pair.difference),
  low: minus(pair.high),
  high: minus(pair.low),
  sure: TURNED[pair.sure],
  shown: turned(pair.shown),
  bounds: pair.low === null || pair.high === null ? pair.bounds : turned(pair.bounds).split(" to ").reverse().join(" to "),
});

export const Refused = ({ of }: { readonly of: readonly string[] }) => (
  <div class="notes refused">
    <p><strong>These runs are not comparable:</strong></p>
    <ul>{of.map((line) => <li key={line}><Visible text={line} /></li>)}</ul>
  </div>
);

const Key = ({ level, few, tests }: { readonly level: number; readonly few: number; readonly tests: number }) => (
  <p class="key">
    <svg class="strip" width={30} height={16} aria-hidden="true"><line class="range" x1={2} x2={28} y1={8} y2={8} /><circle cx={15} cy={8} r={3.5} /></svg>
    {" "}difference and its {Number((100 * level).toPrecision(6))} % interval, two-sided as p is. A hollow dot has no interval. Better, worse:
    the number of units (questions or pairs) that changed; it leads to them. Groups: independent units; questions about one patient or
    image form one group. Detectable: the true loss, in points, that such data would show in 80 % of comparisons. Below {few} units,
    counts are shown in grey. Adjusted p (Holm): over {tests > 0 ? `the ${count(tests)} differences of all pairs of runs in all headline measures` : "all headline measures"}; in slices, over one dimension and measure{tests > 0 && " of all pairs with the baseline"}. The marks
    ▲ better and ▼ worse mean an adjusted p of at most 0.05. Only a gate gives a verdict.
  </p>
);
