// What the views of `medvqa view` keep up to date: an answer of the server, and the connection.
import { createContext } from "preact";
import { useCallback, useContext, useEffect, useRef, useState } from "preact/hooks";

import { isLeft, sentenceOf } from "../server";
import type { Feed, News } from "./events";

const FeedContext = createContext<Feed | null>(null);
export const FeedProvider = FeedContext.Provider;

/** Call `hear` at each of the news. */
export const useNews = (hear: (news: News) => void): void => {
  const feed = useContext(FeedContext);
  const latest = useRef(hear);
  latest.current = hear;
  useEffect(() => feed?.subscribe((news) => { latest.current(news); }), [feed]);
};

/** The reason why no news come, "" if they do. */
export const useConnection = (): string => {
  const [why, setWhy] = useState("");
  useNews((news) => { if (news.kind === "connection") setWhy(news.why); });
  return why;
};

const isHidden = (): boolean => document.visibilityState === "hidden";

/** Mark the document when its view is drawn: tests and measurements wait for it. */
export const useReady = (ready: boolean): void => {
  useEffect(() => {
    if (ready) document.documentElement.dataset["ready"] = "";
  }, [ready]);
};

export interface Loaded<T> {
  /** The last answer, null before the first. */
  readonly value: T | null;
  /** The reason why there is no newer answer, "" if there is none. */
  readonly problem: string;
  /** Ask again. One that is under way is followed by another. */
  readonly again: () => void;
  /** Take an answer that came by other ways. */
  readonly set: (value: T) => void;
}

/**
 * An answer of the server that is asked for at first, and whenever `again` is called. A hidden tab asks when it is shown:
 * the browser's few connections are those of visible tabs.
 */
export const useLoaded = <T>(load: (signal: AbortSignal) => Promise<T>): Loaded<T> => {
  const [value, setValue] = useState<T | null>(null);
  const [problem, setProblem] = useState("");
  const latest = useRef(load);
  latest.current = load;
  const work = useRef({ left: new AbortController(), busy: false, wanted: false });
  const start = useCallback((): void => {
    const now = work.current;
    now.busy = true;
    now.wanted = false;
    const { signal } = now.left;
    latest.current(signal)
      .then(
        (answer) => {
          if (signal.aborted) return;
          setValue(() => answer);
          setProblem("");
        },
        (error: unknown) => { if (!signal.aborted && !isLeft(error)) setProblem(sentenceOf(error)); },
      )
      .finally(() => {
        now.busy = false;
        if (now.wanted && !signal.aborted && !isHidden()) start();
      });
  }, []);
  const again = useCallback((): void => {
    if (work.current.busy || isHidden()) work.current.wanted = true;
    else start();
  }, [start]);
  useEffect(() => {
    const now = { left: new AbortController(), busy: false, wanted: false };
    work.current = now;
    // Also in a tab that is opened behind others: its page is to be there when it is shown.
    start();
    const shown = (): void => { if (now.wanted && !now.busy && !isHidden()) start(); };
    document.addEventListener("visibilitychange", shown, { signal: now.left.signal });
    return () => { now.left.abort(); };
  }, [start]);
  return { value, problem, again, set: useCallback((answer: T) => { setValue(() => answer); }, []) };
};
