// The page of one reader: a start, one question at a time, pauses between the sittings, an end.
import type { ComponentChildren } from "preact";
import { useEffect, useLayoutEffect, useMemo, useReducer, useRef, useState } from "preact/hooks";

import type { ReadingHead } from "../bundle";
import { save } from "../csv";
import { picturesOf } from "../images";
import { useKeys } from "../keys";
import { localStore, type Kept } from "../reviews";
import { keepSaved, merging, Saved, savedAt } from "../served/saved";
import { isServed } from "../served/routes";
import "../style/item.css";
import "../style/reading.css";
import "../style/review.css";
import "../style/shell.css";
import { capital, count, plural } from "../text";
import { Licences, Skip } from "../ui/edges";
import { FileChoice } from "../ui/file-choice";
import { Visible } from "../ui/text";
import { Viewers } from "../ui/viewer";
import { Help, Tools, type KeyList, useLetters } from "../views/help";
import { SavedNote } from "../views/review";
import { useClock } from "./clock";
import { Answers, type Found } from "./kept";
import { fileOf, MAX_FILE, ofStudy, readFile, same, type Line } from "./lines";
import type { TaskOf } from "./task";

const LOST: Readonly<Record<Exclude<Kept, "kept">, string>> = {
  blocked: "This browser stores nothing for this page: your answers are lost when you close it. Export them before.",
  full: "The storage of this browser is full: your last answers are lost when you close the page. Export them before.",
  unreadable: "This browser holds answers that this page cannot read. It leaves them as they are, and keeps yours until you close it. Export them before.",
};

/** What is in sight. A pause stands before the first question of a sitting. */
type Screen =
  | { readonly is: "start" | "end" }
  | { readonly is: "pause"; readonly place: number }
  | { readonly is: "question"; readonly place: number; /** Whether the end lists it as not complete: the next step leads back there. */ readonly fromEnd: boolean };

/** The answers of this page; the component is drawn again when they change. */
const useAnswers = <L extends Line>(head: ReadingHead, of: TaskOf<L>): readonly [Answers<L>, Saved | null] => {
  const [, draw] = useReducer<number, null>((version) => version + 1, 0);
  const [answers, saved] = useMemo(() => {
    const made = new Answers(head, of, localStore());
    if (!isServed()) return [made, null] as const;
    const read = (text: string): ReadonlyMap<string, L> => (text === "" ? new Map<string, L>() : readFile(of, head, text));
    const write = (lines: Iterable<L>): string => { const all = [...lines]; return all.length === 0 ? "" : fileOf(of, head, all); };
    const merge = merging<L>({ read, write, same: (one, other) => same(of, one, other) });
    return [made, new Saved(merge, savedAt("reading"), made.saved)] as const;
  }, [head, of]);
  useEffect(() => {
    const ends = [answers.subscribe(() => { draw(null); })];
    if (saved !== null) {
      const send = (): void => {
        // Nothing is saved before the first answer.
        const text = answers.size === 0 && saved.getItem() === null ? "" : answers.exported();
        if (saved.state !== "changed" && text !== (saved.getItem() ?? "")) saved.setItem("", text);
      };
      send();
      ends.push(answers.subscribe(send), saved.subscribe(() => {
        if (saved.state !== "changed") answers.adopt(saved.getItem() ?? "");
        if (saved.state === "saved") answers.savedAs(saved.version);
        draw(null);
      }));
      keepSaved(saved);
    }
    const left = new AbortController();
    const { signal } = left;
    addEventListener("storage", ({ key }) => { if (key === answers.key) answers.yield(); }, { signal });
    addEventListener("pagehide", () => { answers.flush(); }, { signal });
    addEventListener("beforeunload", (event) => { if (answers.kept !== "kept" && answers.size > 0) event.preventDefault(); }, { signal });
    return () => {
      left.abort();
      for (const end of ends) end();
    };
  }, [answers, saved]);
  return [answers, saved];
};

