// The answers in the order in which the reader goes through them.
import type { Data, Key } from "./data";

/** Answers to the questions of one benchmark that were asked alike, in the order of the data set. */
export const answersLike = (data: Data, { benchmark, technique, variant, sample }: Key): readonly number[] => {
  const found: number[] = [];
  for (let r = 0; r < data.results; r++) {
    if (data.technique(r) !== technique || data.variant(r) !== variant || data.sample(r) !== sample) continue;
    if (data.benchmark(data.question(r)).name === benchmark) found.push(r);
  }
  return found;
};
