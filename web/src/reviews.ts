// A reader's own reviews of results: tags, a comment and a score. They stay in the browser, under the digest of the run.
import type { Data, Key } from "./data";
import { keyText } from "./key";
import { setTagged } from "./tagged";

export const TAGS = {
  wrong_key: "The reference answer is wrong or arguable.",
  perception: "The model overlooks or mistakes something in the image.",
  knowledge: "The model sees the content of the image, but lacks the medical knowledge.",
  laterality: "The model confuses sides or places: left and right, upper and lower.",
  extraction: "The response was read or scored wrongly.",
  image_quality: "The image does not show the content that the question needs.",
} as const;
/** The tags with their meanings, as in medvqa.judging.reviews. */
export type Tag = keyof typeof TAGS;
export const TAG_NAMES = Object.keys(TAGS) as readonly Tag[];

/** The reader's own score of an answer that a judge scored. */
export const SCORES: readonly number[] = [0, 0.5, 1];

export interface Review {
  readonly tags: readonly Tag[];
  readonly comment: string;
  readonly score: number | null;
}
/** A review with the key of its result. */
export interface Entry extends Review {
  readonly key: Key;
}

const VERSION = 1;
/** Limits of a file, as in medvqa.judging.reviews: bytes, lines, characters. */
export const MAX_FILE = 2 ** 26;
export const MAX_COMMENT = 4000;
const MAX_REVIEWS = 200_000;
const MAX_NAME = 4000;
const MAX_SAMPLE = 2 ** 31;

const NONE: Review = { tags: [], comment: "", score: null };

/** Reviews as JSON lines, sorted by key. Each line names the run, so that no other run takes it. */
export const written = (digest: string, entries: Iterable<Entry>): string =>
  [...entries]
    .map((entry) => [keyText(entry.key), entry] as const)
    .sort(([one], [other]) => (one < other ? -1 : 1))
    .map(([, { key, tags, comment, score }]) => {
      const { benchmark, item, technique, variant, sample } = key;
      const place = { benchmark, item, technique, variant, sample };
      return `${JSON.stringify({ review: VERSION, run: digest, ...place, tags, comment, score })}\n`;
    })
    .join("");

const FIELDS = ["review", "run", "benchmark", "item", "technique", "variant", "sample", "tags", "comment", "score"];

const isTag = (tag: unknown): tag is Tag => typeof tag === "string" && Object.hasOwn(TAGS, tag);

const entryOf = (value: unknown, digest: string): Entry => {
  if (typeof value !== "object" || value === null || Array.isArray(value)) throw new Error("an object of JSON is expected");
  const fields = new Map<string, unknown>(Object.entries(value));
  const text = (name: string, most: number, otherwise?: string): string => {
    const found = fields.get(name) ?? otherwise;
    if (typeof found !== "string") throw new Error(`'${name}' is no text`);
    if (found.length > most) throw new Error(`'${name}' has more than ${most} characters`);
    return found;
  };
  if (fields.get("review") !== VERSION) throw new Error(`no review of version ${VERSION}: is it another file?`);
  const unknown = [...fields.keys()].find((name) => !FIELDS.includes(name));
  if (unknown !== undefined) throw new Error(`no field '${unknown.slice(0, 40)}'; there are: ${FIELDS.join(", ")}`);
  const run = text("run", MAX_NAME);
  if (run !== digest) throw new Error(`the review is of another run: its digest is '${run.slice(0, 40)}', not '${digest}'`);
  const sample = fields.get("sample") ?? 0;
  if (typeof sample !== "number" || !Number.isInteger(sample) || sample < 0 || sample > MAX_SAMPLE) {
    throw new Error("'sample' is no number of a sample");
  }
  const tags = fields.get("tags") ?? [];
  if (!Array.isArray(tags) || tags.length > TAG_NAMES.length) throw new Error("'tags' is no list of tags");
  const other: unknown = tags.find((tag) => !isTag(tag));
  if (other !== undefined) throw new Error(`no tag ${JSON.stringify(other).slice(0, 40)}; there are: ${TAG_NAMES.join(", ")}`);
  const score = fields.get("score") ?? null;
  if (score !== null && (typeof score !== "number" || !SCORES.includes(score))) {
    throw new Error(`'score' is none of ${SCORES.join(", ")}`);
  }
  return {
    key: {
      benchmark: text("benchmark", MAX_NAME),
      item: text("item", MAX_NAME),
      technique: text("technique", MAX_NAME),
      variant: text("variant", MAX_NAME, ""),
      sample,
    },
    tags: TAG_NAMES.filter((tag) => tags.includes(tag)),
    comment: text("comment", MAX_COMMENT, ""),
    score,
  };
};

