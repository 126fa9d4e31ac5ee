// An open item: its images, its questions and their answers. The two questions of a pair stand side by side, and so do
// the answers of two runs; those of more runs are a list.
import type { ComponentChildren } from "preact";
import { useEffect, useMemo, useState } from "preact/hooks";

import type { Data } from "../data";
import { Source, verdictOf } from "../explorer/selecting";
import { listAt } from "../filter";
import { picturesOf } from "../images";
import { findQuestion, keyText, pairOf, parseKey, resultsLike } from "../key";
import { listed } from "../listed";
import { answersLike, neighbours } from "../order";
import type { Page } from "../page";
import { FLIPS, flipsOf, scaleAt, unitName } from "../scale";
import type { Compared, Rows } from "../table";
import { label } from "../text";
import { Dialog } from "../ui/dialog";
import { Outcome } from "../ui/outcome";
import { Steps, useStepKeys } from "../ui/steps";
import { Visible } from "../ui/text";
import { Viewers } from "../ui/viewer";
import { Way } from "../ui/way";
import { AnswerList } from "./answers";
import { Asked } from "./asked";
import "../style/item.css";

interface Opened {
  readonly benchmark: string;
  readonly questions: readonly number[];
  /** The answers that are shown, by question. */
  readonly results: readonly (readonly number[])[];
  /** The keys of all items that are shown with it. */
  readonly keys: ReadonlySet<string>;
  /** The items through which the arrow keys step if the explorer does not list this one. */
  readonly like: readonly string[];
  /** The unit of several runs, by its place. */
  readonly unit: number;
  readonly compared: Compared | null;
}

/** The item of a page of one run; null if there is none. */
function ofRun(data: Data, item: string): Opened | null {
  const key = parseKey(item);
  const question = findQuestion(data, key.benchmark, key.item);
  if (question === null) return null;
  const questions = pairOf(data, question);
  const results = questions.map((q) => resultsLike(data, q, key));
  const keys = new Set([item, ...results.flat().map((r) => keyText(data.key(r)))]);
  return { benchmark: key.benchmark, questions, results, keys, like: answersLike(data, key), unit: -1, compared: null };
}

/** The unit of a table of several runs; null if there is none. */
function ofRuns({ data, cells, questions: lists, runs, compared }: Rows, item: string): Opened | null {
  const unit = compared?.scale.names.indexOf(item) ?? -1;
  if (compared === null || unit < 0) return null;
  const { view } = compared.scale;
  const questions = listAt(lists, unit);
  const all = Array.from({ length: runs }, (_, run) => listAt(cells, unit * runs + run));
  const results = questions.map((question) => {
    const own = all.map((of) => of.filter((result) => data.question(result) === question));
    return runs === 2 ? sideBySide(own[compared.pair.baseline] ?? [], own[compared.pair.new] ?? []) : own.flat();
  });
  return { benchmark: data.bundle.head.benchmarks[view.benchmark]?.name ?? "", questions, results, keys: new Set([item]), like: [], unit, compared };
}

/** The samples of two runs in turn. If one run has fewer, its last one stands beside the surplus of the other. */
export const sideBySide = (baseline: readonly number[], new_: readonly number[]): readonly number[] =>
  baseline.length === 0 || new_.length === 0
    ? [...baseline, ...new_]
    : Array.from({ length: Math.max(baseline.length, new_.length) }, (_, i) => [baseline[Math.min(i, baseline.length - 1)] ?? 0, new_[Math.min(i, new_.length - 1)] ?? 0]).flat();

