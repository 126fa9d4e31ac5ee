// The list of all runs: their states and numbers, runs chosen to be compared, trends and gates.
import { useState } from "preact/hooks";

import type { HeadlineNumber, RunEntry, RunList, RunProgress } from "../served";
import "../style/home.css";
import { count, flat, percent, plural } from "../text";
import { Table } from "../ui/table";
import { Visible } from "../ui/text";
import { hasInterval, isWhole, matches, when } from "./over-time";
import { compareLink, runLink } from "./routes";
import { GateHistory, GateWord, Trends } from "./trends";

/** Runs that can be compared at once. */
const MOST_COMPARED = 10;
/** Rows that are drawn at first. */
const SHOWN = 200;
/** Numbers of a run in its row at first. */
const NUMBERS = 6;

const Empty = ({ root }: { readonly root: string }) => (
  <>
    <p>There is no run in <Visible text={root} /> yet. A session writes one there:</p>
    <pre><code>medvqa run --model=phantom-vlm</code></pre>
    <p>or <code>pytest --model=MODEL</code> in a project with medvqa tests. It appears here with its first answer.</p>
  </>
);

const StateOf = ({ run }: { readonly run: RunEntry }) => (
  <>
    <span class="run-state" data-state={run.state}>{run.state}</span>
    {run.state === "running" && run.selected > 0 && <progress max={run.selected} value={run.answered} aria-label={`Answered questions of ${flat(run.name)}`} />}
    {run.state !== "unreadable" && (run.state !== "finished" || run.selected > run.answered) && (
      <small class="quiet">{count(run.answered)}{run.selected > 0 && ` of ${count(run.selected)}`} answered</small>
    )}
    {run.state === "unfinished" && (run.stopped ?? "") !== "" && <small class="quiet">stopped: <Visible text={run.stopped ?? ""} /></small>}
  </>
);

/** Answers without a score, as a number and a share: with a quarter of them, the other numbers say little. */
const ErrorsOf = ({ run: { errors = 0, answered, state } }: { readonly run: RunEntry }) =>
  state === "unreadable" || answered === 0 ? null : (
    <span data-errors={errors}>
      <span class={errors > 0 ? "bad" : "quiet"}>{count(errors)}</span>{errors > 0 && <> <small class="quiet">{percent(errors, answered)} %</small></>}
    </span>
  );

const NumberOf = ({ number, several }: { readonly number: HeadlineNumber; readonly several: boolean }) => (
  <li>
    <span class="quiet"><Visible text={number.benchmark} /> {several && <><Visible text={number.technique} /> </>}{number.title}</span>{" "}
    <data value={number.value ?? ""} data-benchmark={number.benchmark} data-technique={number.technique} data-measure={number.name}>{number.shown}</data>
    {hasInterval(number) && <span class="quiet"> ({number.interval})</span>}
  </li>
);

/** The first measure of each benchmark and technique, and the others. */
const split = (numbers: readonly HeadlineNumber[]): readonly [readonly HeadlineNumber[], readonly HeadlineNumber[]] => {
  const isFirst = (number: HeadlineNumber, place: number): boolean =>
    numbers.findIndex(({ benchmark, technique }) => benchmark === number.benchmark && technique === number.technique) === place;
  const firsts = numbers.filter(isFirst).slice(0, NUMBERS);
  return [firsts, numbers.filter((number) => !firsts.includes(number))];
};

/** What is said before numbers that are not known to be those of the whole run as it is now. */
const aboutNumbers = ({ name, state, stale = false, unchecked = false }: RunEntry): string => {
  if (stale) return "Of earlier results: ";
  return unchecked && state === "finished" ? `Not compared with the results, as an earlier version wrote them (medvqa report ${name}): ` : "So far: ";
};

const Numbers = ({ run }: { readonly run: RunEntry }) => {
  const several = new Set(run.numbers.map(({ technique }) => technique)).size > 1;
  const [firsts, others] = split(run.numbers);
  const list = (numbers: readonly HeadlineNumber[]) => (
    <ul class="numbers">{numbers.map((number) => <NumberOf key={`${number.benchmark} ${number.technique} ${number.name}`} number={number} several={several} />)}</ul>
  );
  return (
    <>
      {firsts.length > 0 && !isWhole(run) && <small class="quiet"><Visible text={aboutNumbers(run)} /></small>}
      {list(firsts)}
      {others.length > 0 && <details><summary>{plural(others.length, "more measure")}</summary>{list(others)}</details>}
      {run.why !== undefined && run.why !== "" && <small class={run.state === "unreadable" ? "bad" : "quiet"}><Visible text={run.why} /></small>}
    </>
  );
};

interface ChosenOf {
  readonly chosen: readonly string[];
  readonly choose: (names: readonly string[]) => void;
}

