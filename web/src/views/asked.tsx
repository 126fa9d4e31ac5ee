// One question with its answers: options, response, score and the texts beside it.
import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";

import { lackOf, useAnswered } from "../answered";
import type { Answered, JudgeSaid } from "../bundle";
import type { Data } from "../data";
import { keyText } from "../key";
import type { Page } from "../page";
import { historyLink, isServed } from "../served/routes";
import { count, digits, flat, label, MOST_SHOWN, took } from "../text";
import { Outcome } from "../ui/outcome";
import { Visible } from "../ui/text";
import { ReviewPanel } from "./review";
import { SentFold } from "./sent";

/** The probability of each option among all options, by letter; null without log-probabilities. */
export const probabilities = (
  logprobs: Readonly<Record<string, number>> | null | undefined,
  letters: readonly string[],
): ReadonlyMap<string, number> | null => {
  if (logprobs === null || logprobs === undefined) return null;
  // A missing option was below the server's top-k.
  const of = (letter: string): number => (Object.hasOwn(logprobs, letter) ? (logprobs[letter] ?? -Infinity) : -Infinity);
  const most = Math.max(...letters.map(of));
  if (!Number.isFinite(most)) return null;
  const sum = letters.reduce((total, letter) => total + Math.exp(of(letter) - most), 0);
  return new Map(letters.map((letter) => [letter, Math.exp(of(letter) - most) / sum]));
};

const used = (usage: Readonly<Record<string, number>>): string =>
  Object.entries(usage)
    .map(([name, number]) => (name === "cost" ? `cost ${digits(number)}` : `${count(number)} tokens ${name}`))
    .join(", ");

const READ: Readonly<Record<string, string>> = { options: "read by judge", closeness: "compared by judge", score: "scored by judge" };
const byJudge = ({ judge, task }: JudgeSaid): string => `${(Object.hasOwn(READ, task) ? READ[task] : undefined) ?? "read by judge"} ${judge}`;

// A map: servers choose these words, and `__proto__` is one.
const FINISHES: ReadonlyMap<string, string> = new Map([
  ["length", "cut off at the limit of tokens"],
  ["refusal", "the server reports a refusal"],
]);

type Fact = readonly [string, string];
const fact = (name: string, text: string): readonly Fact[] => (text === "" ? [] : [[name, text]]);
const inPercent = (chances: ReadonlyMap<string, number>, name: string): string => `${(100 * (chances.get(name) ?? 0)).toFixed(1)} %`;

const Facts = ({ of }: { readonly of: readonly Fact[] }) => (
  <dl class="meta">
    {of.map(([name, text]) => [<dt key={`${name}?`}><Visible text={name} /></dt>, <dd key={name} dir="auto"><Visible text={text} /></dd>])}
  </dl>
);

/** A text of a model. */
export const Words = ({ text, name }: { readonly text: string; readonly name: string }) => {
  const [whole, setWhole] = useState(false);
  return (
    <>
      <div class="response" dir="auto" tabIndex={0} role="group" aria-label={flat(name)}><Visible text={text} whole={whole} /></div>
      {!whole && text.length > MOST_SHOWN && <button type="button" onClick={() => { setWhole(true); }}>Show all {count(text.length)} characters</button>}
    </>
  );
};

const JudgedPart = ({ of, id }: { readonly of: JudgeSaid; readonly id: string }) => (
  <section class="judged" aria-label={`The judge on ${flat(id)}`}>
    <h3>The judge's {of.replies.length > 1 ? "replies" : "reply"} <span class="quiet"><Visible text={of.judge} /></span></h3>
    {of.replies.length === 0 && <p class="quiet">No reply.</p>}
    {of.replies.map((reply, place) => (
      <div key={place}>
        {of.replies.length > 1 && <p class="quiet">Reply {place + 1}</p>}
        <Words text={reply} name={`Reply ${place + 1} of the judge to ${id}`} />
      </div>
    ))}
    <Facts of={[["Prompt", of.template], ...fact("Time", of.seconds == null ? "" : took(of.seconds)), ...fact("Used", of.usage == null ? "" : used(of.usage))]} />
  </section>
);

