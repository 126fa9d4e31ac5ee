// The list of all runs: their states and numbers, runs chosen to be compared, trends and gates.
import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";

import { useKept } from "../remembered";
import type { HeadlineNumber, RunEntry, RunList } from "../served";
import "../style/home.css";
import { count, flat, percent, plural } from "../text";
import { Table, type TableColumn } from "../ui/table";
import { Visible } from "../ui/text";
import { hasInterval, matches, when } from "./over-time";
import { compareLink, runLink } from "./routes";
import { GateHistory, GateWord, Trends } from "./trends";

/** Runs that can be compared at once. */
const MOST_COMPARED = 10;
/** Rows that are drawn at first. */
const SHOWN = 200;
/** Columns of measures at first. */
const NUMBERS = 6;

const Empty = ({ root }: { readonly root: string }) => (
  <>
    <p>There is no run in <Visible text={root} /> yet. A session writes one there:</p>
    <pre><code>medvqa run --model=phantom-vlm</code></pre>
    <p>or <code>pytest --model=MODEL</code> in a project with medvqa tests. It appears here with its first answer.</p>
  </>
);

/** What is said of numbers that are not known to be those of the whole run as it is now; "" of others. */
const aboutNumbers = ({ name, state, numbers, stale = false, unchecked = false }: RunEntry): string => {
  if (numbers.length === 0) return "";
  if (stale) return "Measures of earlier results";
  if (state !== "finished") return "Measures so far";
  return unchecked ? `Measures not compared with the results, as an earlier version wrote them (medvqa report ${name})` : "";
};

const StateOf = ({ run }: { readonly run: RunEntry }) => (
  <>
    <span class="run-state" data-state={run.state}>{run.state}</span>
    {run.state === "running" && run.selected > 0 && <progress max={run.selected} value={run.answered} aria-label={`Answered questions of ${flat(run.name)}`} />}
    {run.state !== "unreadable" && (run.state !== "finished" || run.selected > run.answered) && (
      <small class="quiet">{count(run.answered)}{run.selected > 0 && ` of ${count(run.selected)}`} answered</small>
    )}
    {run.state === "unfinished" && (run.stopped ?? "") !== "" && <small class="quiet">stopped: <Visible text={run.stopped ?? ""} /></small>}
    {aboutNumbers(run) !== "" && <small class="quiet" data-about><Visible text={aboutNumbers(run)} /></small>}
    {run.why !== undefined && run.why !== "" && <small class={run.state === "unreadable" ? "bad" : "quiet"}><Visible text={run.why} /></small>}
  </>
);

/** Answers without a score, as a number and a share: with a quarter of them, the other numbers say little. */
const ErrorsOf = ({ run: { errors = 0, answered, state } }: { readonly run: RunEntry }) =>
  state === "unreadable" || answered === 0 ? null : (
    <span data-errors={errors}>
      <span class="narrow quiet">errors </span>
      <span class={errors > 0 ? "bad" : "quiet"}>{count(errors)}</span>{errors > 0 && <> <small class="quiet">{percent(errors, answered)} %</small></>}
    </span>
  );

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

/** A column that can be left out. `first`: whether it is shown until somebody decides. */
interface RunColumn extends TableColumn<RunEntry> {
  readonly title: string;
  readonly first: boolean;
}

const column = (title: string, first: boolean, cell: (run: RunEntry) => ComponentChildren, by: (run: RunEntry) => number | string | null, right = false): RunColumn =>
  ({ key: title, title, first, head: title, cell, by, right });

const small = (text: string) => text !== "" && <small class="quiet"><Visible text={text} /></small>;

const PLAIN: readonly RunColumn[] = [
  column("state", true, (run) => <StateOf run={run} />, ({ state }) => state),
  column("errors", true, (run) => <ErrorsOf run={run} />, ({ errors = 0 }) => errors, true),
  column("answered", false, ({ answered }) => count(answered), ({ answered }) => answered, true),
  column("model", true, ({ model, label }) => <><Visible text={model} />{small(label)}</>, ({ model }) => model || null),
  column("started", true, ({ started }) => <time dateTime={started}><Visible text={when(started)} /></time>, ({ started }) => started || null),
  column("finished", false, ({ finished }) => <time dateTime={finished}><Visible text={when(finished)} /></time>, ({ finished }) => finished || null),
  column("own tags", false, ({ tags = [] }) => <Visible text={tags.join(", ")} />, ({ tags = [] }) => tags.join(", ") || null),
  column("gate", true, ({ gate }) => gate != null && <GateWord gate={gate} />, ({ gate }) => gate?.result ?? null),
];

