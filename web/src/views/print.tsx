// Printing: unfold what is folded, and add a bounded list of questions.
import { render } from "preact";
import { useEffect } from "preact/hooks";

import { drawAll } from "../blocks";
import { inLetters } from "../blocks/sorting";
import type { Data } from "../data";
import { Source, find } from "../explorer/selecting";
import type { Page } from "../page";
import type { State } from "../route";
import { resultOf } from "../table";
import { count, plural } from "../text";
import { Outcome } from "../ui/outcome";
import { Visible } from "../ui/text";

/** Answers on paper: about three pages of A4. */
const PRINTED = 60;
const CUT = 220;

const cut = (text: string): string => (text.length > CUT ? `${text.slice(0, CUT)}…` : text);

/** The first answers of a run to print, and their number in all: those that are not correct first, then by their ids. */
export const printed = (data: Data): readonly [readonly number[], number] => {
  const correct = data.bundle.head.outcomes.indexOf("correct");
  const outcomes = data.column("results.outcome");
  const order = Array.from({ length: data.results }, (_, result) => ({ result, key: data.key(result), right: outcomes[result] === correct }));
  order.sort((one, other) => Number(one.right) - Number(other.right) || inLetters(one.key.benchmark, other.key.benchmark) || inLetters(one.key.item, other.key.item));
  return [order.slice(0, PRINTED).map(({ result }) => result), order.length];
};

/** The first answers that the explorer lists, and their number. */
export const listed = (data: Data, state: State): readonly [readonly number[], number] => {
  const table = Source.of(data).table(state);
  if (table === null) return [[], 0];
  const { rows } = find(table, state, state.query);
  return [[...rows.subarray(0, PRINTED)].flatMap((row) => resultOf(table, row) ?? []), rows.length];
};

interface ListOf {
  readonly data: Data;
  readonly results: readonly number[];
  readonly of: number;
  /** The order, in a few words. */
  readonly order: string;
  readonly query: string;
}

const List = ({ data, results, of, order, query }: ListOf) => (
  <section aria-labelledby="printed-title">
    <h2 id="printed-title">Questions</h2>
    {query !== "" && <p>Selected by <code><Visible text={query} /></code></p>}
    <p>
      {plural(results.length, "answer")} of {count(of)}{order}.{" "}
      {of > results.length && `${count(of - results.length)} are left out: the file index.html has all.`}
    </p>
    <table>
      <thead>
        <tr>{["question", "text", "outcome", "right", "read"].map((name) => <th scope="col">{name}</th>)}</tr>
      </thead>
      <tbody>
        {results.map((result) => {
          const q = data.question(result);
          const key = data.key(result);
          const name = [key.item, key.technique, key.variant, key.sample > 0 ? `sample ${key.sample}` : ""];
          return (
            <tr>
              <th scope="row"><Visible text={name.filter((part) => part !== "").join(", ")} /></th>
              <td><Visible text={cut(data.text(q))} /></td>
              <td><Outcome name={data.outcome(result)} /></td>
              <td><Visible text={cut(data.right(result).join(", "))} /></td>
              <td><Visible text={cut(data.extracted(result).join(", "))} /></td>
            </tr>
          );
        })}
      </tbody>
    </table>
  </section>
);

/** While the page is printed, its sections are unfolded, and a list of questions stands at the end. */
export const usePrinting = (page: Page): void => {
  const { data, head, state } = page;
  useEffect(() => {
    const place = document.createElement("div");
    place.className = "printed wide";
    document.getElementById("app")?.after(place);
    let unfolded: HTMLDetailsElement[] = [];
    const before = (): void => {
      drawAll();
      // What a reader folded stays out, but for sections and for what limits the numbers.
      unfolded = [...document.querySelectorAll<HTMLDetailsElement>("main :is(.of-section, .limits):not([open])")];
      for (const fold of unfolded) fold.open = true;
      if (data === null || head.kind !== "run" || state.view === "review") return;
      const summary = state.view === "summary";
      const [results, of] = summary ? printed(data) : listed(data, state);
      const order = summary ? ", those that are not correct first" : "";
      // Drawn at once: the browser prints when this function returns.
      render(<List data={data} results={results} of={of} order={order} query={summary ? "" : state.query} />, place);
    };
    const after = (): void => {
      for (const fold of unfolded) fold.open = false;
      render(null, place);
    };
    addEventListener("beforeprint", before);
    addEventListener("afterprint", after);
    return () => {
      removeEventListener("beforeprint", before);
      removeEventListener("afterprint", after);
      render(null, place);
      place.remove();
    };
  }, [data, head, state]);
};
