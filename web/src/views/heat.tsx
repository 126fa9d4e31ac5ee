// A measure over two dimensions at once. A field is coloured only if it surely differs from the whole benchmark.
import type { HeatField, HeatMap, SlicesView } from "../bundle";
import { capital, count, counted, FEW, inLayout, plural } from "../text";
import { Fold } from "../ui/fold";
import { Visible } from "../ui/text";

const SIGNS: Readonly<Record<HeatField["tone"], string>> = { "": "", above: "▲", below: "▼" };

/** All that is known of a field, in words. */
export const told = (map: HeatMap, field: HeatField): string => {
  const interval = field.low === null || field.few ? field.interval || (field.few ? `under ${FEW}` : "no interval") : `95 % interval ${field.interval}`;
  const beside = field.tone === "" ? "" : `; surely ${field.tone} all questions`;
  return `${map.rows[field.row]?.title ?? ""}, ${map.columns[field.column]?.title ?? ""}: ${field.shown}${field.few ? "" : " %"}, ${interval}, ${counted(field.n, map.unit)}${beside}`;
};

export const Heat = ({ of, view }: { readonly of: HeatMap; readonly view: SlicesView }) => {
  const fields = new Map(of.fields.map((field) => [`${field.row} ${field.column}`, field]));
  const coloured = of.fields.filter((field) => field.tone !== "").length;
  const shortened = of.columns.filter((each) => each.short !== "");
  return (
    <Fold title={`${capital(of.title)} by ${of.down} and ${of.across}`} note={of.tested === 0 ? `no field has ${FEW} ${of.unit}` : ""} open={of.tested > 0}>
      <div class="scroll" tabIndex={0} role="group" aria-label={`${view.title}: ${of.title} by ${of.down} and ${of.across}`}>
        <table class="heatmap">
          <thead>
            <tr>
              <td />
              {of.columns.map((each) => (
                <th scope="col">{each.short === "" ? <Visible text={each.title} /> : <><span aria-hidden="true"><Visible text={each.short} /></span><span class="sr"><Visible text={each.title} /></span></>}</th>
              ))}
            </tr>
          </thead>
          <tbody>
            {of.rows.map((row, a) => (
              <tr>
                <th scope="row"><Visible text={row.title} /></th>
                {of.columns.map((_, b) => {
                  const field = fields.get(`${a} ${b}`);
                  if (field === undefined) return <td class="empty" />;
                  return (
                    <td class={`${field.tone} s${field.step}${field.few ? " thin" : ""}`}>
                      <a href={inLayout(field.href, of.unit)}>
                        <span aria-hidden="true">
                          <b>{SIGNS[field.tone]}{field.short}</b> <small>{field.few ? "" : count(field.n)}</small>
                        </span>
                        <data class="sr" value={field.value} data-low={field.low ?? ""} data-high={field.high ?? ""} data-n={field.n} data-benchmark={view.benchmark} data-technique={view.technique} data-heat={`${of.down}; ${of.across}`}>
                          <Visible text={told(of, field)} />
                        </data>
                      </a>
                    </td>
                  );
                })}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      <p class="key">
        Percent, and below it the number of {of.unit}; under {FEW}, counts. {of.better === "lower" && "Less is better. "}
        {of.tested === 0
          ? "No field is coloured: none has enough questions. "
          : `${coloured === 0 ? "No field is coloured: none" : `${plural(coloured, "field")} coloured: ▲ surely above, ▼ surely below; a field`} differs surely from all questions (${of.whole.shown} %). Each of the ${plural(of.tested, "field")} with an interval is judged at ${((1 - 0.05 / of.tested) * 100).toFixed(2)} %, so that all colours together hold in 95 % of runs. A stronger colour: by at least 10 or 20 points. `}
        {shortened.length > 0 && <Visible text={`${shortened.map((each) => `${each.short}: ${each.title}`).join("; ")}.`} />}
      </p>
    </Fold>
  );
};
