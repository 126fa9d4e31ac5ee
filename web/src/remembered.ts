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

/** A choice of one of `values`, the first of them by default, and its setter. */
export const useRemembered = <T extends string>(name: string, values: readonly [T, ...T[]]): readonly [T, (value: T) => void] => {
  const [value, set] = useState<T>(() => {
    const kept = read(name);
    return values.find((each) => each === kept) ?? values[0];
  });
  return [
    value,
    (next) => {
      keep(name, next);
      set(next);
    },
  ];
};
