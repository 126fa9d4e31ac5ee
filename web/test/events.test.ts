import { afterEach, beforeEach, expect, test, vi } from "vitest";

import { ENDED, ServerProblem, type Heard } from "../src/server";
import { Feed, type Around, type News } from "../src/served/events";
import type { RunProgress } from "../src/served";

const PROGRESS: RunProgress = { name: "a", state: "running", answered: 1, selected: 2, parts: [], rate: null, seconds_left: null, since: "", last: "", version: 1 };

/** A browser with one lock, one channel, and a server that can end. */
class Browser {
  readonly streams = new Set<Heard>();
  readonly members = new Set<(event: MessageEvent) => void>();
  #queue: { readonly hold: () => Promise<unknown>; readonly signal: AbortSignal }[] = [];
  #held = false;
  problem: Error | null = null;

  readonly request = ((_: string, { signal }: { readonly signal: AbortSignal }, hold: () => Promise<unknown>) =>
    new Promise<void>((_, refuse) => {
      this.#queue.push({ hold, signal });
      signal.addEventListener("abort", () => { refuse(new DOMException("", "AbortError")); });
      this.#next();
    })) as unknown as LockManager["request"];

  #next(): void {
    if (this.#held) return;
    const first = this.#queue.shift();
    if (first === undefined) return;
    if (first.signal.aborted) {
      this.#next();
      return;
    }
    this.#held = true;
    void first.hold().then(() => {
      this.#held = false;
      this.#next();
    });
  }

  tab({ locks = true } = {}): { readonly feed: Feed; readonly news: News[]; readonly show: (visible: boolean) => void } {
    let visible = true;
    const news: News[] = [];
    const others = this.members;
    let own: ((event: MessageEvent) => void) | null = null;
    const channel = {
      postMessage: (data: unknown) => { for (const each of others) if (each !== own) each(new MessageEvent("message", { data })); },
      addEventListener: (_: string, hear: (event: MessageEvent) => void) => { others.add((own = hear)); },
      close: () => undefined,
    } as unknown as Around["channel"];
    const feed = new Feed({
      locks: locks ? { request: this.request } : null,
      channel,
      visible: () => visible,
      listen: (heard) => {
        this.streams.add(heard);
        if (this.problem === null) heard.open();
        else this.end();
        return () => { this.streams.delete(heard); };
      },
      probe: () => (this.problem === null ? Promise.resolve() : Promise.reject(this.problem)),
    });
    feed.subscribe((each) => { news.push(each); });
    feed.turn();
    return { feed, news, show: (now) => { visible = now; feed.turn(); } };
  }

  tell(progress: RunProgress): void {
    for (const each of this.streams) each.progress(progress);
  }
  end(): void {
    const ended = [...this.streams];
    this.streams.clear();
    for (const each of ended) each.closed();
  }
}

beforeEach(() => { vi.useFakeTimers(); });
afterEach(() => { vi.useRealTimers(); });
const settled = (milliseconds = 0): Promise<unknown> => vi.advanceTimersByTimeAsync(milliseconds);
const kinds = (news: readonly News[]): string[] => news.map(({ kind }) => kind);

test("eight tabs share one stream, and all hear the news", async () => {
  const browser = new Browser();
  const tabs = Array.from({ length: 8 }, () => browser.tab());
  await settled();
  expect(browser.streams.size).toBe(1);
  browser.tell(PROGRESS);
  for (const { news } of tabs) expect(news.filter(({ kind }) => kind === "progress")).toEqual([{ kind: "progress", progress: PROGRESS }]);
});

test("a hidden tab lets go, another follows, and a tab that is shown again asks for the present state", async () => {
  const browser = new Browser();
  const [first, second] = [browser.tab(), browser.tab()];
  first.show(false);
  await settled();
  expect(browser.streams.size).toBe(1);
  browser.tell(PROGRESS);
  expect(kinds(second.news)).toContain("progress");
  expect(kinds(first.news)).not.toContain("progress");
  second.show(false);
  await settled();
  expect(browser.streams.size).toBe(0);
  first.news.length = 0;
  first.show(true);
  await settled();
  expect(browser.streams.size).toBe(1);
  expect(kinds(first.news)).toContain("again");
});

test("the end of the server and its return are told to all tabs, once", async () => {
  const browser = new Browser();
  const [first, second] = [browser.tab(), browser.tab()];
  await settled();
  browser.problem = new ServerProblem("", 0);
  browser.end();
  await settled(5000);
  const ended = { kind: "connection", why: ENDED };
  for (const { news } of [first, second]) expect(news.filter((each) => each.kind === "connection" && each.why !== "")).toEqual([ended]);
  // A tab that was opened meanwhile hears of it, too.
  const third = browser.tab();
  await settled();
  expect(third.news).toContainEqual(ended);
  for (const { news } of [first, second, third]) news.length = 0;
  browser.problem = null;
  await settled(5000);
  for (const { news } of [first, second, third]) {
    expect(news).toContainEqual({ kind: "connection", why: "" });
    expect(kinds(news)).toContain("again");
  }
  expect(browser.streams.size).toBe(1);
});

test("a server that does not know this browser is quoted", async () => {
  const browser = new Browser();
  const { news } = browser.tab();
  browser.problem = new ServerProblem("Open the address that medvqa view printed.", 403);
  browser.end();
  await settled(2000);
  expect(news).toContainEqual({ kind: "connection", why: "Open the address that medvqa view printed." });
});

test("without locks each visible tab has its own stream", async () => {
  const browser = new Browser();
  const [first] = [browser.tab({ locks: false }), browser.tab({ locks: false })];
  await settled();
  expect(browser.streams.size).toBe(2);
  first.show(false);
  await settled();
  expect(browser.streams.size).toBe(1);
});
