// The live view of a run: how far it is, its outcomes so far, errors first, and its answers page by page.
import { useEffect, useRef, useState } from "preact/hooks";

import type { PartProgress, RunProgress } from "../served";
import { count, digits, percent, plural } from "../text";
import { Outcome } from "../ui/outcome";
import { Visible } from "../ui/text";
import { TRUNCATED, useItems } from "./items";
import { ResultList } from "./list";
import { PaceOf } from "./pace";

const ORDER = ["correct", "partial", "wrong", "refused", "abstained", "unparsed", "unscored", "error"];
/** Milliseconds between two announcements to a screen reader at least. */
const ANNOUNCED = 20_000;

/** A duration for people: "40 s", "12 min", "3 h 5 min". */
export const lasting = (seconds: number): string => {
  if (seconds < 90) return `${Math.max(1, Math.round(seconds))} s`;
  const minutes = Math.round(seconds / 60);
  return minutes < 60 ? `${minutes} min` : `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
};
/** A rate for people: slow models are counted by the minute. */
export const rateOf = (rate: number): string => (rate >= 1 ? `${digits(rate)} answers/s` : `${digits(rate * 60)} answers/min`);

const clock = (time: string): string => {
  const at = new Date(time);
  return Number.isNaN(at.getTime()) ? "" : at.toLocaleString();
};

const STATES: Readonly<Record<RunProgress["state"], string>> = { running: "Running", finished: "Finished", unfinished: "Unfinished", unreadable: "Unreadable" };

/** How far a run is, in a sentence. */
export const saidOf = ({ state, answered, selected }: RunProgress): string => {
  const far = selected > 0 ? `${count(answered)} of ${count(selected)} answered` : `${count(answered)} answered`;
  if (state === "unfinished") return `Unfinished: ${far}, and no session is running.`;
  return `${STATES[state]}: ${far}.`;
};

/** A sentence for screen readers: at once if the state changes, else only now and then. */
const useAnnounced = (progress: RunProgress): string => {
  const [said, say] = useState("");
  const last = useRef({ at: 0, state: "" });
  useEffect(() => {
    const now = Date.now();
    if (last.current.state === progress.state && now - last.current.at < ANNOUNCED) return;
    last.current = { at: now, state: progress.state };
    say(saidOf(progress));
  }, [progress]);
  return said;
};

const Far = ({ progress }: { readonly progress: RunProgress }) => {
  const { state, answered, selected, rate, seconds_left: left, last, unread = 0, stopped = "", why = "" } = progress;
  const told = [
    ...(rate !== null && state === "running" ? [rateOf(rate)] : []),
    ...(left !== null && state === "running" ? [`about ${lasting(left)} left`] : []),
    ...(state === "running" && rate === null && last !== "" ? ["no answer in the last minute"] : []),
    ...(last === "" ? [] : [`last answer ${clock(last)}`]),
  ];
  return (
    <div class="far">
      <p class="now"><strong data-state={state}>{STATES[state]}</strong> <span><data value={answered} data-far="answered">{count(answered)}</data>{selected > 0 && <> of <data value={selected} data-far="selected">{count(selected)}</data></>} answered</span></p>
      {selected > 0 && <progress max={selected} value={Math.min(answered, selected)} aria-label={`Answered of ${count(selected)}`} />}
      <p class="quiet">{told.join(" · ")}</p>
      {why !== "" && <p class="alert"><Visible text={why} /></p>}
      {state === "unfinished" && <p class="notes">No session is running{selected > answered && <>, and {plural(selected - answered, "question has no answer", "questions have no answer")}</>}. The same command as before goes on with this run.</p>}
      {stopped !== "" && <p class="notes">The last session stopped: <Visible text={stopped} />.</p>}
      {selected === 0 && why === "" && <p class="quiet">The number of selected questions is not known{state === "running" && " yet"}.</p>}
      {unread > 0 && <p class="notes">{plural(unread, "line")} of results.jsonl cannot be read and {unread === 1 ? "is" : "are"} not counted.</p>}
    </div>
  );
};

const Stack = ({ outcomes, answered }: { readonly outcomes: Readonly<Record<string, number>>; readonly answered: number }) => {
  let before = 0;
  return (
    <svg class="stack" width={180} height={14} aria-hidden="true" focusable="false">
      {ORDER.map((name) => {
        const wide = answered > 0 ? ((outcomes[name] ?? 0) / answered) * 180 : 0;
        const x = before;
        before += wide;
        return wide > 0 && <g key={name} class={`o-${name}`}><rect x={x} y={0} width={wide} height={14} /></g>;
      })}
    </svg>
  );
};

type Show = (filter: { readonly outcome?: string; readonly benchmark?: string; readonly technique?: string }) => void;

const PartRow = ({ part, show }: { readonly part: PartProgress; readonly show: Show }) => {
  const { benchmark, title, technique, answered, selected, outcomes, score, scored } = part;
  return (
    <tr data-benchmark={benchmark} data-technique={technique}>
      <th scope="row"><Visible text={title} /></th>
      <td><Visible text={technique} /></td>
      <td class="right">{count(answered)}{selected > 0 && <span class="quiet"> of {count(selected)}</span>}</td>
      <td><Stack outcomes={outcomes} answered={answered} /></td>
      <td class="counts">
        {Object.keys(outcomes).sort((one, other) => ORDER.indexOf(one) - ORDER.indexOf(other)).map((name) => (
          <button key={name} type="button" class="plain" data-outcome={name} onClick={() => { show({ outcome: name, benchmark, technique }); }}>
            <Outcome name={name} /> {count(outcomes[name] ?? 0)}
          </button>
        ))}
      </td>
      <td class="right">{scored === 0 ? <span class="quiet">–</span> : <>{percent(score, scored)} <span class="quiet">of {count(scored)} scored</span></>}</td>
    </tr>
  );
};

/** Errors and truncated answers, with a way to their items. */
const First = ({ progress, show }: { readonly progress: RunProgress; readonly show: Show }) => {
  const errors = progress.parts.reduce((sum, { outcomes }) => sum + (outcomes["error"] ?? 0), 0);
  const { truncated = 0 } = progress;
  if (errors + truncated === 0) return null;
  return (
    <div class="first-looked notes">
      {errors > 0 && <p><strong>{plural(errors, "error")}</strong>: questions without an answer. <button type="button" onClick={() => { show({ outcome: "error" }); }}>Show them</button></p>}
      {truncated > 0 && <p><strong>{plural(truncated, "answer")} cut off</strong> at the limit of tokens. <button type="button" onClick={() => { show({ outcome: TRUNCATED }); }}>Show them</button></p>}
    </div>
  );
};

interface LiveProps {
  readonly name: string;
  readonly progress: RunProgress;
  /** Whether the run has too many results for a page. */
  readonly large: boolean;
  readonly drawing: boolean;
  readonly problem: string;
  readonly draw: () => void;
  /** Told whether somebody reads: then nothing takes the place of this view. */
  readonly reading: (reading: boolean) => void;
}

const Offer = ({ progress, large, drawing, problem, draw }: Omit<LiveProps, "name" | "reading">) => {
  if (drawing) return <p role="status" class="aside">Drawing the page of {plural(progress.answered, "answer")}.</p>;
  const finished = progress.state === "finished";
  return (
    <div role="status">
      {problem !== "" && <p class="alert">{problem}</p>}
      {finished && !large && <p class="aside"><strong>This run is finished.</strong> <button type="button" onClick={draw}>Show its page</button></p>}
      {finished && large && <p class="aside">{count(progress.answered)} results are listed here. Their page takes minutes and much memory. <button type="button" onClick={draw}>Draw the page</button></p>}
      {!finished && progress.answered > 0 && <p><button type="button" onClick={draw}>Draw the page so far</button></p>}
    </div>
  );
};

export const Live = ({ name, progress, large, drawing, problem, draw, reading }: LiveProps) => {
  const items = useItems(name);
  const announced = useAnnounced(progress);
  const open = progress.state !== "finished";
  const list = useRef<HTMLDivElement>(null);
  const show: Show = ({ outcome = "", benchmark = "", technique = "" }) => {
    items.change({ outcome, benchmark, technique, id: "", text: "" });
    list.current?.scrollIntoView();
    list.current?.focus({ preventScroll: true });
  };
  return (
    <div class="live">
      <h1><Visible text={name} /></h1>
      <p class="sr" role="status" data-announced>{announced}</p>
      <Far progress={progress} />
      <Offer progress={progress} large={large} drawing={drawing} problem={problem} draw={draw} />
      <First progress={progress} show={show} />
      <section aria-labelledby="outcomes-title">
        <h2 id="outcomes-title">Outcomes{open && " so far"}</h2>
        {progress.parts.length === 0 ? <p class="quiet">No answer yet.</p> : (
          <div class="scroll" tabIndex={0} role="group" aria-label="Outcomes">
            <table class="parts">
              <thead>
                <tr>
                  <th scope="col">Benchmark</th><th scope="col">Technique</th><th scope="col" class="right">Answered</th>
                  <th scope="col"><span class="sr">Drawing</span></th><th scope="col">Outcomes</th><th scope="col" class="right">Mean score{open && " so far"}, %</th>
                </tr>
              </thead>
              <tbody>{progress.parts.map((part) => <PartRow key={`${part.benchmark} ${part.technique}`} part={part} show={show} />)}</tbody>
            </table>
          </div>
        )}
        {open && progress.parts.length > 0 && <p class="key">These are the answers that came so far, in no random order. They are no result of the run.</p>}
      </section>
      <PaceOf name={name} version={progress.version} />
      <div ref={list} tabIndex={-1} class="list-of-live"><ResultList name={name} progress={progress} items={items} reading={reading} /></div>
    </div>
  );
};
