// The answers that the explorer lists, in its order: an open item steps through them.

let current: readonly string[] | (() => readonly string[]) = [];

/** Say which items are listed; the keys are made when they are first asked for. */
export const setListed = (keys: () => readonly string[]): void => {
  current = keys;
};
/** The keys of the listed items, in their order. */
export const listed = (): readonly string[] => {
  if (typeof current === "function") current = current();
  return current;
};
