// Written by tools/bundle_types.py.

export const VERSION = 3;
/** Below this number of units, counts are shown in place of percentages. */
export const FEW = 10;
/** Starts of cells that spreadsheets run. */
export const FORMULA_STARTS: readonly string[] = ["=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20"];

/** The first block: everything but questions and results. */
export interface BundleHead {
  readonly version: number;
  readonly kind: "run" | "comparison" | "tree";
  readonly title: string;
  /** A few words beside the title, such as the model's name. */
  readonly about: string;
  readonly generator: string;
  readonly outcomes: readonly string[];
  readonly kinds: readonly string[];
  readonly runs: readonly RunHead[];
  readonly benchmarks: readonly BenchmarkHead[];
  readonly dimensions: readonly TagDimension[];
  readonly techniques: readonly string[];
  readonly variants: readonly string[];
  readonly finishes: readonly string[];
  readonly columns: readonly TypedArray[];
  /** The number of blocks `answers/K`. */
  readonly answers: number;
  /** Results in each of them but the last. */
  readonly chunk: number;
  /** The summary, from its top. */
  readonly sections: readonly PageSection[];
  readonly run: RunView | null;
  readonly comparison: ComparisonView | null;
  /**
   * Each run against the first of `runs`, or if they are not comparable, against the run from which it differs in one
   * setting.
   */
  readonly pairs?: readonly PairOfRuns[];
  /** Measures on which runs are compared unit by unit; none in the page of one run. */
  readonly scales?: readonly ScaleView[];
  /** Characters of a response in this bundle; longer ones are cut, and say so. 0: none is. */
  readonly cut?: number;
  /** A sentence if the texts of all results are left out, else ""; there are no blocks of answers then. */
  readonly left_out?: string;
}

/** The block `tables`: values to which columns point by place. */
export interface Tables {
  readonly words: readonly string[];
  /** Options of a question: letters, and places of their texts in `words`. */
  readonly options: readonly (readonly (readonly [string, number])[])[];
  /** Short lists of strings, such as the letters of an answer. */
  readonly lists: readonly (readonly string[])[];
  readonly images: readonly ImageHead[];
}

/** The texts of one result: an element of the blocks `answers/K`. */
export interface Answered {
  readonly response?: string | null;
  readonly usage?: Readonly<Record<string, number>> | null;
  readonly logprobs?: Readonly<Record<string, number>> | null;
  readonly judged?: JudgeSaid | null;
  readonly folded?: readonly Folded[] | null;
  /** Whether the reply was cut off outside of `response`, in an earlier turn or after the answer's line. */
  readonly cut?: boolean;
  /** The model that the server says it runs. */
  readonly served?: string;
  /** Characters of the response after those that are here (`BundleHead.cut`). */
  readonly left_out?: number;
  /** The reason of the score. */
  readonly why?: string;
}

/** The block `prompts`. `results.prompt` (i32) is a place in `prompts`, or -1 - R for `reasons[R]`. */
export interface SentPrompts {
  /** Texts in parts: 0 is the question, N the text of the Nth option as shown. */
  readonly texts: readonly (readonly (number | string)[])[];
  readonly prompts: readonly SentPrompt[];
  /** Why a prompt cannot be shown. */
  readonly reasons: readonly string[];
}

/** A run whose results the bundle holds. */
export interface RunHead {
  readonly name: string;
  readonly model: string;
  /** Of its answers (`run_folder.answers_digest`); "" if unknown. */
  readonly digest: string;
}

/** A benchmark of the questions. */
export interface BenchmarkHead {
  readonly name: string;
  readonly title: string;
  /** The measure by which branches are scored; "" without one. */
  readonly score: string;
  readonly definition: string;
  /** The command line of a similar run of this benchmark. */
  readonly command: string;
  /** Whether questions come in pairs. */
  readonly pairs: boolean;
  /** Places of its dimensions, in display order. */
  readonly dimensions: readonly number[];
  /** Low and high of the score by technique and branch: "" for all, "D.V" for value V of dimension D. */
  readonly intervals: Readonly<Record<string, Readonly<Record<string, readonly [number, number]>>>>;
}

/** A dimension of tags. Its values by question or result are the lists `tags/D` of the columns, D its place. */
export interface TagDimension {
  readonly name: string;
  readonly of: "questions" | "results";
  readonly values: readonly TagValue[];
}

/** Where a typed array lies in the block `columns`. */
export interface TypedArray {
  readonly name: string;
  readonly type: "u8" | "u16" | "u32" | "i32" | "f32" | "f64";
  /** The first byte, a multiple of 8. */
  readonly start: number;
  /** The number of elements. */
  readonly length: number;
}

/** A part of a page with a heading of its own; `id` is its fragment. */
export interface PageSection {
  readonly id: string;
  readonly title: string;
  readonly blocks: readonly (HeadlineBlock | TableBlock | MatrixBlock | PlotBlock | QuestionsBlock | TextBlock | NoticeBlock)[];
  readonly folded?: boolean;
  /** Whether it is part of the printed page. */
  readonly printed?: boolean;
}

/** The summary of a run. */
export interface RunView {
  /** One or more sentences about the place of the images. */
  readonly images: string;
  readonly verdict: VerdictView;
  readonly gate: GateView | null;
  readonly scorecard: ScorecardView;
  readonly failing: Failing;
  readonly slices: readonly SlicesView[];
  readonly method: MethodView;
}

