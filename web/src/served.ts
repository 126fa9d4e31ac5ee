// Written by tools/bundle_types.py.
import type { PlotBlock } from "./bundle";

/** `GET /api/runs?since=VERSION`: the run folders below the served folder, the latest first. */
export interface RunList {
  /** The name of the served folder. */
  readonly root: string;
  /** Rises with each look at the folders, also over restarts. */
  readonly version: number;
  readonly runs: readonly RunEntry[];
  /** Folders beyond the limit that are not listed. */
  readonly left_out?: number;
  /** Whether `runs` are those of which a file or the state has changed since `since`, and not all. */
  readonly partial?: boolean;
  /** Names of runs that are there no more, since `since`. */
  readonly gone?: readonly string[];
  /** Runs that are not read yet: they are in a later list. */
  readonly unread?: number;
}

/** `GET /api/runs/NAME/progress`: how far a run is. Its numbers are those so far. */
export interface RunProgress {
  readonly name: string;
  readonly state: "running" | "finished" | "unfinished" | "unreadable";
  readonly answered: number;
  readonly selected: number;
  readonly parts: readonly PartProgress[];
  /** Results per second over the last minute, null if none came. */
  readonly rate: number | null;
  readonly seconds_left: number | null;
  /** Start of the present session, ISO 8601. */
  readonly since: string;
  /** Time of the last result, ISO 8601, "" without one. */
  readonly last: string;
  /** Rises with each change of the results; an equal number means equal results. */
  readonly version: number;
  /** Answers cut off at a token limit. */
  readonly truncated?: number;
  /** Broken lines of results.jsonl. */
  readonly unread?: number;
  /** Why the last session stopped early, "" if it did not or one is running. */
  readonly stopped?: string;
  /** The reason for being unreadable, or unfinished if all questions are answered. */
  readonly why?: string;
}

/** `GET /api/runs/NAME/pace`: how long the answers of a run took, and their tokens, as they came. */
export interface Pace {
  readonly plots: readonly PlotBlock[];
}

/** `GET /api/runs/NAME/items?start=&count=&order=&benchmark=&technique=&outcome=&id=&text=`: some of the results. */
export interface ItemPage {
  readonly rows: readonly ItemRow[];
  /** Number of results that match, of which `rows` are those from `start` on. */
  readonly matching: number;
  readonly total: number;
  /** As in `RunProgress`. */
  readonly version: number;
}

/**
 * `GET /api/bundle?run=NAME&run=NAME`: a bundle that can be read by `GET /api/bundles/KEY/BLOCK`.
 *
 * One run: its page. Several: their comparison, the first of them as the baseline. The answer comes when it is drawn.
 */
export interface Drawn {
  /** It changes if a file of the runs does. */
  readonly key: string;
  /** Lines about runs that are not comparable. */
  readonly notes: readonly string[];
}

/** `GET /api/history?benchmark=&id=`: the results of one item over all runs, the latest first. */
export interface History {
  readonly benchmark: string;
  readonly id: string;
  readonly rows: readonly HistoryRow[];
  /** Runs that could not be read, each with its reason. */
  readonly unread: readonly string[];
}

/** Every answer that is no success: a sentence for people. */
export interface Problem {
  readonly error: string;
}

/** One run folder in the list. */
export interface RunEntry {
  /** Its path below the served folder, with "/": it names the run in all addresses. */
  readonly name: string;
  readonly state: "running" | "finished" | "unfinished" | "unreadable";
  readonly model: string;
  /** Ablation and protocol in few words, "" for the defaults. */
  readonly label: string;
  /** ISO 8601 with time zone, "" if unknown. */
  readonly started: string;
  readonly finished: string;
  readonly answered: number;
  /** Questions selected by all sessions, 0 if unknown. */
  readonly selected: number;
  /** The selected part, such as "10 of 60, by --limit=10"; "" for the whole. */
  readonly part: string;
  readonly benchmarks: readonly string[];
  readonly numbers: readonly HeadlineNumber[];
  readonly gate?: GateAttempt | null;
  /** Whether metrics.json is of other results than those of the run. */
  readonly stale?: boolean;
  /** Whether it is not known of which results metrics.json is: an earlier version wrote it. */
  readonly unchecked?: boolean;
  /** The reason for being unreadable, for having no numbers, or for being unfinished if all questions are answered. */
  readonly why?: string;
  /** Answers that ended in error, and have no score. */
  readonly errors?: number;
  /** Why the last session stopped early, "" if it did not. */
  readonly stopped?: string;
  /** The dimensions of the user's own tags (--tags). */
  readonly tags?: readonly string[];
}

/** One benchmark and technique of a run. */
export interface PartProgress {
  readonly benchmark: string;
  readonly title: string;
  readonly technique: string;
  readonly answered: number;
  /** 0 if unknown. */
  readonly selected: number;
  /** Number of results by outcome, without zeros. */
  readonly outcomes: Readonly<Record<string, number>>;
  /** Sum of the scores so far. */
  readonly score: number;
  /** Number of results that have a score. */
  readonly scored: number;
}

/** One result, with its question. */
export interface ItemRow {
  /** Its place in the run, in the order in which keys first came; -1 in a history. */
  readonly row: number;
  readonly benchmark: string;
  readonly id: string;
  readonly technique: string;
  readonly variant: string;
  readonly sample: number;
  readonly kind: string;
  readonly question: string;
  /** As the model saw them. */
  readonly options: readonly (readonly [string, string])[];
  readonly answers: readonly string[];
  readonly extracted: readonly string[];
  readonly outcome: string;
  readonly score: number | null;
  readonly why: string;
  readonly response: string;
  /** Characters of the response that are left out, 0 if none are. */
  readonly cut: number;
  readonly seconds: number | null;
  /** `images.address` of each image, "" if it has none: `GET /api/runs/NAME/images/ADDRESS`. */
  readonly images: readonly string[];
  readonly pair?: string;
  readonly truncated?: boolean;
}

/** One result of an item in one of the runs. */
export interface HistoryRow {
  readonly run: string;
  readonly model: string;
  readonly label: string;
  readonly started: string;
  /** Whether question, options, key and images equal those of the latest run that has the item. */
  readonly same: boolean;
  readonly item: ItemRow;
}

/** One headline measure of a run over all its questions, as metrics.json has it. */
export interface HeadlineNumber {
  readonly benchmark: string;
  readonly technique: string;
  readonly name: string;
  /** For people. */
  readonly title: string;
  readonly value: number | null;
  readonly low: number | null;
  readonly high: number | null;
  readonly n: number;
  /** The value as all reports show it, such as "62.50 %" or "5/8". */
  readonly shown: string;
  /** A digest of signature and selection: numbers with equal digests belong to one trend. */
  readonly comparable: string;
  /** The interval as all reports show it, or the reason for its absence; "" if counts are shown. */
  readonly interval?: string;
  /** Whether less is better. */
  readonly lower?: boolean;
  readonly percent?: boolean;
}

/** The verdict in gate.json. */
export interface GateAttempt {
  readonly result: "passed" | "failed" | "inconclusive" | "unknown";
  readonly attempt: number;
  /** The first reason, "" without one. */
  readonly reason: string;
  readonly baseline?: string;
  /** Whether it may be the verdict on other results than those of the run. */
  readonly stale?: boolean;
}
