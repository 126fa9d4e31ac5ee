// What each view gets.
import type { BundleHead } from "./bundle";
import type { Data } from "./data";
import type { Go, State } from "./route";

export interface Page {
  readonly head: BundleHead;
  readonly state: State;
  readonly go: Go;
  /** The link to a state, for `href`. */
  readonly link: (change: Partial<State>) => string;
  /** Questions and results; null while they are being read. */
  readonly data: Data | null;
}