/** Read JSON lines about the run of this digest. An error names the line. */
export const read = (lines: string, digest: string): readonly Entry[] => {
  if (lines.length > MAX_FILE) throw new Error(`larger than ${MAX_FILE} bytes`);
  const found = new Map<string, Entry>();
  for (const [place, line] of lines.replace(/^\ufeff/, "").split("\n").entries()) {
    if (line.trim() === "") continue;
    try {
      if (found.size === MAX_REVIEWS) throw new Error(`more than ${MAX_REVIEWS} reviews`);
      const entry = entryOf(JSON.parse(line), digest);
      const name = keyText(entry.key);
      if (found.has(name)) throw new Error(`a second review of ${entry.key.item.slice(0, 80)}; keep one`);
      found.set(name, entry);
    } catch (error) {
      throw new Error(`line ${place + 1}: ${error instanceof Error ? error.message : String(error)}`, { cause: error });
    }
  }
  return [...found.values()];
};

export type Store = Pick<Storage, "getItem" | "setItem" | "removeItem">;

/** A store at a server: it is read and written in its own time, and says so. */
export interface SavedStore extends Store {
  readonly state: "reading" | "saved" | "saving" | "failed" | "changed";
  /** Why nothing could be read or saved. */
  readonly why: string;
  readonly conflicts: number;
  readonly earlier: number;
  readonly subscribe: (listener: () => void) => () => void;
  readonly load: () => Promise<void>;
  readonly flush: () => Promise<void>;
  readonly decide: (mine: boolean) => void;
}

/** The browser's storage, or null where it is blocked. */
export const localStore = (): Store | null => {
  try {
    const name = "medvqa";
    localStorage.setItem(name, "");
    localStorage.removeItem(name);
    return localStorage;
  } catch {
    return null;
  }
};

/** Where reviews are: kept by the browser, or only in this page, for a reason. */
export type Kept = "kept" | "blocked" | "full" | "unreadable";

const place = (digest: string): string => `medvqa/review/${VERSION}/${digest}`;

const isEmpty = ({ tags, comment, score }: Review): boolean => tags.length === 0 && comment.trim() === "" && score === null;

const same = (one: Review, other: Review): boolean =>
  one.comment === other.comment && one.score === other.score && one.tags.join() === other.tags.join();

/** The reviews of all runs of a page. A run without a digest keeps its reviews in the page only. */
export class Reviews {
  kept: Kept = "kept";
  readonly #data: Data;
  readonly #store: Store | null;
  readonly #digests: readonly string[];
  /** Reviews by key and run; `#places` has them by result. */
  readonly #entries: Map<string, Entry>[];
  #places = new Map<number, Entry>();
  /** The text of each run that the storage held last. */
  readonly #seen: (string | null)[];
  readonly #listeners = new Set<() => void>();

  constructor(data: Data, store: Store | null) {
    this.#data = data;
    this.#store = store;
    this.#digests = data.bundle.head.runs.map(({ digest }) => digest);
    this.#entries = this.#digests.map(() => new Map<string, Entry>());
    this.#seen = this.#digests.map(() => null);
    if (store === null || this.#digests.includes("")) this.kept = "blocked";
    this.refresh();
  }

  /** Number of reviewed results of the page. */
  get size(): number {
    return this.#places.size;
  }
  /** Results with a review, in the order of the page. */
  results(): readonly number[] {
    return [...this.#places.keys()].sort((one, other) => one - other);
  }
  of(result: number): Review {
    return this.#places.get(result) ?? NONE;
  }
  /** The tags of a result. Quick: filters ask for each result. */
  tags(result: number): readonly Tag[] {
    return this.of(result).tags;
  }
  isReviewed(result: number): boolean {
    return this.#places.has(result);
  }
  /** Numbers of results by tag. */
  counts(): ReadonlyMap<Tag, number> {
    const counts = new Map<Tag, number>();
    for (const { tags } of this.#places.values()) for (const tag of tags) counts.set(tag, (counts.get(tag) ?? 0) + 1);
    return new Map(TAG_NAMES.filter((tag) => counts.has(tag)).map((tag) => [tag, counts.get(tag) ?? 0]));
  }

  /** Change a part of a review. An empty one is removed. */
  set(result: number, change: Partial<Review>): void {
    const run = this.#run(result);
    const key = this.#data.key(result);
    const next = { ...this.of(result), ...change };
    // Half of a surrogate pair is no text in UTF-8.
    const comment = next.comment.slice(0, MAX_COMMENT).replace(/\p{Surrogate}/gu, "\ufffd");
    this.#change(run, [{ key, tags: TAG_NAMES.filter((tag) => next.tags.includes(tag)), comment, score: next.score }]);
  }

  /** The reviews of a run as a file; "" without any. */
  exported(run: number): string {
    return written(this.#digests[run] ?? "", this.#of(run).values());
  }

  /** Read a file of reviews of a run: its reviews, and those that would replace another one of the reader. */
  imported(run: number, lines: string): { readonly entries: readonly Entry[]; readonly conflicts: readonly Entry[] } {
    const entries = read(lines, this.#digests[run] ?? "");
    const known = this.#resolved(run, entries);
    const missing = entries.find((entry) => !known.has(keyText(entry.key)));
    if (missing !== undefined) throw new Error(`the page has no result ${missing.key.item.slice(0, 80)} of ${missing.key.benchmark.slice(0, 80)}`);
    const conflicts = entries.filter((entry) => {
      const own = this.#of(run).get(keyText(entry.key));
      return own !== undefined && !same(own, entry);
    });
    return { entries, conflicts };
  }
  /** Take reviews that were imported. */
  take(run: number, entries: readonly Entry[]): void {
    this.#change(run, entries);
  }
  /** Remove all reviews of a run, also from the storage. */
  clear(run: number): void {
    if (this.kept === "unreadable") {
      this.#store?.removeItem(place(this.#digests[run] ?? ""));
      this.kept = "kept";
    }
    this.#change(run, [...this.#of(run).values()].map(({ key }) => ({ ...NONE, key })));
  }

  /** Read what the storage holds now: another tab may have changed it. */
  refresh(): void {
    this.#digests.forEach((_, run) => {
      this.#pull(run);
    });
    this.#resolve();
  }
  /** Call `listener` after each change; returns the function that ends it. */
  subscribe(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => {
      this.#listeners.delete(listener);
    };
  }

  #of(run: number): Map<string, Entry> {
    const entries = this.#entries[run];
    if (entries === undefined) throw new Error(`the page has no run ${run}`);
    return entries;
  }
  #run(result: number): number {
    return this.#data.at("results.run", result);
  }

  #change(run: number, entries: readonly Entry[]): void {
    // Another tab may have written meanwhile: change its reviews, not those of before.
    this.#pull(run);
    const own = this.#of(run);
    for (const entry of entries) {
      if (isEmpty(entry)) own.delete(keyText(entry.key));
      else own.set(keyText(entry.key), entry);
    }
    this.#push(run);
    this.#resolve();
  }

