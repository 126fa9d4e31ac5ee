// Steps through a list from an open dialog: buttons, and the keys of the list.
import { useKeys } from "../keys";
import { count } from "../text";

interface StepsOf {
  /** The place of what is open, -1 if the list does not have it. */
  readonly place: number;
  readonly of: number;
  /** Steps to the one before and to the next one; null at an end. */
  readonly before: (() => void) | null;
  readonly after: (() => void) | null;
}

/** Arrow keys, k and j step while a dialog is open. */
export const useStepKeys = ({ before, after }: Pick<StepsOf, "before" | "after">): void => {
  useKeys(
    [
      { keys: ["ArrowLeft", "k"], run: () => { before?.(); } },
      { keys: ["ArrowRight", "j"], run: () => { after?.(); } },
    ],
    { modal: true },
  );
};

export const Steps = ({ place, of, before, after }: StepsOf) => (
  <>
    {place >= 0 && <span class="quiet place">{count(place + 1)} of {count(of)}</span>}
    <button type="button" disabled={before === null} onClick={() => { before?.(); }}>Previous</button>
    <button type="button" disabled={after === null} onClick={() => { after?.(); }}>Next</button>
  </>
);
