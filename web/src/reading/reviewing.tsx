// An expert checks a question with its key: accept, correct or reject it, a rating, a reason.
import { useRef } from "preact/hooks";

import type { ReadingTask } from "../bundle";
import { useKeys } from "../keys";
import { flat } from "../text";
import { Visible } from "../ui/text";
import { MAX_TEXT, oneOf, text, whole, type Field, type Line } from "./lines";
import type { FormProps, TaskOf } from "./task";

const DECISIONS = ["accept", "correct", "reject"] as const;
type Decision = (typeof DECISIONS)[number];
const SAID: Readonly<Record<Decision, string>> = { accept: "Accept it as it is", correct: "Correct it", reject: "Reject it" };
const RATINGS = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10] as const;
const NO_KEY: readonly string[] = [];

/** The corrected texts; a field that is not there is as in the question. */
interface Corrections {
  readonly question?: string | undefined;
  readonly options?: Readonly<Record<string, string>> | undefined;
  readonly answers?: readonly string[] | undefined;
}
const NONE = { question: undefined, options: undefined, answers: undefined };
/** As in medvqa.readings.reading_file; a draft may lack the decision. */
export interface Opinion extends Line, Corrections {
  readonly decision?: Decision;
  readonly rating?: number | undefined;
  readonly reason?: string;
  readonly final?: boolean;
}

const isText = text().is;
const TEXTS: Field = { is: (value) => Array.isArray(value) && value.every(isText), what: "list of texts" };
const BY_LETTER: Field = { is: (value) => typeof value === "object" && value !== null && !Array.isArray(value) && Object.values(value).every(isText), what: "object of texts" };

interface EditProps {
  readonly task: ReadingTask;
  readonly line: Opinion;
  readonly put: (change: Corrections) => void;
}

/** The accepted answers of an open question, one a line. */
const linesOf = (typed: string): readonly string[] => typed.split("\n").map((each) => each.trim()).filter((each) => each !== "");
const alike = (one: readonly string[], other: readonly string[]): boolean => one.length === other.length && one.every((each, place) => each === other[place]);

const Edit = ({ task, line, put }: EditProps) => {
  const key = task.checked?.answers ?? NO_KEY;
  const { question = task.question, options = {}, answers = key } = line;
  /** The key as it is typed: blank lines are no answers, but stay while one types. */
  const typed = useRef(answers.join("\n"));
  const several = task.kind === "multiple_response";
  const answer = (now: readonly string[]): void => { put({ answers: alike(now, key) ? undefined : now }); };
  const rename = (letter: string, was: string, now: string): void => {
    const changed = Object.entries({ ...options, [letter]: now }).filter(([each, its]) => each !== letter || its !== was);
    put({ options: changed.length === 0 ? undefined : Object.fromEntries(changed) });
  };
  const choose = (letter: string): void => {
    const letters = task.options.map(([each]) => each);
    answer(several ? letters.filter((each) => answers.includes(each) !== (each === letter)) : [letter]);
  };
  return (
    <div class="corrections">
      <label class="comment">
        Question
        <textarea rows={3} maxLength={MAX_TEXT} value={question} onInput={({ currentTarget: { value } }) => { put({ question: value === task.question ? undefined : value }); }} />
      </label>
      {task.options.length === 0 ? (
        <label class="comment">
          Key: one accepted answer a line
          <textarea
            rows={3}
            maxLength={MAX_TEXT}
            defaultValue={typed.current}
            onInput={({ currentTarget: { value } }) => {
              typed.current = value;
              answer(linesOf(value));
            }}
          />
        </label>
      ) : (
        <fieldset>
          <legend>Options, and the key</legend>
          {task.options.map(([letter, was]) => (
            <p key={letter} class="correction">
              <label>
                <input type={several ? "checkbox" : "radio"} name="key" aria-label={`${flat(letter)} is right`} checked={answers.includes(letter)} onChange={() => { choose(letter); }} />{" "}
                <Visible text={letter} />
              </label>
              <input
                type="text"
                dir="auto"
                aria-label={`Text of option ${flat(letter)}`}
                maxLength={MAX_TEXT}
                value={options[letter] ?? was}
                onInput={({ currentTarget }) => { rename(letter, was, currentTarget.value); }}
              />
            </p>
          ))}
        </fieldset>
      )}
    </div>
  );
};

