// Tables whose columns can be sorted by their headings.
import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";

import { compare } from "../blocks/sorting";

export interface TableColumn<Row> {
  readonly key: string;
  readonly head: ComponentChildren;
  /** The cell's content. */
  readonly cell: (row: Row) => ComponentChildren;
  /** The value to sort by; without it the column is not sorted. A null stands last in both directions. */
  readonly by?: (row: Row) => number | string | null;
  readonly right?: boolean;
  readonly class?: string;
  /** Whether cells are row headings. */
  readonly heading?: boolean;
}

interface Order {
  readonly key: string;
  readonly down: boolean;
}

/** Rows in this order; equal rows keep theirs. */
export const sorted = <Row,>(rows: readonly Row[], columns: readonly TableColumn<Row>[], order: Order | null): readonly Row[] => {
  const by = columns.find(({ key }) => key === order?.key)?.by;
  if (order === null || by === undefined) return rows;
  return [...rows].sort((one, other) => compare(by(one), by(other), order.down));
};

/** The identity of a row's numbers. */
export type Identity = Readonly<Record<`data-${string}`, string>>;

interface TableOf<Row> {
  /** The name of the table for screen readers. */
  readonly label: string;
  readonly columns: readonly TableColumn<Row>[];
  readonly rows: readonly Row[];
  readonly rowKey: (row: Row) => string;
  readonly rowClass?: (row: Row) => string;
  readonly identity?: (row: Row) => Identity;
  /** The order before a heading is clicked; null: that of `rows`. */
  readonly order?: Order | null;
  readonly class?: string;
}

export const Table = <Row,>({ label, columns, rows, rowKey, rowClass, identity, order: first = null, class: name }: TableOf<Row>) => {
  const [order, setOrder] = useState<Order | null>(first);
  const turn = (column: TableColumn<Row>): void => {
    const numbers = rows.some((row) => typeof column.by?.(row) === "number");
    setOrder({ key: column.key, down: order?.key === column.key ? !order.down : numbers });
  };
  const direction = (column: TableColumn<Row>) =>
    column.by === undefined ? undefined : order?.key !== column.key ? "none" : order.down ? "descending" : "ascending";
  const look = (column: TableColumn<Row>): string => [column.right === true ? "right" : "", column.class ?? ""].join(" ").trim();
  return (
    <div class="scroll" tabIndex={0} role="group" aria-label={label}>
      <table class={name}>
        <thead>
          <tr>
            {columns.map((column) => (
              <th key={column.key} scope="col" class={look(column)} aria-sort={direction(column)}>
                {column.by === undefined ? column.head : (
                  <button type="button" class="sort" onClick={() => { turn(column); }}>{column.head}</button>
                )}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {sorted(rows, columns, order).map((row) => (
            <tr key={rowKey(row)} class={rowClass?.(row)} {...identity?.(row)}>
              {columns.map((column) =>
                column.heading === true
                  ? <th key={column.key} scope="row" class={look(column)}>{column.cell(row)}</th>
                  : <td key={column.key} class={look(column)}>{column.cell(row)}</td>,
              )}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
};
