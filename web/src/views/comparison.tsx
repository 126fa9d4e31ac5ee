// The comparison of runs: its result in sentences, the runs, ranking, differences; and the explorer of questions by run.
import { Fragment } from "preact";
import { useLayoutEffect, useRef } from "preact/hooks";

import type { ComparisonView, PairedPartView, PairView } from "../bundle";
import { save } from "../csv";
import type { Page } from "../page";
import { json } from "../read";
import { count, flat, plural } from "../text";
import { Visible } from "../ui/text";
import { Way } from "../ui/way";
import "../style/comparison.css";
import { Differences, headingOf, linkOf, Refused } from "./differences";
import { Effects } from "./effects";
import { Leaderboard } from "./leaderboard";
import { Explorer } from "./explorer";
import { groupsOf, leadersOf } from "./leaders";
import { Figure, opens } from "./ranking";
import { Slices } from "./slice-matrix";

export const Comparison = ({ page }: { readonly page: Page }) => {
  const of = page.head.comparison;
  const exploring = page.state.view === "questions";
  // Back leads from flips to the slice that they belong to: the summary stays, with its folds, and scrolls there.
  const summary = useRef({ exploring, top: 0 });
  if (exploring && !summary.current.exploring) summary.current.top = scrollY;
  useLayoutEffect(() => {
    if (exploring !== summary.current.exploring) scrollTo({ top: exploring ? 0 : summary.current.top, behavior: "instant" });
    summary.current.exploring = exploring;
  }, [exploring]);
  if (of === null) return null;
  return (
    <>
      <div hidden={exploring} class={page.head.runs.length > 2 ? "committee" : undefined}>
        <h1 class="sr">Comparison: <Visible text={page.head.title} /></h1>
        {page.head.runs.length > 2 && <Paper page={page} of={of} />}
        <Result page={page} of={of} />
        <Leaderboard page={page} of={of} rule={<Rule of={of} several />} />
        {page.head.runs.length > 2 && <Effects page={page} of={of} />}
        <Slices page={page} of={of} />
        <Differences page={page} of={of} />
        <Runs page={page} of={of} />
      </div>
      {exploring && <Explorer page={page} />}
    </>
  );
};

interface Shown {
  readonly page: Page;
  readonly of: ComparisonView;
}

/** The run from which differences are taken. */
const firstOf = (of: ComparisonView): number => of.boards[0]?.first ?? 0;

/** What a sheet of paper must say at its top. */
const Paper = ({ page, of }: Shown) => {
  const days = [...new Set(of.runs.map((run) => run.started.slice(0, 10)).filter((day) => day !== ""))].sort();
  return (
    <p class="paper">
      {page.head.runs.map((run, place) => <Fragment key={place}>{place > 0 && ", "}<strong><Visible text={run.name} /></strong>{place === firstOf(of) && " (baseline)"}</Fragment>)}.
      {" "}Runs of <span class="nowrap"><Visible text={[...new Set([days[0] ?? "an unknown day", days.at(-1) ?? ""])].filter((day) => day !== "").join(" to ")} /></span>;
      {" "}printed on <span class="nowrap">{new Date().toLocaleDateString("sv-SE")}</span>.
    </p>
  );
};

