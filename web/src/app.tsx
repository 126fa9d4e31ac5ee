// The shell: header, views by route, theme, footer.
import { useEffect, useState } from "preact/hooks";

import type { BundleHead } from "./bundle";
import type { Data } from "./data";
import type { Page } from "./page";
import { parse, print, type Go, type State } from "./route";
import { ThemeButton } from "./theme";
import { Visible } from "./ui/text";
import { Comparison } from "./views/comparison";
import { Explorer } from "./views/explorer";
import { ItemDialog } from "./views/item";
import { Summary } from "./views/summary";

const licences = (): string => {
  const element = document.getElementById("licences");
  return element instanceof HTMLTemplateElement ? element.content.textContent : "";
};

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

export const App = ({ head, data }: { readonly head: BundleHead; readonly data: Data | null }) => {
  const [state, go] = useRoute();
  const view = head.kind === "tree" ? "questions" : state.view;
  const page: Page = { head, state: { ...state, view }, go, link: (change) => print({ ...state, view, ...change }), data };
  useEffect(() => {
    if (state.section !== "") document.getElementById(state.section)?.scrollIntoView();
  }, [state.section]);
  return (
    <>
      <a class="skip" href="#main" onClick={(event) => { event.preventDefault(); document.getElementById("main")?.focus(); }}>
        Skip to content
      </a>
      <header class="top">
        <div class="wide">
          <p class="name">
            <strong><Visible text={head.title} /></strong> <span><Visible text={head.about} /></span>
          </p>
          <nav aria-label="Views">
            {head.kind !== "tree" && <a href="#summary" aria-current={view === "summary" ? "page" : undefined}>Summary</a>}
            <a href="#questions" aria-current={view === "questions" ? "page" : undefined}>
              {head.kind === "comparison" ? "Flips" : "Questions"}
            </a>
          </nav>
          <ThemeButton />
        </div>
      </header>
      <main id="main" class="wide" tabIndex={-1}>
        {head.kind === "comparison" ? <Comparison page={page} /> : view === "questions" ? <Explorer page={page} /> : <Summary page={page} />}
      </main>
      {state.item !== null && data !== null && head.kind !== "comparison" && <ItemDialog page={page} data={data} />}
      <footer class="wide">
        <p>Drawn by {head.generator}. A score on these benchmarks says nothing about clinical use.</p>
        <details>
          <summary>Licences of what is inside this file</summary>
          <pre>{licences()}</pre>
        </details>
      </footer>
    </>
  );
};
