import fc from "fast-check";
import { beforeEach, expect, test } from "vitest";

import { Reviews, TAG_NAMES, read, reviewsOf, written, type Entry, type Store } from "../src/reviews";
import { DIGEST, OTHER, page } from "./reviewed";

class Memory implements Store {
  readonly texts = new Map<string, string>();
  full = false;
  getItem(name: string): string | null {
    return this.texts.get(name) ?? null;
  }
  setItem(name: string, text: string): void {
    if (this.full) throw new DOMException("full", "QuotaExceededError");
    this.texts.set(name, text);
  }
  removeItem(name: string): void {
    this.texts.delete(name);
  }
}

let store: Memory;
beforeEach(() => {
  store = new Memory();
});

test("a review is kept under the digest of its run, and removed when it is empty", () => {
  const data = page();
  const reviews = new Reviews(data, store);
  reviews.set(4, { tags: ["knowledge", "wrong_key"], comment: "why\n=1" });
  reviews.set(1, { score: 0.5 });
  expect(reviews.tags(4)).toEqual(["wrong_key", "knowledge"]);
  const again = new Reviews(data, store);
  expect(again.results()).toEqual([1, 4]);
  expect(again.of(4)).toMatchObject({ tags: ["wrong_key", "knowledge"], comment: "why\n=1", score: null });
  expect([...store.texts.keys()].sort()).toEqual([`medvqa/review/1/${DIGEST}`, `medvqa/review/1/${OTHER}`]);
  expect(new Reviews(page(["ef".repeat(16)]), store).size).toBe(0);
  again.set(4, { tags: [], comment: " " });
  again.set(1, { score: null });
  expect(again.size).toBe(0);
  expect(store.texts.size).toBe(0);
});

test("a line has the key, the tags and the comment, and nothing else", () => {
  const reviews = new Reviews(page(), store);
  reviews.set(0, { tags: ["laterality"], comment: "left", score: 1 });
  expect(JSON.parse(reviews.exported(0))).toEqual({
    review: 1,
    run: DIGEST,
    benchmark: "shapes",
    item: "a",
    technique: "mc",
    variant: "",
    sample: 0,
    tags: ["laterality"],
    comment: "left",
    score: 1,
  });
  expect(reviews.exported(1)).toBe("");
});

test("tags are counted in the order of the list", () => {
  const reviews = new Reviews(page(), store);
  reviews.set(0, { tags: ["image_quality", "wrong_key"] });
  reviews.set(1, { tags: ["image_quality"] });
  reviews.set(2, { comment: "no tag" });
  expect([...reviews.counts()]).toEqual([["wrong_key", 1], ["image_quality", 2]]);
  expect(reviews.size).toBe(3);
});

test("two tabs change one storage, and neither loses the other's reviews", () => {
  const data = page();
  const one = new Reviews(data, store);
  const other = new Reviews(data, store);
  one.set(0, { tags: ["knowledge"] });
  other.set(1, { tags: ["perception"] });
  let told = 0;
  one.subscribe(() => told++);
  one.refresh();
  expect(told).toBe(1);
  expect(one.results()).toEqual([0, 1]);
  other.set(0, { tags: [] });
  one.set(2, { comment: "x" });
  expect(one.results()).toEqual([1, 2]);
});

test("a blocked storage keeps reviews in the page and says so", () => {
  const reviews = new Reviews(page(), null);
  reviews.set(0, { tags: ["knowledge"] });
  expect([reviews.kept, reviews.tags(0)]).toEqual(["blocked", ["knowledge"]]);
  expect(reviews.exported(0)).toContain('"tags":["knowledge"]');
});

test("a full storage keeps the last changes in the page, until there is room again", () => {
  const reviews = new Reviews(page(), store);
  reviews.set(0, { tags: ["knowledge"] });
  store.full = true;
  reviews.set(1, { tags: ["perception"] });
  reviews.set(2, { tags: ["perception"] });
  expect([reviews.kept, reviews.size]).toEqual(["full", 3]);
  store.full = false;
  reviews.set(2, { tags: [] });
  expect([reviews.kept, new Reviews(page(), store).results()]).toEqual(["kept", [0, 1]]);
});

test("an unreadable storage is left as it is, until the reader deletes it", () => {
  const name = `medvqa/review/1/${DIGEST}`;
  store.texts.set(name, '{"review":2}\n');
  const reviews = new Reviews(page(), store);
  reviews.set(0, { tags: ["knowledge"] });
  expect([reviews.kept, reviews.size, store.texts.get(name)]).toEqual(["unreadable", 1, '{"review":2}\n']);
  reviews.clear(0);
  reviews.set(0, { tags: ["knowledge"] });
  expect([reviews.kept, new Reviews(page(), store).size]).toEqual(["kept", 1]);
});

