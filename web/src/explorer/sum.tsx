// The number of questions that a query selects, their score, and the command that asks them again.
import { useState } from "preact/hooks";

import { flipped, unitName } from "../scale";
import type { Compared } from "../table";
import { count, FEW, label, percent, plural } from "../text";
import { Visible } from "../ui/text";
import { commandOf, hasScore, intervalOf, pairSum, type Found } from "./selecting";

interface SumOf {
  readonly found: Found;
}

export const Sum = ({ found }: SumOf) => {
  const { sum } = found.selection;
  const { answered, compared } = found.table;
  if (compared !== null) return <UnitSum found={found} compared={compared} />;
  return (
    <p class="sum" role="status">
      <span>
        <span class="big" id="questions-count" data-questions={sum.questions} data-answers={sum.answers}>{count(sum.questions)}</span>{" "}
        {sum.questions === 1 ? "question" : "questions"}
        {sum.answers !== sum.questions && `, ${plural(sum.answers, "answer")}`}
      </span>
      {answered && found.about.score !== "" && <Score found={found} />}
      {found.layout === "pairs" && <PairScore found={found} />}
    </p>
  );
};

/** The number of listed units, and of their flips. */
const UnitSum = ({ found: { rows, table: { data } }, compared: { scale, pair, flips } }: SumOf & { readonly compared: Compared }) => {
  const { runs } = data.bundle.head;
  const { view, size } = scale;
  const name = (run: number) => <strong><Visible text={runs[run]?.name ?? ""} /></strong>;
  const [worse, better] = [flipped(flips, "worse", rows), flipped(flips, "better", rows)];
  return (
    <p class="sum" role="status">
      <span><span class="big" id="units-count" data-units={rows.length}>{count(rows.length)}</span> of {plural(size, unitName(scale))} by <strong><Visible text={label(view.measure)} /></strong></span>
      <span>
        {name(pair.new)} against {name(pair.baseline)}: <data id="flips-worse" value={worse}>{count(worse)}</data> <span class="way w-worse"><span aria-hidden="true">▼</span> worse</span>,{" "}
        <data id="flips-better" value={better}>{count(better)}</data> <span class="way w-better"><span aria-hidden="true">▲</span> better</span>
      </span>
      {(view.counted ?? "") !== "" && <span class="quiet"><Visible text={view.counted ?? ""} /></span>}
    </p>
  );
};

const Score = ({ found }: SumOf) => {
  const { numerator, denominator } = found.selection.sum;
  if (found.techniques.length < 2 && !hasScore(found)) return <span class="quiet">Selected by the answers themselves, so without a score.</span>;
  if (found.techniques.length > 1) return <span class="quiet">Answers by {found.techniques.join(" and ")} have no common score.</span>;
  if (denominator === 0) return <span class="quiet">None of them has a score.</span>;
  const few = denominator < FEW;
  const bounds = few ? null : intervalOf(found);
  return (
    <span>
      <data class="big" id="score" value={numerator / denominator} data-sum={numerator} data-n={denominator}>
        {few ? `${count(numerator)}/${count(denominator)}` : percent(numerator, denominator)}
      </data>
      {few ? " " : " % "}
      <span title={found.about.definition}>{label(found.about.score)}</span>
      {bounds !== null ? ", " : " "}
      {bounds !== null && (
        <span id="interval" data-low={bounds[0]} data-high={bounds[1]}>
          95 % interval {(100 * bounds[0]).toFixed(2)}–{(100 * bounds[1]).toFixed(2)}
        </span>
      )}{" "}
      <span class="quiet">of {count(denominator)} scored</span>
    </span>
  );
};

const PairScore = ({ found }: SumOf) => {
  const { pairs, right, scored, confused, valid } = pairSum(found);
  return (
    <span id="pairs-sum" data-pairs={pairs} data-right={right} data-scored={scored} data-confused={confused} data-valid={valid}>
      <span class="big">{count(pairs)}</span> {pairs === 1 ? "pair" : "pairs"}: both right {count(right)} of {count(scored)} scored
      {scored >= FEW && ` (${percent(right, scored)} %)`}, same answer twice {count(confused)} of {count(valid)} valid
      {valid >= FEW && ` (${percent(confused, valid)} %)`}
    </span>
  );
};

const CopyButton = ({ text, name }: { readonly text: string; readonly name: string }) => {
  const [copied, setCopied] = useState(false);
  const copy = async (): Promise<void> => {
    await navigator.clipboard.writeText(text);
    setCopied(true);
    setTimeout(() => { setCopied(false); }, 1500);
  };
  return <button type="button" aria-label={`Copy ${name}`} onClick={() => { void copy(); }}>{copied ? "Copied" : "Copy"}</button>;
};

/** The command line and the expression for `-m` that select the same questions. */
export const Again = ({ found }: SumOf) => {
  const { expression, line, left } = commandOf(found);
  return (
    <details class="again">
      <summary>Run this selection again</summary>
      {left.length > 0 && (
        <p class="quiet">
          pytest cannot select by <code><Visible text={left.join(" ")} /></code>: this asks the questions of the other terms.
        </p>
      )}
      {expression !== "" && (
        <p class="line"><code id="expression"><Visible text={`-m "${expression}"`} /></code> <CopyButton text={`-m "${expression}"`} name="the expression" /></p>
      )}
      <p class="line"><code id="command"><Visible text={line} /></code> <CopyButton text={line} name="the command" /></p>
    </details>
  );
};