interface Parts<L extends Line> {
  readonly head: ReadingHead;
  readonly of: TaskOf<L>;
  readonly answers: Answers<L>;
  readonly saved: Saved | null;
}

const fileName = (reader: string): string => `${reader.replace(/[^A-Za-z0-9._-]+/g, "-").slice(0, 80)}.jsonl`;

/** Where answers are, in a few words; alerts say what went wrong. */
const whereKept = (kept: Kept, saved: Saved | null): string => {
  if (saved !== null && saved.state !== "failed") return saved.state === "saved" ? "Saved." : "Saving.";
  return kept === "kept" ? "Kept in this browser." : "";
};

const Export = <L extends Line>({ head, of, answers, primary = false }: Parts<L> & { readonly primary?: boolean }) => (
  <button type="button" class={primary ? "primary" : ""} disabled={answers.size === 0} onClick={() => { save(answers.exported(), fileName(ofStudy(head, "reader")), "application/jsonl"); }}>
    Export {plural(answers.size, of.one)}
  </button>
);

/** Export answers, or load those that another browser exported. */
const Files = <L extends Line>(parts: Parts<L> & { readonly primary?: boolean }) => {
  const { of, answers } = parts;
  const [said, say] = useState("");
  const [pending, ask] = useState<Found<L> | null>(null);
  const take = (found: Found<L>, mine: ReadonlySet<string> = new Set()): void => {
    answers.take(found, mine);
    ask(null);
    say(`${plural(found.lines.size - mine.size, of.one)} loaded.`);
  };
  const load = async (file: File): Promise<void> => {
    ask(null);
    try {
      if (file.size > MAX_FILE) throw new Error(`larger than ${count(MAX_FILE / 2 ** 20)} MiB`);
      const found = answers.imported(await file.text());
      if (found.conflicts.size === 0) take(found);
      else ask(found);
    } catch (error) {
      say(`${file.name}: ${error instanceof Error ? error.message : String(error)}. Nothing was loaded.`);
    }
  };
  return (
    <div class="files" role="group" aria-label="Your answers as a file">
      <Export {...parts} />
      <FileChoice load={load}>Load an exported file</FileChoice>
      <p role="status"><Visible text={said} /></p>
      {pending !== null && (
        <p class="pending">
          {plural(pending.conflicts.size, "question has", "questions have")} another {of.one} here.{" "}
          <button type="button" onClick={() => { take(pending); }}>Take those of the file</button>{" "}
          <button type="button" onClick={() => { take(pending, pending.conflicts); }}>Keep mine</button>
        </p>
      )}
    </div>
  );
};

/** A screen without a question. */
const Between = ({ title, children }: { readonly title: string; readonly children: ComponentChildren }) => {
  const heading = useRef<HTMLHeadingElement>(null);
  useLayoutEffect(() => { heading.current?.focus({ preventScroll: true }); }, []);
  return (
    <section class="between">
      <h1 ref={heading} tabIndex={-1}><Visible text={title} /></h1>
      {children}
    </section>
  );
};

interface StepProps<L extends Line> extends Parts<L> {
  readonly place: number;
  readonly next: () => void;
  readonly back: () => void;
  readonly pause: () => void;
}

/** The number of a question and of its sitting. */
const placeOf = ({ tasks }: ReadingHead, place: number): string => {
  const sittings = Math.max(...tasks.map(({ sitting }) => sitting));
  return `${count(place + 1)} of ${count(tasks.length)}${sittings > 1 ? `, sitting ${count(tasks[place]?.sitting ?? 1)} of ${count(sittings)}` : ""}`;
};