/**
 * The comparison of runs; the first of `Head.runs` is the baseline.
 *
 * The columns `units/S.*` hold the units of the headline measures (`ScaleView`).
 */
export interface ComparisonView {
  readonly runs: readonly RunFacts[];
  /** One or more sentences about the place of the images. */
  readonly images: string;
  /** Below this number of units, counts are shown in place of percentages. */
  readonly few: number;
  readonly boards: readonly BoardView[];
  /**
   * Each run against the first of `Head.runs`, or if they are not comparable, against the run from which it differs
   * in one setting.
   */
  readonly pairs: readonly PairView[];
  readonly scales: readonly ScaleView[];
  readonly matrices: readonly SliceMatrix[];
  /** Runs that are not on the leaderboard. */
  readonly apart: readonly RunApart[];
  /** Number of tests in the family of headline measures: all differences whose p is adjusted together. */
  readonly tests?: number;
  /** Characters of a response in this bundle; longer ones are cut, and say so. 0: none is. */
  readonly cut?: number;
  /** A sentence if the texts of all results are left out, else ""; there are no blocks of answers then. */
  readonly left_out?: string;
  /** A sentence if a program drew images of the runs, else "". */
  readonly synthetic?: string;
  readonly costly?: CostlyRun | null;
}

/** Two runs that are compared, which are places in `BundleHead.runs`. */
export interface PairOfRuns {
  readonly new: number;
  readonly baseline: number;
}

/**
 * A headline measure of a benchmark and technique on which runs are compared unit by unit.
 *
 * The columns `units/S.*` hold its units, S its place in `BundleHead.scales`: the list `questions` (places of the
 * unit's questions: one, or those of a pair) and `values` (f64, units x runs in the order of `BundleHead.runs`, one
 * unit after the other; NaN where a run has no score). A unit flipped between two runs if both values are there and
 * differ.
 */
export interface ScaleView {
  /** A place in `BundleHead.benchmarks`. */
  readonly benchmark: number;
  /** A place in `BundleHead.techniques`. */
  readonly technique: number;
  readonly measure: string;
  /** For people. */
  readonly title: string;
  readonly unit: "item" | "pair";
  /** Whether less is better. */
  readonly lower: boolean;
  /** The number of questions that all runs have scored, in words; "" if the runs are not ranked by it. */
  readonly counted?: string;
}

/** One image of a question. */
export interface ImageHead {
  /** As results.jsonl has it; a pseudonym if the data are not declared public. */
  readonly name: string;
  /** `images/SHA256.png` (or .jpg, .webp): the name of a block of the page, else of a file beside it; "" without. */
  readonly source?: string;
  /** The reason for having no file. */
  readonly why?: string;
  /** Pixels of the image as a model may see it; 0 if it was not read. */
  readonly width?: number;
  readonly height?: number;
  /** Pixels of the file. */
  readonly drawn_width?: number;
  readonly drawn_height?: number;
  /** The window that was applied to a grey image, and the spacing of its pixels, in words; "" if there is none. */
  readonly shown?: string;
  /** Whether the file has all pixels unchanged; else it was shrunk or compressed. */
  readonly exact?: boolean;
}

/** What a judge said about an answer. */
export interface JudgeSaid {
  readonly judge: string;
  readonly task: string;
  readonly template: string;
  readonly replies: readonly string[];
  readonly seconds?: number | null;
  readonly usage?: Readonly<Record<string, number>> | null;
}

/** Texts beside an answer that are never scored, such as hidden thoughts. */
export interface Folded {
  readonly name: string;
  readonly texts: readonly string[];
}

/** A prompt. Prompts that differ by question and options alone stand once. */
export interface SentPrompt {
  /** Its place in `SentPrompts.texts`. */
  readonly text: number;
  /**
   * Whether its digest is the recorded one. If not, its template is the recorded one, and no digest of an image is
   * known.
   */
  readonly proved: boolean;
  readonly system: string;
  readonly order: string;
  /** In their order: places among the images of the question, and names of other images. */
  readonly images: readonly (number | string)[];
  /** Whether the images were replaced by grey ones. */
  readonly blank: boolean;
  /** The continuations whose probabilities are compared: letters or texts of the options, or `others`. */
  readonly compared: "" | "letters" | "texts" | "others";
  readonly others: readonly string[];
  /** Turns before the text: text and reply. */
  readonly turns: readonly (readonly [string, string])[];
  /** The user's further turns, each sent after a reply. */
  readonly then: readonly string[];
  readonly examples: readonly SentExample[];
  /** Limit of new tokens, 0 for none; null if the run records none. */
  readonly tokens: number | null;
}

/** One value of a dimension. */
export interface TagValue {
  readonly value: string;
  /** For people: as the benchmark prints it, else with spaces. */
  readonly title: string;
  /** Abbreviations of the paper, or "". */
  readonly short: string;
  /** The argument of `lexicon(...)` for this value; null if pytest cannot select by it. */
  readonly select: string | null;
}

/** The first thing to read: a state in words, lines about it, and results as sentences. */
export interface HeadlineBlock {
  readonly block: "headline";
  readonly title: string;
  readonly state?: "" | "good" | "part" | "bad" | "open";
  readonly lines?: readonly string[];
  readonly sentences?: readonly PageSentence[];
}

