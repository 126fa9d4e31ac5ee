import type { JSX } from "preact";

import { Visible } from "./text";

// A shape for each outcome, in a square of 16, so that colour is never the only sign. Round: the answer counts.
// Edges: it does not. Hollow: nothing was scored.
const SHAPES: Readonly<Record<string, JSX.Element>> = {
  correct: <><circle class="fill" cx="8" cy="8" r="7" /><path class="cut" d="M4.5 8.2 7 10.7 11.5 5.6" /></>,
  partial: <><circle class="line" cx="8" cy="8" r="6" /><path class="fill" d="M8 2a6 6 0 0 0 0 12z" /></>,
  wrong: <><path class="fill" d="M2 1h12a1 1 0 0 1 1 1v12a1 1 0 0 1-1 1H2a1 1 0 0 1-1-1V2a1 1 0 0 1 1-1z" /><path class="cut" d="M5 5l6 6M11 5l-6 6" /></>,
  refused: <><path class="fill" d="M5 1h6l4 4v6l-4 4H5l-4-4V5z" /><path class="cut" d="M4.5 8h7" /></>,
  abstained: <><path class="fill" d="M8 .5 15.5 8 8 15.5.5 8z" /><path class="cut" d="M6 6.4A2 2 0 1 1 8.7 8.3Q8 8.6 8 9.5M8 11.6v.4" /></>,
  unparsed: <><path class="fill" d="M8 1l7.5 13.5H.5z" /><path class="cut" d="M8 6v4M8 12v.4" /></>,
  unscored: <circle class="line" cx="8" cy="8" r="6" stroke-dasharray="2.4 2.3" />,
  error: <><path class="line" d="M2 2h12v12H2z" /><path class="line" d="M8 4.5v4.5M8 11v.5" /></>,
};

export const isOutcome = (name: string): boolean => Object.hasOwn(SHAPES, name);

/** The mark of an outcome: told by word, shape and colour. `bare` leaves out the word, for a place that says it. */
export const Outcome = ({ name, bare = false }: { readonly name: string; readonly bare?: boolean }) => (
  <span class={`outcome o-${isOutcome(name) ? name : "unscored"}`}>
    <svg class="shape" width="12" height="12" viewBox="0 0 16 16" aria-hidden="true" focusable="false">
      {isOutcome(name) ? SHAPES[name] : SHAPES["unscored"]}
    </svg>
    {!bare && <Visible text={name} />}
  </span>
);
