// Which answers a reader has tagged: set by the review, read by the query line (`is:tagged`).

export interface Tagged {
  readonly has: (result: number) => boolean;
}

let current: Tagged = { has: () => false };
let version = 0;

/** Say which answers are tagged; lists that depend on it select anew when they are drawn again. */
export const setTagged = (tagged: Tagged): void => {
  current = tagged;
  version += 1;
};
export const isTagged = (result: number): boolean => current.has(result);
export const taggedVersion = (): number => version;