/** A table that can be sorted by its headings and saved as a file. */
export interface TableBlock {
  readonly block: "table";
  readonly title: string;
  readonly columns: readonly PageColumn[];
  readonly rows: readonly PageRow[];
  readonly notes?: readonly string[];
  /** The title of the column that it is sorted by at first, "-" before it for descending; "": as the rows stand. */
  readonly sort?: string;
  /** Rows of a group at first; 0: all. */
  readonly first?: number;
  readonly folded?: boolean;
  /** Blocks of a section with tabs stand in one place, of which the reader chooses: one name for each level. */
  readonly tabs?: readonly string[];
}

/** A number for each pair of a row and a column. */
export interface MatrixBlock {
  readonly block: "matrix";
  readonly title: string;
  /** What rows are. */
  readonly down: string;
  /** What columns are. */
  readonly across: string;
  readonly rows: readonly MatrixLabel[];
  readonly columns: readonly MatrixLabel[];
  readonly fields: readonly MatrixCell[];
  readonly notes?: readonly string[];
  readonly folded?: boolean;
  readonly tabs?: readonly string[];
}

/** Points over two axes. */
export interface PlotBlock {
  readonly block: "plot";
  readonly title: string;
  /** What the first axis shows. */
  readonly across: string;
  /** What the second axis shows. */
  readonly up: string;
  readonly x: Axis;
  readonly y: Axis;
  readonly series: readonly PlotSeries[];
  /** Whether a line marks equal values of both axes. */
  readonly diagonal?: boolean;
  readonly notes?: readonly string[];
  readonly folded?: boolean;
  readonly tabs?: readonly string[];
}

/** Choices of questions, each a link into the explorer. */
export interface QuestionsBlock {
  readonly block: "questions";
  readonly title: string;
  readonly chosen: readonly QuestionChoice[];
  /** What the counts are a part of; 0: they are not compared with a whole. */
  readonly total?: number;
  readonly notes?: readonly string[];
}

/** Sentences, named facts, or a text as it is (a command, a prompt). */
export interface TextBlock {
  readonly block: "text";
  readonly title?: string;
  readonly lines?: readonly string[];
  readonly facts?: readonly NamedFact[];
  readonly verbatim?: string;
  readonly folded?: boolean;
  readonly tabs?: readonly string[];
}

/** A sentence that limits the numbers or warns. */
export interface NoticeBlock {
  readonly block: "notice";
  readonly text: string;
  readonly state?: "" | "good" | "part" | "bad" | "open";
  readonly link?: string;
}

/** The first screen of a run. */
export interface VerdictView {
  readonly status: StatusView;
  /** A sentence if the model did not get the images, else "". */
  readonly control: string;
  readonly sentences: readonly SentenceView[];
  readonly warnings: readonly WarningView[];
  readonly notes: readonly string[];
  /** A sentence if a program drew images of the run, else "". */
  readonly synthetic?: string;
}

/** The verdict of the gate. */
export interface GateView {
  /** PASS, FAIL, INCONCLUSIVE, or "" if no verdict could be given. */
  readonly outcome: string;
  /** Baselines, and the compared part if not all. */
  readonly headline: string;
  /** The level of each one-sided bound in percent. */
  readonly level: string;
  /** The end of the axis of differences, the same to both sides of 0. */
  readonly reach: number;
  readonly blockers: readonly string[];
  readonly remarks: readonly string[];
  /** The rules that decide, the worst first. */
  readonly listed: readonly RuleView[];
  /** The guarded slices that pass. */
  readonly passed: readonly RuleView[];
  /** The slices that are not gated. */
  readonly small: readonly RuleView[];
  readonly flips: string;
  /** Lines about slices and units that moved, exploratory. */
  readonly moved: readonly string[];
}

/** The scorecard of a run. `blank`: the name of the run without the images, "" without one. */
export interface ScorecardView {
  readonly blank: string;
  /** What stood in place of the image in that run: "blank", "left out", "of another question". */
  readonly image: string;
  /** What outcomes count. */
  readonly counted: "items" | "answers";
  readonly parts: readonly ScorePart[];
  readonly tables: readonly TableView[];
}

/** Where a run fails. */
export interface Failing {
  readonly parts: readonly FailingPart[];
  readonly kinds: ErrorKindsView | null;
  /** Whether answers are wrong, and `medvqa classify` has not sorted them. */
  readonly unclassified: boolean;
}

/** The slices of one benchmark, as asked by one technique, and the drawings beside them. */
export interface SlicesView {
  readonly benchmark: string;
  readonly technique: string;
  readonly title: string;
  readonly measures: readonly SliceMeasure[];
  readonly groups: readonly SliceGroup[];
  readonly heat: HeatMap | null;
  readonly abilities: Abilities | null;
  readonly spreads: readonly SpreadView[];
  readonly calibrations: readonly Calibration[];
  readonly published: PublishedView | null;
}

/** How a run was made. */
export interface MethodView {
  /** The set-up in one line. */
  readonly line: string;
  readonly groups: readonly FactGroup[];
}

/** The set-up of a run, in the order of `Head.runs`. */
export interface RunFacts {
  readonly techniques: string;
  /** The images that the model saw: "original", or the ablation. */
  readonly images: string;
  readonly answers: number;
  readonly started: string;
  /** What is missing of the run, such as "unfinished: 19 of 307 questions have a result", and the selected part. */
  readonly limits: readonly string[];
  /** Answers that were refused, abstained or could not be read; they count as wrong. */
  readonly invalid: number;
  /** Answers cut off at a token limit. */
  readonly truncated: number;
}

