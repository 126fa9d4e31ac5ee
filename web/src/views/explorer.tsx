// All questions and answers: facets, the query line, and the list.
import { useEffect, useMemo, useState } from "preact/hooks";

import { save } from "../csv";
import type { Data } from "../data";
import { exported } from "../explorer/export";
import { Facets } from "../explorer/facets";
import { List } from "../explorer/list";
import { Problems, QueryLine } from "../explorer/query-line";
import { benchmarkOf, find, hasScore, keysOf, LAYOUTS, Source, type Found, type Layout } from "../explorer/selecting";
import { Again, Sum } from "../explorer/sum";
import { alone } from "../filter";
import { setListed } from "../listed";
import type { Page } from "../page";
import { exampleOf, parse, printTerm, replaced, suggest, toggle, without, type Term } from "../query";
import "../style/explorer.css";
import { taggedVersion } from "../tagged";
import { count, flat, plural } from "../text";
import { Visible } from "../ui/text";

export const Explorer = ({ page }: { readonly page: Page }) => (
  <section id="questions" class="explorer" aria-labelledby="questions-title">
    <h1 id="questions-title">Questions</h1>
    {page.data === null ? <p role="status">Reading the questions.</p> : <Loaded page={page} data={page.data} />}
  </section>
);

const NAMES: Readonly<Record<Layout, string>> = { table: "Table", images: "Images", pairs: "Pairs" };

const Loaded = ({ page, data }: { readonly page: Page; readonly data: Data }) => {
  const { state, go, head } = page;
  const source = Source.of(data);
  const table = source.table(benchmarkOf(data, state));
  const [version, setVersion] = useState(0);
  const [caret, setCaret] = useState(-1);
  const [wide] = useState(() => matchMedia("(min-width: 52rem)").matches);
  useEffect(() => {
    // First the page, then the texts, which a search needs.
    const timer = setTimeout(() => {
      void source.texts.load(() => { setVersion(source.texts.version); }).then(() => { source.prepare(); });
    }, 50);
    return () => { clearTimeout(timer); };
  }, [source]);
  const searching = parse(state.query).some((term) => term.field === "");
  const { benchmark, technique, query, sort, layout } = state;
  const found = useMemo(() => {
    const typed = (term: Term): boolean => caret >= 0 && term.start <= caret && caret <= term.end && suggest(query, caret, source.table(benchmarkOf(data, state)).fields).length > 0;
    return find(source, state, query, typed);
    // The item of a state selects nothing; texts that come later matter to a search alone.
    // eslint-disable-next-line react-hooks/exhaustive-deps
  }, [source, benchmark, technique, query, sort, layout, caret, table, searching ? version : 0, taggedVersion()]);
  // A link to an item alone names no benchmark: the list stays where the item is.
  const [only = ""] = found.techniques;
  const lost = state.item !== null && (benchmark === "" || technique === "");
  useEffect(() => {
    if (lost && state.view === "questions") go({ benchmark: found.about.name, technique: only }, { replace: true });
    // eslint-disable-next-line react-hooks/exhaustive-deps
  }, [lost]);
  useEffect(() => { setListed(() => keysOf(source, found)); }, [source, found]);
  const change = (next: string, place: number): void => {
    setCaret(place);
    if (next !== query) go({ query: next }, { replace: true });
  };
  const pick = (next: string): void => {
    setCaret(-1);
    go({ query: next });
  };
  const { fields } = table;
  const words = found.clauses.filter((clause) => clause.field < 0 && !clause.not).map((clause) => clause.text.toLowerCase());
  const techniques = fields[table.place("technique")]?.values ?? [];
  const technique_ = fields[table.place("technique")];
  const layouts = LAYOUTS.filter((each) => each !== "pairs" || (found.about.pairs && table.result !== null));
  const download = async (): Promise<void> => {
    await source.texts.load(() => undefined);
    save(exported(source, found), `${found.about.name.replace(/[^\w.-]+/g, "_")}.csv`, "text/csv");
  };
  return (
    <>
      {head.benchmarks.length > 1 && (
        <div class="tabs" role="group" aria-label="Benchmark">
          {head.benchmarks.map((each, place) => (
            <button key={each.name} type="button" aria-pressed={place === found.table.benchmark} title={flat(each.title)} onClick={() => { setCaret(-1); go({ benchmark: each.name, query: "", sort: "" }); }}>
              <Visible text={each.name} />
            </button>
          ))}
        </div>
      )}
      <div class="bar">
        <QueryLine table={table} query={query} example={exampleOf(fields, table.facets, "wrong")} change={change} />
        {query !== "" && <button type="button" onClick={() => { pick(""); }}>Clear</button>}
        {techniques.length > 1 && technique_ !== undefined && (
          <div class="chips" role="group" aria-label="Technique">
            {techniques.map(({ name }) => (
              <button key={name} type="button" aria-pressed={found.techniques.includes(name)} onClick={() => { setCaret(-1); go({ technique: name, query: without(query, fields, technique_) }); }}>{name}</button>
            ))}
          </div>
        )}
        <div class="chips" role="group" aria-label="Layout">
          {layouts.map((each) => (
            <button key={each} type="button" aria-pressed={each === found.layout} onClick={() => { go({ layout: each === "table" ? "" : each }); }}>{NAMES[each]}</button>
          ))}
        </div>
        <button type="button" id="csv" disabled={found.rows.length === 0} onClick={() => { void download(); }}>CSV</button>
      </div>
      {found.problems.length > 0 ? (
        <Problems problems={found.problems} mend={(problem, by) => { pick(replaced(query, problem.term, by)); }} />
      ) : (
        <>
          <Sum found={found} source={source} />
          <Again found={found} source={source} />
        </>
      )}
      {!source.texts.complete && table.result !== null && (
        <p class="quiet reading" role={searching ? "status" : undefined}>
          {searching ? `Responses searched so far: ${count(source.texts.read)} of ${count(data.results)}.` : `Responses read: ${count(source.texts.read)} of ${count(data.results)}.`}
        </p>
      )}
      <div class="sides-of-explorer">
        <details class="filters-of-explorer" open={wide}>
          <summary>Filters</summary>
          <Facets
            found={{ ...found, scored: hasScore(found) }}
            pick={(field, value) => { const of = fields[field]; if (of !== undefined) pick(toggle(query, fields, of, value)); }}
            clear={(field) => { const of = fields[field]; if (of !== undefined) pick(without(query, fields, of)); }}
          />
        </details>
        {found.problems.length > 0 ? (
          <p class="empty">Nothing is listed while the query names something unknown.</p>
        ) : found.rows.length === 0 ? (
          <Empty found={found} query={query} pick={pick} />
        ) : (
          <List page={page} source={source} found={found} words={words} />
        )}
      </div>
    </>
  );
};

/** Which terms leave nothing over: each with the number of answers that it matches alone. */
const Empty = ({ found, query, pick }: { readonly found: Found; readonly query: string; readonly pick: (query: string) => void }) => (
  <div class="empty" role="status">
    <p>No {found.table.result === null ? "question" : "answer"} matches{found.clauses.length > 1 ? " all terms. Alone," : "."}</p>
    <ul>
      {found.clauses.map((clause, place) => {
        const term = found.terms[place];
        if (term === undefined) return null;
        return (
          <li key={term.start}>
            <code><Visible text={printTerm(term)} /></code> matches {plural(alone(found.table, clause), found.table.result === null ? "question" : "answer")}{" "}
            <button type="button" onClick={() => { pick(replaced(query, term, "")); }}>Remove it</button>
          </li>
        );
      })}
    </ul>
  </div>
);
