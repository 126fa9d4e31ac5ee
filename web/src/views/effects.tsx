// Pairs of runs that differ in one setting: what that setting changes, such as the image taken away.
import type { ComparedCell, ComparisonView, PairedPartView, PairView } from "../bundle";
import type { Page } from "../page";
import { capital, count, flat } from "../text";
import { Gap, GapAxis } from "../ui/gap";
import { Visible } from "../ui/text";
import { Way } from "../ui/way";
import { Alone, alone, Changed, headingOf, linkOf, values } from "./differences";
import { Figure } from "./ranking";

/** The pairs that differ in one setting, by the question that it answers, in their order. */
export const questionsOf = (pairs: readonly PairView[]): ReadonlyMap<string, readonly PairView[]> => {
  const questions = new Map<string, PairView[]>();
  for (const pair of pairs) {
    if ((pair.setting ?? "") === "" || pair.parts.length === 0) continue;
    const question = pair.question ?? "";
    questions.set(question, [...(questions.get(question) ?? []), pair]);
  }
  return questions;
};

export const Effects = ({ page, of }: { readonly page: Page; readonly of: ComparisonView }) => {
  const questions = questionsOf(of.pairs);
  if (questions.size === 0) return null;
  return (
    <section id="effects" aria-labelledby="effects-title">
      <h2 id="effects-title">One setting changed</h2>
      <p class="key">The two runs of a pair differ in nothing else, so new minus baseline is the effect of the setting.</p>
      {[...questions].map(([question, pairs]) => (
        <div key={question}>
          <h3>
            <Visible text={question === "" ? capital(pairs[0]?.effect ?? "") : question} />
            {meaningOf(pairs) !== "" && <span class="quiet"> new minus baseline is <Visible text={meaningOf(pairs)} /></span>}
          </h3>
          <Effect page={page} pairs={pairs} question={question} />
        </div>
      ))}
      {[...questions.values()].flat().some((pair) => pair.parts.some((part) => part.rows.slice(0, 1).some(alone))) && <Alone tests={of.tests ?? 0} />}
    </section>
  );
};

/** The meaning of new minus baseline, if it is the same for all pairs. */
const meaningOf = (pairs: readonly PairView[]): string => {
  const [first = "", ...others] = new Set(pairs.map((pair) => pair.effect));
  return others.length === 0 ? first : "";
};

interface EffectOf {
  readonly page: Page;
  readonly pairs: readonly PairView[];
  readonly question: string;
}

const COLUMNS = 10;

const Effect = ({ page, pairs, question }: EffectOf) => {
  const end = Math.max(...pairs.flatMap((pair) => pair.parts.map((part) => part.end)));
  const label = flat(question === "" ? "Effect of one setting" : question);
  return (
    <div class="scroll" tabIndex={0} role="group" aria-label={label}>
      <table class="forest versus effects">
        <thead>
          <tr>
            <th scope="col">Benchmark</th>
            <th scope="col" class="right">baseline</th>
            <th scope="col" class="right">new</th>
            <th scope="col" class="right main">difference, points</th>
            <th scope="col">95 % interval</th>
            <th scope="col" class="chart"><GapAxis end={end} /></th>
            <th scope="col" class="right">adjusted p</th>
            <th scope="col">sign</th>
            <th scope="col" class="right">better</th>
            <th scope="col" class="right">worse</th>
          </tr>
        </thead>
        {pairs.map((pair) => <EffectPair key={`${pair.new} ${pair.baseline}`} page={page} pair={pair} end={end} />)}
      </table>
    </div>
  );
};

/** In how many benchmarks the first measure differs for certain. */
export const shownIn = (parts: readonly PairedPartView[]): string => {
  const sure = parts.filter((part) => (part.rows[0]?.sure ?? "") !== "").length;
  if (parts.length === 1) return sure === 1 ? "A difference is shown." : "No difference is shown.";
  return `A difference is shown in ${sure === 0 ? "none" : count(sure)} of ${count(parts.length)} benchmarks.`;
};

const EffectPair = ({ page, pair, end }: { readonly page: Page; readonly pair: PairView; readonly end: number }) => (
  <tbody>
    <tr class="group">
      <th scope="rowgroup" colSpan={COLUMNS}>
        <a href={linkOf(page, pair)}><Visible text={headingOf(page, pair)} /></a> <strong>{shownIn(pair.parts)}</strong>{" "}
        <span class="quiet"><Visible text={capital(pair.differs)} /></span>
      </th>
    </tr>
    {pair.parts.map((part) => part.rows[0] !== undefined && (
      <EffectRow key={`${part.benchmark}/${part.technique}`} page={page} pair={pair} title={part.title} cell={part.rows[0]} end={end} />
    ))}
  </tbody>
);

interface RowOf {
  readonly page: Page;
  readonly pair: PairView;
  readonly title: string;
  readonly cell: ComparedCell;
  readonly end: number;
}

const EffectRow = ({ page, pair, title, cell, end }: RowOf) => (
  <tr
    class={cell.sure}
    data-new={flat(page.head.runs[pair.new]?.name ?? "")}
    data-baseline={flat(page.head.runs[pair.baseline]?.name ?? "")}
    data-benchmark={cell.benchmark}
    data-technique={cell.technique}
    data-measure={cell.name}
    data-slice=""
  >
    <th scope="row"><Visible text={title} /> <span class="quiet"><Visible text={cell.title} />{cell.lower && ", less is better"}</span></th>
    <td class="right"><Figure name="baseline" value={cell.baseline} text={values(cell, cell.texts.baseline)} /></td>
    <td class="right"><Figure name="new" value={cell.new} text={values(cell, cell.texts.new)} /></td>
    <td class="right main"><Figure name="difference" value={cell.difference} text={cell.texts.difference} /></td>
    <td class="quiet">{cell.texts.bounds}</td>
    <td class="chart">{!cell.few && cell.percent && <Gap of={cell} end={end} />}</td>
    <td class="right quiet"><Figure name="adjusted" value={cell.adjusted} text={cell.texts.adjusted} /></td>
    <td><Way way={cell.sure} open={cell.few ? "too few" : "not shown"} /></td>
    <td class="right"><Changed of={{ page, pair }} cell={cell} way="better" /></td>
    <td class="right"><Changed of={{ page, pair }} cell={cell} way="worse" /></td>
  </tr>
);
