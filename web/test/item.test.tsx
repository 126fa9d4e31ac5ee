import fc from "fast-check";
import { render } from "preact";
import { act } from "preact/test-utils";
import { afterEach, beforeEach, expect, test } from "vitest";

import type { Answered, BundleHead, SentPrompt, SentPrompts, Tables } from "../src/bundle";
import { Data, type Key } from "../src/data";
import { findQuestion, keyText, pairOf, parseKey, resultsLike } from "../src/key";
import { answersLike, neighbours } from "../src/order";
import type { Page } from "../src/page";
import { filled, plain, sentOf } from "../src/prompt";
import type { Answers, Blocks, Numbers } from "../src/read";
import { START } from "../src/route";
import { probabilities } from "../src/views/asked";
import { ItemDialog } from "../src/views/item";

const HOSTILE = '<img src=x onerror="window.pwned=1">\u202e';

const SENT: SentPrompt = {
  text: 0, system: "Be brief.", order: "images-first", images: [0, "other.png"], blank: false,
  compared: "", others: [], turns: [["Look.", "I look."]], then: ["Then answer."], examples: [], withheld: 0, tokens: 512,
};
const PROMPTS: SentPrompts = {
  texts: [["Q: ", 0, "\nA. ", 1, "\nB. ", 2], [`Q: Where? ${HOSTILE}`]],
  prompts: [SENT, { ...SENT, turns: [], then: [], system: "", compared: "letters",
    examples: [{ text: 1, answer: "B", end: "\n\n", images: ["two.png"] }] }],
  reasons: ["Its text was not kept."],
};
const ANSWERED: readonly Answered[] = [
  { response: "B, I think", usage: { input: 10 }, logprobs: { A: -1, B: -1 }, folded: [{ name: "Hidden thoughts", texts: [HOSTILE] }] },
  { response: "A" },
  { response: "", judged: { judge: HOSTILE, task: "score", template: "t", replies: [HOSTILE, "4"] }, cut: true },
];

/** Questions 0 and 1 are a pair with two options each, question 2 is open; three results of technique mc, one of ps. */
const made = (): Data => {
  const columns = new Map<string, Numbers>(Object.entries({
    "questions.benchmark": Uint16Array.of(0, 0, 0),
    "questions.id": Uint32Array.of(0, 1, 2),
    "questions.kind": Uint8Array.of(0, 0, 4),
    "questions.text": Uint32Array.of(3, 3, 4),
    "questions.options": Uint32Array.of(0, 0, 1),
    "questions.answers": Uint32Array.of(0, 1, 2),
    "questions.pair": Int32Array.of(5, 5, -1),
    "questions.images.offsets": Uint32Array.of(0, 1, 2, 2),
    "questions.images.values": Uint32Array.of(0, 1),
    "results.question": Uint32Array.of(0, 1, 2, 0),
    "results.run": Uint16Array.of(0, 0, 0, 0),
    "results.technique": Uint8Array.of(0, 0, 0, 1),
    "results.variant": Uint16Array.of(0, 0, 0, 0),
    "results.sample": Uint32Array.of(0, 0, 0, 0),
    "results.outcome": Uint8Array.of(1, 0, 1, 0),
    "results.options": Uint32Array.of(0, 0, 1, 0),
    "results.answers": Uint32Array.of(0, 1, 2, 0),
    "results.extracted": Uint32Array.of(1, 1, 3, 0),
    "results.why": Uint32Array.of(6, 6, 8, 6),
    "results.finish": Uint8Array.of(0, 0, 1, 0),
    "results.seconds": Float32Array.of(1.5, NaN, NaN, NaN),
    "results.verdict": new Uint8Array(4),
    "results.prompt": Int32Array.of(0, 1, -1, 0),
  }));
  const tables = {
    words: ["1/1", "1/2", "7", `Which? ${HOSTILE}`, "Name it.", "1", "read A", "yes", HOSTILE, "left", "right"],
    options: [[["A", 9], ["B", 10]], []],
    lists: [["A"], ["B"], ["nodule"], []],
    images: [{ name: "one.png", why: "its file is gone" }, { name: "two.png", why: "left out" }],
  } as unknown as Tables;
  const head = {
    runs: [{ name: "first", model: "", digest: "" }],
    benchmarks: [{ name: "pairs", dimensions: [] }],
    techniques: ["mc", "ps"], variants: [""], finishes: ["stop", "length"],
    outcomes: ["correct", "wrong"], kinds: ["single_choice", "", "", "", "short_answer"], dimensions: [],
  } as unknown as BundleHead;
  const answers = {
    at: (result: number) => ANSWERED[result] ?? {},
    get: (result: number) => Promise.resolve(ANSWERED[result] ?? {}),
  } as unknown as Answers;
  const blocks: Blocks = (name) => name === "prompts"
    ? Promise.resolve(new TextEncoder().encode(JSON.stringify(PROMPTS)))
    : Promise.reject(new Error(`no block ${name}`));
  return new Data({ head, tables, columns, answers, blocks });
};