/** The runs that were chosen, in the order of choosing, and the way to their comparison. */
const Chosen = ({ chosen, choose }: ChosenOf) => (
  <div class="chosen" role="group" aria-label="Comparison">
    {chosen.length < 2 || chosen.length > MOST_COMPARED
      ? <button type="button" disabled>Compare</button>
      : <a class="go" href={compareLink(chosen)}>Compare {plural(chosen.length, "run")}</a>}
    {chosen.length > 0 && <button type="button" onClick={() => { choose([]); }}>Choose none</button>}
    <span role="status">
      {chosen.length === 0 && <span class="quiet">Choose two to ten runs in the table to compare them.</span>}
      {chosen.length === 1 && <>Baseline: <Visible text={chosen[0] ?? ""} />. Choose the runs to compare with it.</>}
      {chosen.length > 1 && <>Against the baseline <Visible text={chosen[0] ?? ""} />: <Visible text={chosen.slice(1, MOST_COMPARED).join(", ")} /></>}
      {chosen.length > MOST_COMPARED && <strong> At most {MOST_COMPARED} runs are compared at once.</strong>}
    </span>
  </div>
);

const Choice = ({ run, chosen, choose }: ChosenOf & { readonly run: RunEntry }) => (
  <input
    type="checkbox"
    aria-label={`Compare ${flat(run.name)}`}
    checked={chosen.includes(run.name)}
    disabled={run.state === "unreadable"}
    onChange={({ currentTarget }) => { choose(currentTarget.checked ? [...chosen, run.name] : chosen.filter((name) => name !== run.name)); }}
  />
);

const RunTable = ({ runs, chosen, choose }: ChosenOf & { readonly runs: readonly RunEntry[] }) => (
  <Table
    label="Runs"
    class="runs"
    rows={runs}
    rowKey={({ name }) => name}
    rowClass={({ state }) => state}
    columns={[
      { key: "choice", head: <span class="sr">choose</span>, cell: (run) => <Choice run={run} chosen={chosen} choose={choose} /> },
      {
        key: "name", head: "run", heading: true, by: ({ name }) => name,
        cell: ({ name, part }) => <><a href={runLink(name)}><Visible text={name} /></a>{part !== "" && <small class="quiet"><Visible text={part} /></small>}</>,
      },
      { key: "state", head: "state", by: ({ state }) => state, cell: (run) => <StateOf run={run} /> },
      { key: "errors", head: "errors", right: true, by: ({ errors = 0 }) => errors, cell: (run) => <ErrorsOf run={run} /> },
      {
        key: "model", head: "model", by: ({ model }) => model,
        cell: ({ model, label }) => <><Visible text={model} />{label !== "" && <small class="quiet"><Visible text={label} /></small>}</>,
      },
      { key: "started", head: "started", by: ({ started }) => started || null, cell: ({ started }) => <time dateTime={started}><Visible text={when(started)} /></time> },
      { key: "numbers", head: "headline measures (95 % interval)", class: "numbered", cell: (run) => <Numbers run={run} /> },
      {
        key: "gate", head: "gate", by: ({ gate }) => gate?.result ?? null,
        cell: ({ gate }) => gate != null && <GateWord gate={gate} />,
      },
    ]}
  />
);

/** A run as it is now: the list is read less often than progress is told. */
const nowOf = (run: RunEntry, told: RunProgress | undefined): RunEntry =>
  told === undefined || told.state === "finished"
    ? run
    : { ...run, state: told.state, answered: told.answered, selected: told.selected || run.selected, errors: told.parts.reduce((sum, { outcomes }) => sum + (outcomes["error"] ?? 0), 0) };

/** `progress`: what has been told of runs since the page was opened, by name. */
export const Home = ({ list, progress }: { readonly list: RunList; readonly progress: ReadonlyMap<string, RunProgress> }) => {
  const [filter, search] = useState("");
  const [wanted, choose] = useState<readonly string[]>([]);
  const [all, showAll] = useState(false);
  const runs = list.runs.map((run) => nowOf(run, progress.get(run.name)));
  const names = new Set(runs.map(({ name }) => name));
  const chosen = wanted.filter((name) => names.has(name));
  const matching = filter.trim() === "" ? runs : runs.filter((run) => matches(run, filter.trim()));
  const shown = all ? matching : matching.slice(0, SHOWN);
  const left = list.left_out ?? 0;
  return (
    <div class="home">
      <h1>Runs in <Visible text={list.root} /></h1>
      {runs.length === 0 ? <Empty root={list.root} /> : (
        <>
          <div class="filters" role="search" aria-label="Runs">
            <label class="choice">
              Filter by name, model, benchmark or state
              <input type="search" value={filter} onInput={({ currentTarget }) => { search(currentTarget.value); }} />
            </label>
            <p role="status" class="quiet">{matching.length < runs.length ? `${count(matching.length)} of ${plural(runs.length, "run")}` : plural(runs.length, "run")}</p>
          </div>
          {runs.length > 1 && <Chosen chosen={chosen} choose={choose} />}
          <RunTable runs={shown} chosen={chosen} choose={choose} />
          {shown.length < matching.length && <p><button type="button" onClick={() => { showAll(true); }}>Show {plural(matching.length - shown.length, "more run")}</button></p>}
          <Trends runs={matching} />
          <GateHistory runs={matching} />
        </>
      )}
      {left > 0 && <p class="quiet">{plural(left, "more folder")} with runs {left === 1 ? "is" : "are"} not listed: start medvqa view with a folder below.</p>}
    </div>
  );
};
