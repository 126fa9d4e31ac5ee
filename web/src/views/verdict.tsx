// The first screen: whether the run is whole, the gate, one sentence for each result, and what limits the numbers.
import "../style/verdict.css";

import { Fragment } from "preact";

import type { Cell, GateView, SentenceView, StatusView, VerdictView, WarningView, WordView } from "../bundle";
import type { Page } from "../page";
import { count, layoutFor } from "../text";
import { Visible } from "../ui/text";
import { GateWord } from "./gate";

/** Warnings that the first screen shows before it folds the others. */
const SHOWN = 6;

const SIGNS: Readonly<Record<StatusView["state"], string>> = { complete: "✓", part: "◐", failed: "!", lost: "!", unfinished: "!", unknown: "?" };
// A sign marks a result that must not be read as good; a good one needs none.
const STANDINGS: Readonly<Record<SentenceView["standing"], string>> = { above: "", open: "◆", below: "▼", "": "" };
/** Rules that the first screen names. */
const RULES = 3;

/** A line of the status in plain words, for a reader who did not type the command; undefined if it is plain. */
export const plainOf = (line: string): string | undefined => {
  if (line.includes("--limit=")) return "--limit: a sample of so many questions of each benchmark was asked, in place of all";
  if (/technique .* is not defined/.test(line)) return "A technique is a way of asking. This one cannot ask questions of this kind, such as those with several right options.";
  return undefined;
};

const Status = ({ status }: { readonly status: StatusView }) => (
  <p class={`state s-${status.state}`}>
    <span class="sign" aria-hidden="true">{SIGNS[status.state]}</span>
    <span>
      <strong><Visible text={status.title} /></strong>
      {status.lines.map((line) => (
        <span class="line-of" key={line} title={plainOf(line)}><Visible text={line} /></span>
      ))}
    </span>
  </p>
);

/** A number of a sentence, with the identity by which metrics.json has it. */
const Said = ({ word, cell }: { readonly word: WordView; readonly cell: Cell | null }) =>
  (word.of ?? "") === "" || cell === null ? (
    <Visible text={word.text} />
  ) : (
    <data
      class={word.of === "value" ? "main" : undefined}
      value={word.value ?? ""}
      data-said={word.of}
      data-benchmark={cell.benchmark}
      data-technique={cell.technique}
      data-measure={cell.name}
    >
      {word.text}
    </data>
  );

const Sentence = ({ sentence, page }: { readonly sentence: SentenceView; readonly page: Page }) => (
  <li class={`result-line b-${sentence.standing === "" ? "none" : sentence.standing}`}>
    <span class="sign" aria-hidden="true">{STANDINGS[sentence.standing]}</span>
    <p>
      <a href={page.link({ view: "questions", benchmark: sentence.benchmark, technique: sentence.technique, query: "", layout: layoutFor(sentence.cell?.unit ?? ""), item: null, section: "" })}>
        <Visible text={sentence.title} />
      </a>
      {": "}
      {sentence.words.map((word, place) => <Said key={place} word={word} cell={sentence.cell} />)}
      {sentence.meaning !== "" && <small class="quiet"> <Visible text={sentence.meaning} /></small>}
    </p>
  </li>
);

const Warning = ({ warning, page }: { readonly warning: WarningView; readonly page: Page }) => {
  const { benchmark, technique, outcomes } = warning;
  return (
    <li>
      <Visible text={warning.text} />
      {outcomes.map((outcome) => (
        <Fragment key={outcome}>
          {" "}
          <a href={page.link({ view: "questions", benchmark, technique, query: `outcome:${outcome}`, layout: "", item: null, section: "" })}>
            Show {outcome}
          </a>
        </Fragment>
      ))}
    </li>
  );
};

