// Pages of the results of a run, as the server sends them.
import { useCallback, useEffect, useRef, useState } from "preact/hooks";

import { ask, pathOfRun } from "../server";
import type { ItemPage } from "../served";
import { useLoaded } from "./feed";

/** Which results are listed. An empty text stands for all. */
interface Wanted {
  readonly order: "latest" | "first";
  readonly outcome: string;
  readonly benchmark: string;
  readonly technique: string;
  readonly id: string;
  readonly text: string;
  readonly start: number;
}
export const ALL: Wanted = { order: "latest", outcome: "", benchmark: "", technique: "", id: "", text: "", start: 0 };
export const ROWS = 50;
/** The outcome that stands for answers cut off at a token limit, whatever their outcome. */
export const TRUNCATED = "truncated";

/** The path of a page of results below `/api/`. */
export const itemsPath = (name: string, { start, ...wanted }: Wanted): string => {
  const given = new URLSearchParams({ start: String(start), count: String(ROWS) });
  for (const [field, value] of Object.entries(wanted)) if (value !== "") given.set(field, value);
  return `${pathOfRun(name)}/items?${given.toString()}`;
};

/** Whether only some results are wanted. */
export const isFiltered = ({ outcome, benchmark, technique, id, text }: Wanted): boolean => [outcome, benchmark, technique, id, text].some((value) => value !== "");

interface Listed {
  readonly wanted: Wanted;
  readonly change: (change: Partial<Wanted>) => void;
  readonly page: ItemPage | null;
  /** The place of the first row of `page`. */
  readonly start: number;
  readonly problem: string;
  /** Read the same page again. */
  readonly again: () => void;
}

/** A page of results: read when other ones are wanted, never because new ones came. */
export const useItems = (name: string, from: Wanted = ALL): Listed => {
  const [wanted, setWanted] = useState(from);
  const { value, problem, again } = useLoaded(async (signal) => {
    const page = await ask<ItemPage>(itemsPath(name, wanted), { signal, seconds: 120 });
    return { page, start: wanted.start };
  });
  const first = useRef(true);
  useEffect(() => {
    if (first.current) first.current = false;
    else again();
  }, [wanted, again]);
  const change = useCallback((changed: Partial<Wanted>): void => { setWanted((before) => ({ ...before, start: 0, ...changed })); }, []);
  return { wanted, change, page: value?.page ?? null, start: value?.start ?? 0, problem, again };
};
