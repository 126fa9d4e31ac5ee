import { render } from "preact";
import { act } from "preact/test-utils";
import { afterEach, beforeEach, expect, test, vi } from "vitest";

import { read, reviewsOf, saveIn, written, type Entry, type Tag } from "../src/reviews";
import { ServerProblem, type Versioned } from "../src/server";
import { PAUSE, Saved, reviewsMerged } from "../src/served/saved";
import { ReviewPanel } from "../src/views/review";
import { DIGEST, page } from "./reviewed";

const entryOf = (item: string, tag: Tag = "knowledge", comment = ""): Entry => ({ key: { benchmark: "shapes", item, technique: "mc", variant: "", sample: 0 }, tags: [tag], comment, score: null });
const textOf = (...entries: readonly Entry[]): string => written(DIGEST, entries);

/** A server with one file. */
class Server {
  text = "";
  version = 0;
  problem: Error | null = null;
  read = (): Promise<Versioned> => (this.problem === null ? Promise.resolve({ text: this.text, version: String(this.version), earlier: 2 }) : Promise.reject(this.problem));
  write = ({ text, version }: Versioned): Promise<Versioned> => {
    if (this.problem !== null) return Promise.reject(this.problem);
    if (version !== String(this.version)) return Promise.reject(new ServerProblem("changed meanwhile", 412));
    this.change(text);
    return Promise.resolve({ text: "", version: String(this.version) });
  };
  change(text: string): void {
    this.text = text;
    this.version += 1;
  }
}

let server: Server;
let saved: Saved;
beforeEach(async () => {
  vi.useFakeTimers();
  server = new Server();
  server.text = textOf(entryOf("a"));
  saved = new Saved(reviewsMerged(DIGEST), server);
  await saved.load();
});
afterEach(() => { vi.useRealTimers(); });
const pass = (): Promise<unknown> => vi.advanceTimersByTimeAsync(PAUSE);

test("what the server has is read, and a change is saved after a pause", async () => {
  expect([saved.state, saved.getItem(), saved.earlier]).toEqual(["saved", server.text, 2]);
  saved.setItem("", textOf(entryOf("a"), entryOf("b")));
  expect(saved.state).toBe("saving");
  expect(server.version).toBe(0);
  await pass();
  expect([saved.state, server.text]).toEqual(["saved", textOf(entryOf("a"), entryOf("b"))]);
});

test("changes of others are kept beside one's own", async () => {
  saved.setItem("", textOf(entryOf("a"), entryOf("b")));
  server.change(textOf(entryOf("a"), entryOf("c")));
  await pass();
  await pass();
  expect([saved.state, server.text]).toEqual(["saved", textOf(entryOf("a"), entryOf("b"), entryOf("c"))]);
});

test.each([[true, "mine"], [false, "theirs"]] as const)("a review that both changed waits for a decision", async (mine, comment) => {
  saved.setItem("", textOf(entryOf("a", "knowledge", "mine"), entryOf("b")));
  server.change(textOf(entryOf("a", "knowledge", "theirs")));
  await pass();
  expect([saved.state, saved.conflicts]).toEqual(["changed", 1]);
  await pass();
  expect(server.version).toBe(1);
  saved.decide(mine);
  await pass();
  expect(server.text).toBe(textOf(entryOf("a", "knowledge", comment), entryOf("b")));
});

test("a server that has ended loses nothing", async () => {
  server.problem = new ServerProblem("The server has ended.", 0);
  saved.setItem("", textOf(entryOf("b")));
  await pass();
  expect([saved.state, saved.why, saved.isOpen]).toEqual(["failed", "The server has ended.", true]);
  server.problem = null;
  await saved.load();
  await pass();
  expect([saved.state, server.text]).toEqual(["saved", textOf(entryOf("b"))]);
});

test("merging takes deletions too", () => {
  const [a, b, c] = ["a", "b", "c"].map((item) => entryOf(item)) as [Entry, Entry, Entry];
  const { text, conflicts } = reviewsMerged(DIGEST)(textOf(a, b), textOf(b), textOf(a, b, c));
  expect([read(text, DIGEST).map(({ key }) => key.item), conflicts]).toEqual([["b", "c"], 0]);
  expect(reviewsMerged(DIGEST)(textOf(a), "", textOf(entryOf("a", "perception"))).conflicts).toBe(1);
});

test("the panel reviews into the folder of the run", async () => {
  localStorage.clear();
  const data = page([DIGEST]);
  saveIn(data, saved);
  const root = document.createElement("div");
  document.body.replaceChildren(root);
  await act(() => { render(<ReviewPanel data={data} result={0} of="a" />, root); });
  expect(reviewsOf(data).of(0).tags).toEqual(["knowledge"]);
  expect(root.textContent).toContain("Saved in the run folder");
  await act(() => { root.querySelector<HTMLInputElement>("input[type=checkbox]")?.click(); });
  expect(root.textContent).toContain("Saving.");
  server.problem = new ServerProblem("The disk is full.", 500);
  await act(async () => { await pass(); });
  expect(root.querySelector("[role=alert]")?.textContent).toContain("The disk is full. Export them");
  server.problem = null;
  await act(async () => {
    [...root.querySelectorAll("button")].find((each) => each.textContent === "Try again")?.click();
    await pass();
  });
  expect(read(server.text, DIGEST)[0]?.tags).toEqual(["wrong_key", "knowledge"]);
  expect(Object.keys(localStorage)).toEqual([]);
  await act(() => { render(null, root); });
});
