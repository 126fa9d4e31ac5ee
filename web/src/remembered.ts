// Choices that the browser keeps for all pages; where it keeps nothing, they hold until the page is closed.
import { useState } from "preact/hooks";

const PREFIX = "medvqa/choice/";

const read = (name: string): string | null => {
  try {
    return localStorage.getItem(PREFIX + name);
  } catch {
    return null;
  }
};
const keep = (name: string, value: string): void => {
  try {
    localStorage.setItem(PREFIX + name, value);
  } catch {
    // Storage is blocked or full: the choice holds for this page.
  }
};

/** A text that is kept, "" at first, and its setter. */
export const useKept = (name: string): readonly [string, (value: string) => void] => {
  const [value, set] = useState<string>(() => read(name) ?? "");
  return [
    value,
    (next) => {
      keep(name, next);
      set(next);
    },
  ];
};

/** A choice of one of `values`, the first of them by default, and its setter. */
export const useRemembered = <T extends string>(name: string, values: readonly [T, ...T[]]): readonly [T, (value: T) => void] => {
  const [kept, set] = useKept(name);
  return [values.find((each) => each === kept) ?? values[0], set];
};
