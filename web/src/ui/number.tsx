import type { Cell } from "../bundle";

const where = (slice: Readonly<Record<string, string>>): string =>
  Object.entries(slice)
    .map(([name, value]) => `${name}=${value}`)
    .join("; ");

/** A measure's value, with the identity by which metrics.json has it. */
export const Value = ({ of }: { readonly of: Cell }) => (
  <data
    value={of.value ?? ""}
    data-benchmark={of.benchmark}
    data-technique={of.technique}
    data-measure={of.name}
    data-slice={where(of.slice)}
  >
    {of.shown}
  </data>
);