const Warnings = ({ warnings, page }: { readonly warnings: readonly WarningView[]; readonly page: Page }) => {
  const list = (some: readonly WarningView[]) => (
    <ul class="notes">{some.map((warning, place) => <Warning key={place} warning={warning} page={page} />)}</ul>
  );
  if (warnings.length === 0) return null;
  const folded = warnings.slice(SHOWN);
  return (
    <>
      <h3 class="sr">Warnings</h3>
      {list(warnings.slice(0, SHOWN))}
      {folded.length > 0 && (
        <details class="more">
          <summary>{count(folded.length)} more {folded.length === 1 ? "warning" : "warnings"}</summary>
          {list(folded)}
        </details>
      )}
    </>
  );
};

const hasLevels = ({ sentences }: VerdictView, name: string): boolean =>
  sentences.some(({ words }) => words.some(({ of }) => of === name));

/** Terms of the sentences, each explained only if a sentence has it. */
const Terms = ({ verdict }: { readonly verdict: VerdictView }) => {
  const terms: readonly (readonly [string, string, string])[] = [
    ["low", "95 % interval", "the true scores that fit these answers, if the questions are a sample of more like them"],
    ["random", "Chance", "guessing"],
    ["majority", "Most frequent answer", "always the answer that is right most often"],
    ["image_blind", "Image ignored", "the same answer to both questions of a pair, which differ in the image alone"],
    ["gap", "Gain of the image", "the score minus that of the same model without the image, question by question"],
  ];
  const shown = terms.filter(([name]) => hasLevels(verdict, name));
  if (shown.length === 0) return null;
  return (
    <p class="key">
      {shown.map(([name, term, meaning]) => (
        <span key={name}><b>{term}</b>: {meaning}. </span>
      ))}
    </p>
  );
};

/** The verdict with its first reasons. */
const GateState = ({ gate, page }: { readonly gate: GateView; readonly page: Page }) => {
  const decisive = gate.listed.filter((rule) => rule.outcome === gate.outcome && rule.outcome !== "PASS");
  const reasons = gate.outcome === "" ? gate.blockers : decisive.map((rule) => `${rule.name}: ${rule.why}`);
  return (
    <p class={`state v-${gate.outcome === "" ? "none" : gate.outcome.toLowerCase()}`}>
      <span>
        Gate <GateWord outcome={gate.outcome} /> <Visible text={gate.headline} />{" "}
        <a href={page.link({ view: "summary", section: "gate", item: null })}>All rules</a>
        {reasons.slice(0, RULES).map((reason, place) => <span class="line-of quiet" key={place}><Visible text={reason} /></span>)}
        {reasons.length > RULES && <span class="line-of quiet">and {count(reasons.length - RULES)} more</span>}
      </span>
    </p>
  );
};

export const Verdict = ({ page }: { readonly page: Page }) => {
  const run = page.head.run;
  if (run === null) return null;
  const { verdict, gate } = run;
  return (
    <section id="verdict" aria-labelledby="verdict-title">
      <h2 id="verdict-title">Result</h2>
      <div class="states">
        <Status status={verdict.status} />
        {gate === null ? (
          <p class="state s-ungated"><span>No gate: no limits for pass or fail were set for this run.</span></p>
        ) : (
          <GateState gate={gate} page={page} />
        )}
      </div>
      {(verdict.synthetic ?? "") !== "" && <p class="alert" role="note"><Visible text={verdict.synthetic ?? ""} /></p>}
      {verdict.control !== "" && <p class="alert" role="note"><Visible text={verdict.control} /></p>}
      {verdict.sentences.length === 0 ? (
        <p>No result: no question of this run has an answer.</p>
      ) : (
        <ul class="results">
          {verdict.sentences.map((sentence, place) => <Sentence key={place} sentence={sentence} page={page} />)}
        </ul>
      )}
      <Terms verdict={verdict} />
      <Warnings warnings={verdict.warnings} page={page} />
      {verdict.notes.length > 0 && (
        <details class="more">
          <summary>{verdict.notes.length === 1 ? "1 note" : `${count(verdict.notes.length)} notes`} on how this was counted</summary>
          <ul class="notes plain">{verdict.notes.map((note, place) => <li key={place}><Visible text={note} /></li>)}</ul>
        </details>
      )}
      <p class="key"><Visible text={run.images} /> A score on these questions says nothing about clinical use.</p>
    </section>
  );
};
