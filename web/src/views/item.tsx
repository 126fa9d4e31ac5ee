// An open item: its images, its question and its answers. The two questions of a pair stand side by side.
import { useMemo, useState, useEffect } from "preact/hooks";

import type { Data } from "../data";
import { findQuestion, keyText, pairOf, parseKey, resultsLike } from "../key";
import { useKeys } from "../keys";
import { answersLike } from "../order";
import type { Page } from "../page";
import { count } from "../text";
import { Dialog } from "../ui/dialog";
import { Outcome } from "../ui/outcome";
import { Visible } from "../ui/text";
import { Viewers, type Picture } from "../ui/viewer";
import { picturesOf } from "../pictures";
import { Asked } from "./asked";
import "../style/item.css";

const MISSING: readonly Picture[] = [];

/** The images of questions; null while they are being read. */
const usePictures = (data: Data, questions: readonly number[]): readonly Picture[] | null => {
  const [pictures, setPictures] = useState<readonly Picture[] | null>(null);
  const key = questions.join(",");
  useEffect(() => {
    let wanted = true;
    setPictures(null);
    void picturesOf(data, key === "" ? [] : key.split(",").map(Number)).then((found) => { if (wanted) setPictures(found); });
    return () => { wanted = false; };
  }, [data, key]);
  return questions.length === 0 ? MISSING : pictures;
};

/** The row of an item, where the focus goes back to. */
const rowOf = (item: string): HTMLElement | null => document.querySelector<HTMLElement>(`[data-key="${CSS.escape(item)}"]`);

export const ItemDialog = ({ page, data }: { readonly page: Page; readonly data: Data }) => {
  const item = page.state.item ?? "";
  const key = useMemo(() => parseKey(item), [item]);
  const opened = useMemo(() => findQuestion(data, key.benchmark, key.item), [data, key.benchmark, key.item]);
  const questions = useMemo(() => (opened === null ? [] : pairOf(data, opened)), [data, opened]);
  const { benchmark, technique, variant, sample } = key;
  const order = useMemo(
    () => answersLike(data, { benchmark, item: "", technique, variant, sample }),
    [data, benchmark, technique, variant, sample],
  );
  const pictures = usePictures(data, questions);
  const close = (): void => { page.go({ item: null }, { replace: true }); };
  const back = (): HTMLElement | null => rowOf(item);
  const results = questions.map((q) => resultsLike(data, q, key));
  const shown = new Set(results.flat());
  const places = order.flatMap((r, place) => (shown.has(r) ? [place] : []));
  const [first, last] = [places[0], places.at(-1)];
  const before = first === undefined ? undefined : order[first - 1];
  const after = last === undefined ? undefined : order[last + 1];
  const step = (r: number | undefined): void => {
    if (r !== undefined) page.go({ item: keyText(data.key(r)) }, { replace: true });
  };
  useKeys(
    [
      { keys: ["ArrowLeft", "k"], run: () => { step(before); } },
      { keys: ["ArrowRight", "j"], run: () => { step(after); } },
    ],
    { modal: true },
  );
  if (opened === null) {
    return (
      <Dialog id="item" title="Unknown item" close={close}>
        <p role="alert">This page has no item <Visible text={item} />. Its link may belong to another page.</p>
      </Dialog>
    );
  }
  const pair = questions.length > 1;
  const only = results[0]?.length === 1 ? results[0][0] : undefined;
  const viewers = pictures !== null && (pictures.length > 0
    ? <Viewers key={questions.join(",")} pictures={pictures} />
    : <div class="missing">{pair ? "These questions have" : "This question has"} no image.</div>);
  return (
    <Dialog
      id="item"
      close={close}
      back={back}
      title={
        <>
          <Visible text={benchmark} /> · {pair ? "pair " : ""}<Visible text={pair ? (data.pair(opened) ?? "") : data.id(opened)} />
        </>
      }
      tools={
        <>
          {!pair && only !== undefined && <Outcome name={data.outcome(only)} />}
          {first !== undefined && <span class="quiet place">{count(first + 1)} of {count(order.length)}</span>}
          <button type="button" disabled={before === undefined} onClick={() => { step(before); }}>Previous</button>
          <button type="button" disabled={after === undefined} onClick={() => { step(after); }}>Next</button>
        </>
      }
    >
      <div class={pair ? "opened pair" : "opened"} key={item}>
        <div class="looked">{viewers === false ? <p class="quiet">Reading the images.</p> : viewers}</div>
        <div class={pair ? "sides" : ""}>
          {questions.map((q, place) => <Asked key={q} page={page} data={data} q={q} results={results[place] ?? []} side={pair} />)}
        </div>
      </div>
    </Dialog>
  );
};
