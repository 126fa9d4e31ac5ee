// What can be chosen above the list: benchmark, technique, measure, layout, and the two runs whose flips are shown.
import { useMemo } from "preact/hooks";

import type { PairOfRuns, ScaleView } from "../bundle";
import type { Page } from "../page";
import { parse, printTerm, switched, without } from "../query";
import { flipped, unitName } from "../scale";
import type { Compared, Rows } from "../table";
import { count, flat, label } from "../text";
import { Visible } from "../ui/text";
import { layoutsOf, type Found, type Layout } from "./selecting";
import type { Asking } from "./use-query";

interface Shown {
  readonly page: Page;
  readonly asking: Asking<Found>;
}

interface ChipsOf {
  readonly title: string;
  readonly names: readonly string[];
  readonly chosen: (name: string, place: number) => boolean;
  readonly choose: (name: string, place: number) => void;
}

const Chips = ({ title, names, chosen, choose }: ChipsOf) => (
  <div class="chips" role="group" aria-label={title}>
    {names.map((name, place) => <button key={name} type="button" aria-pressed={chosen(name, place)} onClick={() => { choose(name, place); }}><Visible text={name} /></button>)}
  </div>
);

/** The benchmarks of a run. */
export const Benchmarks = ({ page: { head, go }, asking }: Shown) =>
  head.benchmarks.length < 2 ? null : (
    <div class="tabs" role="group" aria-label="Benchmark">
      {head.benchmarks.map((each, place) => (
        <button key={each.name} type="button" aria-pressed={place === asking.found.table.benchmark} title={flat(each.title)} onClick={() => { asking.rest(); go({ benchmark: each.name, query: "", sort: "" }); }}>
          <Visible text={each.name} />
        </button>
      ))}
    </div>
  );

const NAMES: Readonly<Record<Layout, string>> = { table: "Table", images: "Images", pairs: "Pairs" };

/** The techniques of a run, and the layouts. */
export const Looks = ({ page: { state, go }, asking }: Shown) => {
  const { table, about, techniques, layout } = asking.found;
  const { fields } = table;
  const technique = fields[table.place("technique")];
  const layouts = layoutsOf(about, table);
  return (
    <>
      {technique !== undefined && technique.values.length > 1 && (
        <Chips
          title="Technique"
          names={technique.values.map(({ name }) => name)}
          chosen={(name) => techniques.includes(name)}
          choose={(name) => { asking.rest(); go({ technique: name, query: without(state.query, fields, technique) }); }}
        />
      )}
      <Chips
        title="Layout"
        names={layouts.map((each) => NAMES[each])}
        chosen={(_, place) => layouts[place] === layout}
        choose={(_, place) => { const each = layouts[place] ?? "table"; go({ layout: each === "table" ? "" : each }); }}
      />
    </>
  );
};

const CHOICES = ["benchmark", "technique", "measure"] as const;

/** The measure by which several runs are compared, and the two runs whose flips are shown. */
export const Measures = ({ page, compared: { scale: { view }, pair } }: { readonly page: Page; readonly compared: Compared }) => {
  const { head, go, state } = page;
  const named = (scale: ScaleView) => ({ benchmark: head.benchmarks[scale.benchmark]?.name ?? "", technique: head.techniques[scale.technique] ?? "", measure: scale.measure });
  return (
    <div class="choices">
      {CHOICES.map((name, before) => {
        // Each choice offers what there is under the choices before it.
        const under = (head.scales ?? []).filter((scale) => CHOICES.slice(0, before).every((each) => scale[each] === view[each]));
        const offered = under.filter((scale, i) => under.findIndex((each) => each[name] === scale[name]) === i);
        const title = name.charAt(0).toUpperCase() + name.slice(1);
        const choose = (_: string, place: number): void => {
          const scale = offered[place];
          if (scale !== undefined) go({ ...named(scale), query: scale.benchmark === view.benchmark ? state.query : "", sort: "", item: null });
        };
        return offered.length < 2 ? null : [
          <span key={title}>{title}</span>,
          <Chips key={name} title={title} names={offered.map((scale) => (name === "measure" ? label(scale.measure) : named(scale)[name]))} chosen={(_, place) => offered[place]?.[name] === view[name]} choose={choose} />,
        ];
      })}
      <Runs page={page} pair={pair} />
    </div>
  );
};

