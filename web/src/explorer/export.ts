// The listed rows as a table for spreadsheets.
import { csv } from "../csv";
import { listAt } from "../filter";
import { FLIPS } from "../scale";
import { MARKS, questionOf, resultOf, type Compared, type Rows } from "../table";
import { pairsOf, verdictOf, type Found } from "./selecting";

type CsvCell = string | number | null;
type CsvColumn = readonly [name: string, cell: (row: number) => CsvCell];

/** A number of a column of 32 bits, without the digits that it does not hold. */
const short = (number: number): CsvCell => (Number.isNaN(number) ? "" : Number(number.toPrecision(6)));

/** Letters and texts as a JSON object; "" without options. */
const optionsText = (options: readonly (readonly [string, string])[]): string => (options.length === 0 ? "" : JSON.stringify(Object.fromEntries(options)));

const joined = (texts: readonly string[], by = "; "): string => texts.filter((text) => text !== "").join(by);

/** The rows of a selection as CSV; the texts of answers must have been read. */
export function exported(found: Found): string {
  const { table, about } = found;
  const rows = found.layout === "pairs" ? Array.from(found.rows).flatMap((row) => [...pairsOf(table).members(row)]) : Array.from(found.rows);
  const { data } = table;
  const dimensions = about.dimensions.map((d): CsvColumn => {
    const tags = (row: number): readonly number[] =>
      data.dimension(d).of === "questions" ? listAt(table.questions, row).flatMap((q) => data.tags(d, q, null)) : listAt(table.results, row).flatMap((r) => data.tags(d, data.question(r), r));
    return [data.dimension(d).name, (row) => [...new Set(tags(row))].map((value) => data.dimension(d).values[value]?.value ?? "").join(",")];
  });
  const columns = table.compared === null ? ofAnswers(found, rows, dimensions) : ofUnits(table, table.compared, about.name, dimensions);
  return csv([columns.map(([name]) => name), ...rows.map((row) => columns.map(([, cell]) => cell(row)))]);
}

function ofAnswers({ table, about }: Found, rows: readonly number[], dimensions: readonly CsvColumn[]): readonly CsvColumn[] {
  const { data, answered } = table;
  const of = (cell: (result: number) => CsvCell): CsvColumn[1] => (row) => { const result = resultOf(table, row); return result === undefined ? "" : cell(result); };
  const texts = (result: number) => data.bundle.answers.at(result);
  const judged = answered && rows.some((row) => texts(resultOf(table, row) ?? 0)?.judged);
  const key = answered ? of((r) => data.right(r).join(",")) : (row: number) => data.answers(questionOf(table, row)).join(",");
  return [
    ["benchmark", () => about.name],
    ["id", (row) => data.id(questionOf(table, row))],
    ["technique", of((r) => data.technique(r))],
    ["variant", of((r) => data.variant(r))],
    ["sample", of((r) => data.sample(r) || "")],
    ["outcome", of((r) => data.outcome(r))],
    ["extracted", of((r) => data.extracted(r).join(","))],
    ["answers", key],
    ...(about.pairs ? [["pair", (row) => data.pair(questionOf(table, row))], ["verdict", of((r) => verdictOf(data, r).join(", "))]] satisfies CsvColumn[] : []),
    ...dimensions,
    ["question", (row) => data.text(questionOf(table, row))],
    ["options", (row) => { const r = resultOf(table, row); return optionsText(r === undefined ? data.options(questionOf(table, row)) : data.shown(r)); }],
    ["response", of((r) => texts(r)?.response ?? "")],
    ["why", of((r) => texts(r)?.why ?? "")],
    ["seconds", of((r) => short(data.seconds(r) ?? NaN))],
    ["confidence", of((r) => short(data.at("results.confidence", r)))],
    ["marks", of((r) => MARKS.filter((_, place) => ((data.at("results.marks", r) >> place) & 1) === 1).map((mark) => mark.name).join(","))],
    ...(judged ? [["judge", of((r) => texts(r)?.judged?.judge ?? "")], ["judge said", of((r) => texts(r)?.judged?.replies.join("\n\n") ?? "")]] satisfies CsvColumn[] : []),
  ];
}

function ofUnits(table: Rows, { scale, pair, flips }: Compared, benchmark: string, dimensions: readonly CsvColumn[]): readonly CsvColumn[] {
  const { data, runs, cells } = table;
  const { head } = data.bundle;
  const names = head.runs.map((run) => run.name);
  const asked = (row: number) => listAt(table.questions, row);
  const inRun = (name: string, run: number): readonly CsvColumn[] => {
    const all = (cell: (result: number) => string, by?: string): CsvColumn[1] => (row) => joined(listAt(cells, row * runs + run).map(cell), by);
    return [
      [`value of ${name}`, (row) => short(scale.values[row * runs + run] ?? NaN)],
      [`outcome of ${name}`, all((r) => data.outcome(r))],
      [`read of ${name}`, all((r) => data.extracted(r).join(","))],
      [`response of ${name}`, all((r) => data.bundle.answers.at(r)?.response ?? "", "\n\n")],
    ];
  };
  return [
    ["benchmark", () => benchmark],
    ["technique", () => head.techniques[scale.view.technique] ?? ""],
    ["measure", () => scale.view.measure],
    ["unit", table.key],
    ["ids", (row) => asked(row).map((q) => data.id(q)).join("; ")],
    ...dimensions,
    ["question", (row) => [...new Set(asked(row).map((q) => data.text(q)))].join("\n\n")],
    ["answers", (row) => asked(row).map((q) => data.answers(q).join(",")).join("; ")],
    ["right in", (row) => scale.right[row] ?? 0],
    ["wrong in", (row) => scale.wrong[row] ?? 0],
    ["scored in", (row) => scale.scored[row] ?? 0],
    ["new run", () => names[pair.new] ?? ""],
    ["baseline run", () => names[pair.baseline] ?? ""],
    ["flip", (row) => FLIPS[flips[row] ?? FLIPS.length] ?? ""],
    ...names.flatMap(inRun),
  ];
}
