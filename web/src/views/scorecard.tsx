// The scorecard: measures with unit, meaning and direction, the gain of the image, outcomes, and further tables.
import type { OutcomeCount, ScorecardView, ScorePart, ScoreRow, TableView } from "../bundle";
import type { Page } from "../page";
import { printTerm } from "../query";
import { count, FEW, flat, label } from "../text";
import { Value } from "../ui/number";
import { Outcome } from "../ui/outcome";
import { Axis, Strip } from "../ui/strip";
import { Visible } from "../ui/text";
import { Gate } from "./gate";

const LEVELS: readonly (readonly [string, string])[] = [
  ["random", "chance"],
  ["majority", "most frequent answer"],
  ["image_blind", "image ignored"],
];
const HELPS: Readonly<Record<string, string>> = { yes: "the image helps", no: "the image harms", open: "not shown to help" };

const percent = (value: number): string => (100 * value).toFixed(2);

const questions = (page: Page, part: ScorePart, query = ""): string =>
  page.link({
    view: "questions",
    benchmark: part.benchmark,
    technique: part.outcomes.length > 0 ? part.technique : "",
    // The maximum over techniques is the answers of no single one: all are listed.
    query: part.outcomes.length > 0 ? query : printTerm({ field: "technique", operator: ":", values: page.head.techniques, not: false }),
    item: null,
    section: "",
  });

const Level = ({ row, name }: { readonly row: ScoreRow; readonly name: string }) => {
  const value = row.cell.references[name];
  if (value === undefined) return <td />;
  return (
    <td class="right quiet" data-heading={`${LEVELS.find(([each]) => each === name)?.[1] ?? name}, %`}>
      <data
        value={value}
        data-reference={name}
        data-benchmark={row.cell.benchmark}
        data-technique={row.cell.technique}
        data-measure={row.cell.name}
      >
        {percent(value)}
      </data>
    </td>
  );
};

const Gap = ({ row }: { readonly row: ScoreRow }) => {
  const gap = row.gap ?? null;
  if (gap === null) return <><td /><td /></>;
  const identity = {
    "data-benchmark": row.cell.benchmark,
    "data-technique": row.cell.technique,
    "data-measure": row.cell.name,
  };
  return (
    <>
      <td class="right" data-heading="without the image, %">
        <data value={gap.blank ?? ""} data-gap="blank" {...identity}>{gap.blank_shown}</data>
      </td>
      <td class="right gain" data-heading="gain of the image">
        {gap.value_shown !== "" && <data class="main" value={gap.value ?? ""} data-gap="value" {...identity}>{gap.value_shown}</data>}
        {gap.interval !== "" && <small>{gap.interval}</small>}
        {gap.value_shown !== "" && gap.low !== null && <small>{HELPS[gap.helps]}</small>}
        {gap.shared !== "" && <small>on {gap.shared}</small>}
      </td>
    </>
  );
};

const Row = ({ row, levels, blank }: { readonly row: ScoreRow; readonly levels: readonly string[]; readonly blank: boolean }) => {
  const { cell } = row;
  const level = row.gap?.blank ?? null;
  // blank.json may hold any number: the axis ends at 1.
  const references = level === null || level < 0 || level > 1 ? cell.references : { ...cell.references, blank: level };
  return (
    <tr class={cell.few ? "few" : undefined}>
      <th scope="row">
        <Visible text={row.label} />
        {row.better === "lower" && <span class="less"> ↓ less is better</span>}
        {row.meaning !== "" && <small><Visible text={row.meaning} /></small>}
      </th>
      <td class="right main" data-heading="value"><Value of={cell} />{cell.percent && !cell.few && cell.value !== null ? <span class="unit"> %</span> : null}</td>
      <td class="quiet" data-heading="95 % interval">{cell.interval}</td>
      <td class="chart">{cell.percent && <Strip of={{ ...cell, references }} />}</td>
      <td class="right" data-heading="counted">{row.counted}</td>
      {levels.map((name) => <Level key={name} row={row} name={name} />)}
      {blank && <Gap row={row} />}
    </tr>
  );
};

