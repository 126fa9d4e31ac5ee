// The order of a table's rows.
import type { PageRow, TableBlock } from "../bundle";
import { isFigure, type Held } from "./figure";

/** The column by which rows are sorted; by its `units` or by its values. */
export interface Order {
  readonly place: number;
  readonly units: boolean;
  readonly down: boolean;
}

const LETTERS = new Intl.Collator("en", { numeric: true });

/** -1, 0 or 1 by letters, and by numbers within them: q2 comes before q10. */
export const inLetters = (one: string, other: string): number => LETTERS.compare(one, other);

/** What a cell is sorted by; null stands last however rows are sorted, as the share of a few units does. */
export const keyOf = (cell: Held, units = false): number | string | null => {
  if (!isFigure(cell)) return cell === "" || cell === undefined ? null : cell;
  if (units) return cell.n ?? null;
  return cell.few === true || (cell.value !== null && Number.isNaN(cell.value)) ? null : cell.value;
};

/** Numbers by size and before texts, texts by their letters, nothing after all. */
const compare = (one: number | string | null, other: number | string | null, down: boolean): number => {
  if (one === null || other === null) return one === other ? 0 : one === null ? 1 : -1;
  if (typeof one !== typeof other) return typeof one === "number" ? -1 : 1;
  const order = typeof one === "number" ? one - Number(other) : inLetters(one, String(other));
  return down ? -order : order;
};

/** Rows in this order; equal rows keep theirs. */
export const sorted = (rows: readonly PageRow[], order: Order | null): readonly PageRow[] => {
  if (order === null) return rows;
  const { place, units, down } = order;
  return [...rows].sort((one, other) => compare(keyOf(one.cells[place], units), keyOf(other.cells[place], units), down));
};

/** The order of a table before a heading is clicked; null: that of its rows. */
export const firstOrder = ({ sort = "", columns }: TableBlock): Order | null => {
  const down = sort.startsWith("-");
  const place = sort === "" ? -1 : columns.findIndex(({ title }) => title === (down ? sort.slice(1) : sort));
  return place < 0 ? null : { place, units: false, down };
};

/** The order after a heading is clicked: the other direction, or the best, largest or first of a column at the top. */
export const turned = (of: TableBlock, before: Order | null, place: number, units = false): Order => {
  if (before?.place === place && before.units === units) return { ...before, down: !before.down };
  const { kind = "text", better = "" } = of.columns[place] ?? { title: "" };
  const numbers = of.rows.some((row) => typeof keyOf(row.cells[place], units) === "number");
  return { place, units, down: numbers && (units || (kind !== "chance" && better !== "lower")) };
};
