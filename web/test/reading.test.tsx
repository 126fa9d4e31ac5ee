import fc from "fast-check";
import { render } from "preact";
import { act } from "preact/test-utils";
import { afterEach, beforeEach, expect, test, vi } from "vitest";

import type { ReadingHead, ReadingTask } from "../src/bundle";
import { ANSWERING, type Reading } from "../src/reading/answering";
import { Clock, IDLE, useClock } from "../src/reading/clock";
import { Answers, PAUSE } from "../src/reading/kept";
import { fileOf, linesOf, readFile } from "../src/reading/lines";
import { ReaderPage } from "../src/reading/screens";
import type { Store } from "../src/reviews";

const taskOf = (item: string, change: Partial<ReadingTask> = {}): ReadingTask => ({
  benchmark: "chest", item, kind: "single_choice", question: `Question ${item}?`, options: [["A", "one"], ["B", "two"]], images: [], sitting: 1, ...change,
});
const STUDY = { name: "chest", plan: "ab".repeat(32), readers: ["R1", "R2"], margin: 5, reader: "R1" };
const headOf = (change: Partial<ReadingHead> = {}): ReadingHead => ({
  version: 3, kind: "reading", title: "Chest", generator: "medvqa", task: "answer", study: STUDY, instructions: "", confidence: true,
  tasks: [taskOf("a"), taskOf("b", { kind: "multiple_response" }), taskOf("c", { kind: "short_answer", options: [], sitting: 2 })], ...change,
});

class Memory implements Store {
  readonly texts = new Map<string, string>();
  full = false;
  getItem = (name: string): string | null => this.texts.get(name) ?? null;
  setItem(name: string, text: string): void {
    if (this.full) throw new DOMException("full", "QuotaExceededError");
    this.texts.set(name, text);
  }
  removeItem(name: string): void {
    this.texts.delete(name);
  }
}
let store: Memory;
const answersOf = (head = headOf(), at: Store | null = store): Answers<Reading> => new Answers(head, ANSWERING, at);
beforeEach(() => {
  vi.useFakeTimers();
  store = new Memory();
});
afterEach(() => {
  vi.restoreAllMocks();
  vi.useRealTimers();
});
const kept = (): void => { vi.advanceTimersByTime(PAUSE); };
const parsed = (text: string): readonly unknown[] => text.trim().split("\n").map((line) => JSON.parse(line) as unknown);

// ---- what is kept, exported and merged -----------------------------------------------------------------------------

test("answers are kept below 300 ms, under the plan and the reader, and are there again with the draft and the place", () => {
  expect(PAUSE).toBeLessThan(300);
  const answers = answersOf();
  answers.go(1);
  answers.set(0, { response: "A", confidence: 4 }, 1.5);
  answers.set(1, { comment: "half of an answer" }, 2);
  expect(store.texts.size).toBe(0);
  kept();
  expect([...store.texts.keys()]).toEqual([`medvqa/reading/1/${STUDY.plan}/answer/R1`]);
  const again = answersOf();
  expect([again.at, again.size, again.of(0).response, again.of(1).comment, again.of(1).seconds]).toEqual([1, 1, "A", "half of an answer", 2]);
  expect(answersOf(headOf({ study: { ...STUDY, reader: "R2" } })).size).toBe(0);
});

test("a file has the study with its reader, then each answer in the page's order, without fields that have their defaults", () => {
  const answers = answersOf();
  answers.set(2, { response: "a tumour\u2028\n=1", comment: "" }, 10.04);
  answers.set(0, { cannot_tell: true, response: "", confidence: undefined }, 3);
  answers.set(0, {}, 4);
  answers.set(1, { comment: "no answer: a draft" }, 1);
  expect(parsed(answers.exported())).toEqual([
    { readings: 1, ...STUDY },
    { reader: "R1", benchmark: "chest", item: "a", cannot_tell: true, seconds: 7, place: 1, sitting: 1 },
    { reader: "R1", benchmark: "chest", item: "c", response: "a tumour\u2028\n=1", seconds: 10, place: 3, sitting: 2 },
  ]);
  expect(parsed(answersOf(headOf(), null).exported())).toEqual([{ readings: 1, ...STUDY }]);
});

