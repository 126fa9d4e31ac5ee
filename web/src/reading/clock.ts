// The time for which a question is in sight.
import { useLayoutEffect, useRef } from "preact/hooks";

/** Milliseconds without a key, a touch or a move of the pointer, after which the reader has gone. */
export const IDLE = 5 * 60_000;
const SIGNS = ["pointerdown", "pointermove", "keydown", "wheel", "scroll"] as const;

/** A stopwatch: it runs between `start` and `stop`, but no longer than `IDLE` after the last sign of the reader. */
export class Clock {
  readonly #now: () => number;
  #spent = 0;
  /** Since when it runs; null: it stands. */
  #from: number | null = null;
  #sign = 0;

  constructor(now: () => number = () => performance.now()) {
    this.#now = now;
  }
  start(): void {
    this.sign();
    this.#from = this.#now();
  }
  stop(): void {
    this.#count();
    this.#from = null;
  }
  /** The reader is there. */
  sign(): void {
    this.#count();
    this.#sign = this.#now();
    if (this.#from !== null) this.#from = this.#sign;
  }
  /** Seconds since the last call. */
  take(): number {
    this.#count();
    const seconds = this.#spent / 1000;
    this.#spent = 0;
    return seconds;
  }

  #count(): void {
    if (this.#from === null) return;
    const until = Math.min(this.#now(), this.#sign + IDLE);
    if (until <= this.#from) return;
    this.#spent += until - this.#from;
    this.#from = until;
  }
}

/**
 * Measure the time for which the question at a place is in sight; null: none is. `spend` gets it when the question or
 * the page is left. Returns a function that takes the seconds since then.
 */
export const useClock = (place: number | null, spend: (place: number, seconds: number) => void): (() => number) => {
  const clock = useRef(new Clock());
  const told = useRef(spend);
  told.current = spend;
  useLayoutEffect(() => {
    if (place === null) return undefined;
    const running = clock.current;
    const leave = (): void => {
      running.stop();
      told.current(place, running.take());
    };
    const turn = (): void => {
      if (document.visibilityState === "hidden") leave();
      else running.start();
    };
    const sign = (): void => { running.sign(); };
    const left = new AbortController();
    const { signal } = left;
    for (const name of SIGNS) addEventListener(name, sign, { capture: true, passive: true, signal });
    document.addEventListener("visibilitychange", turn, { signal });
    addEventListener("pagehide", leave, { signal });
    addEventListener("pageshow", turn, { signal });
    turn();
    return () => {
      left.abort();
      leave();
    };
  }, [place]);
  return () => clock.current.take();
};
