// All runs that can be ranked together, in one table: a column for each benchmark.
import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";

import type { BoardRow, BoardView, ComparisonView, CostlyRun, PairView, RunFacts } from "../bundle";
import type { Page } from "../page";
import { capital, count, flat, label, plural } from "../text";
import { Axis, Strip } from "../ui/strip";
import { Table, type TableColumn } from "../ui/table";
import { Visible } from "../ui/text";
import { headingOf } from "./differences";
import { groupsOf, measuresOf, shownOf } from "./leaders";
import { Figure, Ranking, ranks } from "./ranking";

const SIGNS = { "": "", better: "▲", worse: "▼" } as const;

interface Shown {
  readonly page: Page;
  readonly of: ComparisonView;
}

export const Leaderboard = ({ page, of, rule }: Shown & { readonly rule: ComponentChildren }) => {
  const [measure, choose] = useState("");
  const [without, leaveOut] = useState(false);
  if (of.boards.length === 0) return null;
  const costly = of.costly ?? null;
  const all = without && costly !== null ? costly.boards : of.boards;
  const groups = groupsOf(all);
  const first = page.head.runs[all[0]?.first ?? 0]?.name ?? "";
  const boards = shownOf(groups, measure);
  const further = measuresOf(groups);
  const order = boards[0]?.rows.map((row) => row.run) ?? [];
  return (
    <section id="ranking" aria-labelledby="ranking-title">
      <h2 id="ranking-title">Leaderboard</h2>
      {costly !== null && <Costly page={page} costly={costly} without={without} leaveOut={leaveOut} />}
      {further.length > 0 && (
        <p class="chooser">
          <label>
            Measure{" "}
            <select value={measure} onChange={(event) => { choose(event.currentTarget.value); }}>
              <option value="">the first of each benchmark</option>
              {further.map((name) => <option key={name} value={name}>{label(name)}</option>)}
            </select>
          </label>
        </p>
      )}
      <Board page={page} of={of} boards={boards} order={order} />
      <p class="key">
        A value with its 95 % interval on an axis from 0 to 100 %; the ranks that are possible, in bold if a run may be first; and the difference
        from <Visible text={first} /> in points. One run ranks above another only if their difference is shown. Invalid: the share of a run's answers that were refused, abstained or not read; they count as wrong. {[...new Set(boards.map((board) => board.counted))].map(capital).join("; ")}.
      </p>
      {rule}
      <Apart page={page} of={of} />
      <Ranking page={page} of={{ ...of, boards: all }} />
    </section>
  );
};

/** A run that costs many questions changes the numbers of all: what it costs, and a switch that leaves it out. */
const Costly = ({ page, costly, without, leaveOut }: {
  readonly page: Page;
  readonly costly: CostlyRun;
  readonly without: boolean;
  readonly leaveOut: (without: boolean) => void;
}) => (
  <div class="notes" data-costly={costly.run}>
    {costly.lines.map((line) => <p key={line}><Visible text={line} /></p>)}
    {costly.boards.length > 0 && (
      <label>
        <input type="checkbox" checked={without} onChange={(event) => { leaveOut(event.currentTarget.checked); }} /> Rank the other runs without{" "}
        <Visible text={page.head.runs[costly.run]?.name ?? ""} />
      </label>
    )}
    {without && <p role="status">This leaderboard is without it. All other sections of this page still count the questions that every run has a score for.</p>}
  </div>
);

/** The runs that are not ranked, each with its reason. */
const Apart = ({ page, of }: Shown) => {
  const apart = of.apart;
  if (apart.length === 0) return null;
  const pairOf = (run: number): PairView | undefined =>
    of.pairs.find((pair) => pair.parts.length > 0 && (pair.setting ?? "") !== "" && (pair.new === run || pair.baseline === run));
  return (
    <div id="apart" class="notes">
      <p><strong>Not on the leaderboard</strong></p>
      <ul>
        {apart.map(({ run, why }) => {
          const pair = pairOf(run);
          return (
            <li key={run}>
              <strong><Visible text={page.head.runs[run]?.name ?? ""} /></strong>:{" "}
              {pair !== undefined && <>see <a href={page.link({ view: "summary", section: "effects" })}><Visible text={headingOf(page, pair)} /></a>. </>}
              <Visible text={[...(of.runs[run]?.limits ?? []), ...why].join("; ")} />
            </li>
          );
        })}
      </ul>
    </div>
  );
};