test("an exported file is imported back, and conflicts are named before they are replaced", () => {
  const one = new Reviews(page(), store);
  one.set(0, { tags: ["knowledge"] });
  one.set(1, { tags: ["perception"], comment: "é😀" });
  const file = `\ufeff${one.exported(0)}`;
  const other = new Reviews(page(), new Memory());
  other.set(0, { comment: "mine" });
  const { entries, conflicts } = other.imported(0, file);
  expect(entries.length).toBe(2);
  expect(conflicts.map(({ key }) => key.item)).toEqual(["a"]);
  other.take(0, entries);
  expect(other.exported(0)).toBe(one.exported(0));
  expect(other.imported(0, file).conflicts).toEqual([]);
});

const line = (change: object): string =>
  JSON.stringify({ review: 1, run: DIGEST, benchmark: "shapes", item: "a", technique: "mc", tags: ["knowledge"], ...change });

test.each([
  [line({ item: "b" }), line({ item: "b" }), "line 2: a second review of b; keep one"],
  [line({ item: "b" }), line({ run: OTHER }), `line 2: the review is of another run: its digest is '${OTHER}'`],
  [line({ item: "b" }), line({ tags: ["no"] }), "line 2: no tag \"no\"; there are: wrong_key, perception"],
  [line({ item: "b" }), line({ tags: ["__proto__"] }), "line 2: no tag \"__proto__\""],
  [line({ item: "b" }), line({ tags: "knowledge" }), "line 2: 'tags' is no list of tags"],
  [line({ item: "b" }), line({ tags: Array(7).fill("knowledge") }), "line 2: 'tags' is no list of tags"],
  [line({ item: "b" }), line({ score: 0.7 }), "line 2: 'score' is none of 0, 0.5, 1"],
  [line({ item: "b" }), line({ comment: "x".repeat(4001) }), "line 2: 'comment' has more than 4000 characters"],
  [line({ item: "b" }), line({ item: 7 }), "line 2: 'item' is no text"],
  [line({ item: "b" }), line({ sample: -1 }), "line 2: 'sample' is no number of a sample"],
  [line({ item: "b" }), line({ review: 2 }), "line 2: no review of version 1: is it another file?"],
  [line({ item: "b" }), line({ rater: "Anna" }), "line 2: no field 'rater'; there are: review, run"],
  ["", "[1]", "line 2: an object of JSON is expected"],
  ["id,score", "1,2", "line 1: "],
  [line({ item: "b" }), line({ item: "z" }), "the page has no result z of shapes"],
])("a file that cannot be used is refused whole, with its line (%#)", (first, second, message) => {
  const reviews = new Reviews(page(), store);
  expect(() => reviews.imported(0, `${first}\n${second}\n`)).toThrow(message);
  expect(reviews.size).toBe(0);
});

test("any text is refused or read", () => {
  fc.assert(
    fc.property(fc.string({ unit: "binary", maxLength: 30 }), (text) => {
      try {
        expect(read(text, DIGEST)).toEqual([]);
      } catch (error) {
        expect(String(error)).toMatch(/^Error: line \d+: /);
      }
    }),
  );
});

test("reviews that are written are read back", () => {
  const text = fc.string({ unit: "grapheme", maxLength: 50 });
  const entry = fc.record<Entry>({
    key: fc.record({ benchmark: text, item: text, technique: text, variant: text, sample: fc.nat() }),
    tags: fc.subarray([...TAG_NAMES]),
    comment: text,
    score: fc.constantFrom(null, 0, 0.5, 1),
  });
  fc.assert(
    fc.property(fc.uniqueArray(entry, { selector: ({ key }) => JSON.stringify(Object.values(key)) }), (entries) => {
      const file = written(DIGEST, entries);
      expect(written(DIGEST, read(file, DIGEST))).toBe(file);
      expect(new Set(read(file, DIGEST).map((each) => JSON.stringify(each)))).toEqual(
        new Set(entries.map(({ key, tags, comment, score }) => JSON.stringify({ key: { benchmark: key.benchmark, item: key.item, technique: key.technique, variant: key.variant, sample: key.sample }, tags, comment, score }))),
      );
    }),
  );
});

test("half of a surrogate pair in a comment becomes a sign that UTF-8 has", () => {
  const reviews = new Reviews(page(), store);
  reviews.set(0, { comment: "a\ud800b" });
  expect(reviews.of(0).comment).toBe("a\ufffdb");
  reviews.set(0, { comment: `${"x".repeat(3999)}😀` });
  expect(reviews.of(0).comment).not.toMatch(/\p{Surrogate}/u);
});

test("all views of a page share its reviews", () => {
  const data = page();
  expect(reviewsOf(data)).toBe(reviewsOf(data));
  expect(reviewsOf(data).kept).toBe("kept");
});
