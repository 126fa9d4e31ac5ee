// Pairs of runs that differ in one setting: what that setting changes, such as the image taken away.
import type { ComparedCell, ComparisonView, PairView } from "../bundle";
import type { Page } from "../page";
import { capital, flat } from "../text";
import { Gap, GapAxis } from "../ui/gap";
import { Table, type TableColumn } from "../ui/table";
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
      <p class="key">The two runs of a row differ in nothing else, so their difference is the effect of the setting. Each bound is one-sided, 95 %.</p>
      {[...questions].map(([question, pairs]) => (
        <div key={question}>
          <h3><Visible text={question === "" ? capital(pairs[0]?.effect ?? "") : question} /></h3>
          <Effect page={page} pairs={pairs} question={question} />
        </div>
      ))}
      {[...questions.values()].flat().some((pair) => pair.parts.some((part) => part.rows.slice(0, 1).some(alone))) && <Alone tests={of.tests ?? 0} />}
    </section>
  );
};

/** The headings of the two values: the settings, if all pairs have the same ones. */
export const headingsOf = (pairs: readonly PairView[]): readonly [string, string] => {
  const [first] = pairs;
  const same = first !== undefined && pairs.every(({ headings }) => headings.join("\n") === first.headings.join("\n"));
  return same && first.headings[0] !== first.headings[1] ? first.headings : ["baseline", "new"];
};

interface Row {
  readonly pair: PairView;
  readonly title: string;
  readonly cell: ComparedCell;
}

const Effect = ({ page, pairs, question }: { readonly page: Page; readonly pairs: readonly PairView[]; readonly question: string }) => {
  const rows = pairs.flatMap((pair) =>
    pair.parts.flatMap((part): readonly Row[] => {
      const [cell] = part.rows;
      return cell === undefined ? [] : [{ pair, title: part.title, cell }];
    }),
  );
  const [before, after] = headingsOf(pairs);
  const end = Math.max(...pairs.flatMap((pair) => pair.parts.map((part) => part.end)));
  const columns: readonly TableColumn<Row>[] = [
    { key: "runs", head: "Runs", heading: true, by: ({ pair }) => headingOf(page, pair).toLowerCase(), cell: ({ pair }) => <><a href={linkOf(page, pair)}><Visible text={headingOf(page, pair)} /></a>{before === "baseline" && <span class="quiet setting"><Visible text={pair.differs} /></span>}</> },
    { key: "benchmark", head: "Benchmark", class: "wraps", by: ({ title }) => title.toLowerCase(), cell: ({ title, cell }) => <><Visible text={title} /> <span class="quiet"><Visible text={cell.title} />{cell.lower && ", less is better"}</span></> },
    { key: "baseline", head: <Visible text={before} />, right: true, by: ({ cell }) => cell.baseline, cell: ({ cell }) => <Figure name="baseline" value={cell.baseline} text={values(cell, cell.texts.baseline)} /> },
    { key: "new", head: <Visible text={after} />, right: true, by: ({ cell }) => cell.new, cell: ({ cell }) => <Figure name="new" value={cell.new} text={values(cell, cell.texts.new)} /> },
    { key: "difference", head: "difference", right: true, class: "main", by: ({ cell }) => cell.difference, cell: ({ cell }) => <Figure name="difference" value={cell.difference} text={cell.texts.difference} /> },
    { key: "bounds", head: "bounds", class: "quiet", cell: ({ cell }) => cell.texts.bounds },
    { key: "chart", head: <GapAxis end={end} />, class: "chart", cell: ({ cell }) => (cell.few || !cell.percent ? "" : <Gap of={cell} end={end} />) },
    { key: "adjusted", head: "adjusted p", right: true, class: "quiet", by: ({ cell }) => cell.adjusted, cell: ({ cell }) => <Figure name="adjusted" value={cell.adjusted} text={cell.texts.adjusted} /> },
    { key: "way", head: <span class="sr">Result</span>, cell: ({ cell }) => <Way way={cell.sure} open={cell.few ? "too few" : "not shown"} /> },
    { key: "gained", head: "better", right: true, by: ({ cell }) => cell.gained, cell: ({ pair, cell }) => <Changed of={{ page, pair }} cell={cell} way="better" /> },
    { key: "lost", head: "worse", right: true, by: ({ cell }) => cell.lost, cell: ({ pair, cell }) => <Changed of={{ page, pair }} cell={cell} way="worse" /> },
  ];
  return (
    <Table
      rows={rows}
      columns={columns}
      label={flat(question === "" ? "Effect of one setting" : question)}
      class="forest versus effects"
      rowKey={({ pair, cell }) => `${pair.new} ${pair.baseline} ${cell.benchmark} ${cell.technique}`}
      rowClass={({ cell }) => cell.sure}
      identity={({ pair, cell }) => ({
        "data-new": flat(page.head.runs[pair.new]?.name ?? ""),
        "data-baseline": flat(page.head.runs[pair.baseline]?.name ?? ""),
        "data-benchmark": cell.benchmark,
        "data-technique": cell.technique,
        "data-measure": cell.name,
        "data-slice": "",
      })}
    />
  );
};