const Result = ({ page, of }: Shown) => {
  const several = page.head.runs.length > 2;
  const compared = of.pairs.filter((pair) => pair.refusals.length === 0);
  const refusals = [...new Set(of.pairs.flatMap((pair) => pair.refusals))];
  const apart = of.apart.map(({ run }) => page.head.runs[run]?.name ?? "");
  return (
    <section id="result" aria-labelledby="result-title">
      <h2 id="result-title">Result</h2>
      {(of.synthetic ?? "") !== "" && <p class="alert" role="note"><Visible text={of.synthetic ?? ""} /></p>}
      {(of.left_out ?? "") !== "" && <p class="notes" role="note"><Visible text={of.left_out ?? ""} /></p>}
      {of.boards.length > 0 && (
        <ul class="vs-said">
          {groupsOf(of.boards).length > 1 && <li class="vs-plain" data-leaders=""><Leaders page={page} of={of} /></li>}
          {of.boards.map((board, place) => opens(of.boards, place) && (
            <li class="vs-plain" key={board.title}><strong><Visible text={board.title} />.</strong> <Visible text={board.sentence} /></li>
          ))}
        </ul>
      )}
      {of.boards.length === 0 && compared.map((pair) => <Said page={page} pair={pair} key={`${pair.new} ${pair.baseline}`} />)}
      {refusals.length > 0 && of.apart.length === 0 && <Refused of={refusals} />}
      {apart.length > 0 && of.boards.length > 0 && (
        <p class="limits">
          Not on the leaderboard, so not ranked: <Visible text={apart.join(", ")} />. <a class="screen" href={page.link({ view: "summary", section: "apart" })}>Why</a>
        </p>
      )}
      {several && <Limits of={notesOf(page, of)} />}
      {(!several || of.boards.length === 0) && <Rule of={of} several={several} />}
    </section>
  );
};

/** When a difference is shown, for all sections. */
export const Rule = ({ of, several }: { readonly of: ComparisonView; readonly several: boolean }) => (
      <p class="key">
        A difference is shown (▲ better, ▼ worse) only if its p, corrected by Holm for{" "}
        {several ? `the ${count(of.tests ?? 0)} differences of all pairs of runs in all headline measures` : "all headline measures"}, is at most 0.05. The same rule
        gives all colours of this page{several && "; in slices, p is corrected for one measure and dimension"}. Only a gate gives a verdict.
      </p>
);

/** The runs that may rank first in most benchmarks, by their first measures. */
const Leaders = ({ page, of }: Shown) => {
  const groups = groupsOf(of.boards);
  const leaders = leadersOf(groups);
  const [most = 0] = leaders.map(([, number]) => number);
  const names = leaders.filter(([, number]) => number === most).map(([run]) => page.head.runs[run]?.name ?? "");
  return (
    <strong>
      May rank first in {most === groups.length ? `all ${count(most)}` : `${count(most)} of ${count(groups.length)}`} benchmarks:{" "}
      <Visible text={names.join(", ")} />.
    </strong>
  );
};

/** The notes of all pairs, each once, with its pairs unless it holds for all. */
export function notesOf(page: Page, of: ComparisonView): readonly string[] {
  const compared = of.pairs.filter((pair) => pair.refusals.length === 0);
  const notes = new Map<string, Set<string>>();
  for (const pair of compared) {
    const heading = headingOf(page, pair);
    const said = [...pair.notes, ...pair.parts.flatMap((part) => part.warnings.map((note) => `${part.title}: ${note}`))];
    for (const note of said) notes.set(note, (notes.get(note) ?? new Set()).add(heading));
  }
  return [...notes].map(([note, pairs]) => (pairs.size === compared.length ? note : `${note} (${[...pairs].join("; ")})`));
}

const FIRST_NOTES = 3;

/** What limits the comparison: the first lines, and the others folded. */
const Notes = ({ of }: { readonly of: readonly string[] }) => of.length > 0 && (
  <>
    <ul class="notes">{of.slice(0, FIRST_NOTES).map((note) => <li key={note}><Visible text={note} /></li>)}</ul>
    {of.length > FIRST_NOTES && (
      <details class="notes">
        <summary>{count(of.length - FIRST_NOTES)} more notes</summary>
        <ul>{of.slice(FIRST_NOTES).map((note) => <li key={note}><Visible text={note} /></li>)}</ul>
      </details>
    )}
  </>
);

/** The notes of several runs, folded; a sheet of paper has them all. */
const Limits = ({ of }: { readonly of: readonly string[] }) => of.length > 0 && (
  <details class="limits">
    <summary>{plural(of.length, "note")} on the questions and runs that are compared</summary>
    <ul>{of.map((note) => <li key={note}><Visible text={note} /></li>)}</ul>
  </details>
);

