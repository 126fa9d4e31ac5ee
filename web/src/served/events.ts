// News of the server. A browser opens six connections to a server at most, so all its tabs share one event stream: a
// visible tab that holds a lock has the stream and passes its news on. A hidden tab takes no part.
import { ENDED, ServerProblem, ask, isLeft, listen, locksOfTabs, sentenceOf, type Heard } from "../server";
import type { RunProgress } from "../served";

export type News =
  | { readonly kind: "runs" }
  | { readonly kind: "progress"; readonly progress: RunProgress }
  /** News may have been missed: ask for the present state. */
  | { readonly kind: "again" }
  /** `why`: the reason why no news come, "" if they do. */
  | { readonly kind: "connection"; readonly why: string };

/** What tabs tell each other: news, or the question for the connection. */
type Passed = News | { readonly kind: "ask" };

const NAME = "medvqa-events";
/** Milliseconds before each attempt to reach a server that has ended. */
const RETRY = 1000;

/** The parts of a browser that a feed uses. */
export interface Around {
  /** Null in a browser without locks: each visible tab has its own stream. */
  readonly locks: Pick<LockManager, "request"> | null;
  readonly channel: Pick<BroadcastChannel, "postMessage" | "addEventListener" | "close">;
  readonly visible: () => boolean;
  readonly listen: (heard: Heard) => () => void;
  /** Answers if the server is there and knows this browser. */
  readonly probe: () => Promise<unknown>;
}

export class Feed {
  readonly #around: Around;
  readonly #listeners = new Set<(news: News) => void>();
  #why = "";
  /** Leaves the lock or the queue for it; null while this tab takes no part. */
  #leave: (() => void) | null = null;
  #leads = false;

  constructor(around: Around) {
    this.#around = around;
    around.channel.addEventListener("message", ({ data }: MessageEvent<Passed>) => {
      // A hidden tab asks for the present state when it is shown.
      if (!around.visible()) return;
      if (data.kind !== "ask") this.#tell(data);
      else if (this.#leads) this.#pass({ kind: "connection", why: this.#why });
    });
  }

  subscribe(listener: (news: News) => void): () => void {
    this.#listeners.add(listener);
    return () => { this.#listeners.delete(listener); };
  }

  /** The tab was shown or hidden. */
  turn(): void {
    if (!this.#around.visible()) {
      this.#leave?.();
      this.#leave = null;
      return;
    }
    if (this.#leave !== null) return;
    this.#enter();
    this.#around.channel.postMessage({ kind: "ask" } satisfies Passed);
    this.#tell({ kind: "again" });
  }

  #enter(): void {
    const left = new AbortController();
    this.#leave = () => { left.abort(); };
    const hold = (): Promise<void> => this.#lead(left.signal);
    if (this.#around.locks === null) {
      void hold();
      return;
    }
    this.#around.locks.request(NAME, { signal: left.signal }, hold).catch((error: unknown) => {
      if (!isLeft(error)) throw error;
    });
  }

  /** Hold the event stream until this tab takes no part any more. */
  #lead(left: AbortSignal): Promise<void> {
    if (left.aborted) return Promise.resolve();
    return new Promise((done) => {
      let close: () => void = () => undefined;
      let waiting: ReturnType<typeof setTimeout> | undefined;
      const open = (): void => {
        close = this.#around.listen({
          open: () => {
            this.#say("");
            this.#news({ kind: "again" });
          },
          runs: () => { this.#news({ kind: "runs" }); },
          progress: (progress) => { this.#news({ kind: "progress", progress }); },
          closed: () => { waiting = setTimeout(probe, RETRY); },
        });
      };
      const probe = (): void => {
        this.#around.probe().then(
          () => { if (!left.aborted) open(); },
          (error: unknown) => {
            if (left.aborted) return;
            this.#say(error instanceof ServerProblem && error.status === 0 ? ENDED : sentenceOf(error));
            waiting = setTimeout(probe, RETRY);
          },
        );
      };
      left.addEventListener("abort", () => {
        clearTimeout(waiting);
        close();
        this.#leads = false;
        done();
      });
      this.#leads = true;
      open();
    });
  }

  /** Tell the connection, unless it has been told. */
  #say(why: string): void {
    if (why !== this.#why) this.#news({ kind: "connection", why });
  }
  #news(news: News): void {
    this.#pass(news);
    this.#tell(news);
  }
  #pass(news: Passed): void {
    this.#around.channel.postMessage(news);
  }
  #tell(news: News): void {
    if (news.kind === "connection") this.#why = news.why;
    for (const listener of this.#listeners) listener(news);
  }
}

/** The feed of this tab. */
export const startFeed = (): Feed => {
  const feed = new Feed({
    locks: locksOfTabs(),
    channel: new BroadcastChannel(NAME),
    visible: () => document.visibilityState === "visible",
    listen,
    probe: () => ask("runs", { seconds: 10 }),
  });
  document.addEventListener("visibilitychange", () => { feed.turn(); });
  feed.turn();
  return feed;
};
