// A choice of one of several names: buttons, or a list where they are many.
import { flat } from "../text";
import { Visible } from "../ui/text";

const BUTTONS = 6;

interface ChoiceOf {
  /** What is chosen, for screen readers. */
  readonly label: string;
  readonly names: readonly string[];
  /** The place of the chosen name. */
  readonly chosen: number;
  readonly choose: (place: number) => void;
  /** A word before the names. */
  readonly before?: string;
}

export const Choice = ({ label, names, chosen, choose, before = "" }: ChoiceOf) => (
  <div class="tabs" role="group" aria-label={flat(label)}>
    {before !== "" && <span class="quiet">{before}</span>}
    {names.length <= BUTTONS
      ? names.map((name, place) => <button type="button" aria-pressed={place === chosen} onClick={() => { choose(place); }}><Visible text={name} /></button>)
      : (
        <select aria-label={flat(label)} value={chosen} onChange={({ currentTarget }) => { choose(Number(currentTarget.value)); }}>
          {names.map((name, place) => <option value={place}>{flat(name)}</option>)}
        </select>
      )}
  </div>
);
