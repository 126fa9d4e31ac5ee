// Tables whose columns can be sorted by their heads.
import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";

export interface TableColumn<Row> {
  readonly key: string;
  readonly head: ComponentChildren;
  readonly cell: (row: Row) => ComponentChildren;
  /** The value to sort by; a row without one (null) stands last either way. Without it, the column has no order. */
  readonly sort?: (row: Row) => number | string | null;
  readonly class?: string;
  /** The cells of this column name their rows. */
  readonly names?: boolean;
}

export interface Sorting {
  readonly key: string;
  readonly descending: boolean;
}

/** Rows in the order of a column; equal ones keep their order. */
export function sorted<Row>(rows: readonly Row[], columns: readonly TableColumn<Row>[], by: Sorting | null): readonly Row[] {
  const value = columns.find((column) => column.key === by?.key)?.sort;
  if (value === undefined || by === null) return rows;
  const sign = by.descending ? -1 : 1;
  return rows
    .map((row) => [value(row), row] as const)
    .sort(([x], [y]) => (x === null ? (y === null ? 0 : 1) : y === null ? -1 : sign * (x < y ? -1 : x > y ? 1 : 0)))
    .map(([, row]) => row);
}

/** Attributes of a row: its class, and the identity of its numbers. */
export interface RowAttributes {
  readonly class?: string;
  readonly [data: `data-${string}`]: string;
}

interface Of<Row> {
  readonly rows: readonly Row[];
  readonly columns: readonly TableColumn<Row>[];
  readonly label: string;
  readonly class: string;
  /** The order in which the rows come. */
  readonly first?: Sorting;
  readonly id: (row: Row) => string;
  readonly row?: (row: Row) => RowAttributes;
}

export function Sortable<Row>(of: Of<Row>) {
  const { columns, label } = of;
  const [by, sort] = useState<Sorting | null>(of.first ?? null);
  const turn = (key: string, numbers: boolean): void => {
    sort({ key, descending: by?.key === key ? !by.descending : numbers });
  };
  const head = ({ key, head: text, sort: value, class: name }: TableColumn<Row>) => {
    if (value === undefined) return <th scope="col" key={key} class={name}>{text}</th>;
    const order = by?.key !== key ? "none" : by.descending ? "descending" : "ascending";
    const numbers = of.rows.some((row) => typeof value(row) === "number");
    return (
      <th scope="col" key={key} class={name} aria-sort={order} data-sort={numbers ? "number" : "text"}>
        <button type="button" onClick={() => { turn(key, numbers); }}>{text}</button>
      </th>
    );
  };
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label={label}>
      <table class={of.class}>
        <thead><tr>{columns.map(head)}</tr></thead>
        <tbody>
          {(by === of.first ? of.rows : sorted(of.rows, columns, by)).map((row) => (
            <tr key={of.id(row)} {...of.row?.(row)}>
              {columns.map(({ key, cell, class: name, names }) =>
                names === true ? <th scope="row" key={key} class={name}>{cell(row)}</th> : <td key={key} class={name}>{cell(row)}</td>,
              )}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