/** The two runs whose flips are shown: any two. */
const Runs = ({ page, pair }: { readonly page: Page; readonly pair: PairOfRuns }) => {
  const names = page.head.runs.map((run) => run.name);
  const choose = (change: Partial<PairOfRuns>): void => {
    const next = { ...pair, ...change };
    // A run that is chosen twice changes places with the other one.
    const other = next.new === next.baseline ? (change.new === undefined ? { new: pair.baseline } : { baseline: pair.new }) : {};
    const both = { ...next, ...other };
    page.go({ run: names[both.new] ?? "", against: names[both.baseline] ?? "" });
  };
  const of = (name: keyof PairOfRuns, title: string) => (
    <span>
      <span aria-hidden="true">{title} </span>
      <select aria-label={name === "new" ? "New run" : "Baseline"} value={String(pair[name])} onChange={(event) => { choose({ [name]: Number(event.currentTarget.value) }); }}>
        {names.map((each, run) => <option key={run} value={String(run)}>{`${run + 1} ${flat(each)}`}</option>)}
      </select>
    </span>
  );
  return <><span>Flips</span><div class="two-runs">{of("new", "of")} {of("baseline", "against")}</div></>;
};

/** A term for the query line with the number of units that it selects, and what it means. */
interface Preset {
  readonly name: string;
  readonly term: string;
  readonly units: number;
  readonly meaning: string;
}

/** The presets of a table of several runs. */
export function presetsOf({ data, fields, runs }: Rows, { scale, pair, flips }: Compared): readonly Preset[] {
  const { view } = scale;
  const name = (run: number): string => data.bundle.head.runs[run]?.name ?? "";
  const against = (way: string): string => `${name(pair.new)} is ${way} than ${name(pair.baseline)}.`;
  const all = runs === 2 ? "both runs" : `all ${runs} runs`;
  const agree = fields.find((field) => field.name === "agree")?.codes;
  let agreeing = 0;
  for (let unit = 0; unit < scale.size; unit++) {
    agreeing += Number(agree?.codes.subarray(agree.offsets?.[unit], agree.offsets?.[unit + 1]).includes(0) ?? false);
  }
  return [
    { name: view.lower ? "Worst in all" : "All wrong", term: `wrong_in:${runs}`, units: scale.wrong.filter((number) => number === runs).length, meaning: view.lower ? `${all} have the worst value.` : `${all} are wrong: too hard, or the key is wrong.` },
    { name: "Same wrong option", term: "agree:wrong", units: agreeing, meaning: `${all} read the same wrong option${unitName(scale) === "pair" ? " of one of the questions" : ""}: the strongest hint at a wrong key.` },
    { name: "Worse", term: "flip:worse", units: flipped(flips, "worse"), meaning: against("worse") },
    { name: "Better", term: "flip:better", units: flipped(flips, "better"), meaning: against("better") },
  ];
}

/** Terms that are one click away, each with its number of units in the whole table. */
export const Presets = ({ page, asking, compared }: Shown & { readonly compared: Compared }) => {
  const { query } = page.state;
  const { table } = asking.found;
  const presets = useMemo(() => presetsOf(table, compared), [table, compared]);
  const there = parse(query).map(printTerm);
  return (
    <ul class="presets" aria-label="Presets">
      {presets.map(({ name, term, units, meaning }) => (
        <li key={term}>
          <button type="button" aria-pressed={there.includes(term)} onClick={() => { asking.pick(switched(query, term)); }}>{name}</button>{" "}
          <data value={units} data-preset={term}>{count(units)}</data>: <Visible text={meaning} />
        </li>
      ))}
    </ul>
  );
};