// ---- keys and order --------------------------------------------------------------------------------------------------

const part = fc.string({ unit: "grapheme" });
const key: fc.Arbitrary<Key> = fc.record({
  benchmark: part, item: part, technique: part, variant: part, sample: fc.nat(1e6),
});

test("a key that is written is read back, and any text is read as some key", () => {
  fc.assert(fc.property(key, (one) => { expect(parseKey(keyText(one))).toEqual(one); }));
  fc.assert(fc.property(part, (text) => { expect(typeof parseKey(text).sample).toBe("number"); }));
});

test("an item is found by its key, with its partner and the answers that were asked alike", () => {
  const data = made();
  expect(findQuestion(data, "pairs", "1/2")).toBe(1);
  expect(findQuestion(data, "other", "1/2")).toBeNull();
  expect(findQuestion(data, "pairs", "left")).toBeNull();
  expect(pairOf(data, 1)).toEqual([0, 1]);
  expect(pairOf(data, 2)).toEqual([2]);
  expect(resultsLike(data, 0, data.key(3))).toEqual([3]);
  expect(answersLike(data, data.key(0))).toEqual(["pairs|1/1|mc", "pairs|1/2|mc", "pairs|7|mc"]);
});

test("the neighbours of a pair are those of both its questions", () => {
  const list = ["a", "1/1", "1/2", "b"];
  const shown = new Set(["1/1", "1/2"]);
  expect(neighbours(list, "1/2", shown)).toEqual({ place: 2, before: "a", after: "b" });
  expect(neighbours(["1/1", "b"], "1/2", shown)).toEqual({ place: 0, before: null, after: "b" });
  expect(neighbours(list, "c", new Set(["c"]))).toEqual({ place: -1, before: null, after: null });
});

// ---- prompts ---------------------------------------------------------------------------------------------------------

test("parts make the text of a prompt", () => {
  expect(filled(["Q: ", 0, "\nA. ", 1, 2], "Which?", ["left", "right"])).toBe("Q: Which?\nA. leftright");
});

test("a prompt is a conversation: system, earlier turns, images with the first turn, replies between", () => {
  const sent = sentOf(made(), PROMPTS, 0, ["First reply."]);
  if (typeof sent === "string") throw new Error(sent);
  expect(sent.messages.map(({ from }) => from)).toEqual(["System", "User", "Model", "User", "Model", "User"]);
  expect(sent.messages[1]).toEqual({ from: "User", images: ["image 1: one.png", "other.png"], text: "Look." });
  expect(sent.messages[3]?.text).toBe(`Q: Which? ${HOSTILE}\nA. left\nB. right`);
  expect(sent.messages[4]?.text).toBe("First reply.");
  expect(plain(sent).startsWith("[System]\nBe brief.\n\n[User]\n<image 1: one.png>\n<other.png>\nLook.")).toBe(true);
});

test("solved examples come before the question, with their own images and answers", () => {
  const sent = sentOf(made(), PROMPTS, 1, []);
  if (typeof sent === "string") throw new Error(sent);
  expect(sent.messages.slice(0, 2)).toEqual([
    { from: "Solved example 1 of 1", images: ["two.png"], text: `Q: Where? ${HOSTILE}` },
    { from: "Solved example 1 of 1: its answer", images: [], text: "B" },
  ]);
  expect(sent.compared).toEqual(["A", "B"]);
});

test("a prompt that cannot be shown has its reason", () => {
  expect(sentOf(made(), PROMPTS, 2, [])).toBe("Its text was not kept.");
});