test("a blocked or full storage is said, and what cannot be read is left as it is", () => {
  expect(answersOf(headOf(), null).kept).toBe("blocked");
  const answers = answersOf();
  answers.set(0, { response: "A" });
  store.full = true;
  kept();
  expect([answers.kept, answers.size]).toEqual(["full", 1]);
  store.full = false;
  answers.set(1, { response: "A" });
  kept();
  expect([answers.kept, answersOf().size]).toEqual(["kept", 2]);
  for (const text of ["", "{}", '{"kept":2,"at":0,"saved":""}', `${store.getItem(answers.key) ?? ""}\n{"reader":"R1"}`]) {
    store.setItem(answers.key, text);
    const other = answersOf();
    other.set(0, { response: "B" });
    kept();
    expect([other.kept, other.of(0).response, store.getItem(answers.key)]).toEqual(["unreadable", "B", text]);
  }
});

test("a second tab makes the first one stop, and neither loses an answer", () => {
  const [one, other] = [answersOf(), answersOf()];
  one.set(0, { response: "A" });
  other.set(1, { response: "B" });
  other.flush();
  one.yield();
  expect([one.elsewhere, one.of(0).response, one.of(1).response]).toEqual([true, "A", "B"]);
  other.yield();
  expect([other.elsewhere, other.of(0).response]).toEqual([true, "A"]);
  other.resume();
  other.set(0, { response: "B" });
  kept();
  one.yield();
  expect([one.of(0).response, answersOf().size]).toEqual(["B", 2]);
  // A tab that stopped writes nothing more.
  const text = store.getItem(one.key);
  one.set(1, {}, 5);
  one.flush();
  kept();
  expect(store.getItem(one.key)).toBe(text);
  one.elsewhere = false;
  one.yield();
  expect(one.elsewhere).toBe(false);
});

test("a tab that was left behind does not put its old answers over newer ones", () => {
  const [old, fresh] = [answersOf(), answersOf()];
  old.go(0);
  fresh.set(0, { response: "B" });
  fresh.flush();
  kept();
  expect(answersOf().of(0).response).toBe("B");
});

test("a file is merged: conflicts are named first, and of equal answers the longer time counts", () => {
  const other = answersOf(headOf(), new Memory());
  other.set(0, { response: "A", confidence: 2 }, 9);
  other.set(1, { response: "A,B" }, 5);
  other.set(2, { response: "theirs" }, 1);
  const file = `\ufeff${other.exported()}`;
  const answers = answersOf();
  answers.set(0, { response: "A", confidence: 2 }, 4);
  answers.set(2, { response: "mine" }, 2);
  const found = answers.imported(file);
  expect([...found.conflicts]).toEqual(['["chest","c"]']);
  answers.take(found, found.conflicts);
  // The next step is the first question without an answer.
  expect(answers.at).toBe(-1);
  expect([answers.of(0).seconds, answers.of(1).response, answers.of(2).response]).toEqual([9, "A,B", "mine"]);
  answers.take(found);
  expect(answers.exported()).toBe(other.exported());
  expect(answersOf().exported()).toBe(other.exported());
});

const FIRST = JSON.stringify({ readings: 1, ...STUDY });
const line = (change: object = {}): string => JSON.stringify({ reader: "R1", benchmark: "chest", item: "a", response: "A", ...change });
test.each([
  ["", "its first line is no study"],
  ["id,reader,response\n1,R1,A", "its first line is no study"],
  [line(), "it is of another study"],
  [JSON.stringify({ ...STUDY, plan: "cd" }), "it is of another study"],
  [JSON.stringify({ ...STUDY, task: "review" }), "it is of another study"],
  [JSON.stringify({ ...STUDY, reader: "R2" }), "it is of another reader: this page is of R1"],
  [`${FIRST}\n${line({ reader: "R2" })}`, "line 2: it is of another reader: this page is of R1"],
  [`${FIRST}\n${line()}\n${line()}`, "line 3: a second line about a; keep one"],
  [`${FIRST}\n${line({ item: "z" })}`, "line 2: the page has no question z of chest"],
  [`${FIRST}\n${line({ confidence: 6 })}`, "line 2: 'confidence' is no whole number from 1 to 5"],
  [`${FIRST}\n${line({ response: "x".repeat(20_001) })}`, "line 2: 'response' is no text of at most 20000 characters"],
  [`${FIRST}\n${line({ seconds: -1 })}`, "line 2: 'seconds' is no number of seconds"],
  [`${FIRST}\n${line({ cannot_tell: "yes" })}`, "line 2: 'cannot_tell' is no value of true, false"],
  [`${FIRST}\n${line({ name: "Anna" })}`, "line 2: no field 'name'; there are: reader, benchmark, item, response"],
  [`${FIRST}\n{"reader":"R1","benchmark":"chest","item":"a","__proto__":{"x":1}}`, "line 2: no field '__proto__'"],
  [`${FIRST}\n[1]`, "line 2: an object of JSON is expected"],
])("a file that cannot be used is refused whole, with a sentence (%#)", (content, message) => {
  const answers = answersOf();
  expect(() => answers.imported(content)).toThrow(message);
  expect(answers.size).toBe(0);
});