const Question = <L extends Line>({ head, of, answers, saved, place, next, back, pause }: StepProps<L>) => {
  const section = useRef<HTMLElement>(null);
  const [asked, ask] = useState(false);
  const take = useClock(place, (left, seconds) => {
    answers.set(left, {}, seconds);
    answers.flush();
  });
  const task = head.tasks[place];
  const pictures = useMemo(() => picturesOf(task?.images ?? []), [task]);
  useLayoutEffect(() => {
    section.current?.focus({ preventScroll: true });
    scrollTo({ top: 0, behavior: "instant" });
  }, []);
  const line = answers.of(place);
  const lack = of.lacks(line, head);
  const go = (): void => {
    if (lack === "" || asked) next();
    else ask(true);
  };
  useKeys([{ keys: ["Enter"], run: go, once: true }]);
  if (task === undefined) return null;
  const { Form } = of;
  const form = (
    <div
      class="review fields"
      onKeyDown={(event) => {
        if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
        event.preventDefault();
        go();
      }}
    >
      <Form head={head} task={task} line={line} set={(change) => { answers.set(place, change, take()); }} />
      <p role="status" class="lack">{asked && lack !== "" && `${lack} You can leave it as it is, and come back later.`}</p>
      <div class="steps">
        <button type="button" class="primary" onClick={go}>{asked && lack !== "" ? "Leave it" : "Next"}</button>
        <button type="button" disabled={place === 0} onClick={back}>Back</button>
        <button type="button" onClick={pause}>Pause</button>
        <span class="quiet">{whereKept(answers.kept, saved)}</span>
      </div>
    </div>
  );
  return (
    <article ref={section} tabIndex={-1} aria-labelledby="step" aria-describedby="question">
      <h1 id="step">Question {placeOf(head, place)}</h1>
      <progress value={place + 1} max={head.tasks.length} aria-hidden="true" />
      <p id="question" class="question" dir="auto"><Visible text={task.question} /></p>
      {pictures.length === 0 ? form : <div class="opened"><Viewers pictures={pictures} digits={false} />{form}</div>}
    </article>
  );
};

const Main = <L extends Line>(parts: Parts<L>) => {
  const { head, of, answers, saved } = parts;
  const { tasks } = head;
  const [screen, show] = useState<Screen>({ is: "start" });
  const open = (place: number, fromEnd = false): void => {
    answers.go(place);
    show({ is: "question", place, fromEnd });
  };
  const places = tasks.map((_, place) => place);
  const unfinished = places.filter((place) => of.lacks(answers.of(place), head) !== "");
  // In another browser no question was in sight last.
  const left = answers.at >= 0 && answers.at < tasks.length ? answers.at : places.find((place) => !answers.isAnswered(place));
  const first = unfinished.length === 0 ? tasks.length : (left ?? tasks.length);
  const go = (place: number): void => {
    if (place >= tasks.length) show({ is: "end" });
    else if (place > 0 && tasks[place]?.sitting !== tasks[place - 1]?.sitting) show({ is: "pause", place });
    else open(place);
  };
  useKeys(screen.is === "pause" ? [{ keys: ["Enter"], run: () => { open(screen.place); }, once: true }] : []);
  const where = saved !== null
    ? "saved by medvqa view after each change, and kept in this browser."
    : "kept in this browser until you export them. You may close the page, and open it again in the same browser.";
  switch (screen.is) {
    case "question": {
      const { place, fromEnd } = screen;
      return (
        <Question
          key={place}
          {...parts}
          place={place}
          next={() => { if (fromEnd) show({ is: "end" }); else go(place + 1); }}
          back={() => { open(place - 1, fromEnd); }}
          pause={() => { show({ is: "start" }); }}
        />
      );
    }
    case "pause":
      return (
        <Between key="pause" title={`Sitting ${count(tasks[screen.place - 1]?.sitting ?? 1)} is done`}>
          <p>Take a break. No time is counted until you go on. Your answers are {where}</p>
          <p class="steps"><button type="button" class="primary" onClick={() => { open(screen.place); }}>Go on with sitting {count(tasks[screen.place]?.sitting ?? 1)}</button></p>
          <Files {...parts} />
        </Between>
      );
    case "end":
      return (
        <Between key="end" title={unfinished.length === 0 ? "All questions are answered" : `${plural(unfinished.length, "question is", "questions are")} not complete`}>
          {unfinished.length > 0 && (
            <ul class="chips" aria-label="Questions that are not complete">
              {unfinished.map((place) => (
                <li key={place}><button type="button" title={of.lacks(answers.of(place), head)} onClick={() => { open(place, true); }}>Question {count(place + 1)}</button></li>
              ))}
            </ul>
          )}
          <p>
            {saved === null ? "Export your answers, and send the file to those who gave you this page." : "Your answers are saved: you may close this page. An export is a copy."}
          </p>
          <Files {...parts} primary />
          <p class="steps"><button type="button" onClick={() => { open(tasks.length - 1); }}>Back to the last question</button></p>
        </Between>
      );
    default:
      return (
        <Between key="start" title={head.title}>
          {head.instructions !== "" && <p class="question" dir="auto"><Visible text={head.instructions} /></p>}
          <dl class="meta">
            <dt>You are reader</dt><dd><Visible text={ofStudy(head, "reader")} /></dd>
            <dt>Questions</dt><dd>{count(tasks.length)} in {plural(new Set(tasks.map(({ sitting }) => sitting)).size, "sitting")}, {count(answers.size)} answered</dd>
            <dt>Your answers</dt><dd>{capital(where)}</dd>
            {saved === null && <><dt>Another browser</dt><dd>Export your answers here, and load the file there: you go on where you stopped.</dd></>}
            <dt>Comments</dt><dd>Do not name patients: an export holds the comments.</dd>
          </dl>
          <p class="steps">
            <button type="button" class="primary" disabled={saved?.state === "reading"} onClick={() => { if (first < tasks.length) open(first); else show({ is: "end" }); }}>
              {first >= tasks.length ? "To the end" : first === 0 && answers.size === 0 ? "Begin" : `Continue with question ${count(first + 1)}`}
            </button>
          </p>
          <Files {...parts} />
        </Between>
      );
  }
};

