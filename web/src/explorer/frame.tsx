// The parts that all explorers share: the bar with the query line, filters beside the list, and an empty list.
import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";

import { alone, type Table } from "../filter";
import type { Page } from "../page";
import { exampleOf, printTerm, replaced, toggle, without, type Clause, type Problem, type Term } from "../query";
import type { Texts } from "../search";
import { count, plural } from "../text";
import { Visible } from "../ui/text";
import { Facets, type Faceted } from "./facets";
import { Problems, QueryLine } from "./query-line";
import type { Asking } from "./use-query";

interface BarOf {
  readonly page: Page;
  readonly asking: Asking<unknown>;
  readonly table: Faceted["table"];
  /** A value of the first facet, for the example. */
  readonly example: string;
  /** Whether anything is listed. */
  readonly any: boolean;
  readonly download: () => Promise<void>;
  readonly children?: ComponentChildren;
}

export const Bar = ({ page, asking, table, example, any, download, children }: BarOf) => {
  const { query } = page.state;
  return (
    <div class="bar">
      <QueryLine table={table} query={query} example={exampleOf(table.fields, table.facets, example)} change={asking.change} />
      {query !== "" && <button type="button" onClick={() => { asking.pick(""); }}>Clear</button>}
      {children}
      <button type="button" id="csv" disabled={!any} onClick={() => { void download(); }}>CSV</button>
    </div>
  );
};

/** What is wrong with the query, or the children. */
export const Mended = ({ page, asking, problems, children }: {
  readonly page: Page;
  readonly asking: Asking<unknown>;
  readonly problems: readonly Problem[];
  readonly children: ComponentChildren;
}) =>
  problems.length > 0
    ? <Problems problems={problems} mend={(problem, by) => { asking.pick(replaced(page.state.query, problem.term, by)); }} />
    : <>{children}</>;

/** How far the responses have been read. */
export const Reading = ({ texts, of, searching }: { readonly texts: Texts; readonly of: number; readonly searching: boolean }) =>
  texts.complete ? null : (
    <p class="quiet reading" role={searching ? "status" : undefined}>
      Responses {searching ? "searched so far" : "read"}: {count(texts.read)} of {count(of)}.
    </p>
  );

/** The filters, and a list beside them. */
export const WithFilters = ({ page, asking, found, children }: {
  readonly page: Page;
  readonly asking: Asking<unknown>;
  readonly found: Faceted;
  readonly children: ComponentChildren;
}) => {
  const [wide] = useState(() => matchMedia("(min-width: 52rem)").matches);
  const { query } = page.state;
  const { fields } = found.table;
  return (
    <div class="sides-of-explorer">
      <details class="filters-of-explorer" open={wide}>
        <summary>Filters</summary>
        <Facets
          found={found}
          pick={(field, value) => { const of = fields[field]; if (of !== undefined) asking.pick(toggle(query, fields, of, value)); }}
          clear={(field) => { const of = fields[field]; if (of !== undefined) asking.pick(without(query, fields, of)); }}
        />
      </details>
      {children}
    </div>
  );
};

interface ResolvedQuery {
  readonly table: Table;
  readonly problems: readonly Problem[];
  /** The terms of the clauses. */
  readonly terms: readonly Term[];
  readonly clauses: readonly Clause[];
}

/** An empty list: which terms leave nothing over, each with the number of rows that it matches alone. */
export const Nothing = ({ page, asking, found, one }: {
  readonly page: Page;
  readonly asking: Asking<unknown>;
  readonly found: ResolvedQuery;
  /** The name of a row. */
  readonly one: string;
}) =>
  found.problems.length > 0 ? (
    <p class="empty">Nothing is listed while the query names something unknown.</p>
  ) : (
    <div class="empty" role="status">
      <p>No {one} matches{found.clauses.length > 1 ? " all terms. Alone," : "."}</p>
      <ul>
        {found.clauses.map((clause, place) => {
          const term = found.terms[place];
          if (term === undefined) return null;
          return (
            <li key={term.start}>
              <code><Visible text={printTerm(term)} /></code> matches {plural(alone(found.table, clause), one)}{" "}
              <button type="button" onClick={() => { asking.pick(replaced(page.state.query, term, "")); }}>Remove it</button>
            </li>
          );
        })}
      </ul>
    </div>
  );
