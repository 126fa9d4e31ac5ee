import { render } from "preact";
import { act } from "preact/test-utils";
import { afterEach, beforeEach, expect, test, vi } from "vitest";

import { blocksOf, put, ServerProblem } from "../src/server";
import { ALL, itemsPath } from "../src/served/items";
import { lasting, Live, rateOf, saidOf } from "../src/served/live";
import { compareLink, historyLink, routeOf, runLink } from "../src/served/routes";
import { Frame, Waiting } from "../src/served/frame";
import { RunPage } from "../src/served/run";
import type { ItemPage, ItemRow, RunProgress } from "../src/served";

const HOSTILE = "<img src=x onerror=alert(1)>\u202e";
const PROGRESS: RunProgress = {
  name: "a/b",
  state: "running",
  answered: 3,
  selected: 10,
  parts: [{ benchmark: "chest", title: HOSTILE, technique: "mc", answered: 3, selected: 10, outcomes: { error: 1, correct: 2 }, score: 2, scored: 2 }],
  rate: 0.5,
  seconds_left: 14,
  since: "",
  last: "",
  version: 1,
  truncated: 1,
};
const rowOf = (row: number): ItemRow => ({
  row, benchmark: "chest", id: `q${row}`, technique: "mc", variant: "", sample: 0, kind: "single_choice", question: HOSTILE,
  options: [["A", "yes"], ["B", HOSTILE]], answers: ["A"], extracted: ["B"], outcome: "wrong", score: 0, why: "B is not A", response: HOSTILE, cut: 7,
  seconds: 0.5, images: ["", "ab12"],
});
const pageOf = (rows: readonly ItemRow[], total: number): ItemPage => ({ rows, matching: total, total, version: 1 });

let root: HTMLElement;
let asked: string[];
let answer: (path: string) => Response;
beforeEach(() => {
  root = document.createElement("div");
  document.body.replaceChildren(root);
  asked = [];
  answer = () => Response.json(pageOf([2, 1, 0].map(rowOf), 3));
  vi.stubGlobal("fetch", (path: string) => {
    asked.push(path);
    return Promise.resolve(answer(path));
  });
});
afterEach(async () => {
  await act(() => { render(null, root); });
  vi.unstubAllGlobals();
});

/** Let effects and answers run until something holds. */
const until = async (holds: () => boolean): Promise<void> => {
  for (let turn = 0; turn < 100 && !holds(); turn++) await act(() => new Promise((done) => { setTimeout(done, 1); }));
  expect(holds()).toBe(true);
};
const show = async (progress: RunProgress, reading = vi.fn()): Promise<void> => {
  await act(() => { render(<Live name="a/b" progress={progress} large={false} drawing={false} problem="" draw={() => undefined} reading={reading} />, root); });
  await until(() => root.querySelector(".results table, .results .alert") !== null);
};
const find = (selector: string): HTMLElement => {
  const element = root.querySelector<HTMLElement>(selector);
  if (element === null) throw new Error(`no ${selector}`);
  return element;
};
const button = (text: string): HTMLButtonElement => {
  const found = [...root.querySelectorAll("button")].find((each) => each.textContent.includes(text));
  if (found === undefined) throw new Error(`no button ${text}`);
  return found;
};
const ids = (): string[] => [...root.querySelectorAll(".items tbody th")].map((each) => each.textContent);

test("routes are read from addresses, whatever a run is named", () => {
  for (const name of ["first", "a/b", "100 % ü?#&", "%2F", "..."]) {
    const { pathname, search } = new URL(runLink(name), "http://127.0.0.1:1");
    expect(routeOf({ pathname, search })).toEqual({ kind: "run", name });
    const compared = new URL(compareLink([name, "b&run=c"]), "http://127.0.0.1:1");
    expect(routeOf(compared)).toEqual({ kind: "compare", names: [name, "b&run=c"] });
    expect(routeOf(new URL(historyLink(name, name), "http://127.0.0.1:1"))).toEqual({ kind: "history", benchmark: name, id: name });
  }
  expect(routeOf({ pathname: "/", search: "?token=x" })).toEqual({ kind: "home" });
  for (const pathname of ["/runs/", "/compare", "/history", "/x", "/runs/%ff"]) expect(routeOf({ pathname, search: "" })).toEqual({ kind: "unknown" });
});

test("numbers of the live view are those so far, errors and truncated answers come first", async () => {
  await show(PROGRESS);
  expect(find("[data-far=answered]").getAttribute("value")).toBe("3");
  expect(find("progress").getAttribute("max")).toBe("10");
  expect(root.textContent).toContain("30 answers/min · about 14 s left");
  expect(root.textContent).toContain("Mean score so far, %");
  expect(root.textContent).toContain("100.00 of 2 scored");
  expect(root.textContent).toContain("They are no result of the run");
  expect(find(".first-looked").textContent).toContain("1 error: questions without an answer");
  expect(find("[data-announced]").textContent).toBe("Running: 3 of 10 answered.");
  expect(root.querySelector("img")).toBeNull();
  expect(root.textContent).toContain("<img src=x onerror=alert(1)>⟨U+202E⟩");
  await act(() => { find(".first-looked button").click(); });
  await until(() => asked.length === 2);
  expect(asked.at(-1)).toBe(`/api/${itemsPath("a/b", { ...ALL, outcome: "error" })}`);
});

