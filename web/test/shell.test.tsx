import { render } from "preact";
import { act } from "preact/test-utils";
import { afterEach, beforeEach, expect, test, vi } from "vitest";

import { setLetters, useKeys, type Shortcut } from "../src/keys";
import { ThemeChoice } from "../src/theme";
import { Outcome } from "../src/ui/outcome";
import { Help } from "../src/views/help";

const OUTCOMES = ["correct", "partial", "wrong", "refused", "abstained", "unparsed", "unscored", "error"];

let root: HTMLElement;
beforeEach(() => {
  localStorage.clear();
  root = document.createElement("div");
  document.body.replaceChildren(root);
});
afterEach(async () => {
  await act(() => { render(null, root); });
  setLetters(true);
});

const Layer = ({ shortcuts, modal = false, base = false }: { readonly shortcuts: readonly Shortcut[]; readonly modal?: boolean; readonly base?: boolean }) => {
  useKeys(shortcuts, { modal, base });
  return <input type="text" />;
};
const press = (key: string, target: EventTarget = document.body, more: KeyboardEventInit = {}): boolean =>
  target.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true, ...more }));

const shape = (): string =>
  [...root.querySelectorAll("svg *")].map((each) => ["class", "d", "r", "stroke-dasharray"].map((name) => each.getAttribute(name)).join()).join();

test("outcomes are told by shape: no two have the same", () => {
  const shapes = OUTCOMES.map((name) => {
    render(<Outcome name={name} bare />, root);
    return shape();
  });
  expect(new Set(shapes).size).toBe(OUTCOMES.length);
  render(<Outcome name={"<b>\u202e"} />, root);
  expect(root.textContent).toBe("<b>⟨U+202E⟩");
  expect(shape()).toBe(shapes[OUTCOMES.indexOf("unscored")]);
});

test("a key does something unless somebody types or holds another key", async () => {
  const run = vi.fn();
  await act(() => { render(<Layer shortcuts={[{ keys: ["j", "ArrowDown"], run }, { keys: ["Enter"], run, once: true }]} />, root); });
  expect(press("j")).toBe(false);
  expect(press("ArrowDown")).toBe(false);
  expect(press("k")).toBe(true);
  for (const name of ["ctrlKey", "metaKey", "altKey", "isComposing"]) expect(press("j", document.body, { [name]: true })).toBe(true);
  const input = root.querySelector("input");
  if (input === null) throw new Error("no input");
  expect(press("j", input)).toBe(true);
  for (const name of ["textarea", "select"]) {
    const element = document.createElement(name);
    root.append(element);
    expect(press("j", element)).toBe(true);
  }
  // Arrows move the choice; a letter is no text there. Enter belongs to a button.
  input.type = "radio";
  expect(press("ArrowDown", input)).toBe(true);
  expect(press("j", input)).toBe(false);
  const button = document.createElement("button");
  root.append(button);
  expect(press("Enter", button)).toBe(true);
  expect(press("Enter", input)).toBe(false);
  expect(press("Enter", input, { repeat: true })).toBe(false);
  input.type = "checkbox";
  expect(press("j", input)).toBe(false);
  expect(run).toHaveBeenCalledTimes(5);
  await act(() => { render(null, root); });
  expect(press("j")).toBe(true);
});

test("an open dialog hides the keys below it, and views come before the shell", async () => {
  const [shell, view, dialog] = [vi.fn(), vi.fn(), vi.fn()];
  const Page = ({ open }: { readonly open: boolean }) => {
    useKeys([{ keys: ["j", "?"], run: shell }], { base: true });
    return (
      <>
        <Layer shortcuts={[{ keys: ["j", "k"], run: view }]} />
        {open && <Layer shortcuts={[{ keys: ["j"], run: dialog }]} modal />}
      </>
    );
  };
  await act(() => { render(<Page open />, root); });
  press("j");
  press("?");
  press("k");
  expect([shell, view, dialog].map((each) => each.mock.calls.length)).toEqual([0, 0, 1]);
  await act(() => { render(<Page open={false} />, root); });
  press("j");
  press("?");
  expect([shell, view, dialog].map((each) => each.mock.calls.length)).toEqual([1, 1, 1]);
});

test("single characters can be switched off, other keys not", async () => {
  const run = vi.fn();
  await act(() => { render(<Layer shortcuts={[{ keys: ["j", "ArrowDown"], run }]} />, root); });
  setLetters(false);
  press("j");
  press("ArrowDown");
  expect(run).toHaveBeenCalledTimes(1);
});

test("the theme is remembered", async () => {
  const choose = async (value: string): Promise<void> => {
    const select = root.querySelector("select");
    if (select === null) throw new Error("no select");
    select.value = value;
    await act(() => { select.dispatchEvent(new Event("change", { bubbles: true })); });
  };
  await act(() => { render(<ThemeChoice />, root); });
  expect(document.documentElement.dataset["theme"]).toBeUndefined();
  await choose("dark");
  expect(document.documentElement.dataset["theme"]).toBe("dark");
  await act(() => { render(null, root); });
  await act(() => { render(<ThemeChoice />, root); });
  expect(root.querySelector("select")?.value).toBe("dark");
  await choose("system");
  expect(document.documentElement.dataset["theme"]).toBeUndefined();
  localStorage.setItem("medvqa/choice/theme", "<b>");
  await act(() => { render(null, root); });
  await act(() => { render(<ThemeChoice />, root); });
  expect(root.querySelector("select")?.value).toBe("system");
});

test("a blocked storage does not stop a choice", async () => {
  vi.stubGlobal("localStorage", undefined);
  await act(() => { render(<ThemeChoice />, root); });
  const select = root.querySelector("select");
  if (select === null) throw new Error("no select");
  select.value = "light";
  await act(() => { select.dispatchEvent(new Event("change", { bubbles: true })); });
  expect(document.documentElement.dataset["theme"]).toBe("light");
  vi.unstubAllGlobals();
});

test("the list of keys closes and switches single characters", async () => {
  const [close, choose] = [vi.fn(), vi.fn()];
  await act(() => { render(<Help letters choose={choose} close={close} />, root); });
  expect(root.querySelectorAll("kbd").length).toBeGreaterThan(8);
  root.querySelector("input")?.click();
  expect(choose).toHaveBeenCalledWith(false);
  root.querySelector("button")?.click();
  expect(close).toHaveBeenCalled();
});
