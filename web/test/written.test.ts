// A bundle that Python wrote is read as it was meant.
import { execFileSync } from "node:child_process";
import { join } from "node:path";

import { beforeAll, expect, test } from "vitest";

import { Data } from "../src/data";
import { find, Source } from "../src/explorer/selecting";
import { sourceOf } from "../src/images";
import { blocksOfPage, readBundle, readHead } from "../src/read";
import { parse } from "../src/route";

interface Written {
  readonly blocks: Readonly<Record<string, string>>;
  readonly results: readonly {
    readonly row: Readonly<Record<string, unknown>>;
    readonly tags: Readonly<Record<string, readonly string[]>>;
    readonly images: readonly string[];
    readonly response: string | null;
    readonly usage: Readonly<Record<string, number>> | null;
    readonly seconds: number | null;
  }[];
}

let written: Written;
let data: Data;

beforeAll(async () => {
  const script = join(import.meta.dirname, "..", "..", "tests", "support", "written.py");
  written = JSON.parse(execFileSync("python", [script], { encoding: "utf8", maxBuffer: 2 ** 28 })) as Written;
  for (const [name, content] of Object.entries(written.blocks)) {
    const element = document.createElement("script");
    element.type = "application/octet-stream";
    element.id = `block-${name}`;
    element.textContent = content;
    document.body.append(element);
  }
  data = new Data(await readBundle(blocksOfPage, await readHead(blocksOfPage)));
}, 60_000);

test("every result has its key, texts, options, outcome and tags", () => {
  expect(data.results).toBe(written.results.length);
  expect(written.results.some(({ row }) => JSON.stringify(row["shown"]) !== JSON.stringify(row["options"]))).toBe(true);
  written.results.forEach(({ row, tags, images, seconds }, r) => {
    const q = data.question(r);
    expect({
      key: data.key(r),
      kind: data.kind(q),
      text: data.text(q),
      pair: data.pair(q),
      answers: data.answers(q),
      options: data.options(q),
      shown: data.shown(r),
      right: data.right(r),
      extracted: data.extracted(r),
      outcome: data.outcome(r),
      finish: data.finish(r),
    }).toEqual(Object.fromEntries(Object.entries(row).filter(([name]) => name !== "why")));
    const found = data.seconds(r);
    expect(found === null ? null : Math.fround(found)).toBe(seconds === null ? null : Math.fround(seconds));
    const named = data.bundle.head.dimensions.flatMap(({ name, values }, d) => {
      const places = data.tags(d, q, r);
      return places.length === 0 ? [] : [[name, places.map((place) => values[place]?.value)] as const];
    });
    expect(new Map(named)).toEqual(new Map(Object.entries(tags)));
    expect(data.images(q).map(({ name }) => name)).toEqual(images);
  });
});

test("every answer is read whole, from the block of its chunk", async () => {
  for (const [r, { row, response, usage }] of written.results.entries()) {
    const answered = await data.bundle.answers.get(r);
    expect(answered.why ?? "").toBe(row["why"]);
    expect(answered.response ?? null).toBe(response);
    expect(answered.usage ?? null).toEqual(usage);
  }
});

test("every image has its file in the page, or a reason", () => {
  let inside = 0;
  for (let q = 0; q < data.questions; q++) {
    for (const image of data.images(q)) {
      const source = sourceOf(image);
      if (source === null) expect(image.why).not.toBe("");
      else {
        expect(source.startsWith("data:image/")).toBe(true);
        inside += 1;
      }
    }
  }
  expect(inside).toBeGreaterThan(10);
});

test("every link of the summary leads to the answers that it counts", () => {
  const answersTo = (link: string): number => {
    const state = parse(link);
    const table = Source.of(data).table(state);
    if (table === null) throw new Error("no table");
    const found = find(table, state, state.query);
    expect([link, found.problems]).toEqual([link, []]);
    return found.selection.sum.answers;
  };
  let links = 0;
  for (const block of data.bundle.head.sections.flatMap(({ blocks }) => blocks)) {
    const counted = block.block === "questions" ? block.chosen : block.block === "matrix" ? block.fields.map(({ figure, link }) => ({ count: figure.value ?? 0, link })) : [];
    for (const { count, link = "" } of counted) {
      if (!link.startsWith("#questions") || count === 0) continue;
      const found = answersTo(link);
      // A share of units, or a number of pairs, is no number of answers.
      if (Number.isInteger(count) && count > 1 && parse(link).layout === "") expect([link, found]).toEqual([link, count]);
      else expect(found).toBeGreaterThan(0);
      links += 1;
    }
    for (const link of block.block === "table" ? block.rows.flatMap((row) => Object.values(row.links ?? {})) : []) {
      if (link.startsWith("#questions")) expect([link, answersTo(link) > 0]).toEqual([link, true]);
    }
  }
  expect(links).toBeGreaterThan(50);
});
