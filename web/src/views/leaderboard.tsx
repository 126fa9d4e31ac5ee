// All runs that can be ranked together, in one table: a column for each benchmark.
import { useState } from "preact/hooks";

import type { BoardRow, BoardView, ComparisonView } from "../bundle";
import type { Page } from "../page";
import { capital, flat, label } from "../text";
import { Axis, Strip } from "../ui/strip";
import { Table, type TableColumn } from "../ui/table";
import { Visible } from "../ui/text";
import { Figure, opens, Ranking, ranks } from "./ranking";

interface Shown {
  readonly page: Page;
  readonly of: ComparisonView;
}

/** The boards of one benchmark and technique, in the order of its headline measures. */
export type Group = readonly BoardView[];

const groupsOf = (boards: readonly BoardView[]): readonly Group[] => {
  const groups: BoardView[][] = [];
  boards.forEach((board, place) => {
    if (opens(boards, place)) groups.push([board]);
    else groups.at(-1)?.push(board);
  });
  return groups;
};

/** The board of each group by a measure; a group without it shows its first one. */
const shownOf = (groups: readonly Group[], measure: string): readonly BoardView[] =>
  groups.flatMap((group) => group.find((board) => board.measure === measure) ?? group[0] ?? []);

/** The measures to choose from: the first of each benchmark together, and each name that another place has. */
const measuresOf = (groups: readonly Group[]): readonly string[] =>
  [...new Set(groups.flatMap((group) => group.slice(1).map((board) => board.measure)))];

export const Leaderboard = ({ page, of }: Shown) => {
  const [measure, choose] = useState("");
  if (of.boards.length === 0) return null;
  const groups = groupsOf(of.boards);
  const boards = shownOf(groups, measure);
  const further = measuresOf(groups);
  const order = boards[0]?.rows.map((row) => row.run) ?? [];
  return (
    <section id="ranking" aria-labelledby="ranking-title">
      <h2 id="ranking-title">Leaderboard</h2>
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
      <Board page={page} boards={boards} order={order} />
      <p class="key">
        A value, its 95 % interval on an axis from 0 to 100 %, and the ranks that are possible: one run ranks above another for
        certain only if their difference is shown. A run that may rank first is in bold. {[...new Set(boards.map((board) => board.counted))].map(capital).join("; ")}.
      </p>
      <Ranking page={page} of={of} />
    </section>
  );
};

const Board = ({ page, boards, order }: { readonly page: Page; readonly boards: readonly BoardView[]; readonly order: readonly number[] }) => {
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
          {run === 0 && <> <span class="mark">baseline</span></>}
          {page.head.runs[run]?.model !== named(run) && <span class="quiet model"> <Visible text={page.head.runs[run]?.model ?? ""} /></span>}
          {differs(run) !== "" && <span class="quiet"> <Visible text={differs(run)} /></span>}
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
  ];
  return <Table rows={order} columns={columns} label="Leaderboard" class="forest leaderboard" rowKey={(run) => `${run}`} />;
};

const Place = ({ of, board, run }: { readonly of: BoardRow; readonly board: BoardView; readonly run: string }) => (
  <span class="placed" data-run={run} data-benchmark={board.benchmark} data-technique={board.technique} data-measure={board.measure}>
    <b><Figure name="value" value={of.value} text={of.shown} /></b> <Strip of={of} width={96} />{" "}
    <span class={of.best === 1 ? "ranks leads" : "ranks"}>rank {ranks(of)}</span>
  </span>
);
