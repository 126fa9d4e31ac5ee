// Reviews in the folder of a run, where the server saves them: as a store of `Reviews`, read at once and written soon.
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

const savedAt = (run: string): SavedAt => {
  const path = `${pathOfRun(run)}/reviews`;
  return { read: () => askText(path), write: (next) => put(path, next) };
};

const lines = (text: string, digest: string): ReadonlyMap<string, Entry> => new Map(read(text, digest).map((entry) => [keyText(entry.key), entry]));
const same = (one: Entry | undefined, other: Entry | undefined, digest: string): boolean =>
  one === other || (one !== undefined && other !== undefined && written(digest, [one]) === written(digest, [other]));

interface Merged {
  /** The reviews of both; where both changed one, that of `mine` stands. */
  readonly text: string;
  /** The same, where that of `theirs` stands. */
  readonly yielding: string;
  /** Number of reviews that both changed, and not alike. */
  readonly conflicts: number;
}

/** Apply what changed from `base` to `mine` to `theirs`. */
export const merged = (digest: string, base: string, mine: string, theirs: string): Merged => {
  const [before, own, others] = [base, mine, theirs].map((text) => lines(text, digest)) as [ReadonlyMap<string, Entry>, ReadonlyMap<string, Entry>, ReadonlyMap<string, Entry>];
  const result = new Map(others);
  const yielding = new Map(others);
  let conflicts = 0;
  const change = (to: Map<string, Entry>, name: string, entry: Entry | undefined): void => {
    if (entry === undefined) to.delete(name);
    else to.set(name, entry);
  };
  for (const name of new Set([...before.keys(), ...own.keys()])) {
    const now = own.get(name);
    if (same(now, before.get(name), digest)) continue;
    const other = others.get(name);
    if (!same(other, before.get(name), digest) && !same(other, now, digest)) conflicts += 1;
    else change(yielding, name, now);
    change(result, name, now);
  }
  return { text: written(digest, result.values()), yielding: written(digest, yielding.values()), conflicts };
};

/** The reviews of one run at the server. */
export class Saved implements Store {
  state: SavedState = "reading";
  /** Why nothing could be read or saved. */
  why = "";
  /** The number of reviews that somebody else changed too. */
  conflicts = 0;
  /** Reviews of earlier answers of the run, which stay in its folder. */
  earlier = 0;
  readonly #digest: string;
  readonly #at: SavedAt;
  readonly #listeners = new Set<() => void>();
  /** The text that the server had last, its version, and the text of this page. */
  #base = "";
  #version = "";
  #text = "";
  /** The text if somebody else's reviews count where both changed one. */
  #yielding = "";
  #waiting: ReturnType<typeof setTimeout> | undefined;
  #busy = false;

  constructor(digest: string, at: SavedAt) {
    this.#digest = digest;
    this.#at = at;
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

  /** Decide between the reviews of this page and those of somebody else. */
  decide(mine: boolean): void {
    if (!mine) this.#text = this.#yielding;
    this.conflicts = 0;
    this.state = "saved";
    if (this.isOpen) this.setItem("", this.#text);
    else this.#say("saved");
  }

  #take({ text, version, earlier = 0 }: Versioned): void {
    const { text: next, yielding, conflicts } = merged(this.#digest, this.#base, this.#text, text);
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

/** Keep the reviews of a run at the server, as long as the page shows no other. */
export const openSaved = (run: string, digest: string): Saved => {
  leave();
  const left = new AbortController();
  const saved = new Saved(digest, savedAt(run));
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
  return saved;
};
