// The first thing to read: a state, lines about it, and results as sentences.
import type { HeadlineBlock, PageSentence, PageWord } from "../bundle";
import { Plot } from "../ui/plot";
import { Visible } from "../ui/text";
import { Linked, linesOf, spotOf } from "./figure";

/** Signs of states; a good result needs none. */
const SIGNS = { "": "", good: "✓", part: "◐", bad: "!", open: "◆" } as const;
const RESULTS = { "": "", good: "", part: "◐", bad: "▼", open: "◆" } as const;

const Word = ({ of: { text, of = "", value = null } }: { readonly of: PageWord }) =>
  of === "" ? <Visible text={text} /> : <data class={of === "value" ? "main" : undefined} value={value ?? ""} data-said={of}><Visible text={text} /></data>;

const Sentence = ({ of }: { readonly of: PageSentence }) => {
  const { title, words, state = "", meaning = "", figure = null, axis = null, link } = of;
  return (
    <li class={`said s-${state}`}>
      <span class="sign" aria-hidden="true">{RESULTS[state]}</span>
      <p>
        {title !== "" && <><strong><Linked to={link}><Visible text={title} /></Linked></strong>: </>}
        {words.map((word) => <Word of={word} />)}
        {meaning !== "" && <small class="quiet"> <Visible text={meaning} /></small>}
      </p>
      {figure !== null && axis !== null && (
        <Plot axis={axis} spots={[spotOf(figure)]} lines={linesOf(figure)} />
      )}
    </li>
  );
};

export const HeadlineView = ({ of }: { readonly of: HeadlineBlock }) => {
  const { title, state = "", lines = [], sentences = [] } = of;
  return (
    <>
      {(title !== "" || lines.length > 0) && (
        <p class={`status s-${state}`}>
          {SIGNS[state] !== "" && <span class="sign" aria-hidden="true">{SIGNS[state]}</span>}
          <span>
            {title !== "" && <strong><Visible text={title} /></strong>}
            {lines.map((line) => <span class="line-of"><Visible text={line} /></span>)}
          </span>
        </p>
      )}
      {sentences.length > 0 && <ul class="results">{sentences.map((sentence) => <Sentence of={sentence} />)}</ul>}
    </>
  );
};
