// A bundle without texts of results, as that of a very large comparison.
import { expect, test } from "vitest";

import type { BundleHead } from "../src/bundle";
import { Data } from "../src/data";
import { Answers } from "../src/read";
import { Texts } from "../src/search";
import { comparisonOf } from "./compared";

test("results without texts are searched in their questions alone", async () => {
  const full = comparisonOf(["a", "b"], [[["A"], ["B"]]]);
  const head: BundleHead = { ...full.bundle.head, answers: 0 };
  const answers = new Answers(() => Promise.reject(new Error("no block is read")), head);
  const data = new Data({ ...full.bundle, head, answers });
  expect(answers.none).toBe(true);
  expect(await answers.get(1)).toEqual({});
  expect(answers.at(0)).toEqual({});
  const texts = new Texts(data);
  await texts.load(() => undefined);
  expect(texts.complete).toBe(true);
});