  #pull(run: number): void {
    const digest = this.#digests[run] ?? "";
    // A full storage lacks the last changes: those of the page count.
    if (this.#store === null || digest === "" || this.kept === "full") return;
    let text: string | null = null;
    try {
      text = this.#store.getItem(place(digest));
      if (text === this.#seen[run]) return;
      const entries = read(text ?? "", digest);
      this.#seen[run] = text;
      this.#entries[run] = new Map(entries.map((entry) => [keyText(entry.key), entry]));
      if (this.kept === "unreadable") this.kept = "kept";
    } catch {
      // Left as it is: it may be the work of a later version.
      this.kept = "unreadable";
    }
  }

  #push(run: number): void {
    const digest = this.#digests[run] ?? "";
    if (this.#store === null || digest === "" || this.kept === "unreadable") return;
    const text = this.exported(run);
    try {
      if (text === "") this.#store.removeItem(place(digest));
      else this.#store.setItem(place(digest), text);
      this.#seen[run] = text === "" ? null : text;
      this.kept = "kept";
    } catch {
      this.kept = "full";
    }
  }

  /** Find the results of all reviews. */
  #resolve(): void {
    this.#places = new Map(
      this.#entries.flatMap((own, run) => {
        const places = this.#resolved(run, [...own.values()]);
        return [...own].flatMap(([name, entry]) => {
          const result = places.get(name);
          return result === undefined ? [] : [[result, entry] as const];
        });
      }),
    );
    for (const listener of this.#listeners) listener();
  }

  /** The results of keys in a run, by the texts of the keys. */
  #resolved(run: number, entries: readonly Entry[]): ReadonlyMap<string, number> {
    const found = new Map<string, number>();
    if (entries.length === 0) return found;
    const names = new Set(entries.map(({ key }) => keyText(key)));
    const ids = new Set(entries.map(({ key }) => key.item));
    const runs = this.#data.column("results.run");
    for (let q = 0; q < this.#data.questions; q++) {
      if (!ids.has(this.#data.id(q))) continue;
      for (const result of this.#data.resultsOf(q)) {
        const name = keyText(this.#data.key(result));
        if (runs[result] === run && names.has(name)) found.set(name, result);
      }
    }
    return found;
  }
}

const all = new WeakMap<Data, Reviews>();
const saved = new WeakMap<Data, SavedStore>();

/** The store at the server that has the reviews of a page, null for the browser's. */
export const savedOf = (data: Data): SavedStore | null => saved.get(data) ?? null;

/** Keep the reviews of a page in this store, before any view asks for them. */
export const saveIn = (data: Data, store: SavedStore): void => {
  saved.set(data, store);
};

/** The reviews of a page; there is one object for all views. */
export const reviewsOf = (data: Data): Reviews => {
  const known = all.get(data);
  if (known !== undefined) return known;
  const server = savedOf(data);
  const reviews = new Reviews(data, server ?? localStore());
  const tell = (): void => {
    setTagged({ has: (result) => reviews.isReviewed(result), tags: (result) => reviews.tags(result) });
  };
  reviews.subscribe(tell);
  tell();
  const refresh = (): void => { reviews.refresh(); };
  if (server === null) addEventListener("storage", refresh);
  else server.subscribe(refresh);
  all.set(data, reviews);
  return reviews;
};