const KEYS: KeyList = [
  [["Enter"], "Go on to the next question"],
  [["Ctrl + Enter"], "The same while you type"],
  [["?"], "Show this list"],
];

export const ReaderPage = <L extends Line>({ head, of }: { readonly head: ReadingHead; readonly of: TaskOf<L> }) => {
  const [answers, saved] = useAnswers(head, of);
  const [help, showHelp] = useState(false);
  const [letters, chooseLetters] = useLetters();
  useKeys([{ keys: ["?"], run: () => { showHelp(true); }, always: true }], { base: true });
  const parts: Parts<L> = { head, of, answers, saved };
  return (
    <>
      <Skip />
      <header class="top">
        <div class="wide">
          <p class="name"><strong><Visible text={head.title} /></strong> <span>reader <Visible text={ofStudy(head, "reader")} /></span></p>
          <Tools showKeys={() => { showHelp(true); }} />
        </div>
      </header>
      <main id="main" class="wide reader" tabIndex={-1}>
        {saved !== null && <SavedNote saved={saved} one={of.one} />}
        {answers.kept !== "kept" && saved?.state !== "saved" && <p class="alert" role="alert">{LOST[answers.kept]} <Export {...parts} /></p>}
        {answers.elsewhere ? (
          <p class="alert" role="alert">
            Another tab of this browser has this page open, and goes on with your answers. Nothing is lost: close one of the two.{" "}
            <button type="button" onClick={() => { answers.resume(); }}>Go on in this tab</button>
          </p>
        ) : saved?.state !== "changed" && <Main {...parts} />}
      </main>
      {help && <Help letters={letters} choose={chooseLetters} close={() => { showHelp(false); }} list={[...of.keys, ...KEYS]} />}
      <footer class="wide">
        <p>Drawn by {head.generator}.</p>
        <Licences of={saved === null ? "file" : "page"} />
      </footer>
    </>
  );
};