/** Runs by one headline measure, over the questions that all runs have scored. */
export interface BoardView {
  readonly benchmark: string;
  readonly technique: string;
  readonly measure: string;
  readonly title: string;
  readonly counted: string;
  readonly lower: boolean;
  readonly sentence: string;
  readonly rows: readonly BoardRow[];
  /** All pairs of the board's runs. */
  readonly pairs: readonly BoardPair[];
  /** The run from which the differences of rows are taken: the first of `Head.runs`, unless it is not on the board. */
  readonly first?: number;
}

/** The comparison of two runs, which are places in `Head.runs`. If there are `refusals`, there are no parts. */
export interface PairView {
  readonly new: number;
  readonly baseline: number;
  /** The level of the two-sided intervals of differences. */
  readonly level: number;
  readonly refusals: readonly string[];
  readonly notes: readonly string[];
  /** The one setting in which the runs differ, or "". */
  readonly differs: string;
  /** The meaning of new minus baseline if one setting differs, or "". */
  readonly effect: string;
  /** Headings of the values of the baseline and of the new run. */
  readonly headings: readonly [string, string];
  readonly parts: readonly PairedPartView[];
  /** The option that sets the one difference, such as "ablate", "prompt" or "shots"; "" without one. */
  readonly setting?: string;
  /** The question that this difference answers, such as "Does it look at the picture?"; "" without one. */
  readonly question?: string;
}

/** A measure by run and slice: one dimension. */
export interface SliceMatrix {
  /** A place in `ComparisonView.scales`. */
  readonly scale: number;
  readonly dimension: string;
  readonly title: string;
  /** Whether the dimension was fixed before the runs; else its slices are exploratory. */
  readonly fixed: boolean;
  readonly rows: readonly SliceMatrixRow[];
}

/** A run that is not on the leaderboard; `run` is a place in `Head.runs`. */
export interface RunApart {
  readonly run: number;
  readonly why: readonly string[];
}

/** A run that costs many questions: without its scores, the others share more. `run` is a place in `Head.runs`. */
export interface CostlyRun {
  readonly run: number;
  /** How many questions count, and how many would without the run, for each benchmark that it costs questions. */
  readonly lines: readonly string[];
  /** The leaderboard without the run. */
  readonly boards: readonly BoardView[];
}

/** A solved example within a prompt. */
export interface SentExample {
  /** Its place in `SentPrompts.texts`. */
  readonly text: number;
  readonly answer: string;
  readonly end: string;
  /** The question that fills the text, by its place in the columns; -1 if the text is written out. */
  readonly question: number;
  /** Names of its images. */
  readonly images: readonly string[];
}

/** A result in words. */
export interface PageSentence {
  readonly title: string;
  readonly words: readonly PageWord[];
  readonly state?: "" | "good" | "part" | "bad" | "open";
  /** The definition of the measure, if the words do not say it. */
  readonly meaning?: string;
  /** The measure of the sentence, drawn beside it. */
  readonly figure?: FigureCell | null;
  readonly axis?: Axis | null;
  readonly link?: string;
}

/** A column. One of figures has the headings of what is drawn beside a value; "" if it is not. */
export interface PageColumn {
  readonly title: string;
  readonly kind?: "text" | "number" | "figure" | "chance";
  /** Its name in the file that the page saves, if that is not its title. */
  readonly name?: string;
  readonly better?: "" | "higher" | "lower";
  readonly interval?: string;
  readonly units?: string;
  /** The axis of its values and intervals, which all rows share. */
  readonly axis?: Axis | null;
}

/** A row: a cell for each column. */
export interface PageRow {
  readonly cells: readonly (string | number | FigureCell | null)[];
  /** Links by the place of the cell that leads there. */
  readonly links?: Readonly<Record<string, string>>;
  /** The heading under which the row stands. */
  readonly group?: string;
  /** Small words beside the first cell. */
  readonly note?: string;
}

/** A row or a column of a matrix. */
export interface MatrixLabel {
  readonly title: string;
  readonly short?: string;
  readonly link?: string;
  readonly note?: string;
}

/** A field of a matrix. */
export interface MatrixCell {
  readonly row: number;
  readonly column: number;
  readonly figure: FigureCell;
  /** The strength of its colour, 0 to 5; `figure.tone` is its hue. */
  readonly step?: number;
  readonly link?: string;
}

/** The axis of a measure, in its own numbers: fractions if it is a percentage. */
export interface Axis {
  readonly low: number;
  readonly high: number;
  readonly ticks: readonly Tick[];
}

/** Points of one kind. */
export interface PlotSeries {
  readonly title: string;
  readonly points: readonly PlotPoint[];
  readonly drawn?: "points" | "line" | "bars";
}

/** A number of questions or answers, and the link that shows them. */
export interface QuestionChoice {
  readonly title: string;
  readonly count: number;
  readonly link?: string;
}

/** A name and what is known of it. */
export interface NamedFact {
  readonly name: string;
  readonly value: string;
  readonly link?: string;
}

