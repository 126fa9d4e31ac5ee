// The first screen: whether the run is whole, the gate, one sentence for each result, and what limits the numbers.
import type { Cell, SentenceView, StatusView, VerdictView, WarningView, WordView } from "../bundle";
import type { Page } from "../page";
import { count } from "../text";
import { Visible } from "../ui/text";
import { GateWord } from "./gate";

/** Warnings that the first screen shows before it folds the others. */
const SHOWN = 6;

const SIGNS: Readonly<Record<StatusView["state"], string>> = { complete: "✓", part: "◐", unfinished: "!", unknown: "?" };
const STANDINGS: Readonly<Record<SentenceView["standing"], string>> = { above: "▲", open: "◆", below: "▼", "": "" };

const Status = ({ status }: { readonly status: StatusView }) => (
  <p class={`state s-${status.state}`}>
    <span class="sign" aria-hidden="true">{SIGNS[status.state]}</span>
    <span>
      <strong>{status.title}</strong>
      {status.lines.map((line) => (
        <span class="line-of" key={line}><Visible text={line} /></span>
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
  <li class={`said b-${sentence.standing === "" ? "none" : sentence.standing}`}>
    <span class="sign" aria-hidden="true">{STANDINGS[sentence.standing]}</span>
    <p>
      <a href={page.link({ view: "questions", benchmark: sentence.benchmark, technique: sentence.technique, query: "", item: null, section: "" })}>
        <Visible text={sentence.title} />
      </a>
      {": "}
      {sentence.words.map((word, place) => <Said key={place} word={word} cell={sentence.cell} />)}
    </p>
  </li>
);

const Warning = ({ warning, page }: { readonly warning: WarningView; readonly page: Page }) => (
  <li>
    <Visible text={warning.text} />
    {(warning.query ?? "") !== "" && (
      <>
        {" "}
        <a
          href={page.link({
            view: "questions",
            benchmark: warning.benchmark ?? "",
            technique: warning.technique ?? "",
            query: warning.query ?? "",
            item: null,
            section: "",
          })}
        >
          Show them
        </a>
      </>
    )}
  </li>
);

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
    ["low", "95 % interval", "of another set of such questions, in 95 % of cases it holds the score of the same model"],
    ["random", "Chance", "guessing"],
    ["majority", "Most frequent answer", "always the most frequent right answer"],
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
          <p class="state s-ungated"><span>No gate: this run was not compared with a baseline.</span></p>
        ) : (
          <p class={`state v-${gate.outcome === "" ? "none" : gate.outcome.toLowerCase()}`}>
            <span>
              Gate <GateWord outcome={gate.outcome} /> <Visible text={gate.headline} /> <a href={page.link({ section: "gate" })}>Rules</a>
            </span>
          </p>
        )}
      </div>
      {verdict.control !== "" && <p class="alert" role="note">{verdict.control}</p>}
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
      <p class="key"><Visible text={run.images} /></p>
    </section>
  );
};
