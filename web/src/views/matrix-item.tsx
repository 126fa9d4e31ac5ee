// An open unit: its questions, and the answers of all runs. Two runs stand side by side, more as a list.
import type { ComparisonView } from "../bundle";
import type { Data } from "../data";
import { FLIPS, flipsOf, scaleAt, unitName, type MatrixTable, type RunPair } from "../matrix";
import { picturesOf } from "../images";
import type { Page } from "../page";
import { label } from "../text";
import { Dialog } from "../ui/dialog";
import { Steps, useStepKeys } from "../ui/steps";
import { Visible } from "../ui/text";
import { Viewers } from "../ui/viewer";
import { Way } from "../ui/way";
import { AnswerList } from "./answers";
import { Asked } from "./asked";
import "../style/item.css";

interface DialogOf {
  readonly page: Page;
  readonly of: ComparisonView;
  readonly data: Data;
  readonly table: MatrixTable;
  /** The listed rows, through which the arrow keys step. */
  readonly rows: Uint32Array;
}

export const UnitDialog = ({ page, of, data, table, rows }: DialogOf) => {
  const { state, go, head } = page;
  const { scale, pair } = table;
  const unit = scale.units.indexOf(state.item ?? "");
  const place = unit < 0 ? -1 : rows.indexOf(unit);
  const step = (by: number): (() => void) | null => {
    const next = place < 0 ? undefined : rows[place + by];
    return next === undefined ? null : () => { go({ item: scale.units[next] ?? null }, { replace: true }); };
  };
  const steps = { place, of: rows.length, before: step(-1), after: step(1) };
  useStepKeys(steps);
  const close = (): void => { if (state.item !== null) go({ item: null }, { replace: true }); };
  if (unit < 0) {
    return (
      <Dialog id="item" title="Unknown question" close={close}>
        <p role="alert">No {unitName(scale)} of this measure has the id <Visible text={state.item ?? ""} />. Its link may belong to another page.</p>
      </Dialog>
    );
  }
  const questions = scale.questionsOf(unit);
  const paired = questions.length > 1;
  return (
    <Dialog
      id="item"
      close={close}
      title={<><Visible text={head.benchmarks[scale.view.benchmark]?.name ?? ""} /> · {paired && "pair "}<Visible text={scale.units[unit] ?? ""} /></>}
      tools={<><Changes of={of} data={data} table={table} unit={unit} pair={pair} /><Steps {...steps} /></>}
    >
      <Opened key={unit} page={page} data={data} table={table} unit={unit} questions={questions} />
    </Dialog>
  );
};

interface OpenedOf extends Omit<DialogOf, "of" | "rows"> {
  readonly unit: number;
  readonly questions: readonly number[];
}

const Opened = ({ page, data, table: { scale, pair }, unit, questions }: OpenedOf) => {
  const paired = questions.length > 1;
  const pictures = picturesOf(data, questions);
  const two = scale.runs === 2;
  const marks = new Map([[pair.baseline, "baseline"], [pair.new, "new"]]);
  const all = Array.from({ length: scale.runs }, (_, run) => scale.resultsOf(unit, run));
  const look = `opened flipped${paired ? "" : " single"}${two ? "" : " many"}`;
  return (
    <div class={look}>
      {pictures.length > 0 ? <Viewers key={questions.join(",")} pictures={pictures} /> : <p class="missing">{paired ? "These questions have" : "This question has"} no image.</p>}
      <div class={paired ? "sides" : ""}>
        {questions.map((question) => {
          const own = all.map((results) => results.filter((result) => data.question(result) === question));
          const results = two ? sideBySide(own[pair.baseline] ?? [], own[pair.new] ?? []) : own.flat();
          return (
            <Asked key={question} page={page} data={data} q={question} results={results} side={paired} list={two ? undefined : <AnswerList data={data} results={results} marks={marks} />} />
          );
        })}
      </div>
    </div>
  );
};

/** The samples of two runs in turn. If one run has fewer, its last one stands beside the surplus of the other. */
export const sideBySide = (baseline: readonly number[], new_: readonly number[]): readonly number[] =>
  baseline.length === 0 || new_.length === 0
    ? [...baseline, ...new_]
    : Array.from({ length: Math.max(baseline.length, new_.length) }, (_, i) => [baseline[Math.min(i, baseline.length - 1)] ?? 0, new_[Math.min(i, new_.length - 1)] ?? 0]).flat();

/** The measures of the same benchmark and technique by which the unit flipped between the chosen runs. */
const Changes = ({ of, data, table, unit, pair }: Omit<DialogOf, "page" | "rows"> & { readonly unit: number; readonly pair: RunPair }) => {
  const { view, units } = table.scale;
  const changes = of.scales.flatMap((each, place) => {
    if (each.benchmark !== view.benchmark || each.technique !== view.technique) return [];
    const scale = scaleAt(data, of, place);
    const flips = place === table.scale.place ? table.flips : flipsOf(scale, pair);
    const flip = FLIPS[flips[scale.units.indexOf(units[unit] ?? "")] ?? FLIPS.length];
    return flip === "better" || flip === "worse" ? [{ measure: each.measure, flip }] : [];
  });
  return <>{changes.map(({ measure, flip }) => <span key={measure}><span class="quiet"><Visible text={label(measure)} /></span> <Way way={flip} /></span>)}</>;
};
