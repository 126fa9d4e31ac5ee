// Written by tools/bundle_types.py.

export const VERSION = 3;
/** Below this number of units, counts are shown in place of percentages. */
export const FEW = 10;
/** Starts of cells that spreadsheets run. */
export const FORMULA_STARTS: readonly string[] = ["=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20"];

/** The first block: everything but questions and results. */
export interface BundleHead {
  readonly version: number;
  /** Trees have questions and no summary, histories a summary and no questions. */
  readonly kind: "run" | "comparison" | "tree" | "history";
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

/** Values to which columns point by place. Field NAME is the block `tables/NAME`: a reader takes those it needs. */
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

/** The page of one reader. */
export interface ReadingHead {
  readonly version: number;
  readonly kind: "reading";
  readonly title: string;
  readonly generator: string;
  readonly task: "answer" | "review";
  /**
   * The first line of the file that the page exports (`readings.reading_file.ReaderStudy`); its `reader` names the
   * reader.
   */
  readonly study: Readonly<Record<string, unknown>>;
  readonly instructions: string;
  readonly tasks: readonly ReadingTask[];
  /** Whether the reader says how sure the answer is, from 1 to 5. */
  readonly confidence?: boolean;
  readonly arm?: "" | "without" | "with";
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
  /** The number of solved examples that are not kept, since their data are not declared public. */
  readonly withheld: number;
  /** Limit of new tokens, 0 for none; null if the run records none. */
  readonly tokens: number | null;
}

/** One question, in the reader's own order. */
export interface ReadingTask {
  readonly benchmark: string;
  /** A code in place of the id (`readings.study_plan.StudyRecord`): ids tell keys and pairs. */
  readonly item: string;
  readonly kind: "single_choice" | "multiple_response" | "judgment" | "fill_in_the_blank" | "short_answer";
  readonly question: string;
  /** Letters and texts, as in the data set. */
  readonly options: readonly (readonly [string, string])[];
  readonly images: readonly ImageHead[];
  /** From 1; a reader may stop after each. */
  readonly sitting: number;
  /** None in a study: readers are blind. */
  readonly checked?: CheckedKey | null;
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

/** A solved example within a prompt. */
export interface SentExample {
  /** Its place in `SentPrompts.texts`. */
  readonly text: number;
  readonly answer: string;
  readonly end: string;
  /** Names of its images. */
  readonly images: readonly string[];
}

/** What an expert checks beside the question: the key, and the opinions before a final decision. */
export interface CheckedKey {
  readonly answers: readonly string[];
  /** Codes are left out: "Reviewer 1: correct, 4 of 10: the reason". */
  readonly opinions?: readonly string[];
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
  /** Whether it has a frame, as fields of the right option have: a note of the matrix says what frames mean. */
  readonly framed?: boolean;
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
  /** Words to draw fainter behind the interval, such as a pooled estimate. */
  readonly aside?: string;
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
