// Drawings beside the slices: abilities, calibration, spread over prompts and samples, published rows.
import type { Abilities, Axis, Calibration, Cell, PublishedView, SpreadView } from "../bundle";
import { count, FEW, plural } from "../text";
import { Fold } from "../ui/fold";
import { Value } from "../ui/number";
import { Plot, Sample, Scale, type Spot } from "../ui/plot";
import { Visible } from "../ui/text";

/** The axis of shares: 0 to 100 %. */
export const SHARES: Axis = {
  low: 0,
  high: 1,
  ticks: [0, 25, 50, 75, 100].map((tick) => ({ at: tick / 100, label: tick === 100 ? "100 %" : String(tick) })),
};
/** A table with more published rows is folded at first. */
const LONG = 24;
const PEOPLE: readonly Spot["shape"][] = ["diamond", "triangle"];

const intervalOf = (cell: Cell): string => cell.interval || (cell.few ? `under ${FEW}` : "no interval");

const Drawing = ({ axis }: { readonly axis: Axis }) => (
  <th scope="col" class="plots"><span class="sr">Drawing</span><Scale axis={axis} /></th>
);

export const AbilityChart = ({ of, name: where }: { readonly of: Abilities; readonly name: string }) => (
  <Fold title="Abilities beside physicians" note="not directly comparable">
    <div class="scroll" tabIndex={0} role="group" aria-label={`${where}: abilities beside physicians`}>
      <table class="slicetable">
        <thead>
          <tr>
            <th scope="col">Ability</th>
            <th scope="col" class="right">{of.measure}, %</th>
            <th scope="col" class="bounds">95 % interval</th>
            <Drawing axis={SHARES} />
            <th scope="col" class="right">n</th>
            {of.people.map((name) => <th scope="col" class="right">{name}, %</th>)}
          </tr>
        </thead>
        <tbody>
          {of.rows.map((row) => (
            <tr>
              <th scope="row"><a href={row.href}><Visible text={row.title} /></a></th>
              <td class={`right main${row.cell?.few === true ? " thin" : ""}`}>{row.cell !== null && <><Value of={row.cell} /><small class="below">{intervalOf(row.cell)}</small></>}</td>
              <td class="quiet bounds">{row.cell === null ? "not asked" : intervalOf(row.cell)}</td>
              <td class="plots">
                <Plot
                  axis={SHARES}
                  spots={[
                    ...row.people.map((each, k): Spot => ({ value: each.value, shape: PEOPLE[k % PEOPLE.length] ?? "tick", tone: "people" })),
                    ...(row.cell === null ? [] : [{ ...row.cell, tone: row.cell.few ? "few" : "" }]),
                  ]}
                />
              </td>
              <td class="right quiet">{row.cell !== null && <data value={row.cell.n}>{count(row.cell.n)}</data>}</td>
              {row.people.map((each) => <td class="right">{each.shown}</td>)}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
    <p class="key">
      <span><Sample spot={{ value: 0.5, low: 0.1, high: 0.9 }} /> this run</span>
      {of.people.map((name, k) => (
        <span><Sample spot={{ value: 0.5, shape: PEOPLE[k % PEOPLE.length] ?? "tick", tone: "people" }} /> {name}</span>
      ))}
      <span>Source of the physicians: {of.source}; in another setting, without intervals.</span>
    </p>
  </Fold>
);

export const Reliability = ({ of, name }: { readonly of: Calibration; readonly name: string }) => (
  <Fold title={`Calibration, technique ${of.technique}`} note={`expected calibration error ${of.error_shown} %, ${count(of.n)} answers`}>
    <div class="scroll" tabIndex={0} role="group" aria-label={`${name}: calibration of technique ${of.technique}`}>
      <table class="slicetable bins" data-calibration={of.technique} data-error={of.error}>
        <thead>
          <tr>
            <th scope="col">Confidence</th>
            <th scope="col" class="right">mean confidence, %</th>
            <th scope="col" class="right">correct, %</th>
            <th scope="col" class="bounds">95 % interval</th>
            <Drawing axis={SHARES} />
            <th scope="col" class="right">answers</th>
            <th scope="col" class="bounds">Verdict</th>
          </tr>
        </thead>
        <tbody>
          {of.bins.map((bin) => (
            <tr>
              <th scope="row">{bin.range}</th>
              <td class="right"><data value={bin.confidence}>{bin.confidence_shown}</data></td>
              <td class={`right main${bin.correct.few ? " thin" : ""}`}><data value={bin.correct.value ?? ""} data-bin={bin.start}>{bin.correct.shown}</data><small class="below">{intervalOf(bin.correct)}{bin.verdict !== "" && `, ${bin.verdict}`}</small></td>
              <td class="quiet bounds">{intervalOf(bin.correct)}</td>
              <td class="plots">
                <Plot
                  axis={SHARES}
                  spots={[{ ...bin.correct, tone: bin.correct.few ? "few" : "" }, { value: bin.confidence, shape: "tick", tone: "sure" }]}
                />
              </td>
              <td class="right quiet"><data value={bin.correct.n}>{count(bin.correct.n)}</data></td>
              <td class="bounds">{bin.verdict}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
    <p class="key">
      <span><Sample spot={{ value: 0.5, low: 0.1, high: 0.9 }} /> share of correct answers and 95 % interval</span>
      <span><Sample spot={{ value: 0.5, shape: "tick", tone: "sure" }} /> mean confidence: the probability of the chosen option among all options</span>
      <span>A model is overconfident where the mark lies right of the interval.</span>
      <span>
        The expected calibration error is the mean distance of confidence and share correct over ten bins of equal width, weighted by answers (Guo et al. 2017). By chance alone it is above 0, most with few answers.
      </span>
    </p>
  </Fold>
);

export const SpreadChart = ({ of, name }: { readonly of: readonly SpreadView[]; readonly name: string }) => {
  const prompts = Math.max(...of.map((spread) => spread.lines.length)) > 1;
  const sampled = of.some((spread) => spread.lines.some((line) => line.samples.length > 0));
  return (
    <Fold title={prompts ? "Spread over prompts and samples" : "Spread over samples"} note="standard deviations">
      {of.map((spread) => (
        <div class="scroll" tabIndex={0} role="group" aria-label={`${name}: spread of ${spread.title}`}>
          <table class="slicetable spread">
            <thead>
              <tr>
                <th scope="col">{prompts ? "Prompt" : "Measure"}</th>
                <th scope="col" class="right"><Visible text={`${spread.title}${spread.percent ? ", %" : ""}`} /></th>
                <Drawing axis={spread.axis} />
                {spread.deviations.map((each) => <th scope="col" class="right">{each.heading}</th>)}
              </tr>
            </thead>
            <tbody>
              <tr class="own">
                <th scope="row">{prompts ? `${spread.heading} over prompts` : spread.heading}</th>
                <td class="right main"><data value={spread.mean ?? ""}>{spread.mean_shown}</data></td>
                <td class="plots"><Plot axis={spread.axis} spots={prompts ? [] : spotsOf(spread, 0)} lines={[{ at: spread.mean, tone: "whole" }]} /></td>
                {spread.deviations.map((each) => (
                  <td class="right"><data value={each.value ?? ""} data-measure={spread.name} data-spread={each.name}>{each.shown}</data></td>
                ))}
              </tr>
              {prompts &&
                spread.lines.map((line, k) => (
                  <tr>
                    <th scope="row"><Visible text={line.prompt} /></th>
                    <td class="right"><data value={line.mean ?? ""}>{line.shown}</data></td>
                    <td class="plots"><Plot axis={spread.axis} spots={spotsOf(spread, k)} lines={[{ at: spread.mean, tone: "whole" }]} /></td>
                    {spread.deviations.map(() => <td />)}
                  </tr>
                ))}
            </tbody>
          </table>
        </div>
      ))}
      <p class="key">
        {prompts && <span><Sample spot={{ value: 0.5, shape: "diamond" }} /> mean of a prompt</span>}
        {sampled && <span><Sample spot={{ value: 0.5, shape: "small", tone: "few" }} /> a sample</span>}
        <span><Sample line="whole" /> the mean</span>
        <span>The axis ends at round numbers around the values: differences look larger than on an axis from 0 to 100 %.</span>
        <span>
          {prompts
            ? "The measure is computed for each prompt and sample. Within prompts: over the samples of a prompt. Between prompts: of the prompts' means. Sums of squares are divided by the number of values."
            : "The measure is computed for each sample. Sums of squares are divided by the number of samples less one."}
        </span>
      </p>
    </Fold>
  );
};

const spotsOf = (spread: SpreadView, k: number): readonly Spot[] => {
  const line = spread.lines[k];
  if (line === undefined) return [];
  return [
    ...line.samples.map((value): Spot => ({ value, shape: "small", tone: "few" })),
    { value: line.mean, shape: "diamond" },
  ];
};

export const PublishedTable = ({ of, name: where }: { readonly of: PublishedView; readonly name: string }) => (
  <Fold title="Compared with published results" note={`${plural(of.rows.length - 1, "row")}, not directly comparable`} open={of.rows.length <= LONG}>
    <p class="aside"><strong>Another setting.</strong> {of.source}. {of.note} Compare orders of magnitude, not ranks.</p>
    <div class="scroll" tabIndex={0} role="group" aria-label={`${where}: published results`}>
      <table class="slicetable published">
        <thead>
          <tr>
            <th scope="col">Row</th>
            {of.columns.map((name) => <><th scope="col" class="right">{name}, %</th><Drawing axis={SHARES} /></>)}
          </tr>
        </thead>
        <tbody>
          {of.rows.map((row) => {
            const cells = row.cells ?? null;
            return (
              <tr class={cells === null ? "" : "own"}>
                <th scope="row">{row.name}</th>
                {row.values.map((each, k) => {
                  const cell = cells?.[k] ?? null;
                  return (
                    <>
                      <td class="right">{cell ? <Value of={cell} /> : <data value={each.value ?? ""}>{each.shown}</data>}</td>
                      <td class="plots"><Plot axis={SHARES} spots={[cell ?? { value: each.value, shape: "diamond", tone: "people" }]} /></td>
                    </>
                  );
                })}
              </tr>
            );
          })}
        </tbody>
      </table>
    </div>
    <p class="key">
      <span><Sample spot={{ value: 0.5, low: 0.1, high: 0.9 }} /> this run and its 95 % interval</span>
      <span><Sample spot={{ value: 0.5, shape: "diamond", tone: "people" }} /> a published value, without an interval</span>
    </p>
  </Fold>
);
