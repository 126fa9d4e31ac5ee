// A flipped unit: its questions, and the answers of both runs side by side.
import { useEffect, useState } from "preact/hooks";

import type { Answered, ComparisonView, JudgeSaid, PairView } from "../bundle";
import type { Data } from "../data";
import { bothOf, measuresOf, type Both, type FlipTable } from "../flips";
import type { Page } from "../page";
import { json } from "../read";
import { count, digits, flat, label, took } from "../text";
import { Dialog } from "../ui/dialog";
import { Outcome } from "../ui/outcome";
import { Visible } from "../ui/text";
import { Way } from "../ui/way";

interface DialogOf {
  readonly page: Page;
  readonly of: ComparisonView;
  readonly data: Data;
  readonly table: FlipTable;
  /** The listed rows, through which the arrow keys step. */
  readonly rows: Uint32Array;
  readonly pair: PairView;
}

export const FlipDialog = ({ page, of, data, table, rows, pair }: DialogOf) => {
  const { state, go, head } = page;
  const row = table.units.indexOf(state.item ?? "");
  const flip = table.flips[row];
  if (flip === undefined) return null;
  const unit = table.units[row] ?? "";
  const at = rows.indexOf(row);
  const step = (by: number): void => {
    const next = rows[at + by];
    if (at >= 0 && next !== undefined) go({ item: table.units[next] ?? null }, { replace: true });
  };
  const close = (): void => { if (state.item !== null) go({ item: null }, { replace: true }); };
  const all = bothOf(data, flip);
  const about = head.benchmarks[table.kind.benchmark];
  const paired = new Set(all.map(({ question }) => question)).size > 1;
  const names = { baseline: head.runs[pair.baseline]?.name ?? "", new: head.runs[pair.new]?.name ?? "" };
  const tags = (about?.dimensions ?? []).flatMap((d) => {
    const values = new Set(all.flatMap((both) => data.tags(d, both.question, both.new).map((value) => data.dimension(d).values[value]?.title ?? "")));
    return values.size > 0 ? [[label(data.dimension(d).name), [...values].join(", ")] as const] : [];
  });
  return (
    <Dialog
      id="item"
      title={<><Visible text={about?.name ?? ""} /> · {paired && "pair "}<Visible text={unit} /></>}
      tools={
        <>
          {measuresOf(data, flip).map(({ measure, better }) => (
            <span key={measure}><span class="quiet"><Visible text={label(of.measures[measure] ?? "")} /></span> <Way way={better ? "better" : "worse"} /></span>
          ))}
          <button type="button" disabled={at <= 0} onClick={() => { step(-1); }}>Previous</button>
          <button type="button" disabled={at < 0 || at >= rows.length - 1} onClick={() => { step(1); }}>Next</button>
        </>
      }
      close={close}
      onKeyDown={(event) => {
        if (event.target instanceof Element && event.target.closest(".response") !== null) return;
        if (event.key === "ArrowLeft") step(-1);
        if (event.key === "ArrowRight") step(1);
      }}
    >
      {all.map((both, i) => <Question key={`${unit} ${i}`} data={data} both={both} names={names} named={all.length > 1} />)}
      <dl class="meta">{tags.map(([term, text]) => <><dt><Visible text={term} /></dt><dd dir="auto"><Visible text={text} /></dd></>)}</dl>
    </Dialog>
  );
};

interface QuestionOf {
  readonly data: Data;
  readonly both: Both;
  readonly names: Readonly<Record<"baseline" | "new", string>>;
  /** Whether the question is named: the unit has several. */
  readonly named: boolean;
}

const nameOf = (data: Data, both: Both): string => {
  const sample = data.sample(both.new) || data.sample(both.baseline);
  return sample === 0 ? data.id(both.question) : `${data.id(both.question)} (sample ${sample})`;
};

const Question = ({ data, both, names, named }: QuestionOf) => {
  const id = nameOf(data, both);
  const images = data.images(both.question);
  const right = new Set(data.answers(both.question));
  const [before, after] = [new Set(data.extracted(both.baseline)), new Set(data.extracted(both.new))];
  const options = data.options(both.question);
  return (
    <article class="flip" aria-label={`Question ${flat(id)}`}>
      <div class={images.length > 0 ? "asked" : ""}>
        {images.length > 0 && <div>{images.map((image, i) => <Image key={i} data={data} name={image.name} source={image.source} label={`Image ${i + 1} of question ${flat(id)}`} />)}</div>}
        <div>
          {named && <p class="line"><strong><Visible text={id} /></strong></p>}
          <p class="question" dir="auto"><Visible text={data.text(both.question)} /></p>
          <ul class="options">
            {options.map(([letter, text]) => (
              <li key={letter} class={`${right.has(letter) ? "right " : ""}${after.has(letter) || before.has(letter) ? "chosen" : ""}`}>
                <b><Visible text={letter} /></b>
                <span dir="auto"><Visible text={text} /></span>
                <em>{[right.has(letter) && "✓ correct", before.has(letter) && "● baseline", after.has(letter) && "● new"].filter(Boolean).join(" · ")}</em>
              </li>
            ))}
          </ul>
          {options.length === 0 && <p class="quiet">Correct: <Visible text={data.answers(both.question).join(", ") || "key withheld"} /></p>}
        </div>
      </div>
      <div class="sides">
        <Side data={data} result={both.baseline} side="Baseline" name={names.baseline} id={id} />
        <Side data={data} result={both.new} side="New" name={names.new} id={id} />
      </div>
    </article>
  );
};

