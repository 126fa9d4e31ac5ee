// The answers of one reader: kept by the browser while they are given, exported as a file, merged with another one.
import type { ReadingHead } from "../bundle";
import type { Kept, Store } from "../reviews";
import { fileOf, linesOf, nameOf, ofStudy, print, readFile, same, type Kind, type Line } from "./lines";

/** Milliseconds after a change before the browser keeps it. */
export const PAUSE = 200;
const VERSION = 1;

/** What the first line in the browser says. */
interface Left {
  readonly kept: number;
  /** The question that was in sight last. */
  readonly at: number;
  /** The version that the server gave the answers when they were saved last, "" without a server. */
  readonly saved: string;
}

/** Answers of a file, and the names of those that say something else here. */
export interface Found<L> {
  readonly lines: ReadonlyMap<string, L>;
  readonly conflicts: ReadonlySet<string>;
}

/** The answers of the reader of a page. Questions are named by their places in it. */
export class Answers<L extends Line> {
  kept: Kept = "kept";
  /** Whether another tab of this browser goes on with the same questions. */
  elsewhere = false;
  /** The question that was in sight last, -1 before the first. */
  at = -1;
  /** See `Left`. */
  saved = "";
  readonly key: string;
  readonly #head: ReadingHead;
  readonly #kind: Kind<L>;
  readonly #store: Store | null;
  #lines = new Map<string, L>();
  /** Names of lines that the browser does not keep yet. */
  readonly #changed = new Set<string>();
  /** Whether the browser does not keep `Left` yet. */
  #moved = false;
  /** The text that the browser held last. */
  #seen: string | null = null;
  #waiting: ReturnType<typeof setTimeout> | undefined;
  readonly #listeners = new Set<() => void>();

  constructor(head: ReadingHead, kind: Kind<L>, store: Store | null) {
    this.#head = head;
    this.#kind = kind;
    this.#store = store;
    this.key = `medvqa/reading/${VERSION}/${ofStudy(head, "plan") || ofStudy(head, "name")}/${head.task}/${ofStudy(head, "reader")}`;
    if (store === null) this.kept = "blocked";
    const left = this.#pull();
    this.at = left?.at ?? -1;
    this.saved = left?.saved ?? "";
  }

