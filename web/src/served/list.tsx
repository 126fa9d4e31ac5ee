// A paged, filtered list of results. New results are announced; rows that somebody reads stay where they are.
import { useEffect, useRef, useState } from "preact/hooks";

import type { ItemRow, RunProgress } from "../served";
import { count, plural, took } from "../text";
import { Outcome } from "../ui/outcome";
import { Visible } from "../ui/text";
import { isFiltered, ROWS, TRUNCATED, type useItems } from "./items";
import { OpenedResult } from "./result";

type Listed = ReturnType<typeof useItems>;
const OUTCOMES = ["correct", "partial", "wrong", "refused", "abstained", "unparsed", "unscored", "error"];
/** Milliseconds after the last key before a text is searched for. */
const PAUSE = 400;

const Choice = ({ name, value, values, choose }: {
  readonly name: string;
  readonly value: string;
  readonly values: readonly string[];
  readonly choose: (value: string) => void;
}) => (
  <label class="choice">
    {name}
    <select value={value} onChange={({ currentTarget }) => { choose(currentTarget.value); }}>
      <option value="">all</option>
      {values.map((each) => <option key={each} value={each}>{each === TRUNCATED ? "cut off at the token limit" : each}</option>)}
    </select>
  </label>
);

const Search = ({ name, hint = "", value, search }: { readonly name: string; readonly hint?: string; readonly value: string; readonly search: (text: string) => void }) => {
  const [typed, setTyped] = useState(value);
  useEffect(() => { setTyped(value); }, [value]);
  const latest = useRef(search);
  latest.current = search;
  useEffect(() => {
    if (typed === value) return undefined;
    const waiting = setTimeout(() => { latest.current(typed); }, PAUSE);
    return () => { clearTimeout(waiting); };
  }, [typed, value]);
  return (
    <label class="choice">
      {name}
      <input type="search" placeholder={hint} value={typed} onInput={({ currentTarget }) => { setTyped(currentTarget.value); }} />
    </label>
  );
};

const Filters = ({ wanted, change, progress }: Pick<Listed, "wanted" | "change"> & { readonly progress: RunProgress }) => {
  const of = (name: "benchmark" | "technique"): readonly string[] => [...new Set(progress.parts.map((part) => part[name]))];
  return (
    <div class="filters" role="search" aria-label="Results">
      <Choice name="Outcome" value={wanted.outcome} values={[...OUTCOMES, TRUNCATED]} choose={(outcome) => { change({ outcome }); }} />
      {of("benchmark").length > 1 && <Choice name="Benchmark" value={wanted.benchmark} values={of("benchmark")} choose={(benchmark) => { change({ benchmark }); }} />}
      {of("technique").length > 1 && <Choice name="Technique" value={wanted.technique} values={of("technique")} choose={(technique) => { change({ technique }); }} />}
      <Search name="Item" hint="an id, or its begin and *" value={wanted.id} search={(id) => { change({ id }); }} />
      <Search name="Text" hint="in question or response" value={wanted.text} search={(text) => { change({ text }); }} />
      <label class="choice">
        Order
        <select value={wanted.order} onChange={({ currentTarget }) => { change({ order: currentTarget.value === "first" ? "first" : "latest" }); }}>
          <option value="latest">latest first</option>
          <option value="first">as asked</option>
        </select>
      </label>
      {isFiltered(wanted) && <button type="button" onClick={() => { change({ outcome: "", benchmark: "", technique: "", id: "", text: "" }); }}>Show all</button>}
    </div>
  );
};

const Row = ({ row, open }: { readonly row: ItemRow; readonly open: () => void }) => (
  <tr onClick={open}>
    <th scope="row"><button type="button" class="plain" onClick={(event) => { event.stopPropagation(); open(); }}><Visible text={row.id} /></button></th>
    <td><Outcome name={row.outcome} />{row.truncated === true && <span class="mark">cut off</span>}</td>
    <td dir="auto"><div class="clamp"><Visible text={row.question.slice(0, 300)} /></div></td>
    <td dir="auto"><div class="clamp"><Visible text={row.response.slice(0, 300)} /></div></td>
    <td class="right quiet">{row.seconds === null ? "" : took(row.seconds)}</td>
  </tr>
);

