import { render } from "preact";
import { act } from "preact/test-utils";
import { afterEach, beforeEach, expect, test, vi } from "vitest";

import { ENDED, ServerProblem } from "../src/server";
import { joined, useLoaded, usePolled, type Loaded, type Runs } from "../src/served/feed";
import type { RunEntry, RunList } from "../src/served";

let root: HTMLElement;
let state: DocumentVisibilityState;
let loaded: Loaded<number>;
let answers: { readonly give: (value: number) => void; readonly fail: (error: Error) => void }[];
let asked: number;

const load = (): Promise<number> => {
  asked += 1;
  return new Promise((give, fail) => { answers.push({ give, fail }); });
};
const Reader = ({ polled = false }) => {
  // The kind of a reader never changes.
  const use = polled ? usePolled : useLoaded;
  loaded = use(load);
  return <output>{loaded.value ?? "none"}{loaded.problem}</output>;
};
const turn = (to: DocumentVisibilityState): Promise<void> => act(() => {
  state = to;
  document.dispatchEvent(new Event("visibilitychange"));
});
const answer = (value: number): Promise<void> => act(async () => {
  answers.shift()?.give(value);
  await vi.advanceTimersByTimeAsync(0);
});
const wait = (milliseconds: number): Promise<void> => act(async () => { await vi.advanceTimersByTimeAsync(milliseconds); });
const draw = (polled: boolean): Promise<void> => act(() => { render(<Reader polled={polled} />, root); });

beforeEach(() => {
  vi.useFakeTimers();
  [state, asked, answers] = ["visible", 0, []];
  vi.spyOn(document, "visibilityState", "get").mockImplementation(() => state);
  root = document.createElement("div");
  document.body.replaceChildren(root);
});
afterEach(async () => {
  await act(() => { render(null, root); });
  vi.restoreAllMocks();
  vi.useRealTimers();
});

test("what is wanted while an answer is under way is asked once, after it", async () => {
  await draw(false);
  loaded.again();
  loaded.again();
  expect(asked).toBe(1);
  await answer(1);
  expect([asked, root.textContent]).toEqual([2, "1"]);
  await answer(2);
  await wait(10_000);
  expect([asked, root.textContent]).toEqual([2, "2"]);
});

test("a polled answer is asked for every two seconds, one question at a time", async () => {
  await draw(true);
  await wait(10_000);
  expect(asked).toBe(1);
  await answer(1);
  await wait(1900);
  expect(asked).toBe(1);
  await wait(200);
  expect(asked).toBe(2);
  await answer(1);
  await wait(2100);
  expect(asked).toBe(3);
});

test("a hidden tab asks once a minute, and at once when it is shown", async () => {
  await draw(true);
  await answer(1);
  await turn("hidden");
  await wait(59_000);
  expect(asked).toBe(1);
  await wait(2000);
  expect(asked).toBe(2);
  await answer(2);
  await wait(30_000);
  expect(asked).toBe(2);
  await turn("visible");
  expect(asked).toBe(3);
});

test("the end of the server and its return are told, and what was shown stays", async () => {
  await draw(true);
  await answer(1);
  await wait(2100);
  await act(async () => {
    answers.shift()?.fail(new ServerProblem(ENDED, 0));
    await vi.advanceTimersByTimeAsync(0);
  });
  expect(root.textContent).toBe(`1${ENDED}`);
  await wait(2100);
  expect(asked).toBe(3);
  await answer(2);
  expect(root.textContent).toBe("2");
});

test("a page that was left asks for nothing", async () => {
  await turn("hidden");
  await draw(true);
  expect(asked).toBe(1);
  await act(() => { render(null, root); });
  await answer(1);
  await turn("visible");
  await wait(100_000);
  expect(asked).toBe(1);
});

test("what changed takes its place in the list; a whole list replaces it", () => {
  const run = (name: string, started: string, answered = 0): RunEntry =>
    ({ name, state: "running", model: "", label: "", started, finished: "", answered, selected: 0, part: "", benchmarks: [], numbers: [] });
  const list = (version: number, runs: readonly RunEntry[], change: Partial<RunList> = {}): RunList => ({ root: "reports", version, runs, ...change });
  const told = ({ list: { version, runs }, changed }: Runs): unknown => [version, runs.map(({ name, answered }) => `${name} ${answered}`), changed];
  const first = joined(null, list(1, [run("b", "2"), run("a", "1"), run("c", "1")]));
  expect(told(first)).toEqual([1, ["b 0", "a 0", "c 0"], []]);
  const next = joined(first, list(5, [run("c", "1", 7), run("d", "3")], { partial: true, gone: ["a"] }));
  expect(told(next)).toEqual([5, ["d 0", "b 0", "c 7"], ["c", "d"]]);
  expect(next.list.runs[1]).toBe(first.list.runs[0]);
  // A server that was started again sends all.
  expect(told(joined(next, list(9, [run("a", "1")])))).toEqual([9, ["a 0"], []]);
});
