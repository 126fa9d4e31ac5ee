import fc from "fast-check";
import { render } from "preact";
import { act } from "preact/test-utils";
import { expect, test } from "vitest";

import { Table, sorted } from "../src/ui/table";

const columns = [
  { key: "name", head: "Name", cell: (row: number) => `row ${row}` },
  { key: "value", head: "Value", cell: (row: number) => row, by: (row: number) => (row === 7 ? null : row) },
];

test("rows are sorted both ways, and a row without a value stands last", () => {
  fc.assert(
    fc.property(fc.array(fc.integer({ min: 0, max: 9 })), fc.boolean(), (rows, down) => {
      const order = sorted(rows, columns, { key: "value", down });
      const values = order.filter((row) => row !== 7);
      expect(values).toEqual(rows.filter((row) => row !== 7).sort((a, b) => (down ? b - a : a - b)));
      expect(order.slice(values.length).every((row) => row === 7)).toBe(true);
    }),
  );
});

test("a heading sorts its table and says how", async () => {
  const root = document.createElement("div");
  render(<Table label="Numbers" columns={columns} rows={[2, 7, 3]} rowKey={String} />, root);
  const [name, value] = root.querySelectorAll("th");
  expect(name?.hasAttribute("aria-sort")).toBe(false);
  expect(value?.getAttribute("aria-sort")).toBe("none");
  await act(() => { value?.querySelector("button")?.click(); });
  expect(value?.getAttribute("aria-sort")).toBe("descending");
  expect([...root.querySelectorAll("td:first-child")].map((cell) => cell.textContent)).toEqual(["row 3", "row 2", "row 7"]);
});