const Part = ({ part, levels, card, page }: { readonly part: ScorePart; readonly levels: readonly string[]; readonly card: ScorecardView; readonly page: Page }) => {
  const blank = card.blank !== "";
  const columns = 5 + levels.length + (blank ? 2 : 0);
  return (
    <tbody>
      <tr class="first">
        <th scope="rowgroup" colSpan={columns}>
          <a href={questions(page, part)}><Visible text={part.title} /></a>
          {part.selected !== "" && <span class="part-of"> A part: <Visible text={part.selected} /></span>}
        </th>
      </tr>
      {part.rows.map((row) => <Row key={row.cell.name} row={row} levels={levels} blank={blank} />)}
      {part.failed.map((failed) => (
        <tr key={failed.name}>
          <th scope="row"><Visible text={failed.name} /></th>
          <td class="right">failed</td>
          <td class="wrap" colSpan={columns - 2}><Visible text={failed.why} /></td>
        </tr>
      ))}
      {part.rows.length + part.failed.length === 0 && <tr><td class="quiet" colSpan={columns}>No measure.</td></tr>}
    </tbody>
  );
};

const Measures = ({ card, page }: { readonly card: ScorecardView; readonly page: Page }) => {
  const parts = card.parts.filter((part) => part.rows.length + part.failed.length > 0);
  if (parts.length === 0) return <p>This run has no measures.</p>;
  const rows = parts.flatMap((part) => part.rows);
  const levels = LEVELS.filter(([name]) => rows.some((row) => row.cell.references[name] !== undefined));
  const names = levels.map(([name]) => name);
  const blank = card.blank !== "";
  return (
    <>
      <div class="scroll" tabIndex={0} role="group" aria-label="Measures">
        <table class="forest scores">
          <thead>
            <tr>
              <th scope="col">Measure</th>
              <th scope="col" class="right">Value</th>
              <th scope="col">95 % interval</th>
              <th scope="col"><Axis /><span class="sr">Chart</span></th>
              <th scope="col" class="right">Counted</th>
              {levels.map(([name, heading]) => <th key={name} scope="col" class="right level">{heading}, %</th>)}
              {blank && <th scope="col" class="right level">without the image ({flat(card.image)}), %</th>}
              {blank && <th scope="col" class="right level">gain of the image, points, 95 % interval</th>}
            </tr>
          </thead>
          {parts.map((part) => <Part key={`${part.benchmark} ${part.technique}`} part={part} levels={names} card={card} page={page} />)}
        </table>
      </div>
      <p class="key">
        <svg class="strip" width={30} height={16} aria-hidden="true"><line class="range" x1={2} x2={28} y1={8} y2={8} /><circle cx={15} cy={8} r={3.5} /></svg> value
        and 95 % interval; a hollow dot has no interval
        {names.includes("random") && <> <svg class="strip" width={10} height={16} aria-hidden="true"><line class="ref random" x1={5} x2={5} y1={1} y2={15} /></svg> chance</>}
        {names.includes("image_blind") && <> <svg class="strip" width={10} height={16} aria-hidden="true"><line class="ref image_blind" x1={5} x2={5} y1={1} y2={15} /></svg> image ignored: the same answer to both questions of a pair</>}
        {blank && <> <svg class="strip" width={10} height={16} aria-hidden="true"><line class="ref blank" x1={5} x2={5} y1={1} y2={15} /></svg> run {flat(card.blank)}, without the image</>}
        . Below {FEW} units (questions or pairs), counts are shown in place of percentages. Invalid answers (refused, abstained,
        unparsed) count as wrong.
        {rows.some((row) => row.meaning.includes("micro average")) && " Micro average: every question counts the same, whatever its group."}
      </p>
    </>
  );
};

/** Signs in the strip of outcomes: colour is never the only one. */
const SIGNS: Readonly<Record<string, string>> = {
  correct: "✓",
  partial: "½",
  wrong: "✕",
  refused: "–",
  abstained: "?",
  unparsed: "△",
  unscored: "○",
  error: "!",
};
/** The least share of a strip that has room for a sign. */
const ROOM = 0.08;
const MEANINGS: readonly (readonly [string, string])[] = [
  ["partial", "some of the correct options, or a part of the score"],
  ["refused", "the model declines"],
  ["abstained", "the model says that the question cannot be answered"],
  ["unparsed", "no option can be read from the answer"],
  ["unscored", "no answer key, or an open answer without a judge"],
  ["error", "no answer, or no readable reply of the judge; not scored"],
];

