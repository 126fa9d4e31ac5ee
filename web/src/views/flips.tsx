// The explorer of flips: units whose headline measure changed, with the answers of both runs.
import type { ComparisonView } from "../bundle";
import { csv, save } from "../csv";
import type { Data } from "../data";
import { Facets } from "../explorer/facets";
import { Problems, QueryLine } from "../explorer/query-line";
import { Source } from "../explorer/selecting";
import { inOrder, select } from "../filter";
import { among, bothOf, flipsOf, kindsOf, nearest, WAYS, type FlipKind, type FlipTable } from "../flips";
import type { Page } from "../page";
import { exampleOf, parse, printTerm, replaced, resolve, suggest, toggle, without, type Term } from "../query";
import type { State } from "../route";
import "../style/explorer.css";
import { count, flat, label, plural } from "../text";
import { Grid, type GridColumn } from "../ui/listing";
import { Outcome } from "../ui/outcome";
import { Visible } from "../ui/text";
import { Way } from "../ui/way";
import { useEffect, useMemo, useState } from "preact/hooks";
import { FlipDialog } from "./flips-item";

interface Shown {
  readonly page: Page;
  readonly of: ComparisonView;
}

export const Flips = ({ page, of }: Shown) => (
  <>
    <p class="printed">Flips are not printed. Save their list by the button CSV.</p>
    <section id="flips" class="explorer" aria-labelledby="flips-title">
      <h1 id="flips-title">Flips</h1>
      <p class="quiet">A flip is a question or pair for which a headline measure changed. Both responses are shown.</p>
      {page.data === null ? <p role="status">Reading the questions.</p> : <Loaded page={page} of={of} data={page.data} />}
    </section>
  </>
);

const tables = new WeakMap<Data, Map<FlipKind, FlipTable>>();
const kinds = new WeakMap<Data, readonly FlipKind[]>();

/** The kinds of flips, read once. */
const kindsIn = (data: Data): readonly FlipKind[] => {
  const known = kinds.get(data) ?? kindsOf(data);
  kinds.set(data, known);
  return known;
};

const tableOf = (data: Data, kind: FlipKind): FlipTable => {
  const known = tables.get(data) ?? new Map<FlipKind, FlipTable>();
  tables.set(data, known);
  const table = known.get(kind) ?? flipsOf(data, Source.of(data).texts, kind);
  known.set(kind, table);
  return table;
};

/** The kind that a state names, or the nearest one that has flips. */
const kindOf = (page: Page, of: ComparisonView, data: Data): FlipKind | undefined => {
  const { head, state } = page;
  return nearest(kindsIn(data), {
    pair: of.pairs.findIndex((pair) => head.runs[pair.new]?.name === state.run),
    benchmark: head.benchmarks.findIndex((benchmark) => benchmark.name === state.benchmark),
    technique: head.techniques.indexOf(state.technique),
    measure: of.measures.indexOf(state.measure),
  });
};

interface FoundFlips {
  readonly table: FlipTable;
  readonly rows: Uint32Array;
}

const Loaded = ({ page, of, data }: Shown & { readonly data: Data }) => {
  const kind = kindOf(page, of, data);
  if (kind === undefined) return <p class="empty">No headline measure changed for any question.</p>;
  return <OfKind page={page} of={of} data={data} kind={kind} />;
};