const Options = ({ data, q, results, texts }: {
  readonly data: Data;
  readonly q: number;
  readonly results: readonly number[];
  readonly texts: readonly (Answered | undefined)[];
}) => {
  const first = results[0];
  const options = first === undefined ? data.options(q) : data.shown(first);
  if (options.length === 0) return null;
  const right = new Set(first === undefined ? data.answers(q) : data.right(first));
  const letters = options.map(([letter]) => letter);
  const runs = new Set(results.map((r) => data.at("results.run", r))).size;
  const chances = texts.map((answered) => probabilities(answered?.logprobs, letters));
  const chosenBy = (letter: string): readonly string[] =>
    results.filter((r) => lettersIn(data, r, options).includes(letter)).map((r) => runName(data, r)).filter((name, place, names) => names.indexOf(name) === place);
  return (
    <ul class="options">
      {options.map(([letter, text]) => {
        const by = chosenBy(letter);
        const marks = [
          ...(right.has(letter) ? ["✓ correct"] : []),
          ...(by.length > 0 ? [results.length > 1 ? `● chosen by ${runs > 2 ? `${by.length} of ${runs} runs: ` : ""}${by.join(", ")}` : "● chosen"] : []),
          ...chances.flatMap((chance) => (chance === null ? [] : [inPercent(chance, letter)])),
        ];
        return (
          <li key={letter} class={`${right.has(letter) ? "right " : ""}${by.length > 0 ? "chosen" : ""}`}>
            <b><Visible text={letter} /></b>
            <span dir="auto"><Visible text={text} /></span>
            <em><Visible text={marks.join(" · ")} /></em>
          </li>
        );
      })}
    </ul>
  );
};

/** The letters that a result chose, among these options: it may have been shown them in another order. */
const lettersIn = (data: Data, r: number, options: readonly (readonly [string, string])[]): readonly string[] => {
  const shown = new Map(data.shown(r));
  const same = options.every(([letter, text]) => shown.get(letter) === text);
  return same ? data.extracted(r) : options.flatMap(([letter, text]) => (data.extracted(r).some((each) => shown.get(each) === text) ? [letter] : []));
};

export const runName = (data: Data, r: number): string => data.bundle.head.runs[data.at("results.run", r)]?.name ?? "";

/** How an answer was asked, among the answers to its question. */
export const wayOf = (data: Data, r: number): string =>
  [data.technique(r), data.variant(r), ...(data.sample(r) > 0 ? [`sample ${data.sample(r)}`] : [])].filter((part) => part !== "").join(" · ");

/** An answer with its score and details. */
export const Answer = ({ data, r, answered, id }: {
  readonly data: Data;
  readonly r: number;
  readonly answered: Answered | undefined;
  readonly id: string;
}) => {
  const q = data.question(r);
  const choices = data.options(q).length > 0;
  const read = data.extracted(r).join(", ");
  const finish = data.finish(r);
  const seconds = data.seconds(r);
  const usage = answered?.usage ?? null;
  const judged = answered?.judged ?? null;
  const tags = data.benchmark(q).dimensions.flatMap((d) => {
    const values = data.tags(d, q, r).map((value) => data.dimension(d).values[value]?.title ?? "");
    return fact(label(data.dimension(d).name), values.join(", "));
  });
  const given = Object.keys(answered?.logprobs ?? {});
  const chances = choices ? null : probabilities(answered?.logprobs, given);
  const score: Fact[] = [
    [choices ? "Option read" : "Answer read", read === "" ? "none" : read],
    ...fact("Probabilities", chances === null ? "" : given.map((text) => `${text} ${inPercent(chances, text)}`).join(", ")),
    ...fact("Correct", choices ? data.right(r).join(", ") : ""),
    ...fact("Reason", answered?.why ?? ""),
    ...fact("Scored", judged === null ? "" : byJudge(judged)),
  ];
  const details: Fact[] = [
    ["Asked by", wayOf(data, r)],
    ...fact("Time", seconds === null ? "" : took(seconds)),
    ...fact("Ended", finish === "stop" ? "" : (FINISHES.get(finish) ?? finish)),
    ...fact("Cut off", answered?.cut === true ? "an earlier part of the reply, at the limit of tokens" : ""),
    ...fact("Used", usage === null ? "" : used(usage)),
    ...fact("Served by", answered?.served ?? ""),
    ...tags,
  ];
  const lack = lackOf(data, answered);
  return (
    <>
      <h3>Response</h3>
      {lack !== "" ? <p class="quiet">{lack}</p> : <Words text={answered?.response ?? ""} name={`Response to ${id}`} />}
      {(answered?.left_out ?? 0) > 0 && <p class="quiet">{count(answered?.left_out ?? 0)} more characters are left out; the page of the run has them.</p>}
      {(answered?.folded ?? []).map(({ name, texts }) => (
        <details key={name} class="more folded">
          <summary><Visible text={name} /></summary>
          {texts.map((text, place) => (
            <div key={place}>
              {texts.length > 1 && <p class="quiet">{place + 1}</p>}
              <Words text={text} name={`${name}${texts.length > 1 ? ` ${place + 1}` : ""} of ${id}`} />
            </div>
          ))}
        </details>
      ))}
      <h3>Score</h3>
      <Facts of={score} />
      {judged !== null && <JudgedPart of={judged} id={id} />}
      <SentFold key={r} data={data} r={r} answered={answered} />
      {data.bundle.head.kind === "run" && <ReviewPanel key={`review ${r}`} data={data} result={r} of={id} />}
      <h3>Details</h3>
      <Facts of={details} />
    </>
  );
};