/**
 * Whether all selected questions have a result and a score, and which part of the data was selected.
 *
 * `failed`: some results are errors; `lost`: so many of a benchmark's that its numbers tell little.
 */
export interface StatusView {
  readonly state: "complete" | "part" | "failed" | "lost" | "unfinished" | "unknown";
  readonly title: string;
  readonly lines: readonly string[];
}

/** The result of one benchmark and technique. */
export interface SentenceView {
  readonly title: string;
  readonly benchmark: string;
  readonly technique: string;
  readonly words: readonly WordView[];
  /** The definition of the measure if the words do not say it, else "". */
  readonly meaning: string;
  /** Where the interval lies against answers that do not look; "" if that is not known. */
  readonly standing: "above" | "below" | "open" | "";
  /** The measure of the sentence; null if there is no number. */
  readonly cell: Cell | null;
}

/** A sentence that limits the numbers; `outcomes`: those of its questions, [] if outcomes do not tell them. */
export interface WarningView {
  readonly text: string;
  readonly benchmark: string;
  readonly technique: string;
  readonly outcomes: readonly ("correct" | "partial" | "wrong" | "refused" | "abstained" | "unparsed" | "unscored" | "error")[];
}

/** A rule of the gate. */
export interface RuleView {
  /** The rule's name in metrics.json. */
  readonly rule: string;
  /** The name, marked if less of its measure is better. */
  readonly name: string;
  readonly outcome: string;
  readonly why: string;
  readonly numbers: readonly RuleNumber[];
  /** Whether the bounds are those of the value, not of a difference. */
  readonly is_floor: boolean;
  /** The margin on an axis of differences, on the side of losses. */
  readonly line: number | null;
}

/** One benchmark and technique, or the largest values over techniques (without outcomes). */
export interface ScorePart {
  readonly title: string;
  readonly benchmark: string;
  readonly technique: string;
  /** The selected part of the benchmark, "" for the whole. */
  readonly selected: string;
  readonly rows: readonly ScoreRow[];
  readonly failed: readonly FailedRow[];
  /** The key of the outcomes in metrics.json. */
  readonly key: string;
  readonly total: number;
  readonly outcomes: readonly OutcomeCount[];
}

/** A table of texts; `right`: the places of columns of numbers. */
export interface TableView {
  readonly title: string;
  readonly columns: readonly string[];
  readonly rows: readonly (readonly string[])[];
  readonly right: readonly number[];
}

/** Where a run fails in one benchmark, asked by one technique. */
export interface FailingPart {
  readonly benchmark: string;
  /** For links: "" if the run has one technique. */
  readonly technique: string;
  readonly title: string;
  readonly count: number;
  readonly unit: string;
  /** Numbers of answers that are not correct, by outcome. */
  readonly outcomes: readonly AnswerCount[];
  /** Errors by their reason, in which # stands for numbers, the most frequent first; then all further ones. */
  readonly errors: readonly AnswerCount[];
  readonly worst: readonly WorstSlices[];
  readonly matrices: readonly OptionMatrix[];
  readonly positions: Positions | null;
}

/** The kinds of a run's wrong answers, sentences about them, and the judge's agreement with people. */
export interface ErrorKindsView {
  readonly tables: readonly ErrorKindTable[];
  readonly lines: readonly string[];
  readonly agreement: TextRows | null;
}

/** A headline measure: a column of the slices. */
export interface SliceMeasure {
  readonly name: string;
  readonly title: string;
  /** The unit of `n` in slices, a plural. */
  readonly unit: string;
  readonly percent: boolean;
  readonly better: "higher" | "lower";
  readonly axis: Axis;
  /** The measure over the whole benchmark. */
  readonly whole: Cell;
}

/** The values of one dimension. */
export interface SliceGroup {
  readonly dimension: string;
  readonly title: string;
  /** Whether the order of the rows means something, as that of the prompts of a run. */
  readonly ordered: boolean;
  readonly rows: readonly SliceRow[];
}

/** A measure over two dimensions at once. */
export interface HeatMap {
  readonly measure: string;
  readonly title: string;
  readonly better: "higher" | "lower";
  readonly unit: string;
  readonly down: string;
  readonly across: string;
  readonly rows: readonly HeatLabel[];
  readonly columns: readonly HeatLabel[];
  readonly fields: readonly HeatField[];
  readonly whole: Cell;
  /** The number of fields with an interval: each is judged at 1 - 0.05 / `tested`. */
  readonly tested: number;
}

/** The abilities of MedLesionVQA in the order of its paper, which draws them as a radar. */
export interface Abilities {
  readonly measure: string;
  readonly people: readonly string[];
  readonly source: string;
  readonly rows: readonly AbilityRow[];
}

/** The spread of a measure over prompts and samples, in its own numbers. */
export interface SpreadView {
  readonly name: string;
  readonly title: string;
  readonly percent: boolean;
  readonly mean: number | null;
  readonly mean_shown: string;
  /** The heading of the mean. */
  readonly heading: string;
  readonly axis: Axis;
  readonly lines: readonly SpreadLine[];
  readonly deviations: readonly SpreadDeviation[];
}

/** Confidence against the share of correct answers of one technique. */
export interface Calibration {
  readonly technique: string;
  /** The expected calibration error. */
  readonly error: number;
  readonly error_shown: string;
  readonly n: number;
  readonly bins: readonly ReliabilityBin[];
}