/** The key beside the options; and for who decides, the opinions of the reviewers. */
const Checked = ({ task }: { readonly task: ReadingTask }) => {
  const { answers = NO_KEY, opinions = [] } = task.checked ?? {};
  const key = new Set(answers);
  return (
    <div class="checked">
      {task.options.length === 0 ? (
        <p>Key: {answers.length === 0 ? "none" : answers.map((each) => <strong key={each} class="option" dir="auto"><Visible text={each} /> </strong>)}</p>
      ) : (
        <ul aria-label="Options">
          {task.options.map(([letter, option]) => (
            <li key={letter}>
              <Visible text={letter} />. <span class="option" dir="auto"><Visible text={option} /></span>{key.has(letter) && <strong> (key)</strong>}
            </li>
          ))}
        </ul>
      )}
      {opinions.length > 0 && (
        <>
          <p><strong>Opinions of the reviewers: yours is the final decision</strong></p>
          <ul aria-label="Opinions">{opinions.map((each) => <li key={each} class="option" dir="auto"><Visible text={each} /></li>)}</ul>
        </>
      )}
    </div>
  );
};

const Form = ({ task, line, set }: FormProps<Opinion>) => {
  const { decision, rating, reason = "" } = line;
  const form = useRef<HTMLDivElement>(null);
  /** Corrections that another decision took away: they come back with "correct". */
  const before = useRef<Corrections>(NONE);
  const isFinal = (task.checked?.opinions ?? []).length > 0;
  const put = (change: Partial<Opinion>): void => { set(isFinal ? { final: true, ...change } : change); };
  const decide = (next: Decision): void => {
    if (decision === "correct") before.current = { question: line.question, options: line.options, answers: line.answers };
    put({ decision: next, ...(next === "correct" ? before.current : NONE) });
  };
  // A key does what a click on the field does: the focus goes there, and screen readers say it.
  const press = (name: string): void => {
    const field = [...(form.current?.querySelectorAll<HTMLInputElement>("input") ?? [])].find(({ dataset }) => dataset["name"] === name);
    field?.focus();
    field?.click();
  };
  useKeys([
    ...DECISIONS.map((each) => ({ keys: [each.charAt(0), each.charAt(0).toUpperCase()], run: () => { press(each); } })),
    ...RATINGS.map((each) => ({ keys: [String(each % 10)], run: () => { press(`rated ${each}`); } })),
  ]);
  return (
    <div ref={form}>
      <Checked task={task} />
      <fieldset class="answer">
        <legend>{isFinal ? "Your decision" : "Your opinion"}</legend>
        {DECISIONS.map((each) => (
          <label key={each} class="pick">
            <input type="radio" name="decision" data-name={each} checked={decision === each} onChange={() => { decide(each); }} />
            <kbd aria-hidden="true">{each.charAt(0).toUpperCase()}</kbd> <span>{SAID[each]}</span>
          </label>
        ))}
      </fieldset>
      {decision === "correct" && <Edit task={task} line={line} put={put} />}
      <fieldset>
        <legend>Rating: is it correct, relevant, and well worded?</legend>
        <div class="tags">
          {RATINGS.map((each) => (
            <label key={each}>
              <input type="radio" name="rating" data-name={`rated ${each}`} checked={rating === each} onChange={() => { put({ rating: each }); }} />
              {each}{each === 1 && " wrong"}{each === 10 && " best"}
            </label>
          ))}
        </div>
      </fieldset>
      <label class="comment">
        Reason{decision === "accept" || decision === undefined ? "" : " (needed)"}
        <textarea rows={2} maxLength={MAX_TEXT} value={reason} onInput={({ currentTarget }) => { put({ reason: currentTarget.value }); }} />
      </label>
    </div>
  );
};

/** Say what a line lacks to be an opinion, "" for nothing. */
const missing = ({ decision, question, options, answers, reason = "" }: Opinion): string => {
  if (decision === undefined) return "You have not decided.";
  if (decision === "correct" && question === undefined && options === undefined && answers === undefined) return "Nothing is corrected.";
  if (decision === "correct" && [question ?? "text", ...Object.values(options ?? {})].some((each) => each.trim() === "")) return "A corrected text is empty.";
  if (decision === "correct" && answers?.length === 0) return "The key is empty.";
  return decision !== "accept" && reason.trim() === "" ? "A reason is needed." : "";
};

export const REVIEWING: TaskOf<Opinion> = {
  Form,
  fields: {
    decision: oneOf(...DECISIONS),
    rating: whole(1, 10),
    question: text(),
    options: BY_LETTER,
    answers: TEXTS,
    reason: text(),
    final: oneOf(true, false),
  },
  isAnswered: (line) => missing(line) === "",
  lacks: (line) => missing(line) || (line.rating === undefined && line.final !== true ? "There is no rating." : ""),
  one: "opinion",
  keys: [
    [["A", "C", "R"], "Accept, correct or reject"],
    [["1", "…", "9", "0"], "Rate: 0 is 10"],
  ],
};
