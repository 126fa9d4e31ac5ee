// A number of ours: as it is shown, as a link, and the words of what stands beside it.
import type { ComponentChildren } from "preact";

import type { FigureCell } from "../bundle";
import { label } from "../text";
import type { Line, Spot } from "../ui/plot";
import { Visible } from "../ui/text";

export const SIGNS = { "": "", better: "▲", worse: "▼" } as const;

/** What a cell of a table holds. */
export type Held = string | number | FigureCell | null | undefined;

export const isFigure = (cell: Held): cell is FigureCell => typeof cell === "object" && cell !== null;

/** The names of levels that are no words for readers. */
const LEVELS: Readonly<Record<string, string>> = {
  random: "chance",
  majority: "most frequent answer",
  image_blind: "image ignored: the same answer to both questions of a pair",
  blank: "without the image",
  whole: "all questions",
  overall: "all questions",
};
export const levelName = (name: string): string => (Object.hasOwn(LEVELS, name) ? LEVELS[name] : undefined) ?? label(name);

const identity = (of: Readonly<Record<string, string>> = {}): string =>
  Object.entries(of).map(([name, value]) => `${name}=${value}`).join("; ");

/** The value of a figure with its sign, and the identity by which metrics.json has it. */
export const Value = ({ of }: { readonly of: FigureCell }) => {
  const { value, shown, tone = "" } = of;
  return (
    <data class={tone === "" ? undefined : `w-${tone}`} value={value ?? ""} data-of={identity(of.of) || undefined}>
      {tone !== "" && <><span aria-hidden="true">{SIGNS[tone]} </span><span class="sr">{tone}: </span></>}
      <Visible text={shown} />
    </data>
  );
};

/** A figure in words. */
export const told = (of: FigureCell): string => {
  const { interval = "", units = "", tone = "" } = of;
  const bounds = interval === "" ? "" : interval.startsWith("no ") ? interval : `95 % interval ${interval}`;
  return [of.shown, bounds, units, tone].filter((part) => part !== "").join(", ");
};

/** A link to a part of the page or, where `medvqa view` serves it, to another of its pages; any other is plain text. */
export const Linked = ({ to, children }: { readonly to: string | undefined; readonly children: ComponentChildren }) =>
  to !== undefined && /^(#|\/(?![/\\]))/.test(to) ? <a href={to}>{children}</a> : <>{children}</>;

/** A figure as a mark on an axis; of a few units as a hollow one, without an interval. */
export const spotOf = (of: FigureCell): Spot => (of.few === true ? { value: of.value, tone: "few" } : { ...of, tone: of.tone ?? "" });

/** The levels beside a figure as lines. */
export const linesOf = (of: FigureCell): readonly Line[] => Object.entries(of.levels ?? {}).map(([tone, at]) => ({ at, tone }));
