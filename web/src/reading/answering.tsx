// A reader answers a question: options or a text, how sure, a comment.
import { useRef } from "preact/hooks";

import { useKeys } from "../keys";
import { flat } from "../text";
import { Visible } from "../ui/text";
import { MAX_TEXT, oneOf, text, whole, type Line } from "./lines";
import type { FormProps, TaskOf } from "./task";

/** As in medvqa.readings.reading_file. */
export interface Reading extends Line {
  readonly response?: string;
  readonly cannot_tell?: boolean;
  readonly confidence?: number | undefined;
  readonly comment?: string;
  readonly arm?: "without" | "with";
}

const SURE = [1, 2, 3, 4, 5] as const;

const Form = ({ head, task, line, set }: FormProps<Reading>) => {
  const { options, kind } = task;
  const { response = "", cannot_tell = false, comment = "", confidence } = line;
  const form = useRef<HTMLDivElement>(null);
  /** A text that "cannot be determined" took away: it comes back with the mark. */
  const before = useRef("");
  const several = kind === "multiple_response";
  const chosen = several ? response.split(",") : [response];
  const answer = (change: Partial<Reading>): void => { set(head.arm === undefined || head.arm === "" ? change : { arm: head.arm, ...change }); };
  const choose = (letter: string): void => {
    const toggled = options.map(([each]) => each).filter((each) => chosen.includes(each) !== (each === letter));
    answer({ response: several ? toggled.join(",") : letter, cannot_tell: false });
  };
  const leave = (on: boolean): void => {
    if (on) before.current = response;
    answer(on ? { response: "", cannot_tell: true, confidence: undefined } : { response: options.length === 0 ? before.current : "", cannot_tell: false });
  };
  // A key does what a click on the field does: the focus goes there, and screen readers say it.
  const press = (name: string): void => {
    const field = [...(form.current?.querySelectorAll<HTMLInputElement>("input") ?? [])].find(({ dataset }) => dataset["name"] === name);
    field?.focus();
    field?.click();
  };
  const letters = options.map(([letter]) => letter).filter((letter) => letter.length === 1);
  useKeys([
    ...letters.map((letter) => ({ keys: [letter.toLowerCase(), letter.toUpperCase()], run: () => { press(`option ${letter}`); } })),
    ...(head.confidence === false ? [] : SURE.map((sure) => ({ keys: [String(sure)], run: () => { press(`sure ${sure}`); } }))),
    { keys: ["0"], run: () => { press("cannot tell"); } },
  ]);
  const cannot = (
    <label class="pick">
      <input type={options.length === 0 || several ? "checkbox" : "radio"} name="answer" data-name="cannot tell" checked={cannot_tell} onChange={({ currentTarget }) => { leave(currentTarget.checked); }} />
      <kbd aria-hidden="true">0</kbd> <span>Cannot be determined</span>
    </label>
  );
  return (
    <div ref={form}>
      {options.length === 0 ? (
        <div class="answer">
          <label class="comment">
            <strong>Your answer</strong>
            <textarea rows={3} maxLength={MAX_TEXT} value={response} disabled={cannot_tell} onInput={({ currentTarget }) => { answer({ response: currentTarget.value }); }} />
          </label>
          {cannot}
        </div>
      ) : (
        <fieldset class="answer" aria-describedby="question">
          <legend>{several ? "Your answer: all that apply" : "Your answer"}</legend>
          {options.map(([letter, option]) => (
            <label key={letter} class="pick">
              <input type={several ? "checkbox" : "radio"} name="answer" data-name={`option ${letter}`} aria-label={`${flat(letter)}. ${flat(option)}`} checked={chosen.includes(letter)} onChange={() => { choose(letter); }} />
              <kbd aria-hidden="true"><Visible text={letter} /></kbd> <span class="option" dir="auto"><Visible text={option} /></span>
            </label>
          ))}
          {cannot}
        </fieldset>
      )}
      {head.confidence !== false && (
        <fieldset class="sure" disabled={cannot_tell}>
          <legend>How sure are you?</legend>
          <div class="tags">
            {SURE.map((sure) => (
              <label key={sure}>
                <input type="radio" name="sure" data-name={`sure ${sure}`} checked={confidence === sure} onChange={() => { answer({ confidence: sure }); }} />
                {sure}{sure === 1 && " guessed"}{sure === SURE.length && " certain"}
              </label>
            ))}
          </div>
        </fieldset>
      )}
      <label class="comment">
        Comment
        <textarea rows={2} maxLength={MAX_TEXT} value={comment} onInput={({ currentTarget }) => { answer({ comment: currentTarget.value }); }} />
      </label>
    </div>
  );
};

const isAnswered = ({ response = "", cannot_tell = false }: Reading): boolean => response.trim() !== "" || cannot_tell;

export const ANSWERING: TaskOf<Reading> = {
  Form,
  fields: {
    response: text(),
    cannot_tell: oneOf(true, false),
    confidence: whole(1, 5),
    comment: text(),
    arm: oneOf("", "without", "with"),
  },
  isAnswered,
  lacks: (line, { confidence = true }) => {
    if (!isAnswered(line)) return "This question has no answer.";
    return confidence && line.cannot_tell !== true && line.confidence === undefined ? "You have not said how sure you are." : "";
  },
  one: "answer",
  keys: [
    [["A", "B", "…"], "Choose an option"],
    [["0"], "Cannot be determined"],
    [["1", "…", "5"], "Say how sure you are"],
  ],
};
