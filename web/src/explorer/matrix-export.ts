// The listed units as a table for spreadsheets: a row for each unit, columns for each run.
import { csv } from "../csv";
import { FLIPS, type MatrixTable } from "../matrix";
import type { Page } from "../page";

/** The rows of a selection as CSV; the texts of answers must have been read. */
export function exportedUnits(page: Page, { scale, pair, flips }: MatrixTable, rows: Uint32Array): string {
  const { data, view, runs, values } = scale;
  const { head } = page;
  const about = head.benchmarks[view.benchmark];
  const dimensions = about?.dimensions ?? [];
  const names = head.runs.map((run) => run.name);
  const joined = (texts: readonly string[], by = "; "): string => texts.filter((text) => text !== "").join(by);
  const tags = (unit: number, d: number): string => {
    const found = data.dimension(d).of === "questions"
      ? scale.questionsOf(unit).flatMap((q) => data.tags(d, q, null))
      : names.flatMap((_, run) => scale.resultsOf(unit, run)).flatMap((r) => data.tags(d, data.question(r), r));
    return [...new Set(found)].map((value) => data.dimension(d).values[value]?.value ?? "").join(",");
  };
  const inRun = (unit: number, run: number): readonly (string | number)[] => {
    const results = scale.resultsOf(unit, run);
    const value = values[unit * runs + run] ?? NaN;
    return [
      Number.isNaN(value) ? "" : value,
      joined(results.map((r) => data.outcome(r))),
      joined(results.map((r) => data.extracted(r).join(","))),
      joined(results.map((r) => data.bundle.answers.at(r)?.response ?? ""), "\n\n"),
    ];
  };
  const heading = [
    "benchmark", "technique", "measure", "unit", "ids", ...dimensions.map((d) => data.dimension(d).name), "question", "answers",
    "right in", "wrong in", "scored in", "new run", "baseline run", "flip",
    ...names.flatMap((name) => ["value", "outcome", "read", "response"].map((of) => `${of} of ${name}`)),
  ];
  const lines = Array.from(rows, (unit) => {
    const questions = scale.questionsOf(unit);
    return [
      about?.name ?? "", head.techniques[view.technique] ?? "", view.measure, scale.units[unit] ?? "",
      questions.map((q) => data.id(q)).join("; "), ...dimensions.map((d) => tags(unit, d)),
      [...new Set(questions.map((q) => data.text(q)))].join("\n\n"), questions.map((q) => data.answers(q).join(",")).join("; "),
      scale.right[unit] ?? 0, scale.wrong[unit] ?? 0, scale.scored[unit] ?? 0, names[pair.new] ?? "", names[pair.baseline] ?? "", FLIPS[flips[unit] ?? 3] ?? "",
      ...names.flatMap((_, run) => inRun(unit, run)),
    ];
  });
  return csv([heading, ...lines]);
}
