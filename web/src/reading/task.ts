// What the pages of all tasks share, and what each task brings: `answering.tsx` has that of readers who answer blind.
import type { ComponentType } from "preact";

import type { ReadingHead, ReadingTask } from "../bundle";
import type { KeyList } from "../views/help";
import type { Kind, Line } from "./lines";

export interface FormProps<L extends Line> {
  readonly head: ReadingHead;
  readonly task: ReadingTask;
  readonly line: L;
  /** Change fields of the line. */
  readonly set: (change: Partial<L>) => void;
}

export interface TaskOf<L extends Line> extends Kind<L> {
  /** The fields below a question. A `key` makes it anew for each. */
  readonly Form: ComponentType<FormProps<L>>;
  /** A sentence if something is missing in a line, "" else. */
  readonly lacks: (line: L, head: ReadingHead) => string;
  /** What a line is called: "answer". */
  readonly one: string;
  readonly keys: KeyList;
}
