// The results of one item over all runs: the question once, then each answer.
import { useMemo } from "preact/hooks";

import { keyText } from "../key";
import { START, print } from "../route";
import type { History, HistoryRow, ItemRow } from "../served";
import "../style/home.css";
import "../style/item.css";
import { count, plural } from "../text";
import { Outcome } from "../ui/outcome";
import { Table } from "../ui/table";
import { Visible } from "../ui/text";
import { Viewers } from "../ui/viewer";
import { when } from "./over-time";
import { originals, wayOf } from "./result";
import { runLink } from "./routes";

/** Characters of a response beside the others. */
const SHORT = 300;

/** The result within the page of its run. */
const resultLink = (run: string, { benchmark, id, technique, variant, sample }: ItemRow): string =>
  runLink(run) + print({ ...START, view: "questions", benchmark, item: keyText({ benchmark, item: id, technique, variant, sample }) });

const Question = ({ run, item }: HistoryRow) => {
  const pictures = useMemo(() => originals(run, item.images), [run, item]);
  return (
    <div class="opened">
      <div class="looked">{pictures.length > 0 ? <Viewers pictures={pictures} /> : <div class="missing">This question has no image.</div>}</div>
      <article class="asked" aria-label="Question">
        <p class="question" dir="auto"><Visible text={item.question} /></p>
        {item.options.length > 0 && (
          <ul class="options">
            {item.options.map(([letter, text]) => {
              const right = item.answers.includes(letter);
              return <li key={letter} class={right ? "right" : ""}><b><Visible text={letter} /></b><span dir="auto"><Visible text={text} /></span><em>{right && "✓ correct"}</em></li>;
            })}
          </ul>
        )}
        {item.options.length === 0 && <dl class="meta"><dt>Reference answer</dt><dd dir="auto"><Visible text={item.answers.length === 0 ? "withheld by the owners of the data" : item.answers.join("; ")} /></dd></dl>}
      </article>
    </div>
  );
};

const Response = ({ item }: { readonly item: ItemRow }) => {
  const { response, outcome, cut } = item;
  if (response === "") return <p class="quiet">{outcome === "error" ? "No answer." : "An empty text."}</p>;
  const more = cut > 0 ? `… ${count(cut)} more characters on the page of the run` : "";
  if (response.length <= SHORT) return <div dir="auto"><Visible text={response} />{more !== "" && <span class="quiet">{more}</span>}</div>;
  return (
    <details>
      <summary dir="auto"><Visible text={response.slice(0, SHORT)} />…</summary>
      <div class="response" dir="auto" tabIndex={0} role="group" aria-label="Response"><Visible text={response} />{more !== "" && <span class="quiet">{more}</span>}</div>
    </details>
  );
};

const summed = (rows: readonly HistoryRow[]): string => {
  const counts = new Map<string, number>();
  for (const { item } of rows) counts.set(item.outcome, (counts.get(item.outcome) ?? 0) + 1);
  return [...counts].sort(([, one], [, other]) => other - one).map(([outcome, number]) => `${count(number)} ${outcome}`).join(", ");
};

export const HistoryView = ({ history: { benchmark, id, rows, unread } }: { readonly history: History }) => {
  const latest = rows[0];
  const runs = new Set(rows.map(({ run }) => run)).size;
  const others = rows.filter(({ same }) => !same).length;
  return (
    <div class="history">
      <h1><Visible text={benchmark} /> · <Visible text={id} /></h1>
      {unread.length > 0 && <ul class="notes">{unread.map((line) => <li key={line}><Visible text={line} /></li>)}</ul>}
      {latest === undefined ? <p>No run here has a result of this item.</p> : (
        <>
          <p>{plural(rows.length, "result")} of {plural(runs, "run")}: {summed(rows)}.</p>
          {others > 0 && (
            <p class="aside">
              <strong>The question changed.</strong> It is shown as the latest run asked it. {plural(others, "result is", "results are")} marked: question, options, key or images were others there.
            </p>
          )}
          <Question {...latest} />
          <h2>Answers</h2>
          <Table
            label="Answers to this item"
            rows={rows}
            rowKey={({ run, item }) => `${run}\n${item.row}`}
            columns={[
              {
                key: "run", head: "run", heading: true, by: ({ run }) => run,
                cell: ({ run, item, same }) => (
                  <>
                    <a href={resultLink(run, item)}><Visible text={run} /></a>
                    <small class="quiet"><Visible text={wayOf(item)} /></small>
                    {!same && <small class="other">asked otherwise</small>}
                  </>
                ),
              },
              { key: "model", head: "model", by: ({ model }) => model, cell: ({ model, label }) => <><Visible text={model} />{label !== "" && <small class="quiet"><Visible text={label} /></small>}</> },
              { key: "started", head: "started", by: ({ started }) => started, cell: ({ started }) => <Visible text={when(started)} /> },
              { key: "outcome", head: "outcome", by: ({ item }) => item.outcome, cell: ({ item }) => <Outcome name={item.outcome} /> },
              { key: "read", head: latest.item.options.length > 0 ? "option read" : "answer read", cell: ({ item }) => <span dir="auto"><Visible text={item.extracted.join(", ") || "none"} /></span>, by: ({ item }) => item.extracted.join(", ") },
              { key: "response", head: "response", class: "answered", cell: ({ item }) => <Response item={item} /> },
            ]}
          />
        </>
      )}
    </div>
  );
};