test("any text is refused or read, and what is written is read back", () => {
  fc.assert(fc.property(fc.string({ unit: "binary", maxLength: 40 }), (content) => {
    expect(() => readFile(ANSWERING, headOf(), content)).toThrow();
    try {
      expect(linesOf(ANSWERING, headOf(), [content]).size).toBe(0);
    } catch (error) {
      expect(String(error)).toMatch(/^Error: line 2: /);
    }
  }));
  const text = fc.string({ unit: "grapheme", minLength: 1, maxLength: 40 });
  const reading = fc.record({ response: text, comment: text, confidence: fc.integer({ min: 1, max: 5 }), seconds: fc.nat(1000), place: fc.constant(1), sitting: fc.constant(1) });
  fc.assert(fc.property(reading, (given) => {
    const full: Reading = { reader: "R1", benchmark: "chest", item: "a", ...given };
    const file = fileOf(ANSWERING, headOf(), [full]);
    expect([...readFile(ANSWERING, headOf(), file).values()]).toEqual([full]);
  }));
  const half = fileOf(ANSWERING, headOf(), [{ reader: "R1", benchmark: "chest", item: "a", response: "x\ud800" }]);
  expect(half).toContain("x\ufffd");
});

test("what a server has replaces the answers of the page, and drafts stay", () => {
  const other = answersOf(headOf(), new Memory());
  other.set(1, { response: "B" });
  const answers = answersOf();
  answers.set(0, { response: "A" });
  answers.set(2, { comment: "draft" });
  answers.adopt(other.exported());
  expect([answers.isAnswered(0), answers.of(1).response, answers.of(2).comment]).toEqual([false, "B", "draft"]);
  answers.savedAs('"7"');
  expect([answersOf().exported(), answersOf().saved]).toEqual([other.exported(), '"7"']);
});

// ---- the clock -----------------------------------------------------------------------------------------------------

test("a clock counts while it runs, and stops five minutes after the last sign of the reader", () => {
  let now = 0;
  const clock = new Clock(() => now);
  now = 5000;
  clock.start();
  now = 8000;
  expect([clock.take(), clock.take()]).toEqual([3, 0]);
  clock.stop();
  now = 20_000;
  clock.start();
  now += IDLE + 60_000;
  expect(clock.take()).toBe(300);
  clock.sign();
  now += 2000;
  clock.sign();
  now += 1000;
  clock.stop();
  now += 5000;
  expect(clock.take()).toBe(3);
});

test("the time of a question ends when the page is hidden or another question comes", async () => {
  let state: DocumentVisibilityState = "visible";
  vi.spyOn(document, "visibilityState", "get").mockImplementation(() => state);
  const turn = (to: DocumentVisibilityState): void => {
    state = to;
    document.dispatchEvent(new Event("visibilitychange"));
  };
  const spent: (readonly [number, number])[] = [];
  const Timed = ({ place }: { readonly place: number | null }) => {
    useClock(place, (left, seconds) => { spent.push([left, Math.round(seconds)]); });
    return null;
  };
  const root = document.createElement("div");
  const show = (place: number | null): Promise<void> => act(() => { render(<Timed place={place} />, root); });
  await show(0);
  vi.advanceTimersByTime(4000);
  turn("hidden");
  vi.advanceTimersByTime(60_000);
  turn("visible");
  vi.advanceTimersByTime(2000);
  await show(1);
  vi.advanceTimersByTime(1000);
  await show(null);
  vi.advanceTimersByTime(9000);
  expect(spent).toEqual([[0, 4], [0, 2], [1, 1]]);
});

// ---- the page ------------------------------------------------------------------------------------------------------

