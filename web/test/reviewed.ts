// Two runs of three questions, for the tests of reviews.
import type { Answered, BundleHead, Tables } from "../src/bundle";
import { Data } from "../src/data";
import type { Answers, Numbers } from "../src/read";

export const DIGEST = "ab".repeat(16);
export const OTHER = "cd".repeat(16);

/** Two runs with the same three questions of one benchmark. */
export const page = (digests: readonly string[] = [DIGEST, OTHER]): Data => {
  const results = digests.flatMap((_, run) => [0, 1, 2].map((question) => ({ run, question })));
  const columns = new Map<string, Numbers>([
    ["questions.id", Uint32Array.of(0, 1, 2)],
    ["questions.benchmark", Uint8Array.of(0, 0, 0)],
    ["results.question", Uint32Array.from(results, ({ question }) => question)],
    ["results.run", Uint16Array.from(results, ({ run }) => run)],
    ["results.technique", new Uint8Array(results.length)],
    ["results.variant", new Uint8Array(results.length)],
    ["results.sample", new Uint32Array(results.length)],
    ["results.outcome", new Uint8Array(results.length)],
  ]);
  const head = {
    runs: digests.map((digest) => ({ name: "run", model: "", digest })),
    benchmarks: [{ name: "shapes" }],
    techniques: ["mc"],
    variants: [""],
    outcomes: ["wrong"],
  } as unknown as BundleHead;
  const tables = { words: ["a", "b", "c"] } as unknown as Tables;
  // A judge scored the answer to the second question.
  const answered = (result: number): Answered => (result % 3 === 1 ? { judged: { judge: "j", task: "score" } } : {}) as unknown as Answered;
  const answers = { at: answered, get: (result: number) => Promise.resolve(answered(result)) } as unknown as Answers;
  const blocks = (): Promise<Uint8Array> => Promise.reject(new Error("no block"));
  return new Data({ head, tables, columns, answers, blocks });
};