const OfKind = ({ page, of, data, kind }: Shown & { readonly data: Data; readonly kind: FlipKind }) => {
  const { state, go } = page;
  const { query, sort } = state;
  const { texts } = Source.of(data);
  const table = tableOf(data, kind);
  const [version, setVersion] = useState(0);
  const [caret, setCaret] = useState(-1);
  const [wide] = useState(() => matchMedia("(min-width: 52rem)").matches);
  useEffect(() => {
    // First the page, then the texts, which a search needs.
    const timer = setTimeout(() => void texts.load(() => { setVersion(texts.version); }), 50);
    return () => { clearTimeout(timer); };
  }, [texts]);
  const terms = parse(query);
  const searching = terms.some((term) => term.field === "");
  const found = useMemo(() => {
    const typed = (term: Term): boolean => caret >= 0 && term.start <= caret && caret <= term.end && suggest(query, caret, table.fields).length > 0;
    const resolved = resolve(parse(query), table.fields);
    const problems = resolved.problems.filter((problem) => !typed(problem.term));
    const selection = select(table, resolved.clauses, table.facets);
    const rows = problems.length > 0 ? new Uint32Array() : inOrder(selection, table.order(sort));
    return { ...resolved, problems, selection, rows, table };
    // Texts that are read later matter to a search alone.
    // eslint-disable-next-line react-hooks/exhaustive-deps
  }, [table, query, sort, caret, searching ? version : 0]);
  const about = page.head.benchmarks[kind.benchmark];
  const pair = of.pairs[kind.pair];
  if (about === undefined || pair === undefined) return null;
  const [new_ = "", baseline = ""] = [page.head.runs[pair.new]?.name, page.head.runs[pair.baseline]?.name];
  const pick = (next: string): void => {
    setCaret(-1);
    go({ query: next });
  };
  const { fields } = table;
  const byWay = found.selection.facets.get(0)?.questions ?? new Uint32Array(WAYS.length);
  const download = async (): Promise<void> => {
    await texts.load(() => undefined);
    save(exportedFlips(data, found, { new: new_, baseline, benchmark: about.name, technique: page.head.techniques[kind.technique] ?? "", measure: of.measures[kind.measure] ?? "" }), "flips.csv", "text/csv");
  };
  return (
    <>
      <Choices page={page} of={of} data={data} kind={kind} />
      <div class="bar">
        <QueryLine table={table} query={query} example={exampleOf(fields, table.facets, "worse")} change={(next, place) => { setCaret(place); if (next !== query) go({ query: next }, { replace: true }); }} />
        {query !== "" && <button type="button" onClick={() => { pick(""); }}>Clear</button>}
        <button type="button" id="csv" disabled={found.rows.length === 0} onClick={() => { void download(); }}>CSV</button>
      </div>
      {found.problems.length > 0 ? (
        <Problems problems={found.problems} mend={(problem, by) => { pick(replaced(query, problem.term, by)); }} />
      ) : (
        <p class="sum" role="status">
          <span><span class="big" id="flips-count" data-flips={found.rows.length}>{count(found.rows.length)}</span> of {plural(table.size, "flip")} of <strong><Visible text={label(of.measures[kind.measure] ?? "")} /></strong></span>
          {WAYS.map((way, place) => <span key={way}>{count(byWay[place] ?? 0)} <Way way={way} /></span>)}
        </p>
      )}
      {!texts.complete && searching && <p class="quiet reading" role="status">Responses searched so far: {count(texts.read)} of {count(data.results)}.</p>}
      <div class="sides-of-explorer">
        <details class="filters-of-explorer" open={wide}>
          <summary>Filters</summary>
          <Facets
            found={{ ...found, about: { name: `${about.name} ${kind.pair} ${kind.measure}` }, scored: false }}
            pick={(field, value) => { const chosen = fields[field]; if (chosen !== undefined) pick(toggle(query, fields, chosen, value)); }}
            clear={(field) => { const chosen = fields[field]; if (chosen !== undefined) pick(without(query, fields, chosen)); }}
          />
        </details>
        {found.rows.length === 0 ? (
          <div class="empty" role="status">
            <p>{found.problems.length > 0 ? "Nothing is listed while the query names something unknown." : "No flip matches."}</p>
            {terms.length > 0 && found.problems.length === 0 && <p>{terms.map((term) => <button key={term.start} type="button" onClick={() => { pick(replaced(query, term, "")); }}>Remove <code><Visible text={printTerm(term)} /></code></button>)}</p>}
          </div>
        ) : (
          <List page={page} data={data} found={found} names={[baseline, new_]} />
        )}
      </div>
      {state.item !== null && <FlipDialog page={page} of={of} data={data} table={table} rows={found.rows} />}
    </>
  );
};

// ---- the choice of comparison, benchmark, technique and measure ----------------------------------------------------

const Choices = ({ page, of, data, kind }: Shown & { readonly data: Data; readonly kind: FlipKind }) => {
  const { head } = page;
  const named = (run: number | undefined): string => (run === undefined ? "" : (head.runs[run]?.name ?? ""));
  const stateOf = (wish: FlipKind): Partial<State> => {
    const chosen = nearest(kindsIn(data), wish) ?? wish;
    return {
      run: named(of.pairs[chosen.pair]?.new),
      benchmark: head.benchmarks[chosen.benchmark]?.name ?? "",
      technique: head.techniques[chosen.technique] ?? "",
      measure: of.measures[chosen.measure] ?? "",
      query: chosen.benchmark === kind.benchmark ? page.state.query : "",
      sort: "",
      item: null,
    };
  };
  const choice = (name: keyof FlipKind, title: string, text: (place: number) => string) => {
    const places = among(kindsIn(data), kind, name).map((each) => each[name]);
    return places.length < 2 ? null : (
      <>
        <span>{title}</span>
        <div class="chips" role="group" aria-label={title}>
          {places.map((place) => (
            <button key={place} type="button" aria-pressed={place === kind[name]} onClick={() => { page.go(stateOf({ ...kind, [name]: place })); }}><Visible text={text(place)} /></button>
          ))}
        </div>
      </>
    );
  };
  return (
    <div class="choices">
      {choice("pair", "Comparison", (place) => `${named(of.pairs[place]?.new)} against ${named(of.pairs[place]?.baseline)}`)}
      {choice("benchmark", "Benchmark", (place) => head.benchmarks[place]?.name ?? "")}
      {choice("technique", "Technique", (place) => head.techniques[place] ?? "")}
      {choice("measure", "Measure", (place) => label(of.measures[place] ?? ""))}
    </div>
  );
};

// ---- the list ------------------------------------------------------------------------------------------------------