/** The share of answers that were refused, abstained or not read. */
const shareOf = (facts: RunFacts | undefined): number | null => (facts === undefined || facts.answers === 0 ? null : facts.invalid / facts.answers);

/** Low scores that are no lack of skill have their numbers: answers without an option, and answers that were cut off. */
const Unread = ({ of }: { readonly of: RunFacts | undefined }) => {
  if (of === undefined) return null;
  const share = 100 * (shareOf(of) ?? 0);
  return (
    <span title={`${count(of.invalid)} of ${plural(of.answers, "answer")} refused, abstained or not read${of.truncated > 0 ? `; ${count(of.truncated)} cut off` : ""}`}>
      {share > 0 && share < 1 ? "<1" : share.toFixed(0)} %{of.truncated > 0 && <span class="cut"> {count(of.truncated)} cut off</span>}
    </span>
  );
};

interface BoardOf extends Shown {
  readonly boards: readonly BoardView[];
  readonly order: readonly number[];
}

const Board = ({ page, of, boards, order }: BoardOf) => {
  const named = (run: number): string => page.head.runs[run]?.name ?? "";
  const rowOf = (board: BoardView, run: number): BoardRow | undefined => board.rows.find((row) => row.run === run);
  const differs = (run: number): string => boards.map((board) => rowOf(board, run)?.differs ?? "").find((text) => text !== "") ?? "";
  const columns: readonly TableColumn<number>[] = [
    {
      key: "run",
      head: "Run",
      heading: true,
      by: (run) => named(run).toLowerCase(),
      cell: (run) => (
        <>
          <Visible text={named(run)} />
          {run === (boards[0]?.first ?? 0) && <> <span class="mark">baseline</span></>}
          {page.head.runs[run]?.model !== named(run) && <span class="quiet model"> <Visible text={page.head.runs[run]?.model ?? ""} /></span>}
          {differs(run) !== "" && <span class="quiet"> <Visible text={differs(run)} /></span>}
          {(of.runs[run]?.limits ?? []).map((limit) => <span class="quiet limit" key={limit}> <Visible text={limit} /></span>)}
        </>
      ),
    },
    ...boards.map((board): TableColumn<number> => ({
      key: `${board.benchmark}/${board.technique}`,
      head: <><Visible text={board.title} /><span class="quiet"> {label(board.measure)}{board.lower && ", less is better"}</span><Axis /></>,
      class: "place",
      by: (run) => rowOf(board, run)?.rank ?? null,
      cell: (run) => {
        const row = rowOf(board, run);
        return row === undefined ? "–" : <Place of={row} board={board} run={flat(named(run))} />;
      },
    })),
    { key: "answers", head: "invalid", class: "unread", by: (run) => shareOf(of.runs[run]), cell: (run) => <Unread of={of.runs[run]} /> },
  ];
  return <Table rows={order} columns={columns} label="Leaderboard" class="forest leaderboard" rowKey={(run) => `${run}`} />;
};

const Place = ({ of, board, run }: { readonly of: BoardRow; readonly board: BoardView; readonly run: string }) => (
  <span class="placed" data-run={run} data-benchmark={board.benchmark} data-technique={board.technique} data-measure={board.measure}>
    <b><Figure name="value" value={of.value} text={of.shown} /></b> <Strip of={of} width={80} />{" "}
    <span class={of.best === 1 ? "ranks leads" : "ranks"}>rank {ranks(of)}</span>{" "}
    {of.against !== null && (
      <span class={of.against.sure === "" ? "quiet" : `w-${of.against.sure}`}>
        <Figure name="difference" value={of.against.difference} text={of.against.texts.difference} />
        {of.against.sure !== "" && <><span aria-hidden="true"> {SIGNS[of.against.sure]}</span><span class="sr"> {of.against.sure}</span></>}
      </span>
    )}
  </span>
);