const AnswerOf = ({ data, r, several, id }: { readonly data: Data; readonly r: number; readonly several: boolean; readonly id: string }) => {
  const answered = useAnswered(data, r);
  const name = several ? `${id}, run ${runName(data, r)}` : id;
  return (
    <div class="answer">
      {several && <p class="line run"><strong><Visible text={runName(data, r)} /></strong>{data.at("results.run", r) === 0 && <span class="mark">baseline</span>}{data.sample(r) > 0 && <span class="quiet">sample {data.sample(r)}</span>} <Outcome name={data.outcome(r)} /></p>}
      <Answer data={data} r={r} answered={answered} id={name} />
    </div>
  );
};

/** The same among links: a technique that all answers share is left out. */
const shortWayOf = (data: Data, r: number): string => {
  const way = wayOf(data, r);
  const technique = `${data.technique(r)} · `;
  return data.bundle.head.techniques.length === 1 && way.startsWith(technique) ? way.slice(technique.length) : way;
};

/** Links to all answers to a question: other techniques, prompts, rotations and samples. */
const Ways = ({ page, data, q, shown }: { readonly page: Page; readonly data: Data; readonly q: number; readonly shown: readonly number[] }) => {
  const results = data.resultsOf(q);
  // A comparison shows the samples of both runs side by side.
  if (results.length < 2 || data.bundle.head.kind === "comparison") return null;
  return (
    <nav class="ways" aria-label={`All answers to ${flat(data.id(q))}`}>
      <p class="quiet">{results.length} answers to this question</p>
      <ul>
        {results.map((r) => {
          const item = keyText(data.key(r));
          return (
            <li key={r}>
              <a
                href={page.link({ item })}
                aria-current={shown.includes(r) ? "true" : undefined}
                onClick={(event) => { event.preventDefault(); page.go({ item }, { replace: true }); }}
              >
                <Visible text={shortWayOf(data, r)} />
              </a>{" "}
              <Outcome name={data.outcome(r)} />
            </li>
          );
        })}
      </ul>
    </nav>
  );
};

/** A question and its answers, one for each run that is compared. `side`: it stands beside another one; `list`: in place of the answers. */
export const Asked = ({ page, data, q, results, side, list }: {
  readonly page: Page;
  readonly data: Data;
  readonly q: number;
  readonly results: readonly number[];
  readonly side: boolean;
  readonly list?: ComponentChildren;
}) => {
  const id = data.id(q);
  const several = results.length > 1;
  // The options show the probabilities of the only answer; several answers have theirs in their details.
  const answered = useAnswered(data, results[0]);
  const key = data.answers(q);
  const choices = data.options(q).length > 0;
  return (
    <article class="asked" aria-label={`Question ${flat(id)}`}>
      {side && (
        <p class="line">
          <strong><Visible text={id} /></strong>
          {!several && results[0] !== undefined && <Outcome name={data.outcome(results[0])} />}
        </p>
      )}
      <p class="question" dir="auto"><Visible text={data.text(q)} /></p>
      <Options data={data} q={q} results={results} texts={several ? [] : [answered]} />
      {!several && choices && answered?.logprobs != null && <p class="key">Percentages: the probability of each option among these options.</p>}
      {(!choices || key.length === 0) && (
        <Facts of={[[key.length > 1 ? "Reference answers" : "Reference answer", key.length === 0 ? "withheld by the owners of the data" : key.join("; ")]]} />
      )}
      <Ways page={page} data={data} q={q} shown={results} />
      {isServed() && <p class="key"><a href={historyLink(data.benchmark(q).name, id)}>This item in all runs</a></p>}
      {list ?? results.map((r, place) => <AnswerOf key={`${r} ${place}`} data={data} r={r} several={several} id={id} />)}
      {results.length === 0 && data.results > 0 && <p class="notes">This question has no such answer in the run.</p>}
    </article>
  );
};