/** Rows of a paper with the run's own among them. Their setting is another one. */
export interface PublishedView {
  readonly source: string;
  readonly note: string;
  readonly columns: readonly string[];
  readonly rows: readonly PublishedRow[];
}

/** Facts with a heading. */
export interface FactGroup {
  readonly title: string;
  readonly facts: readonly Fact[];
  readonly note?: string;
}

/** A run in a ranking. */
export interface BoardRow {
  readonly run: number;
  readonly rank: number;
  readonly best: number;
  readonly worst: number;
  readonly value: number | null;
  readonly low: number | null;
  readonly high: number | null;
  readonly shown: string;
  readonly interval: string;
  readonly differs: string;
  /** The difference from the first run, null for that run itself. */
  readonly against: ComparedCell | null;
}

/** The difference between two runs of a board, `new` minus `baseline`, which are places in `Head.runs`. */
export interface BoardPair {
  readonly new: number;
  readonly baseline: number;
  readonly difference: number | null;
  readonly low: number | null;
  readonly high: number | null;
  /** Two-sided p-value after Holm over the comparison's family (`ComparisonView.tests`). */
  readonly adjusted: number | null;
  readonly sure: "better" | "worse" | "";
  /** The difference in points. */
  readonly shown: string;
  readonly bounds: string;
}

/** One benchmark and technique of a comparison. */
export interface PairedPartView {
  readonly benchmark: string;
  readonly technique: string;
  readonly title: string;
  /** The number of questions that both runs have scored. */
  readonly counted: string;
  readonly warnings: readonly string[];
  readonly sentence: ComparedSentence;
  /** The headline measures. */
  readonly rows: readonly ComparedCell[];
  /** The axis of the headline measures runs from -`end` to `end`. */
  readonly end: number;
  readonly slices: readonly ComparedMeasure[];
}

/** One value of a dimension, with a cell for each run of the board, in the board's order of runs. */
export interface SliceMatrixRow {
  readonly value: string;
  readonly title: string;
  readonly short: string;
  readonly cells: readonly SliceMatrixCell[];
}

/** Some words of a sentence, or a number of it. */
export interface PageWord {
  readonly text: string;
  /** Which number it is, such as "value", "low" or "random"; "" for plain words. */
  readonly of?: string;
  readonly value?: number | null;
}

/** A `Figure` in numbers, fractions if it is a percentage, and as it is shown. */
export interface FigureCell {
  readonly value: number | null;
  readonly shown: string;
  readonly low?: number | null;
  readonly high?: number | null;
  readonly n?: number | null;
  /** The interval, or the reason for its absence; "" if neither is known. */
  readonly interval?: string;
  /** The denominator with its unit, such as "36 pairs". */
  readonly units?: string;
  /** Whether there are too few units for a percentage: it stands last, however values are sorted. */
  readonly few?: boolean;
  readonly tone?: "" | "better" | "worse";
  /** Values to draw beside it, such as that of chance (`random`), by name. */
  readonly levels?: Readonly<Record<string, number>>;
  /** The measure as metrics.json names it: benchmark, technique, measure, slice. */
  readonly of?: Readonly<Record<string, string>>;
}

/** A labelled place of an axis. */
export interface Tick {
  readonly at: number;
  readonly label: string;
}

/** A point, and its interval on the second axis. */
export interface PlotPoint {
  readonly x: number;
  readonly y: number | null;
  readonly low?: number | null;
  readonly high?: number | null;
  /** What it is, with its numbers as they are shown. */
  readonly label?: string;
  readonly link?: string;
}

/** Words of a sentence, or a number of it. */
export interface WordView {
  readonly text: string;
  /** The field, reference or gap that the number is; "" for plain words. */
  readonly of?: "" | "value" | "low" | "high" | "n" | "random" | "majority" | "image_blind" | "blank" | "gap" | "gap_low" | "gap_high";
  readonly value?: number | null;
}

/** A measure. Numbers are those of metrics.json, fractions if `percent`. */
export interface Cell {
  readonly benchmark: string;
  readonly technique: string;
  readonly name: string;
  readonly slice: Readonly<Record<string, string>>;
  readonly value: number | null;
  readonly low: number | null;
  readonly high: number | null;
  readonly n: number;
  readonly unit: string;
  readonly percent: boolean;
  /** Whether there are too few units for a percentage. */
  readonly few: boolean;
  /** The value in percent, its counts if there are few units, or a number that is no percentage. */
  readonly shown: string;
  /** The interval, or the reason for its absence; "" if neither is known. */
  readonly interval: string;
  /** Values of models that do not look: `random`, `majority`, `image_blind`. */
  readonly references: Readonly<Record<string, number>>;
}

/** A number of a rule: its field in metrics.json, its value and its text. */
export interface RuleNumber {
  readonly field: string;
  readonly value: number;
  readonly shown: string;
}

/** One measure over all questions. */
export interface ScoreRow {
  readonly cell: Cell;
  readonly label: string;
  readonly meaning: string;
  readonly better: "higher" | "lower";
  /** The number of units: "36 pairs". */
  readonly counted: string;
  readonly gap?: GapView | null;
}

/** A metric that could not be computed. */
export interface FailedRow {
  readonly name: string;
  readonly why: string;
}

/** The number of results with this outcome. */
export interface OutcomeCount {
  readonly outcome: "correct" | "partial" | "wrong" | "refused" | "abstained" | "unparsed" | "unscored" | "error";
  readonly count: number;
}

