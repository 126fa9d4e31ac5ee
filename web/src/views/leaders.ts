// The boards of a comparison by benchmark, and the runs that may lead them.
import type { BoardView } from "../bundle";
import { opens } from "./ranking";

/** The boards of one benchmark and technique, in the order of its headline measures. */
export type Group = readonly BoardView[];

export const groupsOf = (boards: readonly BoardView[]): readonly Group[] => {
  const groups: BoardView[][] = [];
  boards.forEach((board, place) => {
    if (opens(boards, place)) groups.push([board]);
    else groups.at(-1)?.push(board);
  });
  return groups;
};

/** The board of each group by a measure; a group without it shows its first one. */
export const shownOf = (groups: readonly Group[], measure: string): readonly BoardView[] =>
  groups.flatMap((group) => group.find((board) => board.measure === measure) ?? group[0] ?? []);

/** The measures to choose from: each name beyond the first measure of a benchmark. */
export const measuresOf = (groups: readonly Group[]): readonly string[] =>
  [...new Set(groups.flatMap((group) => group.slice(1).map((board) => board.measure)))];

/** Runs with the number of groups whose first measure they may lead, the largest first. */
export const leadersOf = (groups: readonly Group[]): readonly (readonly [number, number])[] => {
  const numbers = new Map<number, number>();
  for (const [board] of groups) {
    for (const row of board?.rows ?? []) if (row.best === 1 && row.value !== null) numbers.set(row.run, (numbers.get(row.run) ?? 0) + 1);
  }
  return [...numbers].sort(([, one], [, other]) => other - one);
};
