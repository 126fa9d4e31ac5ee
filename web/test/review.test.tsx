import { render } from "preact";
import { act } from "preact/test-utils";
import { afterEach, beforeEach, expect, test, vi } from "vitest";

import type { Data } from "../src/data";
import type { Page } from "../src/page";
import { reviewsOf } from "../src/reviews";
import { START } from "../src/route";
import { ReviewPanel, ReviewView } from "../src/views/review";
import { DIGEST, page } from "./reviewed";

let root: HTMLElement;
let data: Data;
beforeEach(() => {
  localStorage.clear();
  data = page();
  root = document.createElement("div");
  document.body.replaceChildren(root);
});
afterEach(async () => {
  await act(() => { render(null, root); });
  vi.unstubAllGlobals();
});

const find = (selector: string, text = ""): HTMLElement => {
  const found = [...root.querySelectorAll<HTMLElement>(selector)].find((each) => each.textContent.includes(text));
  if (found === undefined) throw new Error(`no ${selector} with ${text} in ${root.textContent}`);
  return found;
};
const click = async (selector: string, text = ""): Promise<void> => {
  await act(() => { find(selector, text).click(); });
};
const panel = (result: number) => act(() => { render(<ReviewPanel data={data} result={result} of="a" />, root); });
const view = async (): Promise<void> => {
  const of: Page = { head: data.bundle.head, state: START, go: () => undefined, link: ({ item }) => `#item=${item ?? ""}`, data };
  await act(() => { render(<ReviewView page={of} data={data} />, root); });
};

test("tags and a comment are kept while they are typed", async () => {
  await panel(0);
  await click("label", "wrong key");
  await click("label", "laterality");
  await click("label", "laterality");
  const area = find("textarea") as HTMLTextAreaElement;
  area.value = "left kidney";
  await act(() => { area.dispatchEvent(new Event("input", { bubbles: true })); });
  expect(reviewsOf(data).of(0)).toMatchObject({ tags: ["wrong_key"], comment: "left kidney" });
  expect(localStorage.getItem(`medvqa/review/1/${DIGEST}`)).toContain("left kidney");
  await panel(2);
  expect((find("textarea") as HTMLTextAreaElement).value).toBe("");
});

test("a score is asked for only where a judge gave one", async () => {
  await panel(0);
  expect(root.querySelectorAll("input[type=radio]").length).toBe(0);
  await panel(1);
  await click("label", "0.5");
  expect(reviewsOf(data).of(1).score).toBe(0.5);
  await click("label", "none");
  expect(reviewsOf(data).isReviewed(1)).toBe(false);
});

test("a blocked storage is told beside the tags", async () => {
  vi.stubGlobal("localStorage", { setItem: () => { throw new DOMException("blocked"); } });
  await panel(0);
  expect(find("[role=alert]").textContent).toContain("reviews are lost when you close it");
});

test("reviews are listed, counted and filtered, and their texts are harmless", async () => {
  reviewsOf(data).set(0, { tags: ["knowledge"], comment: "<script>alert(1)</script>\u202e" });
  reviewsOf(data).set(4, { tags: ["knowledge", "wrong_key"] });
  await view();
  expect(root.textContent).toContain("2 answers are reviewed");
  expect([...root.querySelectorAll(".chips button")].map((each) => each.textContent)).toEqual(["wrong key 1", "knowledge 2"]);
  expect(root.querySelectorAll("tbody tr").length).toBe(2);
  expect(root.querySelectorAll("script").length).toBe(0);
  expect(find("td.said").textContent).toBe("<script>alert(1)</script>⟨U+202E⟩");
  await click(".chips button", "wrong key");
  expect(root.querySelectorAll("tbody tr").length).toBe(1);
  await click("button", "Delete all");
  await click("button", "Keep them");
  expect(reviewsOf(data).size).toBe(2);
  await click("button", "Delete all");
  await click("button", "Delete 1 review from this browser");
  expect(reviewsOf(data).results()).toEqual([4]);
});

const choose = async (text: string): Promise<void> => {
  const input = find("input[type=file]");
  Object.defineProperty(input, "files", { value: [new File([text], "ben\u202e.jsonl")], configurable: true });
  await act(async () => {
    input.dispatchEvent(new Event("change", { bubbles: true }));
    await new Promise((done) => { setTimeout(done, 5); });
  });
};
const line = (change: object): string =>
  `${JSON.stringify({ review: 1, run: DIGEST, benchmark: "shapes", item: "a", technique: "mc", tags: ["knowledge"], ...change })}\n`;

test("a file is imported, refused with its line, or asked about", async () => {
  await view();
  await choose(line({}) + line({ item: "b", tags: ["no"] }));
  expect(root.textContent).toContain("ben⟨U+202E⟩.jsonl: line 2: no tag \"no\"; there are: wrong_key");
  expect(root.textContent).toContain("Nothing was imported.");
  expect(reviewsOf(data).size).toBe(0);
  await choose(line({}) + line({ item: "b" }));
  expect(root.textContent).toContain("2 reviews imported.");
  await choose(line({ comment: "theirs" }) + line({ item: "c" }));
  expect(root.textContent).toContain("1 result has another review here.");
  await click("button", "Keep mine");
  expect(reviewsOf(data).of(0).comment).toBe("");
  expect(reviewsOf(data).tags(2)).toEqual(["knowledge"]);
  await choose(line({ comment: "theirs" }));
  await click("button", "Take those of the file");
  expect(reviewsOf(data).of(0).comment).toBe("theirs");
  expect(root.textContent).toContain("1 review imported, 1 of yours replaced.");
});
