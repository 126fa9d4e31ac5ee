// All questions and answers: facets, the query line, and the list.
import { useEffect } from "preact/hooks";

import { save } from "../csv";
import type { Data } from "../data";
import { exported } from "../explorer/export";
import { Bar, Mended, Nothing, Reading, WithFilters } from "../explorer/frame";
import { List } from "../explorer/list";
import { benchmarkOf, find, hasScore, keysOf, LAYOUTS, Source, type Found, type Layout } from "../explorer/selecting";
import { Again, Sum } from "../explorer/sum";
import { useQuery, type Asking } from "../explorer/use-query";
import { setListed } from "../listed";
import type { Page } from "../page";
import { without } from "../query";
import "../style/explorer.css";
import { taggedVersion } from "../tagged";
import { flat } from "../text";
import { Visible } from "../ui/text";

export const Explorer = ({ page }: { readonly page: Page }) => (
  <section id="questions" class="explorer" aria-labelledby="questions-title">
    <h1 id="questions-title">Questions</h1>
    {page.data === null ? <p role="status">Reading the questions.</p> : <Loaded page={page} data={page.data} />}
  </section>
);

const NAMES: Readonly<Record<Layout, string>> = { table: "Table", images: "Images", pairs: "Pairs" };

interface Shown {
  readonly page: Page;
  readonly asking: Asking<Found>;
}

const useFound = (page: Page, data: Data, source: Source): Asking<Found> => {
  const { state } = page;
  const { benchmark, technique, query, sort, layout } = state;
  const table = source.table(benchmarkOf(data, state));
  return useQuery(page, {
    texts: source.texts,
    fields: table.fields,
    find: (pending) => find(source, state, query, pending),
    // The item of a state selects nothing.
    on: [source, benchmark, technique, sort, layout, table, taggedVersion()],
    eager: true,
    ready: () => { source.prepare(); },
  });
};

const Loaded = ({ page, data }: { readonly page: Page; readonly data: Data }) => {
  const { state, go } = page;
  const source = Source.of(data);
  const asking = useFound(page, data, source);
  const { found, searching } = asking;
  // A link to an item alone names no benchmark: the list stays where the item is.
  const [only = ""] = found.techniques;
  const lost = state.item !== null && (state.benchmark === "" || state.technique === "");
  useEffect(() => {
    if (lost && state.view === "questions") go({ benchmark: found.about.name, technique: only }, { replace: true });
    // eslint-disable-next-line react-hooks/exhaustive-deps
  }, [lost]);
  useEffect(() => { setListed(() => keysOf(source, found)); }, [source, found]);
  const words = found.clauses.filter((clause) => clause.field < 0 && !clause.not).map((clause) => clause.text.toLowerCase());
  const answered = found.table.result !== null;
  const download = async (): Promise<void> => {
    await source.texts.load(() => undefined);
    save(exported(source, found), `${found.about.name.replace(/[^\w.-]+/g, "_")}.csv`, "text/csv");
  };
  return (
    <>
      <Benchmarks page={page} asking={asking} />
      <Bar page={page} asking={asking} table={found.table} example="wrong" any={found.rows.length > 0} download={download}>
        <Choices page={page} asking={asking} />
      </Bar>
      <Mended page={page} asking={asking} problems={found.problems}>
        <Sum found={found} source={source} />
        <Again found={found} source={source} />
      </Mended>
      {answered && <Reading texts={source.texts} of={data.results} searching={searching} />}
      <WithFilters page={page} asking={asking} found={{ ...found, scored: hasScore(found) }}>
        {found.rows.length === 0
          ? <Nothing page={page} asking={asking} found={found} one={answered ? "answer" : "question"} />
          : <List page={page} source={source} found={found} words={words} />}
      </WithFilters>
    </>
  );
};

const Benchmarks = ({ page, asking }: Shown) =>
  page.head.benchmarks.length < 2 ? null : (
    <div class="tabs" role="group" aria-label="Benchmark">
      {page.head.benchmarks.map((each, place) => (
        <button key={each.name} type="button" aria-pressed={place === asking.found.table.benchmark} title={flat(each.title)} onClick={() => { asking.rest(); page.go({ benchmark: each.name, query: "", sort: "" }); }}>
          <Visible text={each.name} />
        </button>
      ))}
    </div>
  );

/** The techniques and layouts that can be chosen. */
const Choices = ({ page: { state, go }, asking }: Shown) => {
  const { found } = asking;
  const { fields } = found.table;
  const technique = fields[found.table.place("technique")];
  const layouts = LAYOUTS.filter((each) => each !== "pairs" || (found.about.pairs && found.table.result !== null));
  return (
    <>
      {technique !== undefined && technique.values.length > 1 && (
        <div class="chips" role="group" aria-label="Technique">
          {technique.values.map(({ name }) => (
            <button key={name} type="button" aria-pressed={found.techniques.includes(name)} onClick={() => { asking.rest(); go({ technique: name, query: without(state.query, fields, technique) }); }}>{name}</button>
          ))}
        </div>
      )}
      <div class="chips" role="group" aria-label="Layout">
        {layouts.map((each) => (
          <button key={each} type="button" aria-pressed={each === found.layout} onClick={() => { go({ layout: each === "table" ? "" : each }); }}>{NAMES[each]}</button>
        ))}
      </div>
    </>
  );
};
