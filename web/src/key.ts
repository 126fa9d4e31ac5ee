// The key of an answer as a text, for links: `BENCHMARK|ITEM|TECHNIQUE|VARIANT|SAMPLE` without empty parts at its end.
import type { Data, Key } from "./data";

const escaped = (part: string): string => part.replaceAll("%", "%25").replaceAll("|", "%7C");
const unescaped = (part: string): string => part.replaceAll("%7C", "|").replaceAll("%25", "%");

export const keyText = ({ benchmark, item, technique, variant, sample }: Key): string => {
  const parts = [benchmark, item, technique, variant, sample === 0 ? "" : String(sample)].map(escaped);
  while (parts.length > 2 && parts.at(-1) === "") parts.pop();
  return parts.join("|");
};

/** Read a key; never fails: a text that is no key names nothing. */
export const parseKey = (text: string): Key => {
  const [benchmark = "", item = "", technique = "", variant = "", sample = ""] = text.split("|").map(unescaped);
  return { benchmark, item, technique, variant, sample: /^[1-9][0-9]{0,9}$/.test(sample) ? Number(sample) : 0 };
};

/** The place of a question by benchmark and id, or null. */
export const findQuestion = (data: Data, benchmark: string, item: string): number | null => {
  const word = data.bundle.tables.words.indexOf(item);
  if (word < 0) return null;
  const ids = data.column("questions.id");
  for (let q = 0; q < data.questions; q++) {
    if (ids[q] === word && data.benchmark(q).name === benchmark) return q;
  }
  return null;
};

/** The results of a question that were asked alike, one for each run. */
export const resultsLike = (data: Data, q: number, { technique, variant, sample }: Key): readonly number[] =>
  data
    .resultsOf(q)
    .filter((r) => data.technique(r) === technique && data.variant(r) === variant && data.sample(r) === sample);

/** More questions under one pair id are no pair. */
const MOST_OF_PAIR = 12;

/** The questions of a pair in their order; the question alone if it has no partner. */
export const pairOf = (data: Data, q: number): readonly number[] => {
  const pairs = data.column("questions.pair");
  const benchmarks = data.column("questions.benchmark");
  const pair = pairs[q] ?? -1;
  if (pair < 0) return [q];
  const members: number[] = [];
  for (let other = 0; other < data.questions; other++) {
    if (pairs[other] === pair && benchmarks[other] === benchmarks[q]) members.push(other);
  }
  return members.length > MOST_OF_PAIR ? [q] : members;
};
