// The shell: header, views by route, theme, footer.
import type { ComponentChildren } from "preact";
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";

import { Sections } from "./blocks";
import type { BundleHead } from "./bundle";
import { save } from "./csv";
import type { Data } from "./data";
import type { Page } from "./page";
import { json } from "./read";
import { START, parse, print, type Go, type State, type View } from "./route";
import { useKeys } from "./keys";
import "./style/flips.css";
import "./style/shell.css";
import { Licences, Skip } from "./ui/edges";
import { Visible } from "./ui/text";
import { Explorer } from "./views/explorer";
import { Help, Tools, useLetters } from "./views/help";
import { ItemDialog } from "./views/item";
import { usePrinting } from "./views/print";
import { ReviewCount, ReviewView } from "./views/review";


const useRoute = (): readonly [State, Go] => {
  const [state, setState] = useState(() => parse(location.hash));
  useEffect(() => {
    const follow = (): void => {
      setState(parse(location.hash));
    };
    addEventListener("hashchange", follow);
    addEventListener("popstate", follow);
    return () => {
      removeEventListener("hashchange", follow);
      removeEventListener("popstate", follow);
    };
  }, []);
  const go: Go = (change, { replace = false } = {}) => {
    const next = { ...parse(location.hash), ...change };
    history[replace ? "replaceState" : "pushState"](null, "", print(next));
    setState(next);
  };
  return [state, go];
};

/** Tables of a comparison as files; a ranking needs three runs. */
const FILES = ["measures", "ranking"] as const;

const HEADINGS = { run: "Report of run", comparison: "Comparison:", tree: "", history: "" } as const;

/** The summary, drawn when it is first asked for. It stays with its folds, choices and place while questions are shown. */
const Summary = ({ page: { head, state, data } }: { readonly page: Page }) => {
  const shown = state.view === "summary";
  const place = useRef({ shown, drawn: shown, top: 0 });
  place.current.drawn ||= shown;
  if (!shown && place.current.shown) place.current.top = scrollY;
  useLayoutEffect(() => {
    if (shown !== place.current.shown) scrollTo({ top: shown ? place.current.top : 0, behavior: "instant" });
    place.current.shown = shown;
  }, [shown]);
  // Drawn once: a filter of the questions must not wait for it.
  const sections = useMemo(() => <Sections of={head.sections} asked={state.section} />, [head, state.section]);
  if (!place.current.drawn) return null;
  return (
    <div hidden={!shown} class="summary">
      <h1 class="sr">{HEADINGS[head.kind]} <Visible text={head.title} /></h1>
      {sections}
      {head.kind === "comparison" && data !== null && (
        <p class="offers">
          {FILES.slice(0, head.runs.length > 2 ? 2 : 1).map((name) => (
            <button type="button" id={`${name}-csv`} onClick={() => { void json<string>(data.bundle.blocks, `csv/${name}`).then((text) => { save(text, `${name}.csv`, "text/csv"); }); }}>
              All {name === "ranking" ? "ranks" : name} as CSV
            </button>
          ))}
        </p>
      )}
    </div>
  );
};

interface AppProps {
  readonly head: BundleHead;
  readonly data: Data | null;
  /** Whether `medvqa view` serves the page: it has a way to the other runs, and may have something to say first. */
  readonly served?: boolean;
  readonly said?: ComponentChildren;
}

export const App = ({ head, data, served = false, said = null }: AppProps) => {
  const [state, go] = useRoute();
  const view = head.kind === "tree" ? "questions" : head.kind === "history" ? "summary" : state.view;
  const page: Page = { head, state: { ...state, view }, go, link: (change) => print({ ...state, view, ...change }), data };
  const [help, showHelp] = useState(false);
  const [letters, chooseLetters] = useLetters();
  const [searching, search] = useState(false);
  useEffect(() => {
    // The query line may still have to be drawn, or the questions to be read.
    const line = searching && view === "questions" ? document.querySelector<HTMLElement>("[data-query]") : null;
    if (line === null) return;
    line.focus();
    search(false);
  }, [searching, view, data]);
  useKeys([{ keys: ["/"], run: () => { if (head.kind === "history") return; if (view !== "questions") go({ ...START, view: "questions" }); search(true); } }, { keys: ["?"], run: () => { showHelp(true); }, always: true }], { base: true });
  usePrinting(page);
  useEffect(() => {
    if (state.section !== "") document.getElementById(state.section)?.scrollIntoView();
  }, [state.section]);
  const current = (name: View): "page" | undefined => (view === name ? "page" : undefined);
  return (
    <>
      <Skip />
      <header class="top">
        <div class="wide">
          <p class="name">
            <strong><Visible text={head.title} /></strong> <span><Visible text={head.about} /></span>
          </p>
          <nav aria-label="Views">
            {served && <a href="/">All runs</a>}
            {head.kind !== "tree" && <a href="#summary" aria-current={current("summary")}>Summary</a>}
            {head.kind !== "history" && <a href="#questions" aria-current={current("questions")}>Questions</a>}
            {head.kind === "run" && <a href="#review" aria-current={current("review")}>Review{data !== null && <ReviewCount data={data} />}</a>}
          </nav>
          <Tools showKeys={() => { showHelp(true); }} />
        </div>
      </header>
      <main id="main" class="wide" tabIndex={-1}>
        {said}
        {head.kind !== "tree" && <Summary page={page} />}
        {view === "questions" && <Explorer page={page} />}
        {head.kind === "run" && view === "review" && (data === null ? <p role="status">Reading the questions.</p> : <ReviewView page={page} data={data} />)}
      </main>
      {state.item !== null && data !== null && (head.kind !== "comparison" || view === "questions") && <ItemDialog page={page} data={data} />}
      {help && <Help letters={letters} choose={chooseLetters} close={() => { showHelp(false); }} />}
      <footer class="wide">
        <p>Drawn by {head.generator}.{head.kind !== "tree" && " A score on these questions says nothing about clinical use."}</p>
        <Licences of={served ? "page" : "file"} />
      </footer>
    </>
  );
};
