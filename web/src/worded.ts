// Fields of the query line by the text of an option, wherever it stood: `key_text:yes read_text:no`.
import type { Data } from "./data";
import { markAny, type Field, type Lists } from "./filter";

/** A text as option texts are compared. The matrix of the summary does the same. */
export const plain = (text: string): string => text.toLowerCase().split(/\s+/).filter(Boolean).join(" ");

const INVALID: readonly string[] = ["refused", "abstained", "unparsed"];

/** The text of the right option of a result, or of the option that was read; null if it is not exactly one. */
export const wordsOf = (data: Data, name: "key_text" | "read_text", r: number): string | null => {
  const kind = data.kind(data.question(r));
  const right = data.right(r);
  const [key] = right;
  const read = name === "read_text";
  if (read && INVALID.includes(data.outcome(r))) return null;
  const [text, ...more] = read ? data.extracted(r) : right;
  if (kind === "judgment") {
    if (text === undefined || (read && more.length > 0)) return null;
    // A synonym of the reference is right, too.
    return plain(read && data.outcome(r) === "correct" ? (key ?? text) : text);
  }
  if (kind !== "single_choice" || text === undefined || more.length > 0) return null;
  const found = data.shown(r).find(([letter]) => letter === text);
  return found === undefined ? null : plain(found[1]);
};

/** A field of rows by the text of the right option, or of the option that was read. Texts are read when asked for. */
export const worded = (name: "key_text" | "read_text", data: Data, results: Lists): Field => {
  let read: { readonly places: ReadonlyMap<string, number>; readonly of: ReadonlyMap<number, number> } | null = null;
  const texts = (): NonNullable<typeof read> => {
    if (read !== null) return read;
    const places = new Map<string, number>();
    const of = new Map<number, number>();
    for (const r of results.members) {
      const text = wordsOf(data, name, r);
      if (text === null) continue;
      const place = places.get(text) ?? places.size;
      places.set(text, place);
      of.set(r, place);
    }
    return (read = { places, of });
  };
  return {
    name,
    label: name === "key_text" ? "text of the key" : "text of the option read",
    takes: "identity",
    values: [],
    byAnswer: name === "read_text",
    find: (typed) => {
      const place = texts().places.get(plain(typed));
      return place === undefined ? [] : [place];
    },
    like: (typed, most) => [...texts().places.keys()].filter((text) => text.includes(plain(typed))).slice(0, most),
    holds: (values, mask) => {
      const { of } = texts();
      markAny(results, mask, (r) => values.includes(of.get(r) ?? -1));
    },
  };
};
