import { render } from "preact";
import { act } from "preact/test-utils";
import { expect, test } from "vitest";

import type { ReadingHead, ReadingTask } from "../src/bundle";
import { fileOf, linesOf } from "../src/reading/lines";
import { REVIEWING, type Opinion } from "../src/reading/reviewing";

const TASK: ReadingTask = {
  benchmark: "chest", item: "a", kind: "single_choice", question: "Which side?", options: [["A", "left"], ["B", "right"]], images: [], sitting: 1,
  checked: { answers: ["A"], opinions: [] },
};
const HEAD: ReadingHead = { version: 3, kind: "reading", title: "Chest", generator: "medvqa", task: "review", study: { reader: "R1", task: "review" }, instructions: "", tasks: [TASK] };
const LINE: Opinion = { reader: "R1", benchmark: "chest", item: "a" };

test.each<[Partial<Opinion>, string]>([
  [{}, "You have not decided."],
  [{ rating: 3, reason: "x" }, "You have not decided."],
  [{ decision: "accept" }, "There is no rating."],
  [{ decision: "accept", rating: 10 }, ""],
  [{ decision: "accept", final: true }, ""],
  [{ decision: "reject", rating: 1, reason: " " }, "A reason is needed."],
  [{ decision: "reject", rating: 1, reason: "blurred" }, ""],
  [{ decision: "correct", rating: 4, reason: "side" }, "Nothing is corrected."],
  [{ decision: "correct", rating: 4, reason: "side", question: " " }, "A corrected text is empty."],
  [{ decision: "correct", rating: 4, reason: "side", options: { A: "" } }, "A corrected text is empty."],
  [{ decision: "correct", rating: 4, reason: "side", answers: [] }, "The key is empty."],
  [{ decision: "correct", rating: 4, answers: ["B"] }, "A reason is needed."],
  [{ decision: "correct", rating: 4, reason: "side", answers: ["B"] }, ""],
])("an opinion %j lacks %j", (change, lack) => {
  expect(REVIEWING.lacks({ ...LINE, ...change }, HEAD)).toBe(lack);
  // Without a rating, an opinion is one nevertheless.
  expect(REVIEWING.isAnswered({ ...LINE, ...change })).toBe(lack === "" || lack === "There is no rating.");
});

test("opinions go through a file, and other values are refused", () => {
  const whole: Opinion = { ...LINE, decision: "correct", rating: 4, question: "Where?", options: { B: "both" }, answers: ["B"], reason: "side", final: true };
  const lines = fileOf(REVIEWING, HEAD, [whole]).trim().split("\n").slice(1);
  expect([...linesOf(REVIEWING, HEAD, lines).values()]).toEqual([whole]);
  for (const wrong of [{ decision: "keep" }, { rating: 11 }, { options: ["A"] }, { options: { A: 1 } }, { answers: "A" }, { answers: [1] }, { response: "A" }]) {
    expect(() => linesOf(REVIEWING, HEAD, [JSON.stringify({ ...whole, ...wrong })])).toThrow();
  }
});

let root: HTMLElement;
const draw = async (task: ReadingTask): Promise<() => Opinion> => {
  let line = LINE;
  root = document.createElement("div");
  document.body.replaceChildren(root);
  const show = (): void => {
    render(<REVIEWING.Form head={HEAD} task={task} line={line} set={(change) => {
      line = { ...line, ...change };
      show();
    }} />, root);
  };
  await act(show);
  return () => JSON.parse(JSON.stringify(line)) as Opinion;
};
const named = (name: string): HTMLInputElement | HTMLTextAreaElement => {
  const labelled = [...root.querySelectorAll("label")].find(({ textContent }) => textContent.startsWith(name))?.querySelector<HTMLInputElement>("input, textarea");
  const one = root.querySelector<HTMLInputElement>(`[aria-label="${name}"], [data-name="${name}"]`) ?? labelled;
  if (one === null || one === undefined) throw new Error(`no field ${name} in ${root.textContent}`);
  return one;
};
const click = (name: string): Promise<void> => act(() => { named(name).click(); });
const type = (name: string, text: string): Promise<void> => act(() => {
  const field = named(name);
  field.value = text;
  field.dispatchEvent(new Event("input", { bubbles: true }));
});

test("only what differs from the question is a correction, and another decision takes it away", async () => {
  const line = await draw(TASK);
  await click("correct");
  await type("Question", "Where?");
  await type("Text of option B", "both");
  await type("Text of option A", "none");
  await type("Text of option A", "left");
  await click("B is right");
  expect(line()).toEqual({ ...LINE, decision: "correct", question: "Where?", options: { B: "both" }, answers: ["B"] });
  await click("reject");
  expect(line()).toEqual({ ...LINE, decision: "reject" });
  await click("correct");
  await type("Question", "Which side?");
  await type("Text of option B", "right");
  await click("A is right");
  await click("rated 7");
  await type("Reason", "as it was");
  expect(line()).toEqual({ ...LINE, decision: "correct", rating: 7, reason: "as it was" });
});

test("the key of an open question is typed, one accepted answer a line, and who decides reads the opinions", async () => {
  const line = await draw({ ...TASK, kind: "short_answer", options: [], checked: { answers: ["a nodule"], opinions: ["Reviewer 1: reject", "Reviewer 2: accept, 8 of 10"] } });
  expect(root.querySelector(".checked")?.textContent).toContain("Reviewer 2: accept, 8 of 10");
  await click("correct");
  await type("Key", "a nodule\n\n a cyst ");
  expect(line()).toEqual({ ...LINE, decision: "correct", final: true, answers: ["a nodule", "a cyst"] });
  expect(named("Key").value).toBe("a nodule\n\n a cyst ");
});
