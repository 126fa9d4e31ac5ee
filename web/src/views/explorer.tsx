// All questions and answers: facets, the query line, and the list, of one run or of several.
import { useEffect } from "preact/hooks";

import { save } from "../csv";
import type { Data } from "../data";
import { Benchmarks, Looks, Measures, Presets } from "../explorer/choices";
import { exported } from "../explorer/export";
import { Bar, Mended, Nothing, Reading, WithFilters } from "../explorer/frame";
import { List } from "../explorer/list";
import { find, hasScore, keysOf, Source, type Found } from "../explorer/selecting";
import { Again, Sum } from "../explorer/sum";
import { useQuery, type Asking } from "../explorer/use-query";
import { setListed } from "../listed";
import type { Page } from "../page";
import { parse } from "../query";
import { unitName } from "../scale";
import "../style/explorer.css";
import "../style/matrix.css";
import type { Rows } from "../table";
import { taggedVersion } from "../tagged";

export const Explorer = ({ page }: { readonly page: Page }) => {
  const several = page.head.kind === "comparison";
  return (
    <>
      {several && <p class="printed">The questions are not printed. Save their list by the button CSV.</p>}
      <section id="questions" class="explorer" aria-labelledby="questions-title">
        <h1 id="questions-title">Questions{several && " by run"}</h1>
        {page.data === null ? <p role="status">Reading the questions.</p> : <Loaded page={page} data={page.data} />}
      </section>
    </>
  );
};

const Loaded = ({ page, data }: { readonly page: Page; readonly data: Data }) => {
  const source = Source.of(data);
  const table = source.table(page.state);
  if (table === null) return <p class="empty">These runs share no measure that counts single questions.</p>;
  return <OfTable page={page} source={source} table={table} />;
};

interface TableOf {
  readonly page: Page;
  readonly source: Source;
  readonly table: Rows;
}

const useFound = ({ page, source, table }: TableOf): Asking<Found> => {
  const { state } = page;
  const { technique, query, sort, layout } = state;
  return useQuery(page, {
    texts: source.texts,
    fields: table.fields,
    find: (pending) => find(table, state, query, pending),
    // The item of a state selects nothing.
    on: [technique, sort, layout, table, taggedVersion()],
    // The texts of several runs are many: a search reads them.
    eager: table.compared === null,
    ready: () => { source.prepare(); },
  });
};

/** Make the links of items alone, and those of older pages, name all that they show. */
const useWholeLink = ({ page: { state, go, head }, table }: TableOf, found: Found): void => {
  const { compared } = table;
  const lost = compared === null && state.item !== null && (state.benchmark === "" || state.technique === "");
  // Links of older pages name a run without its baseline: they ask for its flips alone.
  const old = compared !== null && state.run !== "" && state.against === "";
  useEffect(() => {
    if (state.view !== "questions") return;
    if (lost) go({ benchmark: found.about.name, technique: found.techniques[0] ?? "" }, { replace: true });
    if (!old) return;
    const flips = parse(state.query).some((term) => term.field === "flip" || term.field === "way");
    const { pair } = compared;
    go({ run: head.runs[pair.new]?.name ?? "", against: head.runs[pair.baseline]?.name ?? "", query: flips ? state.query : `flip:worse,better ${state.query}`.trim() }, { replace: true });
    // eslint-disable-next-line react-hooks/exhaustive-deps
  }, [lost, old]);
};

const OfTable = (shown: TableOf) => {
  const { page, source, table } = shown;
  const { compared, answered } = table;
  const asking = useFound(shown);
  const { found, searching } = asking;
  useWholeLink(shown, found);
  useEffect(() => { setListed(() => keysOf(found)); }, [found]);
  const words = found.clauses.filter((clause) => clause.field < 0 && !clause.not).map((clause) => clause.text.toLowerCase());
  const download = async (): Promise<void> => {
    await source.texts.load(() => undefined);
    save(exported(found), compared === null ? `${found.about.name.replace(/[^\w.-]+/g, "_")}.csv` : "questions-by-run.csv", "text/csv");
  };
  const one = compared !== null ? unitName(compared.scale) : answered ? "answer" : "question";
  const name = compared === null ? found.about.name : `${compared.scale.place} ${compared.pair.new} ${compared.pair.baseline}`;
  return (
    <>
      {compared === null ? <Benchmarks page={page} asking={asking} /> : <Measures page={page} compared={compared} />}
      {compared !== null && <Presets page={page} asking={asking} compared={compared} />}
      <Bar page={page} asking={asking} table={table} example={compared === null ? "wrong" : "worse"} any={found.rows.length > 0} download={download}>
        <Looks page={page} asking={asking} />
      </Bar>
      <Mended page={page} asking={asking} problems={found.problems}>
        <Sum found={found} />
        {compared === null && <Again found={found} />}
      </Mended>
      {answered && (compared === null || searching) && <Reading texts={source.texts} of={table.data.results} searching={searching} />}
      <WithFilters page={page} asking={asking} found={{ ...found, about: { name }, scored: hasScore(found) }}>
        {found.rows.length === 0 ? <Nothing page={page} asking={asking} found={found} one={one} /> : <List page={page} found={found} words={words} />}
      </WithFilters>
    </>
  );
};
