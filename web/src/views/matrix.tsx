// The explorer of a comparison: units by runs on one scale, and the flips between any two runs.
import { useEffect, useMemo } from "preact/hooks";

import type { ComparisonView, ScaleView } from "../bundle";
import { save } from "../csv";
import type { Data } from "../data";
import { Bar, Mended, Nothing, Reading, WithFilters } from "../explorer/frame";
import { exportedUnits } from "../explorer/matrix-export";
import { MatrixList } from "../explorer/matrix-list";
import { Source } from "../explorer/selecting";
import { useQuery, type Asking } from "../explorer/use-query";
import { inOrder, select, type Selection } from "../filter";
import { flipped, matrixOf, pairOf, presetsOf, scaleAt, scaleOf, unitName, type MatrixTable, type RunPair } from "../matrix";
import type { Page } from "../page";
import { parse, printTerm, resolve, switched, type Clause, type Problem, type Term } from "../query";
import type { State } from "../route";
import "../style/explorer.css";
import "../style/matrix.css";
import { count, flat, label, plural } from "../text";
import { Visible } from "../ui/text";
import { UnitDialog } from "./matrix-item";

interface Shown {
  readonly page: Page;
  readonly of: ComparisonView;
}

export const Matrix = ({ page, of }: Shown) => (
  <>
    <p class="printed">The questions are not printed. Save their list by the button CSV.</p>
    <section id="questions" class="explorer" aria-labelledby="questions-title">
      <h1 id="questions-title">Questions by run</h1>
      {page.data === null ? <p role="status">Reading the questions.</p> : <Loaded page={page} of={of} data={page.data} />}
    </section>
  </>
);

const Loaded = ({ page, of, data }: Shown & { readonly data: Data }) => {
  const place = scaleOf(data, of, page.state);
  if (place < 0) return <p class="empty">These runs share no measure that counts single questions.</p>;
  return <OfScale page={page} of={of} data={data} place={place} />;
};

interface FoundUnits {
  readonly table: MatrixTable;
  readonly terms: readonly Term[];
  readonly clauses: readonly Clause[];
  readonly problems: readonly Problem[];
  readonly selection: Selection;
  readonly rows: Uint32Array;
}

function findUnits(table: MatrixTable, query: string, sort: string, pending: (term: Term) => boolean): FoundUnits {
  const terms = parse(query);
  const { clauses, problems: all } = resolve(terms, table.fields);
  const problems = all.filter((problem) => !pending(problem.term));
  const selection = select(table, clauses, table.facets);
  const rows = problems.length > 0 ? new Uint32Array() : inOrder(selection, table.order(sort));
  return { table, terms: terms.filter((term) => !all.some((problem) => problem.term === term)), clauses, problems, selection, rows };
}

/** Links of older pages name a run without its baseline: they ask for its flips alone. */
const useOldLinks = (page: Page, pair: RunPair): void => {
  const { state, go, head } = page;
  const old = state.run !== "" && state.against === "" && state.view === "questions";
  useEffect(() => {
    if (!old) return;
    const flips = parse(state.query).some((term) => term.field === "flip" || term.field === "way");
    go({ run: head.runs[pair.new]?.name ?? "", against: head.runs[pair.baseline]?.name ?? "", query: flips ? state.query : `flip:worse,better ${state.query}`.trim() }, { replace: true });
    // eslint-disable-next-line react-hooks/exhaustive-deps
  }, [old]);
};

const OfScale = ({ page, of, data, place }: Shown & { readonly data: Data; readonly place: number }) => {
  const { state, head } = page;
  const { query, sort } = state;
  const { texts } = Source.of(data);
  const chosen = pairOf(head.runs.map((run) => run.name), of, state);
  useOldLinks(page, chosen);
  const table = useMemo(() => {
    return matrixOf(scaleAt(data, of, place), texts, { new: chosen.new, baseline: chosen.baseline });
  }, [data, of, place, texts, chosen.new, chosen.baseline]);
  const asking = useQuery(page, { texts, fields: table.fields, find: (pending) => findUnits(table, query, sort, pending), on: [table, sort], eager: false });
  const { found, searching } = asking;
  const { view } = table.scale;
  const one = unitName(table.scale);
  const board = of.boards.find((each) => each.benchmark === head.benchmarks[view.benchmark]?.name && each.technique === head.techniques[view.technique] && each.measure === view.measure);
  const download = async (): Promise<void> => {
    await texts.load(() => undefined);
    save(exportedUnits(page, found.table, found.rows), "questions-by-run.csv", "text/csv");
  };
  return (
    <>
      <Choices page={page} of={of} view={view} pair={table.pair} />
      <Presets page={page} asking={asking} table={table} />
      <Bar page={page} asking={asking} table={table} example="worse" any={found.rows.length > 0} download={download} />
      <Mended page={page} asking={asking} problems={found.problems}>
        <Sum page={page} found={found} one={one} counted={board?.counted ?? ""} />
      </Mended>
      {searching && <Reading texts={texts} of={data.results} searching />}
      <WithFilters page={page} asking={asking} found={{ ...found, about: { name: `${place} ${table.pair.new} ${table.pair.baseline}` }, scored: false }}>
        {found.rows.length === 0 ? <Nothing page={page} asking={asking} found={found} one={one} /> : <MatrixList page={page} table={table} rows={found.rows} />}
      </WithFilters>
      {state.item !== null && <UnitDialog page={page} of={of} data={data} table={table} rows={found.rows} />}
    </>
  );
};

