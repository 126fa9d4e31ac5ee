// The answers of many runs to one question, as a list: more than two do not fit side by side.
import { useState } from "preact/hooks";

import { lackOf, useAnswered } from "../answered";
import type { Answered } from "../bundle";
import type { Data } from "../data";
import { count, flat } from "../text";
import { Outcome } from "../ui/outcome";
import { Visible } from "../ui/text";
import { Answer, runName, wayOf } from "./asked";

interface OneOf {
  readonly data: Data;
  readonly r: number;
  readonly mark: string;
}

/** The response as text, with the number of characters that the page leaves out. */
const Response = ({ data, answered }: { readonly data: Data; readonly answered: Answered | undefined }) => {
  const lack = lackOf(data, answered);
  const left = answered?.left_out ?? 0;
  if (lack !== "") return <span class="quiet">{lack}</span>;
  return <><span class="response"><Visible text={answered?.response ?? ""} /></span>{left > 0 && <span class="quiet"> … {count(left)} more characters are left out.</span>}</>;
};

const Line = ({ data, r, mark }: OneOf) => {
  const answered = useAnswered(data, r);
  const [open, setOpen] = useState(false);
  const run = data.at("results.run", r);
  const name = runName(data, r);
  return (
    <>
      <tr class="answer-line" data-run={run}>
        <th scope="row">
          <span class="quiet">{run + 1}</span> <strong><Visible text={name} /></strong>
          {mark !== "" && <> <span class="mark">{mark}</span></>}
          <small class="quiet"><Visible text={wayOf(data, r)} /></small>
        </th>
        <td><Outcome name={data.outcome(r)} /></td>
        <td><Visible text={data.extracted(r).join(", ") || "–"} /></td>
        <td dir="auto"><Response data={data} answered={answered} /></td>
        <td><button type="button" aria-expanded={open} aria-label={`Details of ${flat(name)}`} onClick={() => { setOpen(!open); }}>{open ? "Less" : "Details"}</button></td>
      </tr>
      {open && <tr><td colSpan={5}><Answer data={data} r={r} answered={answered} id={`${data.id(data.question(r))}, run ${name}`} /></td></tr>}
    </>
  );
};

/** A line for each result. `marks`: words for runs by their places, such as "baseline". */
export const AnswerList = ({ data, results, marks }: { readonly data: Data; readonly results: readonly number[]; readonly marks: ReadonlyMap<number, string> }) => (
  <div class="scroll answer-list" tabIndex={0} role="group" aria-label={`Answers of all runs to ${flat(data.id(data.question(results[0] ?? 0)))}`}>
    <table>
      <thead><tr><th scope="col">Run</th><th scope="col">Outcome</th><th scope="col">Read</th><th scope="col">Response</th><th scope="col"><span class="sr">More</span></th></tr></thead>
      <tbody>{results.map((r) => <Line key={r} data={data} r={r} mark={marks.get(data.at("results.run", r)) ?? ""} />)}</tbody>
    </table>
  </div>
);
