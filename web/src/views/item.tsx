// An open item: its images, its question and its answers. The two questions of a pair stand side by side.
import { useEffect, useMemo, useState } from "preact/hooks";

import type { Data } from "../data";
import { findQuestion, keyText, pairOf, parseKey, resultsLike } from "../key";
import { listed } from "../listed";
import { answersLike, neighbours } from "../order";
import type { Page } from "../page";
import { VERDICTS } from "../table";
import { Dialog } from "../ui/dialog";
import { Outcome } from "../ui/outcome";
import { Steps, useStepKeys } from "../ui/steps";
import { Visible } from "../ui/text";
import { Viewers } from "../ui/viewer";
import { picturesOf } from "../images";
import { Asked } from "./asked";
import "../style/item.css";

/** The verdict on the pair of a result, in words; none in a page without verdicts. */
const verdictsOf = (data: Data, r: number): readonly string[] => {
  const set = data.bundle.columns.get("results.verdict")?.[r] ?? 0;
  return VERDICTS.filter((_, place) => ((set >> place) & 1) === 1).map(({ label }) => label);
};

export const ItemDialog = ({ page, data }: { readonly page: Page; readonly data: Data }) => {
  const item = page.state.item ?? "";
  const key = useMemo(() => parseKey(item), [item]);
  const opened = useMemo(() => findQuestion(data, key.benchmark, key.item), [data, key.benchmark, key.item]);
  const questions = useMemo(() => (opened === null ? [] : pairOf(data, opened)), [data, opened]);
  const { benchmark, technique, variant, sample } = key;
  // The explorer says what it lists after it was drawn.
  const [, redraw] = useState(false);
  useEffect(() => { redraw(true); }, []);
  const like = useMemo(
    () => answersLike(data, { benchmark, item: "", technique, variant, sample }),
    [data, benchmark, technique, variant, sample],
  );
  const pictures = useMemo(() => picturesOf(data, questions), [data, questions]);
  const close = (): void => { page.go({ item: null }, { replace: true }); };
  const results = questions.map((q) => resultsLike(data, q, key));
  const shown = new Set([item, ...results.flat().map((r) => keyText(data.key(r)))]);
  const inList = page.state.view === "questions" ? listed() : [];
  const order = inList.some((key) => shown.has(key)) ? inList : like;
  const { place, before, after } = neighbours(order, item, shown);
  const step = (to: string | null): (() => void) | null => (to === null ? null : () => { page.go({ item: to }, { replace: true }); });
  const steps = { place, of: order.length, before: step(before), after: step(after) };
  useStepKeys(steps);
  if (opened === null) {
    return (
      <Dialog id="item" title="Unknown item" close={close}>
        <p role="alert">This page has no question <Visible text={item} />. Its link may belong to another page.</p>
      </Dialog>
    );
  }
  const pair = questions.length > 1;
  const only = results[0]?.length === 1 ? results[0][0] : undefined;
  return (
    <Dialog
      id="item"
      close={close}
      title={
        <>
          <Visible text={benchmark} /> · {pair ? "pair " : ""}<Visible text={pair ? (data.pair(opened) ?? "") : data.id(opened)} />
        </>
      }
      tools={
        <>
          {pair && only !== undefined && <span class="pair-verdict">{verdictsOf(data, only).join(", ")}</span>}
          {!pair && only !== undefined && <Outcome name={data.outcome(only)} />}
          <Steps {...steps} />
        </>
      }
    >
      <div class={pair ? "opened pair" : "opened"} key={item}>
        <div class="looked">
          {pictures.length > 0
            ? <Viewers key={questions.join(",")} pictures={pictures} />
            : <div class="missing">{pair ? "These questions have" : "This question has"} no image.</div>}
        </div>
        <div class={pair ? "sides" : ""}>
          {questions.map((q, place) => <Asked key={q} page={page} data={data} q={q} results={results[place] ?? []} side={pair} />)}
        </div>
      </div>
    </Dialog>
  );
};