/** The number of listed units, and of their flips. */
const Sum = ({ page, found: { table, rows }, one, counted }: { readonly page: Page; readonly found: FoundUnits; readonly one: string; readonly counted: string }) => {
  const { scale, pair, flips } = table;
  const listed = Uint8Array.from(rows, (row) => flips[row] ?? 3);
  const name = (run: number) => <strong><Visible text={page.head.runs[run]?.name ?? ""} /></strong>;
  const [worse, better] = [flipped(listed, "worse"), flipped(listed, "better")];
  return (
    <p class="sum" role="status">
      <span><span class="big" id="units-count" data-units={rows.length}>{count(rows.length)}</span> of {plural(scale.size, one)} by <strong><Visible text={label(scale.view.measure)} /></strong></span>
      <span>
        {name(pair.new)} against {name(pair.baseline)}: <data id="flips-worse" value={worse}>{count(worse)}</data> <span class="way w-worse"><span aria-hidden="true">▼</span> worse</span>,{" "}
        <data id="flips-better" value={better}>{count(better)}</data> <span class="way w-better"><span aria-hidden="true">▲</span> better</span>
      </span>
      {counted !== "" && <span class="quiet"><Visible text={counted} /></span>}
    </p>
  );
};

/** Terms that are one click away, each with its number of units in the whole scale. */
const Presets = ({ page, asking, table }: { readonly page: Page; readonly asking: Asking<FoundUnits>; readonly table: MatrixTable }) => {
  const { query } = page.state;
  const presets = useMemo(() => presetsOf(table), [table]);
  const there = parse(query).map(printTerm);
  return (
    <ul class="presets" aria-label="Presets">
      {presets.map(({ name, term, units, meaning }) => (
        <li key={term}>
          <button type="button" aria-pressed={there.includes(term)} onClick={() => { asking.pick(switched(query, term)); }}>{name}</button>{" "}
          <data value={units} data-preset={term}>{count(units)}</data>: <Visible text={meaning} />
        </li>
      ))}
    </ul>
  );
};

// ---- the choice of benchmark, technique, measure, and of two runs --------------------------------------------------

const CHOICES = ["benchmark", "technique", "measure"] as const;

const Choices = ({ page, of, view, pair }: Shown & { readonly view: ScaleView; readonly pair: RunPair }) => {
  const { head, go, state } = page;
  const stateOf = (scale: ScaleView): Partial<State> => ({
    benchmark: head.benchmarks[scale.benchmark]?.name ?? "",
    technique: head.techniques[scale.technique] ?? "",
    measure: scale.measure,
    query: scale.benchmark === view.benchmark ? state.query : "",
    sort: "",
    item: null,
  });
  const texts = {
    benchmark: (scale: ScaleView) => head.benchmarks[scale.benchmark]?.name ?? "",
    technique: (scale: ScaleView) => head.techniques[scale.technique] ?? "",
    measure: (scale: ScaleView) => label(scale.measure),
  };
  return (
    <div class="choices">
      {CHOICES.map((name, before) => {
        // Each choice offers what there is under the choices before it.
        const under = of.scales.filter((scale) => CHOICES.slice(0, before).every((each) => scale[each] === view[each]));
        const offered = under.filter((scale, i) => under.findIndex((each) => each[name] === scale[name]) === i);
        return offered.length < 2 ? null : (
          <Chips key={name} title={name.charAt(0).toUpperCase() + name.slice(1)} names={offered.map(texts[name])} chosen={offered.findIndex((scale) => scale[name] === view[name])} choose={(i) => { const scale = offered[i]; if (scale !== undefined) go(stateOf(scale)); }} />
        );
      })}
      <Runs page={page} pair={pair} />
    </div>
  );
};

const Chips = ({ title, names, chosen, choose }: { readonly title: string; readonly names: readonly string[]; readonly chosen: number; readonly choose: (place: number) => void }) => (
  <>
    <span>{title}</span>
    <div class="chips" role="group" aria-label={title}>
      {names.map((name, place) => <button key={name} type="button" aria-pressed={place === chosen} onClick={() => { choose(place); }}><Visible text={name} /></button>)}
    </div>
  </>
);

/** The two runs whose flips are shown: any two. */
const Runs = ({ page, pair }: { readonly page: Page; readonly pair: RunPair }) => {
  const names = page.head.runs.map((run) => run.name);
  const choose = (change: Partial<RunPair>): void => {
    const next = { ...pair, ...change };
    // A run that is chosen twice changes places with the other one.
    const other = next.new === next.baseline ? (change.new === undefined ? { new: pair.baseline } : { baseline: pair.new }) : {};
    const both = { ...next, ...other };
    page.go({ run: names[both.new] ?? "", against: names[both.baseline] ?? "" });
  };
  const of = (name: keyof RunPair, title: string) => (
    <span>
      <span aria-hidden="true">{title} </span>
      <select aria-label={name === "new" ? "New run" : "Baseline"} value={String(pair[name])} onChange={(event) => { choose({ [name]: Number(event.currentTarget.value) }); }}>
        {names.map((each, run) => <option key={run} value={String(run)}>{`${run + 1} ${flat(each)}`}</option>)}
      </select>
    </span>
  );
  return <><span>Flips</span><div class="two-runs">{of("new", "of")} {of("baseline", "against")}</div></>;
};
