// The verdict of the gate: each rule with its numbers, and its reason over the whole width.
import type { GateView, RuleView } from "../bundle";
import { count, flat } from "../text";
import { Visible } from "../ui/text";

const WIDTH = 170;

const tone = (outcome: string): string => (outcome === "" ? "none" : outcome.toLowerCase().replaceAll(" ", "-"));

/** A verdict: told by its word; the colour only supports it. */
export const GateWord = ({ outcome }: { readonly outcome: string }) => (
  <span class={`verdict v-${tone(outcome)}`}>{outcome === "" ? "NO VERDICT" : outcome}</span>
);

/** A place on the axis of differences, in percent of its width; beyond the ends, the end. */
export const placed = (value: number, reach: number): string =>
  `${Math.min(100, Math.max(0, 50 + (50 * value) / reach)).toFixed(2)}%`;

const valueOf = (rule: RuleView, field: string): number | null =>
  rule.numbers.find((each) => each.field === field)?.value ?? null;

const Datum = ({ rule, field }: { readonly rule: RuleView; readonly field: string }) => {
  const found = rule.numbers.find((each) => each.field === field);
  return found === undefined ? null : (
    <data value={found.value} data-rule={rule.rule} data-number={field}>{found.shown}</data>
  );
};

const Chart = ({ rule, reach }: { readonly rule: RuleView; readonly reach: number }) => {
  const [difference, low, high] = ["difference", "low", "high"].map((field) => valueOf(rule, field));
  if (typeof difference !== "number") return null;
  return (
    <svg class="strip gap" width={WIDTH} height={16} aria-hidden="true" focusable="false">
      <line class="zero" x1="50%" x2="50%" y1={0} y2={16} />
      {rule.line !== null && <line class="ref" x1={placed(rule.line, reach)} x2={placed(rule.line, reach)} y1={1} y2={15} />}
      {typeof low === "number" && typeof high === "number" && !rule.is_floor && (
        <line class="range" x1={placed(low, reach)} x2={placed(high, reach)} y1={8} y2={8} />
      )}
      <circle cx={placed(difference, reach)} cy={8} r={3.5} />
    </svg>
  );
};

const COLUMNS: readonly (readonly [string, string])[] = [
  ["value", "new, %"],
  ["baseline_value", "baseline, %"],
  ["limit", "limit, %"],
  ["difference", "difference, points"],
  ["bounds", "one-sided bounds"],
  ["chart", ""],
  ["detectable", "detectable, points"],
  ["gained", "gained"],
  ["lost", "lost"],
  ["units", "units"],
  ["adjusted", "adjusted p"],
];

const has = (rule: RuleView, column: string): boolean =>
  valueOf(rule, column === "bounds" ? "low" : column === "chart" ? "difference" : column) !== null;

const Rules = ({ rules, name, reach }: { readonly rules: readonly RuleView[]; readonly name: string; readonly reach: number }) => {
  const columns = COLUMNS.filter(([column]) => rules.some((rule) => has(rule, column)));
  return (
    <div class="scroll" tabIndex={0} role="group" aria-label={name}>
      <table class="rules">
        <thead>
          <tr>
            {columns.map(([column, heading]) => (
              <th key={column} scope="col" class={column === "bounds" || column === "chart" ? undefined : "right"}>
                {column === "chart" ? <Ends reach={reach} /> : heading}
              </th>
            ))}
          </tr>
        </thead>
        {rules.map((rule) => (
          <tbody key={rule.rule} class={`v-row v-${tone(rule.outcome)}`}>
            <tr class="about">
              <th scope="rowgroup" colSpan={Math.max(1, columns.length)}>
                <GateWord outcome={rule.outcome} /> <Visible text={rule.name} />
                <small><Visible text={rule.why} /></small>
              </th>
            </tr>
            {columns.some(([column]) => has(rule, column)) && (
              <tr>
                {columns.map(([column, heading]) => (
                  <td key={column} class={column === "bounds" || column === "chart" ? column : "right"} data-heading={heading}>
                    {column === "chart" ? (
                      <Chart rule={rule} reach={reach} />
                    ) : column === "bounds" ? (
                      valueOf(rule, "low") !== null && valueOf(rule, "high") !== null && (
                        <><Datum rule={rule} field="low" /> to <Datum rule={rule} field="high" /></>
                      )
                    ) : (
                      <Datum rule={rule} field={column} />
                    )}
                  </td>
                ))}
              </tr>
            )}
          </tbody>
        ))}
      </table>
    </div>
  );
};

const Ends = ({ reach }: { readonly reach: number }) => {
  const end = String(Number((100 * reach).toPrecision(3)));
  return (
    <>
      <span class="axis gap" aria-hidden="true"><i>−{end}</i><i>0</i><i>+{end}</i></span>
      <span class="sr">Chart of the difference</span>
    </>
  );
};

const Lines = ({ lines, className }: { readonly lines: readonly string[]; readonly className: string }) =>
  lines.length === 0 ? null : (
    <ul class={className}>{lines.map((line, place) => <li key={place}><Visible text={line} /></li>)}</ul>
  );

export const Gate = ({ gate }: { readonly gate: GateView }) => (
  <section id="gate" class={`gate v-${tone(gate.outcome)}`} aria-labelledby="gate-title">
    <h3 id="gate-title">
      Gate <GateWord outcome={gate.outcome} /> <span class="quiet"><Visible text={gate.headline} /></span>
    </h3>
    <Lines lines={gate.blockers} className="notes refused" />
    <Lines lines={gate.remarks} className="remarks" />
    {gate.listed.length > 0 && (
      <>
        <Rules rules={gate.listed} name="Rules of the gate" reach={gate.reach} />
        <p class="key">
          Difference: new minus baseline. A measure marked “less is better” is worse if its difference is above 0. Bounds:
          one-sided, each holds in {gate.level} % of comparisons; those of a limit bound the value.{" "}
          <svg class="strip" width={10} height={16} aria-hidden="true"><line class="ref" x1={5} x2={5} y1={1} y2={15} /></svg>{" "}
          margin: a rule passes only if the whole interval lies on the same side of it as 0. Detectable: the true loss that a
          rule would show in 80 % of runs. Gained, lost: questions or pairs that became better or worse. A slice is one group
          of questions, such as one department.
        </p>
      </>
    )}
    {gate.passed.length > 0 && (
      <details class="slices">
        <summary><h4>{count(gate.passed.length)} {gate.passed.length === 1 ? "slice" : "slices"} not shown to be worse</h4></summary>
        <Rules rules={gate.passed} name="Guarded slices that pass" reach={gate.reach} />
      </details>
    )}
    {gate.small.length > 0 && (
      <details class="slices">
        <summary>
          <h4>{count(gate.small.length)} {gate.small.length === 1 ? "slice" : "slices"} not gated</h4>{" "}
          <span class="quiet">too few units, groups or degrees of freedom</span>
        </summary>
        <ul class="few-slices">
          {gate.small.map((rule) => (
            <li key={rule.rule}><Visible text={rule.name} /> <span class="quiet"><Visible text={rule.why} /></span></li>
          ))}
        </ul>
      </details>
    )}
    {gate.moved.length > 0 && (
      <details class="slices">
        <summary><h4>Largest changes</h4> <span class="quiet">{flat(gate.flips)}, exploratory</span></summary>
        <Lines lines={gate.moved} className="remarks" />
      </details>
    )}
  </section>
);
