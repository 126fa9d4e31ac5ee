// Several runs by each headline measure, with the ranks that the differences between them leave open.
import type { BoardRow, BoardView, ComparisonView } from "../bundle";
import type { Page } from "../page";
import { flat, label } from "../text";
import { Table, type TableColumn } from "../ui/table";
import { Axis, Strip } from "../ui/strip";
import { Visible } from "../ui/text";

/** The ranks that a run may have. */
export const ranks = ({ best, worst }: Pick<BoardRow, "best" | "worst">): string => (best === worst ? `${best}` : `${best} to ${worst}`);

export const Ranking = ({ page, of }: { readonly page: Page; readonly of: ComparisonView }) => {
  if (of.boards.length === 0) return null;
  const named = (run: number): string => page.head.runs[run]?.name ?? "";
  const first = named(0);
  return (
    <section id="ranking" aria-labelledby="ranking-title">
      <h2 id="ranking-title">Ranking</h2>
      {of.boards.map((board, place) => {
        const begins = opens(of.boards, place);
        return (
          <div key={`${board.benchmark}/${board.technique}/${board.measure}`}>
            {begins && <h3><Visible text={board.title} /> <span class="quiet">{board.counted}</span></h3>}
            <details class="slices" open={begins}>
              <summary>
                <h4>By <Visible text={label(board.measure)} /></h4>
                {board.lower && <span class="quiet"> less is better</span>}
              </summary>
              <p class="quiet"><Visible text={board.sentence} /></p>
              <Board of={board} named={named} first={first} />
            </details>
          </div>
        );
      })}
      <p class="key">
        Possible ranks: a run ranks above another for certain only if their difference is significant at 5 %, by Holm over all
        pairs of runs.
      </p>
    </section>
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
        against === null ? <span class="quiet">{run === 0 ? "baseline" : ""}</span> : <Figure name="difference" value={against.difference} text={against.texts.difference} />,
    },
    { key: "bounds", head: "bounds", class: "quiet", cell: ({ against }) => against?.texts.bounds ?? "" },
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