const LINES = 2; // answers of a unit in a row

interface ListOf {
  readonly page: Page;
  readonly data: Data;
  readonly found: FoundFlips;
  readonly names: readonly [string, string];
}

const List = ({ page, data, found: { table, rows }, names: [baseline, new_] }: ListOf) => {
  const { state, go } = page;
  const both = (row: number) => bothOf(data, table.flips[row] ?? 0);
  const { several } = table;
  const said = (side: "baseline" | "new") => (row: number) => {
    const all = both(row);
    return (
      <span class="members">
        {all.slice(0, LINES).map((each, i) => (
          <span key={i}>
            <Outcome name={data.outcome(each[side])} /> <span class="quiet"><Visible text={data.extracted(each[side]).join(", ")} /></span>
          </span>
        ))}
        {all.length > LINES && <span class="quiet">and {all.length - LINES} more</span>}
      </span>
    );
  };
  const dimensions = (page.head.benchmarks[table.kind.benchmark]?.dimensions ?? []).filter((d) => data.dimension(d).name !== "kind").slice(0, 3);
  const tags = (row: number): string => {
    const [first] = both(row);
    return first === undefined ? "" : dimensions.flatMap((d) => data.tags(d, first.question, first.new).slice(0, 1).map((value) => data.dimension(d).values[value]?.title ?? "")).join(" · ");
  };
  const text = (row: number): string => [...new Set(both(row).map(({ question }) => data.text(question)))].join(" · ");
  const columns = (width: number): readonly GridColumn[] => {
    const id: GridColumn = { name: "id", head: "Id", width: width < 620 ? "4.5rem" : "minmax(4.5rem, 8rem)", sorts: true, cell: (row) => <Visible text={table.units[row] ?? ""} /> };
    const way: GridColumn = { name: "way", head: "Flip", width: "5.4rem", sorts: true, cell: (row) => <Way way={table.better[row] === 1 ? "better" : "worse"} /> };
    const question: GridColumn = { name: "question", head: "Question", width: "minmax(0, 1fr)", sorts: true, cell: (row) => <span class="clamp" dir="auto" title={flat(text(row))}><Visible text={text(row)} /></span> };
    if (width < 620) return [id, way, question];
    return [
      id,
      way,
      question,
      { name: "baseline", head: <>Baseline: <Visible text={baseline} /></>, width: "minmax(8rem, 13rem)", sorts: true, cell: said("baseline") },
      { name: "new", head: <>New: <Visible text={new_} /></>, width: "minmax(8rem, 13rem)", sorts: true, cell: said("new") },
      ...(width > 900 ? [{ name: "tags", head: "Tags", width: "minmax(0, 0.6fr)", sorts: false, cell: (row: number) => <span class="clamp quiet"><Visible text={tags(row)} /></span> }] : []),
    ];
  };
  return (
    <Grid
      label={plural(rows.length, "flip")}
      class={several ? "flips pairs" : "flips"}
      rows={rows}
      high={several ? 66 : 46}
      columns={columns}
      sort={state.sort}
      onSort={(sort) => { go({ sort }); }}
      item={state.item}
      shows={(row, item) => table.units[row] === item}
      open={(row) => { go({ item: table.units[row] ?? null }); }}
      link={(row) => page.link({ item: table.units[row] ?? null })}
    />
  );
};

// ---- the list as a table for spreadsheets --------------------------------------------------------------------------

interface Names {
  readonly new: string;
  readonly baseline: string;
  readonly benchmark: string;
  readonly technique: string;
  readonly measure: string;
}

/** The listed flips: a line for each question, with the answers of both runs. Their texts have been read. */
function exportedFlips(data: Data, { table, rows }: FoundFlips, names: Names): string {
  const dimensions = data.bundle.head.benchmarks[table.kind.benchmark]?.dimensions ?? [];
  const said = (result: number): readonly string[] => [
    data.outcome(result),
    data.extracted(result).join(","),
    data.bundle.answers.at(result)?.response ?? "",
  ];
  const head = [
    "new run", "baseline run", "benchmark", "technique", "measure", "unit", "way", "id", "sample",
    ...dimensions.map((d) => data.dimension(d).name),
    "question", "answers",
    "outcome of baseline", "read of baseline", "response of baseline", "outcome of new", "read of new", "response of new",
  ];
  const lines = Array.from(rows).flatMap((row) =>
    bothOf(data, table.flips[row] ?? 0).map((both) => [
      names.new, names.baseline, names.benchmark, names.technique, names.measure,
      table.units[row] ?? "", WAYS[table.better[row] === 1 ? 1 : 0],
      data.id(both.question), data.sample(both.new) || data.sample(both.baseline) || "",
      ...dimensions.map((d) => data.tags(d, both.question, both.new).map((value) => data.dimension(d).values[value]?.value ?? "").join(",")),
      data.text(both.question), data.answers(both.question).join(","),
      ...said(both.baseline), ...said(both.new),
    ]),
  );
  return csv([head, ...lines]);
}