/** A number of answers, and the query that selects them; "" without one. */
export interface AnswerCount {
  readonly label: string;
  readonly count: number;
  readonly query: string;
}

/** The slices of a benchmark by one measure, the worst first. */
export interface WorstSlices {
  readonly measure: string;
  readonly better: "higher" | "lower";
  readonly overall: Cell;
  /** The worst slices with an interval, by its bound on the better side. Each is worse than the overall value. */
  readonly rows: readonly WorstSlice[];
  /** The number of slices with an interval. */
  readonly ranked: number;
  /** The number of slices whose whole interval is worse than the value over all questions. */
  readonly beyond: number;
  /** Slices without an interval, in the order of the benchmark. */
  readonly apart: readonly WorstSlice[];
  /** The number of slices without an interval. */
  readonly unranked: number;
  readonly notes: readonly string[];
}

/** Answers by correct option (rows) and option read (columns). */
export interface OptionMatrix {
  readonly by: "position" | "text";
  readonly columns: readonly MatrixColumn[];
  readonly rows: readonly MatrixRow[];
  readonly count: number;
  readonly unit: string;
  /** Answers that the matrix does not hold. */
  readonly left_out: readonly AnswerCount[];
  /** The number of further options that share one row and one column. */
  readonly folded: number;
}

/** How often each shown position is correct, and how often it is chosen. */
export interface Positions {
  readonly rows: readonly PositionRow[];
  readonly unit: string;
  /** The number of further positions that are not shown. */
  readonly folded: number;
}

/** Shares of kinds of errors by one dimension, or over everything (dimension ""). */
export interface ErrorKindTable {
  readonly dimension: string;
  readonly rows: readonly ErrorKindRow[];
  /** The number of further rows, which errors.csv has. */
  readonly folded: number;
}

/** A table of texts; `right` holds the places of right-aligned columns. */
export interface TextRows {
  readonly columns: readonly string[];
  readonly rows: readonly (readonly string[])[];
  readonly right: readonly number[];
}

/** One value of a dimension. */
export interface SliceRow {
  readonly value: string;
  readonly title: string;
  /** Abbreviations of the paper, or "". */
  readonly short: string;
  /** The link to its questions. */
  readonly href: string;
  /** Its measures, in the order of the columns. */
  readonly cells: readonly (Cell | null)[];
}

/** A value of one of a map's dimensions. */
export interface HeatLabel {
  readonly title: string;
  readonly short: string;
}

/** A field of a map: a measure over the questions with two values. */
export interface HeatField {
  readonly row: number;
  readonly column: number;
  readonly value: number;
  readonly low: number | null;
  readonly high: number | null;
  readonly n: number;
  /** Whole percent, or counts if there are few units. */
  readonly short: string;
  /** As in a table of slices. */
  readonly shown: string;
  /** The interval, or the reason for its absence; "" if neither is known. */
  readonly interval: string;
  readonly few: boolean;
  readonly href: string;
  /** Where the field surely lies, beside the whole benchmark; "" if that is not sure. */
  readonly tone: "" | "above" | "below";
  /** How far it surely lies away: 1 to 3; 0 without a tone. */
  readonly step: number;
}

/** One ability of the run, beside people's scores in it. */
export interface AbilityRow {
  readonly title: string;
  readonly href: string;
  readonly cell: Cell | null;
  readonly people: readonly Published[];
}

/** A measure by one prompt: a value for each sample, and their mean. */
export interface SpreadLine {
  readonly prompt: string;
  readonly samples: readonly (number | null)[];
  readonly mean: number | null;
  readonly shown: string;
}

/** A standard deviation over prompts or samples. */
export interface SpreadDeviation {
  readonly name: string;
  readonly heading: string;
  readonly value: number | null;
  readonly shown: string;
}

/** Answers of similar confidence. */
export interface ReliabilityBin {
  readonly start: number;
  readonly end: number;
  /** The bounds of the bin in words. */
  readonly range: string;
  /** The mean confidence. */
  readonly confidence: number;
  readonly confidence_shown: string;
  /** The share of correct answers; `n` counts answers. */
  readonly correct: Cell;
  /** Whether the mean confidence lies outside the interval of the share of correct answers, corrected for all bins. */
  readonly verdict: "" | "overconfident" | "underconfident";
}

/** A row of a paper's table; the run's own has cells in place of published numbers. */
export interface PublishedRow {
  readonly name: string;
  readonly values: readonly Published[];
  readonly cells?: readonly (Cell | null)[] | null;
}

/** A named value. */
export interface Fact {
  readonly name: string;
  readonly value: string;
  /** Whether each character counts, as in digests and templates. */
  readonly exact?: boolean;
}