test("the probabilities of options sum to one, and a missing option has none", () => {
  fc.assert(
    fc.property(fc.dictionary(fc.constantFrom("A", "B", "C", "__proto__"), fc.double({ min: -300, max: 0, noNaN: true }), { minKeys: 1 }), (given) => {
      const chances = probabilities(given, [...new Set([...Object.keys(given), "Z"])]);
      if (chances === null) throw new Error("no probabilities");
      expect([...chances.values()].reduce((sum, chance) => sum + chance, 0)).toBeCloseTo(1, 9);
      expect(chances.get("Z")).toBe(0);
    }),
  );
  expect(probabilities({}, ["A"])).toBeNull();
  expect(probabilities(null, ["A"])).toBeNull();
});

// ---- the dialog ------------------------------------------------------------------------------------------------------

let root: HTMLElement;
beforeEach(() => {
  root = document.createElement("div");
  document.body.replaceChildren(root);
});
afterEach(async () => { await act(() => { render(null, root); }); });

const open = async (item: string): Promise<(string | null | undefined)[]> => {
  const data = made();
  const gone: (string | null | undefined)[] = [];
  const page: Page = {
    head: data.bundle.head, state: { ...START, item }, data,
    go: (change) => { gone.push(change.item); }, link: (change) => `#item=${change.item ?? ""}`,
  };
  await act(() => { render(<ItemDialog page={page} data={data} />, root); });
  return gone;
};
const press = async (text: string): Promise<void> => {
  const button = [...root.querySelectorAll("button")].find(({ textContent }) => textContent === text);
  if (button === undefined) throw new Error(`no button ${text}`);
  await act(() => { button.click(); });
};

test("both questions of a pair stand side by side, and missing images have names and reasons", async () => {
  const gone = await open("pairs|1/2|mc");
  expect(root.querySelector("h2")?.textContent).toBe("pairs · pair 1");
  expect(root.querySelectorAll(".sides > article").length).toBe(2);
  expect([...root.querySelectorAll(".missing")].map(({ textContent }) => textContent)).toEqual([
    "No imageone.pngits file is gone", "No imagetwo.pngleft out",
  ]);
  await press("Next");
  await press("Close");
  expect(gone).toEqual(["pairs|7|mc", null]);
});

test("right and chosen options are told by words and signs", async () => {
  await open("pairs|1/1|mc");
  const marks = [...root.querySelectorAll("article:first-of-type .options li")].map(({ textContent }) => textContent);
  expect(marks).toEqual(["Aleft✓ correct · 50.0 %", "Bright● chosen · 50.0 %"]);
});

test("hostile text is text, thoughts are folded, and hidden characters are named", async () => {
  await open("pairs|1/1|mc");
  expect(root.querySelectorAll("img, script, [onerror]").length).toBe(0);
  expect(root.textContent).toContain("⟨U+202E⟩");
  expect(root.textContent).not.toContain("\u202e");
  const [thoughts] = [...root.querySelectorAll("details")].filter(({ textContent }) => textContent.startsWith("Hidden thoughts"));
  expect(thoughts?.open).toBe(false);
});

test("a judge's replies stand under its name, and an answer that was cut off says so", async () => {
  await open("pairs|7|mc");
  expect(root.querySelectorAll(".judged .response").length).toBe(2);
  expect(root.textContent).toContain("cut off at the limit of tokens");
  expect(root.textContent).toContain("Reference answernodule");
});

test("all answers to a question are links, and the shown one is marked", async () => {
  const gone = await open("pairs|1/1|mc");
  const links = [...root.querySelectorAll<HTMLAnchorElement>(".ways a")];
  expect(links.map((link) => [link.textContent, link.getAttribute("aria-current")])).toEqual([["mc", "true"], ["ps", null]]);
  await act(() => { links[1]?.click(); });
  expect(gone).toEqual(["pairs|1/1|ps"]);
});

test("the prompt is read when it is unfolded, and says why it cannot be shown", async () => {
  await open("pairs|7|mc");
  const fold = [...root.querySelectorAll("details")].find(({ textContent }) => textContent.startsWith("The exact prompt"));
  if (fold === undefined) throw new Error("no prompt");
  await act(() => {
    fold.open = true;
    fold.dispatchEvent(new Event("toggle"));
  });
  await act(() => new Promise((resolve) => { setTimeout(resolve, 10); }));
  expect(fold.textContent).toContain("cannot be shown. Its text was not kept.");
});

test("a link to an unknown item says so and can be closed", async () => {
  for (const item of ["pairs|nothing|mc", "", HOSTILE]) {
    const gone = await open(item);
    expect(root.querySelector("[role=alert]")?.textContent).toContain("has no question");
    await press("Close");
    expect(gone).toEqual([null]);
  }
});