const Image = ({ data, name, source, label: said }: { readonly data: Data; readonly name: string; readonly source: number; readonly label: string }) => {
  const [address, setAddress] = useState("");
  useEffect(() => {
    let open = true;
    if (source >= 0) void json<readonly string[]>(data.bundle.blocks, "images").then((all) => { if (open) setAddress(all[source] ?? ""); });
    return () => { open = false; };
  }, [data, source]);
  if (source < 0) return <p class="missing"><Visible text={name} /> is not part of this page.</p>;
  return <div class="picture">{address !== "" && <img src={address} alt={said} />}</div>;
};

const READ: Readonly<Record<string, string>> = { options: "read by judge", closeness: "compared by judge", score: "scored by judge" };

interface SideOf {
  readonly data: Data;
  readonly result: number;
  readonly side: "Baseline" | "New";
  readonly name: string;
  readonly id: string;
}

const Side = ({ data, result, side, name, id }: SideOf) => {
  const [answered, setAnswered] = useState<Answered | undefined>(data.bundle.answers.at(result));
  useEffect(() => {
    let open = true;
    void data.bundle.answers.get(result).then((read) => { if (open) setAnswered(read); });
    return () => { open = false; };
  }, [data, result]);
  const what = flat(`${name}, question ${id}`);
  const judged = answered?.judged ?? null;
  const seconds = data.seconds(result);
  const variant = data.variant(result);
  const facts: readonly (readonly [string, string])[] = [
    ["Option read", data.extracted(result).join(", ") || "none"],
    ["Reason", data.why(result)],
    ...(variant === "" ? [] : [["Asked", variant] as const]),
    ...(judged === null ? [] : [["Judge", `${READ[judged.task] ?? "read by judge"} ${judged.judge}`] as const]),
    ...(seconds === null ? [] : [["Time", took(seconds)] as const]),
  ];
  const response = answered?.response;
  return (
    <section class="side" aria-label={what}>
      <h3><span class="quiet">{side}</span> <Visible text={name} /> <Outcome name={data.outcome(result)} /></h3>
      {answered === undefined ? <p class="quiet">Reading the answer.</p>
        : response === null || response === undefined ? <p class="quiet">No answer.</p>
        : response === "" ? <p class="quiet">An empty text.</p>
        : <div class="response" dir="auto" tabIndex={0} role="region" aria-label={`Response of ${what}`}><Visible text={response} /></div>}
      {answered?.folded?.map(({ name: title, texts }) => (
        <details class="more folded" key={title}>
          <summary><Visible text={title} /></summary>
          {texts.map((text, i) => (
            <>
              {texts.length > 1 && <p class="quiet">{i + 1}</p>}
              <div class="response" dir="auto" tabIndex={0} role="region" aria-label={flat(`${title} ${texts.length > 1 ? i + 1 : ""} of ${what}`)}><Visible text={text} /></div>
            </>
          ))}
        </details>
      ))}
      {judged !== null && <JudgedOf of={judged} what={what} />}
      <dl class="meta">{facts.map(([term, text]) => <><dt>{term}</dt><dd dir="auto"><Visible text={text} /></dd></>)}</dl>
    </section>
  );
};

const used = (usage: Readonly<Record<string, number>>): string =>
  Object.entries(usage).map(([name, n]) => (name === "cost" ? `cost ${digits(n)}` : `${count(n)} tokens ${name}`)).join(", ");

/** A judge is a model too: its words stand apart from the response, under its name. */
const JudgedOf = ({ of, what }: { readonly of: JudgeSaid; readonly what: string }) => (
  <section class="judged" aria-label={`The judge on ${what}`}>
    <h3>The judge's reply <span class="quiet"><Visible text={of.judge} /></span></h3>
    {of.replies.length === 0 && <p class="quiet">No reply.</p>}
    {of.replies.map((reply, i) => (
      <>
        {of.replies.length > 1 && <p class="quiet">Reply {i + 1}</p>}
        <div class="response" dir="auto" tabIndex={0} role="region" aria-label={`Reply ${i + 1} of the judge to ${what}`}><Visible text={reply} /></div>
      </>
    ))}
    <dl class="meta">
      <dt>Prompt</dt><dd dir="auto"><Visible text={of.template} /></dd>
      {of.seconds != null && <><dt>Time</dt><dd>{took(of.seconds)}</dd></>}
      {of.usage != null && <><dt>Used</dt><dd dir="auto"><Visible text={used(of.usage)} /></dd></>}
    </dl>
  </section>
);
