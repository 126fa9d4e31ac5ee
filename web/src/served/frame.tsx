// Header and footer of the pages that have no bundle, and words for waiting.
import type { ComponentChildren } from "preact";
import { useEffect } from "preact/hooks";

import { ThemeChoice } from "../theme";
import { Skip } from "../ui/edges";

interface FrameProps {
  readonly title: string;
  readonly home?: boolean;
  readonly children: ComponentChildren;
}

export const Frame = ({ title, home = false, children }: FrameProps) => {
  useEffect(() => { document.title = `${title} · medvqa`; }, [title]);
  return (
    <>
      <Skip />
      <header class="top">
        <div class="wide">
          <p class="name"><strong>medvqa view</strong></p>
          <nav aria-label="Pages"><a href="/" aria-current={home ? "page" : undefined}>All runs</a></nav>
          <div class="tools"><ThemeChoice /></div>
        </div>
      </header>
      <main id="main" class="wide" tabIndex={-1}>{children}</main>
      <footer class="wide"><p>Served from this computer by medvqa view. A score on these questions says nothing about clinical use.</p></footer>
    </>
  );
};

/** A view that waits for its first answer, or the reason why it gets none. */
export const Waiting = ({ problem, what }: { readonly problem: string; readonly what: string }) =>
  problem === "" ? <p role="status" class="waits">{what}</p> : <p class="alert" role="alert">{problem}</p>;

/** Says why there is no newer answer, "" if there is none: what is shown may not be the present state. */
export const Disconnected = ({ why }: { readonly why: string }) => <div role="status" class="connection">{why !== "" && <p class="alert">{why}</p>}</div>;
