// What the views of `medvqa view` keep up to date: answers of the server, asked for again while the page is looked at.
import { useCallback, useEffect, useRef, useState } from "preact/hooks";

import { ask, isLeft, sentenceOf } from "../server";
import type { RunList } from "../served";

/** Milliseconds between an answer and the next question, in a tab that is seen and in a hidden one. */
const PERIOD = 2000;
const HIDDEN_PERIOD = 60_000;

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
  /** Ask again. A question that is under way is followed by another. */
  readonly again: () => void;
  /** The number of questions that have ended. */
  readonly turn: number;
}

/** An answer of the server that is asked for at first, and whenever `again` is called. `load` gets the answer before. */
export const useLoaded = <T>(load: (signal: AbortSignal, before: T | null) => Promise<T>): Loaded<T> => {
  const [{ value, problem, turn }, set] = useState<{ readonly value: T | null; readonly problem: string; readonly turn: number }>({ value: null, problem: "", turn: 0 });
  const latest = useRef(load);
  latest.current = load;
  const work = useRef<{ readonly left: AbortController; before: T | null; busy: boolean; wanted: boolean }>({ left: new AbortController(), before: null, busy: false, wanted: false });
  const start = useCallback((): void => {
    const now = work.current;
    now.busy = true;
    now.wanted = false;
    const { signal } = now.left;
    latest.current(signal, now.before)
      .then(
        (answer) => {
          now.before = answer;
          if (!signal.aborted) set((was) => ({ value: answer, problem: "", turn: was.turn + 1 }));
        },
        (error: unknown) => {
          if (!signal.aborted && !isLeft(error)) set((was) => ({ ...was, problem: sentenceOf(error), turn: was.turn + 1 }));
        },
      )
      .finally(() => {
        now.busy = false;
        if (now.wanted && !signal.aborted) start();
      });
  }, []);
  const again = useCallback((): void => {
    if (work.current.busy) work.current.wanted = true;
    else start();
  }, [start]);
  useEffect(() => {
    work.current = { left: new AbortController(), before: null, busy: false, wanted: false };
    const now = work.current;
    start();
    return () => { now.left.abort(); };
  }, [start]);
  return { value, problem, again, turn };
};

/** An answer that is asked for again every two seconds, and at once when the tab is shown; a hidden tab asks rarely. */
export const usePolled = <T>(load: (signal: AbortSignal, before: T | null) => Promise<T>): Loaded<T> => {
  const loaded = useLoaded(load);
  const { again, turn } = loaded;
  useEffect(() => {
    if (turn === 0) return undefined;
    let waiting = setTimeout(again, isHidden() ? HIDDEN_PERIOD : PERIOD);
    const turned = (): void => {
      clearTimeout(waiting);
      if (isHidden()) waiting = setTimeout(again, HIDDEN_PERIOD);
      else again();
    };
    document.addEventListener("visibilitychange", turned);
    return () => {
      clearTimeout(waiting);
      document.removeEventListener("visibilitychange", turned);
    };
  }, [turn, again]);
  return loaded;
};

/** The list of runs, and the names of those that have changed since the list before. */
export interface Runs {
  readonly list: RunList;
  readonly changed: readonly string[];
}

/** The list after an answer that may have only what changed. */
export const joined = (before: Runs | null, { partial = false, gone = [], ...answer }: RunList): Runs => {
  if (before === null || !partial) return { list: answer, changed: [] };
  const changed = answer.runs.map(({ name }) => name);
  const out = new Set([...gone, ...changed]);
  const runs = [...before.list.runs.filter(({ name }) => !out.has(name)), ...answer.runs];
  const order = (one: string, other: string): number => (one < other ? -1 : one > other ? 1 : 0);
  runs.sort((one, other) => order(other.started, one.started) || order(one.name, other.name));
  return { list: { ...answer, runs }, changed };
};

export const useRuns = (): Loaded<Runs> =>
  usePolled(async (signal, before) => joined(before, await ask<RunList>(`runs?since=${before?.list.version ?? 0}`, { signal })));
