// The listed answers as a table for spreadsheets.
/* eslint-disable @typescript-eslint/non-nullable-type-assertion-style */
import { csv } from "../csv";
import { MARKS } from "../table";
import { pairsOf, verdictOf, type Found, type Source } from "./selecting";

type CsvCell = string | number | null;

/** A number of a column of 32 bits, without the digits that it does not hold. */
const short = (number: number): CsvCell => (Number.isNaN(number) ? "" : Number(number.toPrecision(6)));

/** Letters and texts as a JSON object; "" without options. */
const optionsText = (options: readonly (readonly [string, string])[]): string => (options.length === 0 ? "" : JSON.stringify(Object.fromEntries(options)));

/** The rows of a selection as CSV; the texts of answers must have been read. */
export function exported(source: Source, found: Found): string {
  const { data } = source;
  const { table } = found;
  const { result } = table;
  const dimensions = found.about.dimensions;
  const rows = found.layout === "pairs" ? Array.from(found.rows).flatMap((row) => [...pairsOf(source, table).members(row)]) : Array.from(found.rows);
  const texts = rows.map((row) => (result === null ? undefined : data.bundle.answers.at(result[row] as number)));
  const judged = texts.some((answered) => answered?.judged);
  const pairs = found.about.pairs;
  const head = [
    ...["benchmark", "id", "technique", "variant", "sample", "outcome", "extracted", "answers"],
    ...(pairs ? ["pair", "verdict"] : []),
    ...dimensions.map((d) => data.dimension(d).name),
    ...["question", "options", "response", "why", "seconds", "confidence", "marks"],
    ...(judged ? ["judge", "judge said"] : []),
  ];
  const marks = result === null ? null : data.column("results.marks");
  const confidence = result === null ? null : data.column("results.confidence");
  const lines = rows.map((row, i): readonly CsvCell[] => {
    const q = table.question[row] as number;
    const r = result === null ? null : (result[row] as number);
    const { item, technique, variant, sample } = source.key(table, row);
    const answered = texts[i];
    const sure = r === null ? NaN : (confidence?.[r] ?? NaN);
    return [
      found.about.name,
      item,
      technique,
      variant,
      sample || "",
      r === null ? "" : data.outcome(r),
      r === null ? "" : data.extracted(r).join(","),
      (r === null ? data.answers(q) : data.right(r)).join(","),
      ...(pairs ? [data.pair(q), r === null ? "" : verdictOf(source, table, row).join(", ")] : []),
      ...dimensions.map((d) => data.tags(d, q, r).map((value) => data.dimension(d).values[value]?.value ?? "").join(",")),
      data.text(q),
      optionsText(r === null ? data.options(q) : data.shown(r)),
      answered?.response ?? "",
      r === null ? "" : data.why(r),
      r === null ? "" : short(data.seconds(r) ?? NaN),
      short(sure),
      r === null ? "" : MARKS.filter((_, place) => (((marks?.[r] ?? 0) >> place) & 1) === 1).map((mark) => mark.name).join(","),
      ...(judged ? [answered?.judged?.judge ?? "", answered?.judged?.replies.join("\n\n") ?? ""] : []),
    ];
  });
  return csv([head, ...lines]);
}
