// A number for each pair of a row and a column, told by its number, sign and shade.
import type { MatrixBlock, MatrixCell, MatrixLabel } from "../bundle";
import { count, FEW, flat } from "../text";
import { Visible } from "../ui/text";
import { Linked, SIGNS, told } from "./figure";
import { Notes } from "./table";

/** Columns that fit a screen: their headings stay in sight when the page scrolls. */
const FITS = 9;

const Label = ({ of }: { readonly of: MatrixLabel }) => {
  const { title, short = "", link, note = "" } = of;
  return (
    <>
      <Linked to={link}>
        {short === "" ? <Visible text={title} /> : <><span aria-hidden="true" title={flat(title)}><Visible text={short} /></span><span class="sr"><Visible text={title} /></span></>}
      </Linked>
      {note !== "" && <small><Visible text={note} /></small>}
    </>
  );
};

const Field = ({ of, within }: { readonly of: MatrixCell; readonly within: MatrixBlock }) => {
  const { figure, step = 0, link, framed = false } = of;
  const tone = figure.tone ?? "";
  const words = `${within.rows[of.row]?.title ?? ""}, ${within.columns[of.column]?.title ?? ""}: ${told(figure)}`;
  return (
    <td class={`t-${tone === "" ? "plain" : tone} s${step}${figure.few === true ? " few" : ""}${framed ? " framed" : ""}`} title={flat(words)}>
      <Linked to={link}>
        <span aria-hidden="true">
          <b>{SIGNS[tone]}<Visible text={figure.shown} /></b>{" "}
          {figure.few !== true && typeof figure.n === "number" && <small>{count(figure.n)}</small>}
        </span>
        <data class="sr" value={figure.value ?? ""}><Visible text={words} /></data>
      </Linked>
    </td>
  );
};

export const MatrixView = ({ of }: { readonly of: MatrixBlock }) => {
  const fields = new Map(of.fields.map((field) => [`${field.row} ${field.column}`, field]));
  const shortened = of.columns.filter(({ short = "" }) => short !== "");
  const toned = of.fields.some(({ figure: { tone = "" } }) => tone !== "");
  return (
    <>
      <div class={`scroll${of.columns.length <= FITS ? " whole" : ""}`} tabIndex={0} role="group" aria-label={flat(of.title) || "Matrix"}>
        <table class={of.columns.length <= FITS ? "heat" : "heat wide"}>
          <thead>
            <tr>
              <th scope="col" class="corner"><Visible text={of.down} /> <span aria-hidden="true">↓</span> <Visible text={of.across} /> <span aria-hidden="true">→</span></th>
              {of.columns.map((column) => <th scope="col"><Label of={column} /></th>)}
            </tr>
          </thead>
          <tbody>
            {of.rows.map((row, a) => (
              <tr>
                <th scope="row"><Label of={{ ...row, short: "" }} /></th>
                {of.columns.map((_, b) => {
                  const field = fields.get(`${a} ${b}`);
                  return field === undefined ? <td class="empty" /> : <Field of={field} within={of} />;
                })}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      <p class="key">
        {toned && <span>▲ better, ▼ worse.</span>}
        {of.fields.some(({ figure }) => figure.few === true) && <span>Grey: under {FEW}, counts in place of percentages.</span>}
        {shortened.map((each) => <span><Visible text={`${each.short ?? ""}: ${each.title}`} /></span>)}
      </p>
      <Notes of={of.notes} />
    </>
  );
};
