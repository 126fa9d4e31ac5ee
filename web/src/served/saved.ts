// Lines in a file that the server saves, such as the reviews of a run: a store that is read at once and written soon.
import { keyText } from "../key";
import { read, written, type Entry, type Store } from "../reviews";
import { ServerProblem, askText, pathOfRun, put, sentenceOf, type Versioned } from "../server";

/** Milliseconds after the last change before it is saved. */
export const PAUSE = 700;

type SavedState = "reading" | "saved" | "saving" | "failed" | "changed";

/** The ways to the server; tests have their own. */
interface SavedAt {
  readonly read: () => Promise<Versioned>;
  readonly write: (next: Versioned) => Promise<Versioned>;
}

/** A text of `/api/` that is read and written whole. */
export const savedAt = (path: string): SavedAt => ({ read: () => askText(path), write: (next) => put(path, next) });

interface Merged {
  /** The lines of both; where both changed one, that of `mine` stands. */
  readonly text: string;
  /** The same, where that of `theirs` stands. */
  readonly yielding: string;
  /** Number of lines that both changed, and not alike. */
  readonly conflicts: number;
}
type Merge = (base: string, mine: string, theirs: string) => Merged;

/** How the lines of a text are read, by their names, and written. */
interface Lines<Entry> {
  readonly read: (text: string) => ReadonlyMap<string, Entry>;
  readonly write: (entries: Iterable<Entry>) => string;
  readonly same: (one: Entry, other: Entry) => boolean;
}

/** Apply what changed from `base` to `mine` to `theirs`. */
export const merging = <Entry>({ read: lines, write, same }: Lines<Entry>): Merge => (base, mine, theirs) => {
  const alike = (one: Entry | undefined, other: Entry | undefined): boolean =>
    one === other || (one !== undefined && other !== undefined && same(one, other));
  const [before, own, others] = [lines(base), lines(mine), lines(theirs)];
  const result = new Map(others);
  const yielding = new Map(others);
  let conflicts = 0;
  const change = (to: Map<string, Entry>, name: string, entry: Entry | undefined): void => {
    if (entry === undefined) to.delete(name);
    else to.set(name, entry);
  };
  for (const name of new Set([...before.keys(), ...own.keys()])) {
    const now = own.get(name);
    if (alike(now, before.get(name))) continue;
    const other = others.get(name);
    if (!alike(other, before.get(name)) && !alike(other, now)) conflicts += 1;
    else change(yielding, name, now);
    change(result, name, now);
  }
  return { text: write(result.values()), yielding: write(yielding.values()), conflicts };
};

/** Merge the reviews of the run of this digest. */
export const reviewsMerged = (digest: string): Merge =>
  merging<Entry>({
    read: (text) => new Map(read(text, digest).map((entry) => [keyText(entry.key), entry])),
    write: (entries) => written(digest, entries),
    same: (one, other) => written(digest, [one]) === written(digest, [other]),
  });

/** The lines of one text at the server. */
export class Saved implements Store {
  state: SavedState = "reading";
  /** Why nothing could be read or saved. */
  why = "";
  /** The number of lines that somebody else changed too. */
  conflicts = 0;
  /** Reviews of earlier answers of the run, which stay in its folder. */
  earlier = 0;
  readonly #merge: Merge;
  readonly #at: SavedAt;
  readonly #listeners = new Set<() => void>();
  /** The text that the server had last, its version, and the text of this page. */
  #base = "";
  #version: string;
  #text = "";
  /** The text if somebody else's lines count where both changed one. */
  #yielding = "";
  #waiting: ReturnType<typeof setTimeout> | undefined;
  #busy = false;

  /** `version`: that of the text which an earlier page saved last, "" if unknown. */
  constructor(merge: Merge, at: SavedAt, version = "") {
    this.#merge = merge;
    this.#at = at;
    this.#version = version;
  }

  /** The version of the text that the server had last. */
  get version(): string {
    return this.#version;
  }

  getItem(): string | null {
    return this.#text === "" ? null : this.#text;
  }
  setItem(_: string, text: string): void {
    this.#text = text;
    if (this.state === "reading" || this.state === "changed") return;
    this.#say("saving");
    clearTimeout(this.#waiting);
    this.#waiting = setTimeout(() => { void this.flush(); }, PAUSE);
  }
  removeItem(place: string): void {
    this.setItem(place, "");
  }

  subscribe(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => { this.#listeners.delete(listener); };
  }
  /** Whether something is not saved yet. */
  get isOpen(): boolean {
    return this.#text !== this.#base;
  }

  /** Read what the server has, and keep the changes of this page. */
  async load(): Promise<void> {
    if (this.#busy || this.state === "changed") return;
    try {
      this.#take(await this.#at.read());
    } catch (error) {
      this.#fail(error);
    }
  }

  /** Save now. */
  async flush(): Promise<void> {
    clearTimeout(this.#waiting);
    if (this.#busy || this.state === "reading" || this.state === "changed") return;
    this.#busy = true;
    const text = this.#text;
    try {
      const { version } = await this.#at.write({ text, version: this.#version });
      this.#base = text;
      this.#version = version;
      this.#say("saved");
    } catch (error) {
      if (error instanceof ServerProblem && error.status === 412) {
        this.#busy = false;
        await this.load();
        return;
      }
      this.#fail(error);
    } finally {
      this.#busy = false;
    }
    if (this.state === "saved" && this.isOpen) this.setItem("", this.#text);
  }

  /** Decide between the lines of this page and those of somebody else. */
  decide(mine: boolean): void {
    if (!mine) this.#text = this.#yielding;
    this.conflicts = 0;
    this.state = "saved";
    if (this.isOpen) this.setItem("", this.#text);
    else this.#say("saved");
  }

  #take({ text, version, earlier = 0 }: Versioned): void {
    // Nobody else has changed the text that was saved last.
    if (version !== "" && version === this.#version) this.#base = text;
    const { text: next, yielding, conflicts } = this.#merge(this.#base, this.#text, text);
    this.#base = text;
    this.#version = version;
    this.#text = next;
    this.#yielding = yielding;
    this.earlier = earlier;
    this.conflicts = conflicts;
    if (conflicts > 0) {
      this.#say("changed");
      return;
    }
    this.state = "saved";
    if (next === text) this.#say("saved");
    else this.setItem("", next);
  }
  #fail(error: unknown): void {
    this.why = sentenceOf(error);
    this.#say("failed");
  }
  #say(state: SavedState): void {
    this.state = state;
    if (state !== "failed") this.why = "";
    for (const listener of this.#listeners) listener();
  }
}

let leave: () => void = () => undefined;

/** Read a text at the server and keep it there, as long as the page opens no other. */
export const keepSaved = (saved: Saved): void => {
  leave();
  const left = new AbortController();
  leave = () => {
    left.abort();
    if (saved.isOpen) void saved.flush();
  };
  void saved.load();
  const { signal } = left;
  document.addEventListener("visibilitychange", () => {
    if (document.visibilityState === "visible") void saved.load();
    else if (saved.isOpen) void saved.flush();
  }, { signal });
  addEventListener("beforeunload", (event) => {
    if (saved.isOpen) event.preventDefault();
  }, { signal });
};

/** Keep the reviews of a run at the server. */
export const openSaved = (run: string, digest: string): Saved => {
  const saved = new Saved(reviewsMerged(digest), savedAt(`${pathOfRun(run)}/reviews`));
  keepSaved(saved);
  return saved;
};
