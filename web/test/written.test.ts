// A bundle that Python wrote is read as it was meant.
import { execFileSync } from "node:child_process";
import { join } from "node:path";

import { beforeAll, expect, test } from "vitest";

import { Data } from "../src/data";
import { find, Source } from "../src/explorer/selecting";
import { sourceOf } from "../src/images";
import { blocksOfPage, readBundle, readHead } from "../src/read";
import { START } from "../src/route";

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
  const failing = data.bundle.head.run?.failing;
  const answersTo = (benchmark: string, technique: string, query: string): number => {
    const state = { ...START, view: "questions" as const, benchmark, technique, query };
    const table = Source.of(data).table(state);
    if (table === null) throw new Error("no table");
    const found = find(table, state, query);
    expect(found.problems).toEqual([]);
    return found.selection.sum.answers;
  };
  let links = 0;
  for (const part of failing?.parts ?? []) {
    const matrices = part.matrices.flatMap(({ rows }) => rows.flatMap((row) => [row, ...row.fields]));
    const positions = (part.positions?.rows ?? []).flatMap(({ read, chosen, key, correct }) => [
      { query: read, count: chosen },
      { query: key, count: correct },
    ]);
    for (const { query, count } of [...part.outcomes, ...matrices, ...positions]) {
      if (query === "" || count === 0) continue;
      expect([query, answersTo(part.benchmark, part.technique, query)]).toEqual([query, count]);
      links += 1;
    }
    for (const { rows, apart } of part.worst) {
      for (const { query } of [...rows, ...apart]) expect(answersTo(part.benchmark, part.technique, query)).toBeGreaterThan(0);
    }
  }
  expect(links).toBeGreaterThan(50);
});
