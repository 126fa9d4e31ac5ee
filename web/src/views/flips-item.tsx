// A flipped unit: its questions, and the answers of both runs side by side.
import type { ComparisonView } from "../bundle";
import type { Data } from "../data";
import { bothOf, measuresOf, type FlipTable } from "../flips";
import { useKeys } from "../keys";
import type { Page } from "../page";
import { picturesOf } from "../images";
import { count, label } from "../text";
import { Dialog } from "../ui/dialog";
import { Visible } from "../ui/text";
import { Viewers } from "../ui/viewer";
import { Way } from "../ui/way";
import { Asked } from "./asked";
import "../style/item.css";

interface DialogOf {
  readonly page: Page;
  readonly of: ComparisonView;
  readonly data: Data;
  readonly table: FlipTable;
  /** The listed rows, through which the arrow keys step. */
  readonly rows: Uint32Array;
}

export const FlipDialog = ({ page, of, data, table, rows }: DialogOf) => {
  const { state, go, head } = page;
  const row = table.units.indexOf(state.item ?? "");
  const flip = table.flips[row];
  const at = rows.indexOf(row);
  const step = (by: number): void => {
    const next = rows[at + by];
    if (at >= 0 && next !== undefined) go({ item: table.units[next] ?? null }, { replace: true });
  };
  useKeys(
    [
      { keys: ["ArrowLeft", "k"], run: () => { step(-1); } },
      { keys: ["ArrowRight", "j"], run: () => { step(1); } },
    ],
    { modal: true },
  );
  const close = (): void => { if (state.item !== null) go({ item: null }, { replace: true }); };
  if (flip === undefined) {
    return (
      <Dialog id="item" title="Unknown flip" close={close}>
        <p role="alert">No flip of this measure has the id <Visible text={state.item ?? ""} />. Its link may belong to another page.</p>
      </Dialog>
    );
  }
  const unit = table.units[row] ?? "";
  const all = bothOf(data, flip);
  const about = head.benchmarks[table.kind.benchmark];
  const questions = [...new Set(all.map(({ question }) => question))];
  const paired = questions.length > 1;
  const pictures = picturesOf(data, questions);
  return (
    <Dialog
      id="item"
      close={close}
      title={<><Visible text={about?.name ?? ""} /> · {paired && "pair "}<Visible text={unit} /></>}
      tools={
        <>
          {measuresOf(data, flip).map(({ measure, better }) => (
            <span key={measure}><span class="quiet"><Visible text={label(of.measures[measure] ?? "")} /></span> <Way way={better ? "better" : "worse"} /></span>
          ))}
          {at >= 0 && <span class="quiet place">{count(at + 1)} of {count(rows.length)}</span>}
          <button type="button" disabled={at <= 0} onClick={() => { step(-1); }}>Previous</button>
          <button type="button" disabled={at < 0 || at >= rows.length - 1} onClick={() => { step(1); }}>Next</button>
        </>
      }
    >
      <div class={paired ? "opened flipped" : "opened flipped single"} key={unit}>
        {pictures.length > 0 ? <Viewers key={questions.join(",")} pictures={pictures} /> : <p class="missing">{paired ? "These questions have" : "This question has"} no image.</p>}
        <div class={paired ? "sides" : ""}>
          {questions.map((question) => (
            <Asked
              key={question}
              page={page}
              data={data}
              q={question}
              results={all.filter((both) => both.question === question).flatMap((both) => [both.baseline, both.new])}
              side={paired}
            />
          ))}
        </div>
      </div>
    </Dialog>
  );
};
