// One opened result, as results.jsonl has it: question, images, options, key, response and the reason of its score.
import { useMemo } from "preact/hooks";

import type { Picture } from "../images";
import { useKeys } from "../keys";
import { originalOf } from "../server";
import type { ItemRow } from "../served";
import "../style/item.css";
import { count, took } from "../text";
import { Dialog } from "../ui/dialog";
import { Outcome } from "../ui/outcome";
import { Visible } from "../ui/text";
import { Viewers } from "../ui/viewer";
import { historyLink } from "./routes";

const NO_DIGEST = "the run has no digest of this image";
const NOT_SENT = "the server did not send it: the data set may have been moved or changed";

/** The original images of a result. */
export const originals = (run: string, images: readonly string[]): readonly Picture[] =>
  images.map((digest, place) => ({
    name: `image ${place + 1}`,
    source: digest === "" ? null : originalOf(run, digest),
    size: "",
    shrunk: false,
    why: NO_DIGEST,
    failed: NOT_SENT,
  }));

/** How an answer was asked. */
export const wayOf = ({ technique, variant, sample }: ItemRow): string =>
  [technique, variant, ...(sample > 0 ? [`sample ${sample}`] : [])].filter((part) => part !== "").join(" · ");

const Options = ({ row }: { readonly row: ItemRow }) => (
  <ul class="options">
    {row.options.map(([letter, text]) => {
      const right = row.answers.includes(letter);
      const chosen = row.extracted.includes(letter);
      return (
        <li key={letter} class={`${right ? "right " : ""}${chosen ? "chosen" : ""}`}>
          <b><Visible text={letter} /></b>
          <span dir="auto"><Visible text={text} /></span>
          <em>{[...(right ? ["✓ correct"] : []), ...(chosen ? ["● chosen"] : [])].join(" · ")}</em>
        </li>
      );
    })}
  </ul>
);

const Facts = ({ row }: { readonly row: ItemRow }) => {
  const choices = row.options.length > 0;
  const facts: readonly (readonly [string, string])[] = [
    ...(choices && row.answers.length > 0 ? [] : [["Reference answer", row.answers.length === 0 ? "withheld by the owners of the data" : row.answers.join("; ")] as const]),
    [choices ? "Option read" : "Answer read", row.extracted.length === 0 ? "none" : row.extracted.join(", ")],
    ["Reason", row.why],
    ["Asked by", wayOf(row)],
    ["Pair", row.pair ?? ""],
    ["Time", row.seconds === null ? "" : took(row.seconds)],
    ["Ended", row.truncated === true ? "cut off at the limit of tokens" : ""],
  ];
  return (
    <dl class="meta">
      {facts.map(([name, text]) => text !== "" && [<dt key={`${name}?`}>{name}</dt>, <dd key={name} dir="auto"><Visible text={text} /></dd>])}
    </dl>
  );
};

interface OpenedProps {
  readonly run: string;
  readonly row: ItemRow;
  readonly place: string;
  readonly before: (() => void) | null;
  readonly after: (() => void) | null;
  readonly close: () => void;
}

export const OpenedResult = ({ run, row, place, before, after, close }: OpenedProps) => {
  const pictures = useMemo(() => originals(run, row.images), [run, row.images]);
  useKeys(
    [
      { keys: ["ArrowLeft", "k"], run: () => { before?.(); } },
      { keys: ["ArrowRight", "j"], run: () => { after?.(); } },
    ],
    { modal: true },
  );
  return (
    <Dialog
      id="item"
      close={close}
      title={<><Visible text={row.benchmark} /> · <Visible text={row.id} /></>}
      tools={
        <>
          <Outcome name={row.outcome} />
          <span class="quiet place">{place}</span>
          <button type="button" disabled={before === null} onClick={() => before?.()}>Previous</button>
          <button type="button" disabled={after === null} onClick={() => after?.()}>Next</button>
        </>
      }
    >
      <div class="opened" key={row.row}>
        <div class="looked">
          {pictures.length > 0 ? <Viewers key={row.images.join()} pictures={pictures} /> : <div class="missing">This question has no image.</div>}
        </div>
        <article class="asked" aria-label="Question">
          <p class="question" dir="auto"><Visible text={row.question} /></p>
          {row.options.length > 0 && <Options row={row} />}
          <h3>Response</h3>
          {row.response === ""
            ? <p class="quiet">{row.outcome === "error" ? "No answer." : "An empty text."}</p>
            : <div class="response" dir="auto" tabIndex={0} role="group" aria-label="Response"><Visible text={row.response} /></div>}
          {row.cut > 0 && <p class="key">{count(row.cut)} more characters are not shown here: the page of the run has the whole response.</p>}
          <h3>Score</h3>
          <Facts row={row} />
          <p><a href={historyLink(row.benchmark, row.id)}>This item in all runs</a></p>
        </article>
      </div>
    </Dialog>
  );
};