/** Buttons to the pages of the list; `start` is the place of the first row shown. */
const Pages = ({ start, change, matching, shown }: Pick<Listed, "start" | "change"> & { readonly matching: number; readonly shown: number }) => {
  const last = Math.max(0, Math.floor((matching - 1) / ROWS) * ROWS);
  const to = (place: number, name: string, able: boolean) => (
    <button type="button" disabled={!able} onClick={() => { change({ start: Math.max(0, Math.min(last, place)) }); }}>{name}</button>
  );
  return (
    <nav class="pages" aria-label="Pages of results">
      {to(0, "First", start > 0)}
      {to(start - ROWS, "Back", start > 0)}
      <span role="status">{shown === 0 ? "No results" : `${count(start + 1)} to ${count(start + shown)} of ${count(matching)}`}</span>
      {to(start + ROWS, "On", start + shown < matching)}
      {to(last, "Last", start + shown < matching)}
    </nav>
  );
};

interface ListProps {
  readonly name: string;
  readonly progress: RunProgress;
  readonly items: Listed;
  readonly reading: (reading: boolean) => void;
}

export const ResultList = ({ name, progress, items, reading }: ListProps) => {
  const { wanted, change, page, start, problem, again } = items;
  const [opened, open] = useState<number | null>(null);
  const rows = page?.rows ?? [];
  const row = opened === null ? undefined : rows[opened];
  const busy = row !== undefined || isFiltered(wanted) || wanted.start > 0;
  useEffect(() => { reading(busy); }, [busy, reading]);
  // The first answers are shown by themselves: nobody reads an empty list.
  const empty = page !== null && page.total === 0;
  useEffect(() => { if (empty && progress.answered > 0) again(); }, [empty, progress.answered, again]);
  const fresh = page === null ? 0 : progress.answered - page.total;
  const latest = (): void => {
    if (wanted.start === 0) again();
    else change({ start: 0 });
  };
  return (
    <section aria-labelledby="results-title" class="results">
      <h2 id="results-title">{wanted.order === "latest" ? "Latest answers" : "Answers"}</h2>
      <Filters wanted={wanted} change={change} progress={progress} />
      <p class="fresh">
        {fresh > 0 && <button type="button" onClick={latest}>{plural(fresh, "new answer")}: show</button>}
        {fresh <= 0 && page !== null && page.version < progress.version && <button type="button" onClick={latest}>Answers may have changed: read them again</button>}
      </p>
      {problem !== "" && <p class="alert" role="alert">{problem}</p>}
      {page === null && problem === "" && <p role="status">Reading the answers.</p>}
      {page !== null && (
        <>
          <Pages start={start} change={change} matching={page.matching} shown={rows.length} />
          <div class="scroll" tabIndex={0} role="group" aria-label="Results">
            <table class="items">
              <thead><tr><th scope="col">Item</th><th scope="col">Outcome</th><th scope="col">Question</th><th scope="col">Response</th><th scope="col" class="right">Time</th></tr></thead>
              <tbody>{rows.map((each, place) => <Row key={each.row} row={each} open={() => { open(place); }} />)}</tbody>
            </table>
          </div>
        </>
      )}
      {row !== undefined && opened !== null && (
        <OpenedResult
          run={name}
          row={row}
          place={`${count(start + opened + 1)} of ${count(page?.matching ?? 0)}`}
          before={opened > 0 ? () => { open(opened - 1); } : null}
          after={opened < rows.length - 1 ? () => { open(opened + 1); } : null}
          close={() => { open(null); }}
        />
      )}
    </section>
  );
};
