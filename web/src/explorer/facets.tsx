// Fields beside the list: their values with the number of questions and the score under the rest of the query.
import { useState } from "preact/hooks";

import { sortable, type Facet, type Field, type Selection } from "../filter";
import { valuesOf, type Clause, type Value } from "../query";
import { count, FEW, flat } from "../text";
import { Visible } from "../ui/text";

const LONG = 16; // values from which a facet can be searched
const SHOWN = 12; // values of a long facet before it is searched
const MOST = 200; // values that are drawn at once
const UNSCORED: readonly string[] = ["sample", "rotation"];

/** A selection whose fields are counted. */
export interface Faceted {
  readonly table: { readonly fields: readonly Field[]; readonly facets: readonly number[] };
  readonly about: { readonly name: string };
  /** Whether the selection has scores. */
  readonly scored: boolean;
  readonly clauses: readonly Clause[];
  readonly selection: Pick<Selection, "facets">;
}

interface FacetsOf {
  readonly found: Faceted;
  readonly pick: (field: number, value: string) => void;
  readonly clear: (field: number) => void;
}

export const Facets = ({ found, pick, clear }: FacetsOf) => (
  <div class="facets">
    <p class="key" id="facets-key">Behind each value: its questions{found.scored && ", then their score in %"}.</p>
    {found.table.facets.map((field, place) => {
      const facet = found.selection.facets.get(field);
      return facet === undefined ? null : (
        <FacetOf key={`${found.about.name} ${field}`} found={found} field={field} facet={facet} open={place < 4} pick={pick} clear={clear} />
      );
    })}
  </div>
);

interface OneOf extends FacetsOf {
  readonly field: number;
  readonly facet: Facet;
  readonly open: boolean;
}

interface Entry {
  readonly value: Value;
  readonly place: number;
  readonly questions: number;
  readonly state: "on" | "off" | "not";
}

const FacetOf = ({ found, field, facet, open: first, pick, clear }: OneOf) => {
  const [typed, setTyped] = useState("");
  const [all, setAll] = useState(false);
  const [opened, setOpened] = useState<boolean | null>(null);
  const about = found.table.fields[field];
  if (about === undefined) return null;
  const { values, label, name } = about;
  const own = found.clauses.filter((clause) => clause.field === field);
  const state = (place: number): Entry["state"] =>
    own.some((clause) => clause.values.includes(place) && !clause.not) ? "on" : own.some((clause) => clause.values.includes(place)) ? "not" : "off";
  const entries = values
    .map((value, place): Entry => ({ value, place, questions: facet.questions[place] ?? 0, state: state(place) }))
    .filter((entry) => entry.questions > 0 || entry.state !== "off");
  if (entries.length === 0) return null;
  // A value that all questions have tells nothing apart.
  const open = opened ?? ((first && entries.length > 1) || own.length > 0);
  const long = values.length > LONG;
  const wanted = typed.toLowerCase();
  const matching = typed === "" ? entries : entries.filter((entry) => entry.value.label.toLowerCase().includes(wanted) || valuesOf(about, typed).includes(entry.place));
  const ordered = name === "outcome" || name === "pair" || name === "sample" || name === "rotation" || name === "prompt" ? matching : [...matching].sort(byLabel);
  const shown = !long || all || typed !== "" ? ordered.slice(0, MOST) : [...ordered].sort(byNumber).slice(0, Math.max(SHOWN, own.length));
  const scored = found.scored && about.byAnswer !== true && !UNSCORED.includes(name);
  return (
    <details class="facet" open={open}>
      <summary onClick={(event) => { event.preventDefault(); setOpened(!open); }}>
        <h2><Visible text={label} /></h2> <span class="quiet">{own.length > 0 ? (own.length === 1 && own[0]?.values.length === 1 ? "1 chosen" : "chosen") : count(entries.length)}</span>
      </summary>
      {open && (
        <>
          {long && (
            <input type="search" class="find" aria-label={`Find in ${flat(label)}`} placeholder="Find" value={typed} onInput={(event) => { setTyped(event.currentTarget.value); }} />
          )}
          <ul aria-label={flat(label)}>
            {shown.map((entry) => (
              <li key={entry.value.name}>
                <button
                  type="button"
                  aria-pressed={entry.state === "not" ? "mixed" : entry.state === "on"}
                  title={flat((entry.state === "not" ? "excluded: " : "") + entry.value.label + (entry.value.also?.length ? ` (${entry.value.also.join(", ")})` : ""))}
                  onClick={() => { pick(field, entry.value.name); }}
                >
                  <span class="v">{entry.state === "not" && "not "}<Visible text={entry.value.label} /></span>
                  <span class="n">{count(entry.questions)}<span class="sr"> {name === "pair" ? "pair" : "question"}{entry.questions === 1 ? "" : "s"}{scored ? ", score " : ""}</span></span>
                  {scored && <Score facet={facet} place={entry.place} field={name} value={entry.value.name} />}
                </button>
              </li>
            ))}
          </ul>
          <p class="more">
            {ordered.length > shown.length && <button type="button" onClick={() => { setAll(true); }}>{ordered.length > MOST && all ? `The first ${MOST} of ${count(ordered.length)}: find more by name` : `All ${count(ordered.length)}`}</button>}
            {typed !== "" && shown.length === 0 && <span class="quiet">No value has this name.</span>}
            {own.length > 0 && <button type="button" onClick={() => { clear(field); }}>Clear {flat(label)}</button>}
          </p>
        </>
      )}
    </details>
  );
};

const byLabel = (x: Entry, y: Entry): number => (sortable(x.value.label) < sortable(y.value.label) ? -1 : 1);
const byNumber = (x: Entry, y: Entry): number => Number(y.state !== "off") - Number(x.state !== "off") || y.questions - x.questions;

const Score = ({ facet, place, field, value }: { readonly facet: Facet; readonly place: number; readonly field: string; readonly value: string }) => {
  const [sum = 0, n = 0] = [facet.numerator[place], facet.denominator[place]];
  const text = n === 0 ? "–" : n < FEW ? `${count(sum)}/${count(n)}` : ((100 * sum) / n).toFixed(1);
  return <data class={n < FEW ? "s thin" : "s"} value={n === 0 ? "" : sum / n} data-facet={field} data-value={value} data-sum={sum} data-n={n}>{text}</data>;
};