/** A column for each measure of the runs, by which they are sorted. The first of each benchmark and technique come first. */
export const measuresOf = (runs: readonly RunEntry[]): readonly RunColumn[] => {
  const numbers = runs.flatMap((run) => run.numbers);
  const several = new Set(numbers.map(({ technique }) => technique)).size > 1;
  const firsts = new Map<string, HeadlineNumber>();
  for (const number of numbers) {
    const part = `${number.benchmark} ${number.technique}`;
    if (!firsts.has(part)) firsts.set(part, number);
  }
  const named = new Map([...firsts.values(), ...numbers].map((number) => [`${number.benchmark} ${number.technique} ${number.name}`, number]));
  return [...named].map(([key, { benchmark, technique, name, title }], place) => {
    const of = (run: RunEntry): HeadlineNumber | undefined =>
      run.numbers.find((number) => number.benchmark === benchmark && number.technique === technique && number.name === name);
    const where = [benchmark, ...(several ? [technique] : [])].join(" ");
    return {
      key, first: place < NUMBERS, title: `${title}, ${where}`, class: "measured", right: true,
      head: <>{title}<small class="quiet"><Visible text={where} /></small></>,
      by: (run) => of(run)?.value ?? null,
      cell: (run) => <NumberOf number={of(run)} where={where} />,
    };
  });
};

const NumberOf = ({ number, where }: { readonly number: HeadlineNumber | undefined; readonly where: string }) =>
  number === undefined ? null : (
    <>
      <span class="narrow quiet"><Visible text={where} /> {number.title} </span>
      <data value={number.value ?? ""} data-benchmark={number.benchmark} data-technique={number.technique} data-measure={number.name}>{number.shown}</data>
      {hasInterval(number) && <small class="quiet">{number.interval}</small>}
    </>
  );

/** The columns that somebody chose or left out, kept by the browser: a sign and the key of each, one a line. */
const useColumns = (columns: readonly RunColumn[]) => {
  const [kept, keep] = useKept("run-columns");
  const lines = kept.split("\n").filter((line) => line !== "");
  const isShown = ({ key, first }: RunColumn): boolean => (first ? !lines.includes(`-${key}`) : lines.includes(`+${key}`));
  const turn = (column: RunColumn): void => {
    const others = lines.filter((line) => line.slice(1) !== column.key);
    const next = !isShown(column);
    keep((next === column.first ? others : [...others, `${next ? "+" : "-"}${column.key}`]).join("\n"));
  };
  return { shown: columns.filter(isShown), isShown, turn };
};

const RunTable = ({ runs, all, chosen, choose }: ChosenOf & { readonly runs: readonly RunEntry[]; readonly all: readonly RunEntry[] }) => {
  const columns = [...PLAIN, ...measuresOf(all)];
  const { shown, isShown, turn } = useColumns(columns);
  return (
    <>
      <details class="columns">
        <summary>Columns: {count(shown.length)} of {count(columns.length)}</summary>
        <fieldset>
          <legend class="sr">Columns of the table</legend>
          {columns.map((each) => (
            <label key={each.key}><input type="checkbox" checked={isShown(each)} onChange={() => { turn(each); }} /> <Visible text={each.title} /></label>
          ))}
        </fieldset>
      </details>
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
            cell: ({ name, part }) => <><a href={runLink(name)}><Visible text={name} /></a>{small(part)}</>,
          },
          ...shown,
        ]}
      />
    </>
  );
};

export const Home = ({ list }: { readonly list: RunList }) => {
  const [filter, search] = useState("");
  const [wanted, choose] = useState<readonly string[]>([]);
  const [all, showAll] = useState(false);
  const { runs } = list;
  const names = new Set(runs.map(({ name }) => name));
  const chosen = wanted.filter((name) => names.has(name));
  const matching = filter.trim() === "" ? runs : runs.filter((run) => matches(run, filter.trim()));
  const shown = all ? matching : matching.slice(0, SHOWN);
  const { left_out: left = 0, unread = 0 } = list;
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
          <RunTable runs={shown} all={runs} chosen={chosen} choose={choose} />
          {shown.length < matching.length && <p><button type="button" onClick={() => { showAll(true); }}>Show {plural(matching.length - shown.length, "more run")}</button></p>}
          <Trends runs={matching} />
          <GateHistory runs={matching} />
        </>
      )}
      <p role="status" class="quiet">{unread > 0 && <>{plural(unread, "more run is", "more runs are")} being read.</>}</p>
      {left > 0 && <p class="quiet">{plural(left, "more folder")} with runs {left === 1 ? "is" : "are"} not listed: start medvqa view with a folder below.</p>}
    </div>
  );
};
