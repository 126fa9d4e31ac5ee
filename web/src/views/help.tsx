// The list of keys, and the switch for those that are single characters.
import { setLetters, useKeys } from "../keys";
import { useRemembered } from "../remembered";
import { ThemeChoice } from "../theme";
import { Dialog } from "../ui/dialog";

/** Keys, and what they do. */
export type KeyList = readonly (readonly [keys: readonly string[], does: string])[];
const KEYS: KeyList = [
  [["/"], "Go to the query line of the questions"],
  [["j", "↓"], "Next row of the list"],
  [["k", "↑"], "Previous row of the list"],
  [["Enter"], "Open the question of the row"],
  [["→", "j"], "In an open question: the next question"],
  [["←", "k"], "In an open question: the previous question"],
  [["Esc"], "Close an open question or this list; leave the query line"],
  [["?"], "Show this list"],
];

/** The choice that single characters are keys; the browser keeps it. */
export const useLetters = (): readonly [boolean, (on: boolean) => void] => {
  const [choice, choose] = useRemembered("letters", ["on", "off"]);
  setLetters(choice === "on");
  return [choice === "on", (on) => { choose(on ? "on" : "off"); }];
};

interface HelpProps {
  readonly letters: boolean;
  readonly choose: (on: boolean) => void;
  readonly close: () => void;
  readonly list?: KeyList;
}

export const Help = ({ letters, choose, close, list = KEYS }: HelpProps) => {
  useKeys([{ keys: ["?"], run: () => undefined }], { modal: true });
  return (
    <Dialog id="help" title="Keys" close={close}>
      <dl>
        {list.map(([keys, does]) => (
          <div key={does}>
            <dt>{keys.map((key, place) => <>{place > 0 && " or "}<kbd>{key}</kbd></>)}</dt>
            <dd>{does}</dd>
          </div>
        ))}
      </dl>
      <label class="check">
        <input type="checkbox" checked={letters} onChange={({ currentTarget }) => { choose(currentTarget.checked); }} />
        Use keys that are single characters. Switch them off if you speak to your computer.
      </label>
      <p class="quiet">Keys do nothing while you type.</p>
    </Dialog>
  );
};

/** What stands at the right of a page's head. */
export const Tools = ({ showKeys }: { readonly showKeys: () => void }) => (
  <div class="tools">
    <button type="button" aria-haspopup="dialog" onClick={showKeys}>Keys</button>
    <ThemeChoice />
  </div>
);