/** One measure of two runs, over all questions or over a slice. Numbers are those of `medvqa compare --json`. */
export interface ComparedCell {
  readonly benchmark: string;
  readonly technique: string;
  readonly name: string;
  readonly slice: Readonly<Record<string, string>>;
  /** The measure, or the value of the slice, for people. */
  readonly title: string;
  /** Abbreviations of the slice's value, or "". */
  readonly short: string;
  readonly baseline: number | null;
  readonly new: number | null;
  readonly difference: number | null;
  /** Lower end of the two-sided 95 % interval of new minus baseline. */
  readonly low: number | null;
  readonly high: number | null;
  /** Two-sided p-value after Holm. */
  readonly adjusted: number | null;
  readonly units: number;
  readonly groups: number;
  /** Units that are better in the new run. */
  readonly gained: number;
  readonly lost: number;
  readonly discordant_groups: number;
  readonly detectable: number | null;
  readonly mcnemar: number | null;
  /** Whether less is better. */
  readonly lower: boolean;
  readonly percent: boolean;
  /** Whether there are too few units for percentages. */
  readonly few: boolean;
  /** The direction of a difference that is shown. */
  readonly sure: "better" | "worse" | "";
  /** Whether flips of this measure are part of the bundle. */
  readonly flips: boolean;
  readonly texts: ComparedTexts;
}

/** What the rules of a comparison allow to say about a benchmark: its first headline measure in words. */
export interface ComparedSentence {
  readonly words: readonly ComparedWord[];
  readonly way: "better" | "worse" | "";
  /** The other headline measures, or "". */
  readonly more: string;
}

/** The slices of one headline measure, on one axis from -`end` to `end`. */
export interface ComparedMeasure {
  readonly measure: string;
  readonly lower: boolean;
  readonly end: number;
  readonly tables: readonly SlicedTable[];
}

/** One run's value of a measure over one slice. */
export interface SliceMatrixCell {
  readonly run: number;
  readonly value: number | null;
  readonly low: number | null;
  readonly high: number | null;
  /** Number of units. */
  readonly n: number;
  readonly shown: string;
  readonly interval: string;
  /** Whether there are too few units for percentages. */
  readonly few: boolean;
  /** From the first run of the board, null for that run itself. */
  readonly difference?: number | null;
  readonly difference_shown?: string;
  readonly adjusted?: number | null;
  readonly sure?: "better" | "worse" | "";
}

/** The measure without the image, and the gain of the image, as metrics.json has them under `blank`. */
export interface GapView {
  readonly blank: number | null;
  readonly value: number | null;
  readonly low: number | null;
  readonly high: number | null;
  /** Whether the whole interval lies on the better side of 0, on the worse one, or neither. */
  readonly helps: "yes" | "no" | "open";
  readonly blank_shown: string;
  readonly value_shown: string;
  readonly interval: string;
  /** The part of the questions that both runs have scored, "60 of 72 questions"; "" for all. */
  readonly shared: string;
}

/** One slice of a benchmark, by one measure. */
export interface WorstSlice {
  readonly cell: Cell;
  readonly dimension: string;
  /** The slice's value, for people. */
  readonly title: string;
  /** Abbreviations of the paper, or "". */
  readonly short: string;
  readonly query: string;
  /** Whether the whole interval is worse than the value over all questions. */
  readonly beyond: boolean;
  /** Names of further slices with exactly these questions, which are not listed again. */
  readonly same: readonly string[];
}

/** What was read from answers: an option, or an outcome without one. Outcomes that did not occur have none. */
export interface MatrixColumn {
  readonly label: string;
  readonly option: boolean;
  readonly count: number;
}

/** The answers to questions with one correct option. */
export interface MatrixRow {
  readonly label: string;
  /** The place of the column of the same option; -1 if there is none. */
  readonly right: number;
  readonly count: number;
  readonly fields: readonly MatrixField[];
  readonly query: string;
}

/** Answers to choice questions that offer one position; `hits`: it was chosen and is correct. */
export interface PositionRow {
  readonly letter: string;
  readonly offered: number;
  readonly chosen: number;
  readonly correct: number;
  readonly hits: number;
  /** Whether too few questions offer it for percentages. */
  readonly few: boolean;
  /** The query for the answers that chose it. */
  readonly read: string;
  /** The query for the answers to questions in which it is correct. */
  readonly key: string;
}

/** The share of one kind of error; `place`: the value of a dimension, or "". */
export interface ErrorKindRow {
  readonly cell: Cell;
  readonly count: number;
  readonly place: string;
  readonly query: string;
  /** How many of how many wrong answers were classified. */
  readonly classified: string;
}

/** A number of a paper, and how it is shown. */
export interface Published {
  readonly value: number | null;
  readonly shown: string;
}

/** The numbers of a `ComparedCell` as they are shown. */
export interface ComparedTexts {
  readonly baseline: string;
  readonly new: string;
  readonly difference: string;
  /** The 95 % interval, or the reason for its absence. */
  readonly bounds: string;
  readonly units: string;
  readonly adjusted: string;
  readonly detectable: string;
  readonly mcnemar: string;
}

/** Some words of a sentence, or a number. */
export interface ComparedWord {
  readonly text: string;
  /** The field of the first headline measure that has the number; "" for plain words. */
  readonly number: string;
}

/** One measure over the values of one dimension, the largest loss first. */
export interface SlicedTable {
  readonly measure: string;
  readonly dimension: string;
  /** Whether the dimension was fixed before the runs; else its slices are exploratory. */
  readonly fixed: boolean;
  readonly rows: readonly ComparedCell[];
}

/** One field of a confusion matrix. */
export interface MatrixField {
  readonly count: number;
  /** The shade, 1 to 5 by the share of its row; 0 if too few questions are in the field. */
  readonly level: number;
  /** Percent of its row; "" if the row has too few questions. */
  readonly share: string;
  readonly query: string;
}
