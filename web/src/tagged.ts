// Which answers a reader has reviewed: set by the review, read by the query line (`is:tagged`, `tag:wrong_key`).

export interface Tagged {
  readonly has: (result: number) => boolean;
  readonly tags: (result: number) => readonly string[];
}

let current: Tagged = { has: () => false, tags: () => [] };
let version = 0;

/** Say which answers are tagged; lists that depend on it select anew when they are drawn again. */
export const setTagged = (tagged: Tagged): void => {
  current = tagged;
  version += 1;
};
export const isTagged = (result: number): boolean => current.has(result);
export const tagsOf = (result: number): readonly string[] => current.tags(result);
export const taggedVersion = (): number => version;