let root: HTMLElement;
const draw = async (head: ReadingHead): Promise<void> => {
  root = document.createElement("div");
  document.body.replaceChildren(root);
  await act(() => { render(<ReaderPage head={head} of={ANSWERING} />, root); });
};
const found = <Name extends "textarea" | "input">(name: Name): HTMLElementTagNameMap[Name] => {
  const element = root.querySelector(name);
  if (element === null) throw new Error(`no ${name} in ${root.textContent}`);
  return element;
};
const button = async (text: string): Promise<void> => {
  const one = [...root.querySelectorAll("button")].find((each) => each.textContent.includes(text));
  if (one === undefined) throw new Error(`no button ${text} in ${root.textContent}`);
  await act(() => { one.click(); });
};
const press = (key: string, repeat = false): Promise<void> => act(() => { document.activeElement?.dispatchEvent(new KeyboardEvent("keydown", { key, repeat, bubbles: true, cancelable: true })); });
const heading = (): string => root.querySelector("h1")?.textContent ?? "";

test("a reader answers by keys, pauses between sittings, and comes to what is left open", async () => {
  localStorage.clear();
  await draw(headOf());
  expect(heading()).toBe("Chest");
  await button("Begin");
  expect(heading()).toBe("Question 1 of 3, sitting 1 of 2");
  expect(document.activeElement?.getAttribute("aria-labelledby")).toBe("step");
  await press("b");
  await press("Enter");
  expect(root.querySelector(".lack")?.textContent).toContain("You have not said how sure you are.");
  await press("5");
  await press("Enter");
  // A key that is held down leaves no second question open.
  await press("Enter", true);
  await press("Enter", true);
  expect(heading()).toContain("2 of 3");
  for (const key of ["a", "b", "a", "0"]) await press(key);
  expect(root.querySelectorAll(".pick input:checked").length).toBe(1);
  await press("b");
  await press("3");
  await press("Enter");
  expect(heading()).toBe("Sitting 1 is done");
  await press("Enter");
  await press("Enter");
  expect(root.querySelector(".lack")?.textContent).toContain("This question has no answer.");
  await press("Enter");
  expect(heading()).toBe("1 question is not complete");
  await button("Question 3");
  await press("0");
  await press("Enter");
  expect(heading()).toBe("All questions are answered");
  const [text = ""] = Object.keys(localStorage).filter((key) => key.startsWith("medvqa/reading/")).map((key) => localStorage.getItem(key) ?? "");
  expect(text).toContain('"item":"a","response":"B","confidence":5');
  expect(text).toContain('"item":"b","response":"B","confidence":3');
  expect(text).toContain('"item":"c","cannot_tell":true');
  await act(() => { render(null, root); });
});

test("0 and 1 answer when the image has the focus, and letters when a slider has it", async () => {
  localStorage.clear();
  const image = { name: "Image 1", source: `images/${"a".repeat(64)}.png`, size: "", shrunk: false, drawn_width: 8, exact: true };
  await draw(headOf({ tasks: [taskOf("a", { images: [image] })] }));
  await button("Begin");
  const from = async (selector: string, key: string): Promise<void> => {
    await act(() => { root.querySelector(selector)?.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true })); });
  };
  const checked = (): readonly unknown[] => [...root.querySelectorAll<HTMLInputElement>(".fields input:checked")].map(({ dataset }) => dataset["name"]);
  await from(".slider input", "b");
  await from(".frame", "1");
  expect(checked()).toEqual(["option B", "sure 1"]);
  await from(".frame", "0");
  expect(checked()).toEqual(["cannot tell"]);
  await from(".slider input", "ArrowRight");
  expect(root.querySelector("#viewer-keys")?.textContent).not.toContain("0 fits");
  await act(() => { render(null, root); });
});

test("a text that a mark takes away comes back, and arm and confidence are as the plan has them", async () => {
  localStorage.clear();
  await draw(headOf({ tasks: [taskOf("c", { kind: "short_answer", options: [] })], confidence: false, arm: "with" }));
  await button("Begin");
  const area = found("textarea");
  area.value = "a tumour";
  await act(() => { area.dispatchEvent(new Event("input", { bubbles: true })); });
  const mark = found("input");
  await act(() => { mark.click(); });
  expect([area.value, area.disabled]).toEqual(["", true]);
  await act(() => { mark.click(); });
  expect(area.value).toBe("a tumour");
  expect(root.querySelector(".sure")).toBe(null);
  await button("Next");
  expect(heading()).toBe("All questions are answered");
  const [text = ""] = Object.keys(localStorage).filter((key) => key.startsWith("medvqa/reading/")).map((key) => localStorage.getItem(key) ?? "");
  expect(text).toContain('"response":"a tumour","arm":"with"');
  await act(() => { render(null, root); });
});
