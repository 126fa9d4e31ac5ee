// The state of a query line: what is typed, which terms are still being typed, and what the query finds.
import { useEffect, useMemo, useState } from "preact/hooks";

import type { Page } from "../page";
import { parse, suggest, type Name, type Term } from "../query";
import type { Texts } from "../search";

interface Asked<F> {
  readonly texts: Texts;
  readonly fields: readonly Name[];
  /** Select by the query; a term for which `pending` is true is still being typed. */
  readonly find: (pending: (term: Term) => boolean) => F;
  /** What `find` depends on beside the query. Their number never changes. */
  readonly on: readonly unknown[];
  /** Whether all texts are read at once; else a search reads them. */
  readonly eager: boolean;
  /** Called when all texts have been read. */
  readonly ready?: () => void;
}

export interface Asking<F> {
  readonly found: F;
  /** Whether the query searches in texts. */
  readonly searching: boolean;
  /** A text that is typed, and the place of the caret (-1: typing has ended). */
  readonly change: (query: string, caret: number) => void;
  /** A query that was chosen. Back leads to the one before. */
  readonly pick: (query: string) => void;
  /** Typing has ended. */
  readonly rest: () => void;
}

/** What the query of a page finds. It finds more while texts are being read. */
export function useQuery<F>(page: Page, { texts, fields, find, on, eager, ready }: Asked<F>): Asking<F> {
  const { query } = page.state;
  const [version, setVersion] = useState(0);
  const [caret, setCaret] = useState(-1);
  const searching = parse(query).some((term) => term.field === "");
  const reading = eager || searching;
  useEffect(() => {
    if (!reading) return undefined;
    // First the page, then the texts, which a search needs.
    const read = (): void => { setVersion(texts.version); };
    const timer = setTimeout(() => {
      void texts.load(read).then(() => { read(); ready?.(); });
    }, 50);
    return () => { clearTimeout(timer); };
    // eslint-disable-next-line react-hooks/exhaustive-deps
  }, [texts, reading]);
  const found = useMemo(
    () => find((term) => caret >= 0 && term.start <= caret && caret <= term.end && suggest(query, caret, fields).length > 0),
    // Texts that are read later matter to a search alone.
    // eslint-disable-next-line react-hooks/exhaustive-deps
    [...on, query, caret, searching ? version : 0],
  );
  const rest = (): void => { setCaret(-1); };
  return {
    found,
    searching,
    change: (next, place) => {
      setCaret(place);
      if (next !== query) page.go({ query: next }, { replace: true });
    },
    pick: (next) => {
      rest();
      page.go({ query: next });
    },
    rest,
  };
}