const Stack = ({ outcomes, total }: { readonly outcomes: readonly OutcomeCount[]; readonly total: number }) => {
  let seen = 0;
  return (
    <svg class="stack" width={180} height={14} aria-hidden="true" focusable="false">
      {outcomes.map(({ outcome, count: number }) => {
        const start = seen;
        seen += number;
        return number === 0 ? null : (
          <g key={outcome} class={`o-${outcome}`}>
            <rect x={`${((100 * start) / total).toFixed(2)}%`} width={`${((100 * number) / total).toFixed(2)}%`} height={14} />
            {number >= ROOM * total && <text x={`${((100 * (start + number / 2)) / total).toFixed(2)}%`} y={11} text-anchor="middle">{SIGNS[outcome]}</text>}
          </g>
        );
      })}
    </svg>
  );
};

const Outcomes = ({ card, page }: { readonly card: ScorecardView; readonly page: Page }) => {
  const parts = card.parts.filter((part) => part.outcomes.length > 0);
  if (parts.length === 0) return null;
  const shown = page.head.outcomes.filter(
    (outcome) => ["correct", "wrong"].includes(outcome) || parts.some((part) => number(part, outcome) > 0),
  );
  const none = page.head.outcomes.filter((outcome) => !shown.includes(outcome));
  return (
    <>
      <h3>Outcomes</h3>
      <div class="scroll" tabIndex={0} role="group" aria-label="Outcomes">
        <table class="outcomes">
          <thead>
            <tr>
              <th scope="col">Benchmark</th>
              <th scope="col" class="right">{card.counted === "answers" ? "Answers" : "Questions"}</th>
              <th scope="col"><span class="sr">Chart</span></th>
              {shown.map((outcome) => <th key={outcome} scope="col" class="right"><Outcome name={outcome} /></th>)}
            </tr>
          </thead>
          <tbody>
            {parts.map((part) => (
              <tr key={part.key}>
                <th scope="row"><Visible text={part.title} /></th>
                <td class="right">{count(part.total)}</td>
                <td class="chart"><Stack outcomes={part.outcomes} total={part.total} /></td>
                {shown.map((outcome) => {
                  const value = number(part, outcome);
                  const text = <data value={value} data-part={part.key} data-outcome={outcome}>{count(value)}</data>;
                  return (
                    <td key={outcome} class={value === 0 ? "right none" : "right"}>
                      {value === 0 ? text : <a href={questions(page, part, `outcome:${outcome}`)} aria-label={`${flat(part.title)}: ${count(value)} ${outcome}`}>{text}</a>}
                    </td>
                  );
                })}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      <p class="key">
        {MEANINGS.filter(([outcome]) => shown.includes(outcome)).map(([outcome, meaning]) => (
          <span key={outcome}><b>{outcome}</b>: {meaning}. </span>
        ))}
        {none.length > 0 && <>No {card.counted === "answers" ? "answer" : "question"} is {none.map((outcome) => (outcome === "error" ? "an error" : outcome)).join(", ")}.</>}
      </p>
    </>
  );
};

const number = (part: ScorePart, outcome: string): number =>
  part.outcomes.find((each) => each.outcome === outcome)?.count ?? 0;

/** A table of texts that Python wrote. */
export const Texts = ({ table }: { readonly table: TableView }) => (
  <>
    <h3><Visible text={table.title} /></h3>
    <div class="scroll" tabIndex={0} role="group" aria-label={flat(table.title)}>
      <table>
        <thead>
          <tr>
            {table.columns.map((column, place) => (
              <th key={place} scope="col" class={table.right.includes(place) ? "right" : undefined}><Visible text={label(column)} /></th>
            ))}
          </tr>
        </thead>
        <tbody>
          {table.rows.map((row, at) => (
            <tr key={at}>
              {row.map((text, place) => <td key={place} class={table.right.includes(place) ? "right" : undefined}><Visible text={text} /></td>)}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  </>
);

export const Scorecard = ({ page }: { readonly page: Page }) => {
  const run = page.head.run;
  if (run === null) return null;
  const card = run.scorecard;
  return (
    <section id="scorecard" aria-labelledby="scorecard-title">
      <h2 id="scorecard-title">Scorecard</h2>
      <Measures card={card} page={page} />
      <Outcomes card={card} page={page} />
      {card.tables.map((table) => <Texts key={table.title} table={table} />)}
      {run.gate !== null && <Gate gate={run.gate} />}
    </section>
  );
};
