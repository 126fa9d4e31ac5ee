// Several runs by each headline measure, in full: intervals, possible ranks, and differences from the first run.
import type { BoardRow, BoardView, ComparisonView } from "../bundle";
import type { Page } from "../page";
import { flat, label } from "../text";
import { Fold } from "../ui/fold";
import { Table, type TableColumn } from "../ui/table";
import { Axis, Strip } from "../ui/strip";
import { Visible } from "../ui/text";

/** The ranks that a run may have. */
export const ranks = ({ best, worst }: Pick<BoardRow, "best" | "worst">): string => (best === worst ? `${best}` : `${best} to ${worst}`);

export const Ranking = ({ page, of }: { readonly page: Page; readonly of: ComparisonView }) => {
  if (of.boards.length === 0) return null;
  const named = (run: number): string => page.head.runs[run]?.name ?? "";
  return (
    <Fold title="Each measure with intervals and differences" open={false} level={3}>
      {of.boards.map((board, place) => (
        <div key={`${board.benchmark}/${board.technique}/${board.measure}`}>
          {opens(of.boards, place) && <h4><Visible text={board.title} /> <span class="quiet">{board.counted}</span></h4>}
          <p class="by"><strong>By <Visible text={label(board.measure)} /></strong>{board.lower && <span class="quiet"> less is better</span>}</p>
          <p class="quiet"><Visible text={board.sentence} /></p>
          <Board of={board} named={named} first={named(board.first ?? 0)} />
        </div>
      ))}
    </Fold>
  );
};

/** Whether a board is the first of its benchmark and technique. */
export const opens = (boards: readonly BoardView[], place: number): boolean => {
  const [own, before] = [boards[place], boards[place - 1]];
  return own?.benchmark !== before?.benchmark || own?.technique !== before?.technique;
};

interface BoardOf {
  readonly of: BoardView;
  readonly named: (run: number) => string;
  readonly first: string;
}

const Board = ({ of, named, first }: BoardOf) => {
  const columns: readonly TableColumn<BoardRow>[] = [
    { key: "rank", head: "rank", right: true, by: (row) => row.rank, cell: (row) => <Figure name="rank" value={row.rank} text={`${row.rank}`} /> },
    {
      key: "run",
      head: "run",
      heading: true,
      by: (row) => named(row.run).toLowerCase(),
      cell: (row) => <><Visible text={named(row.run)} />{row.differs !== "" && <span class="quiet"> <Visible text={row.differs} /></span>}</>,
    },
    { key: "value", head: "%", right: true, class: "main", by: (row) => row.value, cell: (row) => <Figure name="value" value={row.value} text={row.shown} /> },
    { key: "interval", head: "95 % interval", class: "quiet", cell: (row) => row.interval },
    { key: "chart", head: <><Axis /><span class="sr">Chart</span></>, class: "chart", cell: (row) => <Strip of={row} /> },
    { key: "ranks", head: "possible ranks", by: (row) => row.best, cell: ranks },
    {
      key: "against",
      head: <>against <Visible text={first} />, points</>,
      right: true,
      by: (row) => row.against?.difference ?? null,
      cell: ({ against, run }) =>
        against === null ? <span class="quiet">{run === (of.first ?? 0) ? "baseline" : ""}</span> : <Figure name="difference" value={against.difference} text={against.texts.difference} />,
    },
    { key: "bounds", head: "its 95 % interval", class: "quiet", cell: ({ against }) => against?.texts.bounds ?? "" },
  ];
  return (
    <Table
      rows={of.rows}
      columns={columns}
      label={flat(`Ranking by ${label(of.measure)}, ${of.title}`)}
      class="forest board"
      order={{ key: "rank", down: false }}
      rowKey={(row) => `${row.run}`}
      identity={(row) => ({
        "data-run": flat(named(row.run)),
        "data-benchmark": of.benchmark,
        "data-technique": of.technique,
        "data-measure": of.measure,
      })}
    />
  );
};

/** A number with the name of its field. */
export const Figure = ({ name, value, text }: { readonly name: string; readonly value: number | null; readonly text: string }) => (
  <data value={value ?? ""} data-number={name}>{text}</data>
);
