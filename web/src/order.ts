// The answers in the order in which the reader steps through them.
import type { Data, Key } from "./data";
import { keyText } from "./key";

/** Keys of the answers to a benchmark's questions that were asked alike, in the order of the data set. */
export const answersLike = (data: Data, { benchmark, technique, variant, sample }: Key): readonly string[] => {
  const found: string[] = [];
  for (let r = 0; r < data.results; r++) {
    if (data.technique(r) !== technique || data.variant(r) !== variant || data.sample(r) !== sample) continue;
    const key = data.key(r);
    if (key.benchmark === benchmark) found.push(keyText(key));
  }
  return found;
};

/** The neighbours of an item in a list, past all that is shown with it, such as the other question of its pair. */
export interface Neighbours {
  /** The place of the item in the list, -1 if it is not there. */
  readonly place: number;
  readonly before: string | null;
  readonly after: string | null;
}

export const neighbours = (list: readonly string[], item: string, shown: ReadonlySet<string>): Neighbours => {
  const own = list.indexOf(item);
  const place = own >= 0 ? own : list.findIndex((key) => shown.has(key));
  if (place < 0) return { place, before: null, after: null };
  let [first, last] = [place, place];
  while (first >= 0 && shown.has(list[first] ?? "")) first--;
  while (last < list.length && shown.has(list[last] ?? "")) last++;
  return { place, before: list[first] ?? null, after: list[last] ?? null };
};