const Said = ({ page, pair }: { readonly page: Page; readonly pair: PairView }) => {
  const [new_, baseline] = [page.head.runs[pair.new]?.name ?? "", page.head.runs[pair.baseline]?.name ?? ""];
  return (
    <div class="vs-pair" data-new={flat(new_)} data-baseline={flat(baseline)}>
      <h3>
        {(pair.question ?? "") !== "" && <><Visible text={pair.question ?? ""} />{" "}</>}
        <a href={linkOf(page, pair)}><Visible text={new_} /> against <Visible text={baseline} /></a>
        {pair.differs !== "" && <span class="quiet"> <Visible text={pair.differs} /></span>}
      </h3>
      {pair.effect !== "" && <p>New minus baseline is <Visible text={pair.effect} />: nothing else differs between the two runs.</p>}
      <ul class="vs-said">
        {pair.parts.map((part) => <Sentence part={part} key={`${part.benchmark}/${part.technique}`} />)}
      </ul>
      {page.head.runs.length === 2 && <Notes of={pair.notes} />}
    </div>
  );
};

const Sentence = ({ part }: { readonly part: PairedPartView }) => {
  const { words, way, more } = part.sentence;
  const [first] = part.rows;
  return (
    <li class={way} data-benchmark={part.benchmark} data-technique={part.technique} data-measure={first?.name ?? ""} data-slice="">
      <Way way={way} open={first === undefined ? "not compared" : "not shown"} />
      <span>
        <strong><Visible text={part.title} />.</strong>{" "}
        {words.map(({ text, number }, place) => {
          const value = number === "" ? undefined : first?.[number as keyof typeof first];
          return typeof value === "number" ? <Figure key={place} name={number} value={value} text={text} /> : <Visible key={place} text={text} />;
        })}
        {more !== "" && <span class="quiet"> <Visible text={more} /></span>}
      </span>
    </li>
  );
};

const Runs = ({ page, of }: Shown) => {
  const blocks = page.data?.bundle.blocks;
  const offer = (name: string): void => {
    if (blocks === undefined) return;
    void json<string>(blocks, `csv/${name}`).then((text) => {
      save(text, `${name}.csv`, "text/csv");
    });
  };
  const table = <SetUps page={page} of={of} />;
  return (
    <section id="runs" aria-labelledby="runs-title">
      <h2 id="runs-title">Runs</h2>
      <p class="banner">
        The baseline is <Visible text={page.head.runs[firstOf(of)]?.name ?? ""} />. Differences are new minus baseline, in percentage points, over
        {page.head.runs.length > 2 ? " the questions that all runs of the leaderboard scored; for a run that is not on it, over those that both runs scored." : " the questions that both runs scored."}{" "}
        <Visible text={of.images} />
      </p>
      {of.pairs.some((pair) => pair.refusals.length === 0) && (
        <p class="offers">
          <button id="measures-csv" type="button" onClick={() => { offer("measures"); }}>All measures and slices as CSV</button>{" "}
          {of.boards.length > 0 && <button id="ranking-csv" type="button" onClick={() => { offer("ranking"); }}>Ranking as CSV</button>}
        </p>
      )}
      {page.head.runs.length > 2 ? <details class="limits"><summary>Set-ups of {count(of.runs.length)} runs</summary>{table}</details> : table}
    </section>
  );
};

const SetUps = ({ page, of }: Shown) => (
      <div class="scroll" tabIndex={0} role="group" aria-label="Table of runs">
        <table>
          <thead>
            <tr>
              <th scope="col">Run</th><th scope="col">Model</th><th scope="col">Technique</th><th scope="col">Images</th>
              <th scope="col" class="right">Answers</th><th scope="col">Started</th>
            </tr>
          </thead>
          <tbody>
            {of.runs.map((run, place) => (
              <tr key={place}>
                <th scope="row"><strong><Visible text={page.head.runs[place]?.name ?? ""} /></strong>{place === firstOf(of) && <> <span class="mark">baseline</span></>}</th>
                <td><Visible text={page.head.runs[place]?.model ?? ""} /></td>
                <td><Visible text={run.techniques} /></td>
                <td><Visible text={run.images} /></td>
                <td class="right">{count(run.answers)}</td>
                <td><Visible text={run.started} /></td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
);