  /** The line of a question, empty before it is answered. */
  of(place: number): L {
    const task = this.#head.tasks[place];
    if (task === undefined) throw new Error(`the page has no question ${place}`);
    const own = { reader: ofStudy(this.#head, "reader"), benchmark: task.benchmark, item: task.item, place: place + 1, sitting: task.sitting };
    return this.#lines.get(nameOf(task)) ?? (own as unknown as L);
  }
  isAnswered(place: number): boolean {
    return this.#kind.isAnswered(this.of(place));
  }
  /** The number of questions with an answer. */
  get size(): number {
    return this.#answered().length;
  }

  /** Change a line; `seconds` more were spent with it. */
  set(place: number, change: Partial<L>, seconds = 0): void {
    const before = this.of(place);
    if (this.elsewhere || (Object.keys(change).length === 0 && seconds === 0)) return;
    this.#put({ ...before, ...change, seconds: (before.seconds ?? 0) + seconds });
    this.#later();
  }
  /** Say which question is in sight. */
  go(place: number): void {
    this.at = place;
    this.#moved = true;
    this.#later();
  }

  /** The answers as a file. */
  exported(): string {
    return fileOf(this.#kind, this.#head, this.#answered());
  }
  /** Read a file of this study and reader. */
  imported(content: string): Found<L> {
    const lines = readFile(this.#kind, this.#head, content);
    const differs = (name: string, line: L): boolean => {
      const own = this.#lines.get(name);
      return own !== undefined && this.#kind.isAnswered(own) && !same(this.#kind, own, line);
    };
    return { lines, conflicts: new Set([...lines].filter(([name, line]) => differs(name, line)).map(([name]) => name)) };
  }
  /** Take the lines of a file, but for those whose names are in `mine`. Of equal answers the longer time counts. */
  take({ lines }: Found<L>, mine: ReadonlySet<string> = new Set()): void {
    for (const [name, line] of lines) {
      if (mine.has(name)) continue;
      const own = this.#lines.get(name);
      const seconds = own !== undefined && same(this.#kind, own, line) ? Math.max(own.seconds ?? 0, line.seconds ?? 0) : line.seconds;
      this.#put({ ...line, seconds });
    }
    this.flush();
  }
  /** Take the answers that a server has now in place of those of the page; drafts stay. */
  adopt(content: string): void {
    if (content === this.exported()) return;
    const lines = content === "" ? new Map<string, L>() : readFile(this.#kind, this.#head, content);
    for (const line of this.#answered()) {
      const name = nameOf(line);
      if (lines.has(name)) continue;
      this.#lines.delete(name);
      this.#changed.add(name);
    }
    for (const line of lines.values()) this.#put(line);
    this.flush();
  }

  /** Remember the version that the server gave the answers. */
  savedAs(version: string): void {
    if (version === this.saved) return;
    this.saved = version;
    this.#moved = true;
    this.flush();
  }

  /** Keep all changes now. */
  flush(): void {
    clearTimeout(this.#waiting);
    if (this.elsewhere) return;
    this.#pull();
    this.#push();
    this.#tell();
  }
  /** Another tab changed what the browser holds: this one stops, and loses nothing. */
  yield(): void {
    const before = this.#seen;
    this.#pull();
    if (this.#seen === before) return;
    this.#moved = false;
    this.#push();
    this.elsewhere = true;
    this.#tell();
  }
  /** Go on in this tab. */
  resume(): void {
    this.elsewhere = false;
    this.flush();
  }
  /** Call `listener` after each change; returns the function that ends it. */
  subscribe(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => { this.#listeners.delete(listener); };
  }

  #answered(): readonly L[] {
    return [...this.#lines.values()].filter((line) => this.#kind.isAnswered(line));
  }
  #put(line: L): void {
    this.#lines.set(nameOf(line), line);
    this.#changed.add(nameOf(line));
  }
  #later(): void {
    clearTimeout(this.#waiting);
    this.#waiting = setTimeout(() => { this.flush(); }, PAUSE);
    this.#tell();
  }
  #tell(): void {
    for (const listener of this.#listeners) listener();
  }

  /** Read what the browser holds, if it is new; lines that this page changed stay. */
  #pull(): Left | null {
    if (this.#store === null || this.kept === "full") return null;
    try {
      const text = this.#store.getItem(this.key);
      if (text === null || text === this.#seen) return null;
      const [first = "", ...rest] = text.split("\n");
      const left = JSON.parse(first) as Left;
      if (left.kept !== VERSION || !Number.isInteger(left.at) || typeof left.saved !== "string") throw new Error("of another version");
      const lines = new Map(linesOf(this.#kind, this.#head, rest));
      for (const name of this.#changed) {
        const own = this.#lines.get(name);
        if (own === undefined) lines.delete(name);
        else lines.set(name, own);
      }
      this.#lines = lines;
      this.#seen = text;
      return left;
    } catch {
      // Left as it is: it may be the work of a later version.
      this.kept = "unreadable";
      return null;
    }
  }
  #push(): void {
    if (this.#store === null || this.kept === "unreadable" || (this.#changed.size === 0 && !this.#moved)) return;
    const left: Left = { kept: VERSION, at: this.at, saved: this.saved };
    const text = [JSON.stringify(left), ...[...this.#lines.values()].map((line) => print(this.#kind, line))].join("\n");
    try {
      this.#store.setItem(this.key, text);
      this.#seen = text;
      this.kept = "kept";
      this.#changed.clear();
      this.#moved = false;
    } catch {
      this.kept = "full";
    }
  }
}
