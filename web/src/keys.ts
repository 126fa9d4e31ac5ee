// Keys that do something, in layers: a view adds its own, an open dialog hides those below it.
import { useLayoutEffect, useRef } from "preact/hooks";

export interface Shortcut {
  /** Names of keys, as `KeyboardEvent.key` has them. */
  readonly keys: readonly string[];
  readonly run: () => void;
  /** Whether it also works below an open dialog. */
  readonly always?: boolean;
  /** Whether a key that is held down counts once. */
  readonly once?: boolean;
}
interface Layer {
  readonly modal: boolean;
  shortcuts: readonly Shortcut[];
}

const layers: Layer[] = [];
let letters = true;

/** Switch keys that are single characters: people who speak to the computer trigger them by accident. */
export const setLetters = (on: boolean): void => {
  letters = on;
};

/** The shortcuts that work now, the last layer first. */
export const active = (): readonly Shortcut[] => {
  const found: Shortcut[] = [];
  let hidden = false;
  for (const layer of [...layers].reverse()) {
    found.push(...layer.shortcuts.filter(({ always }) => !hidden || always));
    hidden ||= layer.modal;
  }
  return found;
};

const BUTTONS = ["button", "checkbox", "submit", "reset", "file", "color", "image"];

/** Whether a key belongs to the element that has the focus: people type there, or move a choice. */
const isTyping = ({ target, key }: KeyboardEvent): boolean => {
  if (!(target instanceof HTMLElement)) return false;
  if (key === "Enter" && target.closest("button, a, summary") !== null) return true;
  // A slider moves by these, and by nothing that is a letter or a digit.
  if (target instanceof HTMLInputElement && target.type === "range") return /^(Arrow|Page|Home|End)/.test(key);
  if (target instanceof HTMLInputElement) return target.type === "radio" ? key.startsWith("Arrow") || key === " " : !BUTTONS.includes(target.type);
  return target instanceof HTMLTextAreaElement || target instanceof HTMLSelectElement || target.isContentEditable;
};

export const press = (event: KeyboardEvent): void => {
  if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
  if (isTyping(event) || (event.key.length === 1 && !letters)) return;
  const shortcut = active().find(({ keys }) => keys.includes(event.key));
  if (shortcut === undefined) return;
  event.preventDefault();
  if (!event.repeat || shortcut.once !== true) shortcut.run();
};

/** Add shortcuts while a component is shown. `modal` hides all others, as an open dialog does; `base`: below all others. */
export const useKeys = (shortcuts: readonly Shortcut[], { modal = false, base = false } = {}): void => {
  const layer = useRef<Layer>({ modal, shortcuts });
  layer.current.shortcuts = shortcuts;
  // Not after the next paint: until then a dialog that is gone would hide the keys below it.
  useLayoutEffect(() => {
    const own = layer.current;
    if (layers.length === 0) addEventListener("keydown", press);
    // Effects of children come before those of their parents.
    if (base) layers.unshift(own);
    else layers.push(own);
    return () => {
      layers.splice(layers.indexOf(own), 1);
      if (layers.length === 0) removeEventListener("keydown", press);
    };
  }, [base]);
};