test("times and tokens are read when they are looked at", async () => {
  await show(PROGRESS);
  const axis = { low: 0, high: 10, ticks: [{ at: 0, label: "0" }, { at: 10, label: "10" }] };
  const points = [{ x: 1, y: 5, label: HOSTILE }, { x: 3, y: null }, { x: 5, y: 10, label: "answers 5 to 6: 10 seconds" }];
  answer = () => Response.json({ plots: [{ block: "plot", title: "Seconds per answer", across: "answers", up: "seconds", x: axis, y: axis, series: [{ title: "median", points, drawn: "line" }] }] });
  expect(asked.some((path) => path.endsWith("/pace"))).toBe(false);
  await act(() => { find(".pace summary").click(); });
  await until(() => root.querySelector(".pace polyline") !== null);
  expect(find(".pace table").textContent).toContain("answers 5 to 6: 10 seconds");
  expect(root.querySelector("img")).toBeNull();
  const before = asked.length;
  await act(() => { render(<Live name="a/b" progress={{ ...PROGRESS, version: 2 }} large={false} drawing={false} problem="" draw={() => undefined} reading={() => undefined} />, root); });
  await until(() => asked.length > before);
});

test("new answers are announced, and rows stay until they are asked for", async () => {
  const reading = vi.fn();
  await show(PROGRESS, reading);
  expect(ids()).toEqual(["q2", "q1", "q0"]);
  answer = () => Response.json(pageOf([4, 3, 2, 1, 0].map(rowOf), 5));
  await show({ ...PROGRESS, answered: 5, version: 2 }, reading);
  expect(ids()).toEqual(["q2", "q1", "q0"]);
  // Screen readers hear of it now and then only.
  expect(find("[data-announced]").textContent).toBe("Running: 3 of 10 answered.");
  await act(() => { button("2 new answers").click(); });
  await until(() => ids().length === 5);
  expect(asked.length).toBe(2);
  expect(reading).toHaveBeenLastCalledWith(false);
});

test("an opened answer shows its question, images, key and reason, and counts as reading", async () => {
  const reading = vi.fn();
  await show(PROGRESS, reading);
  await act(() => { button("q1").click(); });
  const dialog = find("dialog");
  for (const text of ["the run has no digest of this image", "✓ correct", "● chosen", "B is not A", "7 more characters", "2 of 3", "0.5 s"]) expect(dialog.textContent).toContain(text);
  expect(dialog.querySelector("img")?.getAttribute("src")).toBe("/api/runs/a/b/images/ab12");
  expect(reading).toHaveBeenLastCalledWith(true);
  await act(() => { button("Next").click(); });
  expect(find("dialog h2").textContent).toBe("chest · q0");
  expect(button("Next").disabled).toBe(true);
});

test("problems are told in the server's words, or in ours if it has none", async () => {
  answer = () => Response.json({ error: "No run a/b." }, { status: 404 });
  await show(PROGRESS);
  expect(find(".results .alert").textContent).toBe("No run a/b.");
  answer = () => new Response("<h1>502</h1>", { status: 502 });
  await expect(blocksOf("k")("head")).rejects.toThrow("The server answered with status 502.");
  answer = () => { throw new TypeError("Failed to fetch"); };
  await expect(blocksOf("k")("head")).rejects.toThrow("start medvqa view again");
  answer = () => Response.json({ error: "Changed since." }, { status: 412 });
  await expect(put("x", { text: "", version: "1" })).rejects.toBeInstanceOf(ServerProblem);
});

test("a run in words", () => {
  expect(saidOf({ ...PROGRESS, state: "unfinished" })).toBe("Unfinished: 3 of 10 answered, and no session is running.");
  expect(saidOf({ ...PROGRESS, selected: 0 })).toBe("Running: 3 answered.");
  expect([0.2, 40, 600, 11_100].map(lasting)).toEqual(["1 s", "40 s", "10 min", "3 h 5 min"]);
  expect([20, 1, 0.02].map(rateOf)).toEqual(["20 answers/s", "1 answers/s", "1.2 answers/min"]);
});

test("a frame names its page, and waiting says what for", async () => {
  await act(() => { render(<Frame title="Runs" home><Waiting problem="" what="Reading the runs." /></Frame>, root); });
  expect(document.title).toBe("Runs · medvqa");
  expect(find("[role=status]").textContent).toBe("Reading the runs.");
  expect(find("nav a").getAttribute("aria-current")).toBe("page");
});

test("a session that ends turns into its page, unless somebody reads", async () => {
  let progress = PROGRESS;
  answer = (path) =>
    path.endsWith("/progress") ? Response.json(progress)
    : path.startsWith("/api/bundle?") ? Response.json({ error: "It could not be drawn." }, { status: 500 })
    : Response.json(pageOf([rowOf(0)], 3));
  const asks = (): number => asked.filter((path) => path.startsWith("/api/bundle?")).length;
  const open = async (): Promise<void> => {
    progress = PROGRESS;
    await act(() => { render(null, root); });
    await act(() => { render(<RunPage name="a/b" />, root); });
    await until(() => root.querySelector(".items") !== null);
  };
  const end = async (): Promise<void> => {
    progress = { ...PROGRESS, state: "finished", answered: 10 };
    await act(() => { document.dispatchEvent(new Event("visibilitychange")); });
  };

  await open();
  expect(root.textContent).toContain("Draw the page so far");
  await end();
  await until(() => root.textContent.includes("It could not be drawn."));
  expect(asks()).toBe(1);
  expect(button("Show its page")).toBeDefined();

  await open();
  await act(() => { button("q0").click(); });
  await end();
  await until(() => root.textContent.includes("This run is finished."));
  expect(asks()).toBe(1);
  await act(() => { button("Show its page").click(); });
  await until(() => asks() === 2);
});
