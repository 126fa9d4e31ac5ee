import { render } from "preact";
import { act } from "preact/test-utils";
import { afterEach, beforeEach, expect, test, vi } from "vitest";

import { useLoaded, type Loaded } from "../src/served/feed";

let root: HTMLElement;
let state: DocumentVisibilityState;
let loaded: Loaded<number>;
let answers: ((value: number) => void)[];
let asked: number;

const Reader = () => {
  loaded = useLoaded(() => {
    asked += 1;
    return new Promise<number>((answer) => { answers.push(answer); });
  });
  return <output>{loaded.value ?? "none"}</output>;
};
const turn = (to: DocumentVisibilityState): void => {
  state = to;
  document.dispatchEvent(new Event("visibilitychange"));
};
const answer = (value: number): Promise<void> => act(async () => {
  answers.shift()?.(value);
  await Promise.resolve();
});
const draw = (): Promise<void> => act(() => { render(<Reader />, root); });

beforeEach(() => {
  [state, asked, answers] = ["visible", 0, []];
  vi.spyOn(document, "visibilityState", "get").mockImplementation(() => state);
  root = document.createElement("div");
  document.body.replaceChildren(root);
});
afterEach(async () => {
  await act(() => { render(null, root); });
  vi.restoreAllMocks();
});

test("what is wanted while an answer is under way is asked once, after it", async () => {
  await draw();
  loaded.again();
  loaded.again();
  expect(asked).toBe(1);
  await answer(1);
  expect([asked, root.textContent]).toEqual([2, "1"]);
  await answer(2);
  expect([asked, root.textContent]).toEqual([2, "2"]);
});

test("a tab that was hidden meanwhile asks when it is shown, and only if it has to", async () => {
  await draw();
  loaded.again();
  turn("hidden");
  await answer(1);
  loaded.again();
  expect(asked).toBe(1);
  turn("visible");
  expect(asked).toBe(2);
  await answer(2);
  turn("hidden");
  turn("visible");
  expect([asked, root.textContent]).toEqual([2, "2"]);
});

test("a tab that is opened hidden asks for its page, and one that was left asks for nothing", async () => {
  turn("hidden");
  await draw();
  expect(asked).toBe(1);
  loaded.again();
  await act(() => { render(null, root); });
  turn("visible");
  await answer(1);
  expect(asked).toBe(1);
});
