// The page of one run: its live view while it is not finished, then the page of the run as `medvqa report` draws it.
import type { ComponentChildren } from "preact";
import { useCallback, useEffect, useRef, useState } from "preact/hooks";

import { App } from "../app";
import { ask, pathOfRun } from "../server";
import type { RunProgress } from "../served";
import { count, plural } from "../text";
import { useDrawn, type DrawnPage } from "./drawn";
import { usePolled, useReady } from "./feed";
import { Disconnected, Frame, Waiting } from "./frame";
import { Live } from "./live";
import { PaceOf } from "./pace";

/** Results beyond which a run is looked at as a list: a page of so many takes minutes and much memory. */
const MOST_DRAWN = 200_000;

/** Pixels from the top from which on somebody reads the list. */
const READING_FROM = 300;
const looksAtList = (): boolean => scrollY > READING_FROM || document.querySelector(".results")?.contains(document.activeElement) === true;

/** Equal for equal results, also after the server was started again. */
const resultsOf = ({ answered, last, parts }: RunProgress): string => JSON.stringify([answered, last, parts]);

interface PageOfRun {
  readonly page: DrawnPage;
  readonly progress: RunProgress;
  readonly problem: string;
  /** Why `progress` is not the present one, "" if it is. */
  readonly silent: string;
  /** Whether a newer page is being drawn. */
  readonly drawing: boolean;
  readonly ended: boolean;
  readonly again: () => void;
  readonly live: () => void;
}

const Told = ({ page, progress, problem, silent, drawing, ended, again, live }: PageOfRun) => {
  const drawnOf = useRef<{ readonly turn: number; readonly results: string } | null>(null);
  if (drawnOf.current?.turn !== page.turn) drawnOf.current = { turn: page.turn, results: resultsOf(progress) };
  const changed = drawnOf.current.results !== resultsOf(progress);
  const open = progress.state !== "finished";
  const offer: ComponentChildren = <button type="button" onClick={again}>Draw it again</button>;
  return (
    <div class="served-news">
      <Disconnected why={silent} />
      <div role="status">
        {problem !== "" && <p class="alert">{problem} {offer}</p>}
        {drawing && <p class="aside">Drawing the page again.</p>}
        {!drawing && !open && changed && <p class="aside">This run has changed since the page was drawn. {offer}</p>}
        {!drawing && !open && !changed && ended && <p class="aside">The session has ended. This is the page of the finished run.</p>}
      </div>
      {!drawing && open && (
        <p class="aside">
          <strong>The page so far.</strong> {progress.state === "running" ? "A session is running" : "This run is unfinished"}: {count(progress.answered)}
          {progress.selected > 0 && <> of {count(progress.selected)}</>} answered. {changed && offer} <button type="button" onClick={live}>Live view</button>
        </p>
      )}
      <PaceOf name={progress.name} version={progress.version} />
    </div>
  );
};

export const RunPage = ({ name }: { readonly name: string }) => {
  const { value: progress, problem: silent } = usePolled((signal) => ask<RunProgress>(`${pathOfRun(name)}/progress`, { signal, seconds: 120 }));
  const [turn, setTurn] = useState(0);
  /** Whether the live view is wanted in place of a drawn page. */
  const [live, setLive] = useState<boolean | null>(null);
  const [ended, setEnded] = useState(false);
  const reading = useRef(false);
  /** Whether the page was drawn without being asked for. */
  const byItself = useRef(false);
  const { page, problem } = useDrawn([name], turn);
  const draw = useCallback((): void => {
    byItself.current = false;
    setTurn((before) => before + 1);
    setLive((before) => before ?? false);
  }, []);
  const state = progress?.state ?? null;
  const large = (progress?.answered ?? 0) > MOST_DRAWN;
  const before = useRef<RunProgress["state"] | null>(null);
  useEffect(() => {
    const was = before.current;
    before.current = state;
    if (state !== "finished") {
      if (was === null && state !== null) setLive(true);
      return;
    }
    if (was === null && large) setLive(true);
    else if (was === null) draw();
    else if (was !== "finished") {
      setEnded(true);
      // Somebody who reads is not moved: the page is offered.
      if (large || reading.current || looksAtList()) return;
      draw();
      byItself.current = true;
    }
  }, [state, large, draw]);
  // A page that was asked for takes the place of the live view when it is there.
  const current = page !== null && page.turn === turn && page.data !== null;
  useEffect(() => {
    if (current && !(byItself.current && (reading.current || looksAtList()))) setLive(false);
  }, [current, turn]);
  const read = useCallback((now: boolean): void => { reading.current = now; }, []);
  useReady(progress !== null && (live === true || page?.data != null));

  if (progress === null || live === null) {
    return <Frame title={name}><Waiting problem={silent} what={`Reading ${name}.`} /></Frame>;
  }
  const drawing = turn > 0 && page?.turn !== turn && problem === "";
  if (live || page === null) {
    return (
      <Frame title={name}>
        <Disconnected why={silent} />
        {live
          ? <Live name={name} progress={progress} large={large} drawing={drawing} problem={problem} draw={draw} reading={read} />
          : <DrawingOnly progress={progress} problem={problem} list={() => { setLive(true); }} />}
      </Frame>
    );
  }
  return (
    <App
      key={page.turn}
      head={page.head}
      data={page.data}
      served
      said={<Told silent={silent} page={page} progress={progress} problem={problem} drawing={drawing} ended={ended} again={draw} live={() => { setLive(true); }} />}
    />
  );
};

const DrawingOnly = ({ progress, problem, list }: { readonly progress: RunProgress; readonly problem: string; readonly list: () => void }) => (
  <>
    <Waiting problem={problem} what={`Drawing the page of ${plural(progress.answered, "answer")}.`} />
    <p><button type="button" onClick={list}>Show the results as a list</button></p>
  </>
);