export const ItemDialog = ({ page, data }: { readonly page: Page; readonly data: Data }) => {
  const { state, go } = page;
  const item = state.item ?? "";
  const several = page.head.kind === "comparison";
  const table = several ? Source.of(data).table(state) : null;
  const opened = useMemo(() => (table !== null ? ofRuns(table, item) : several ? null : ofRun(data, item)), [data, table, several, item]);
  const pictures = useMemo(() => picturesOf((opened?.questions ?? []).flatMap((q) => data.images(q))), [data, opened]);
  // The explorer says what it lists after it was drawn.
  const [, redraw] = useState(false);
  useEffect(() => { redraw(true); }, []);
  const close = (): void => { if (state.item !== null) go({ item: null }, { replace: true }); };
  const { keys = new Set<string>(), like = [] } = opened ?? {};
  const inList = state.view === "questions" ? listed() : [];
  const order = inList.some((key) => keys.has(key)) ? inList : like;
  const { place, before, after } = neighbours(order, item, keys);
  const step = (to: string | null): (() => void) | null => (to === null ? null : () => { go({ item: to }, { replace: true }); });
  const steps = { place, of: order.length, before: step(before), after: step(after) };
  useStepKeys(steps);
  if (opened === null) {
    return (
      <Dialog id="item" title={several ? "Unknown question" : "Unknown item"} close={close}>
        <p role="alert">{table?.compared != null ? `No ${unitName(table.compared.scale)} of this measure has the id` : "This page has no question"} <Visible text={item} />. Its link may belong to another page.</p>
      </Dialog>
    );
  }
  const { benchmark, questions, results, compared } = opened;
  const [first = 0] = questions;
  const pair = questions.length > 1;
  return (
    <Dialog
      id="item"
      close={close}
      title={<><Visible text={benchmark} /> · {pair && "pair "}<Visible text={(pair ? data.pair(first) : null) ?? data.id(first)} /></>}
      tools={<>{compared === null ? <Verdict data={data} of={opened} /> : <Changes data={data} unit={opened.unit} compared={compared} />}<Steps {...steps} /></>}
    >
      <div class={`opened${lookOf(opened, page.head.runs.length)}`} key={item}>
        <div class="looked">
          {pictures.length > 0
            ? <Viewers key={questions.join(",")} pictures={pictures} />
            : <div class="missing">{pair ? "These questions have" : "This question has"} no image.</div>}
        </div>
        <div class={pair ? "sides" : ""}>
          {questions.map((q, place) => <Asked key={q} page={page} data={data} q={q} results={results[place] ?? []} side={pair} list={listOf(data, opened, results[place] ?? [])} />)}
        </div>
      </div>
    </Dialog>
  );
};

const lookOf = ({ compared, questions }: Opened, runs: number): string => {
  const pair = questions.length > 1;
  return compared === null ? (pair ? " pair" : "") : ` flipped${pair ? "" : " single"}${runs === 2 ? "" : " many"}`;
};

/** The answers of more than two runs as a list. */
const listOf = (data: Data, { compared }: Opened, results: readonly number[]): ComponentChildren => {
  if (compared === null || compared.scale.runs === 2) return undefined;
  const { pair } = compared;
  return <AnswerList data={data} results={results} marks={new Map([[pair.baseline, "baseline"], [pair.new, "new"]])} />;
};

/** The verdict on a pair, or the outcome of the only answer. */
const Verdict = ({ data, of: { results, questions } }: { readonly data: Data; readonly of: Opened }) => {
  const only = results[0]?.length === 1 ? results[0][0] : undefined;
  if (only === undefined) return null;
  return questions.length > 1 ? <span class="pair-verdict">{verdictOf(data, only).join(", ")}</span> : <Outcome name={data.outcome(only)} />;
};

/** The measures of the same benchmark and technique by which the unit flipped between the chosen runs. */
const Changes = ({ data, unit, compared: { scale, pair } }: { readonly data: Data; readonly unit: number; readonly compared: Compared }) => {
  const changes = (data.bundle.head.scales ?? []).flatMap((each, place) => {
    if (each.benchmark !== scale.view.benchmark || each.technique !== scale.view.technique) return [];
    const other = scaleAt(data, place);
    const flip = FLIPS[flipsOf(other, pair)[other.names.indexOf(scale.names[unit] ?? "")] ?? FLIPS.length];
    return flip === "better" || flip === "worse" ? [{ measure: each.measure, flip }] : [];
  });
  return <>{changes.map(({ measure, flip }) => <span key={measure}><span class="quiet"><Visible text={label(measure)} /></span> <Way way={flip} /></span>)}</>;
};
