// Comparisons made by hand: questions, runs and their answers.
import { VERSION, type Answered, type BundleHead, type ScaleView, type Tables } from "../src/bundle";
import { Data } from "../src/data";
import type { Answers, Blocks, Numbers } from "../src/read";

export const LETTERS = ["A", "B", "C"] as const;
export const OUTCOMES = ["correct", "wrong", "unparsed"] as const;

/** The letters that a run read for a question, one for each sample; the key is A, and "" is no option. */
export type Reading = readonly string[];
/** Readings by question and run. */
export type Readings = readonly (readonly Reading[])[];

const valueOf = (reading: Reading): number => (reading.length === 0 ? NaN : reading.filter((letter) => letter === "A").length / reading.length);

/** A comparison of runs on single questions, with a dimension "modality" of ct (even questions) and mri. */
export function comparisonOf(names: readonly string[], readings: Readings): Data {
  const results = readings.flatMap((byRun, question) => byRun.flatMap((reading, run) => reading.map((letter, sample) => ({ question, run, letter, sample: reading.length > 1 ? sample + 1 : 0 }))));
  const ids = readings.map((_, question) => `q${question + 1}`);
  const words = [...ids, "Which is it?", "a circle", "a square", "a line"];
  const at = (word: string): number => words.indexOf(word);
  const lists = [["A"], ["B"], ["C"], []];
  const listOf = (letter: string): number => (letter === "" ? 3 : LETTERS.findIndex((each) => each === letter));
  const columns = new Map<string, Numbers>(Object.entries({
    "questions.benchmark": new Uint16Array(ids.length),
    "questions.id": Uint32Array.from(ids, at),
    "questions.kind": new Uint8Array(ids.length),
    "questions.text": new Uint32Array(ids.length).fill(at("Which is it?")),
    "questions.options": new Uint32Array(ids.length),
    "questions.answers": new Uint32Array(ids.length),
    "questions.pair": new Int32Array(ids.length).fill(-1),
    "questions.images.offsets": new Uint32Array(ids.length + 1),
    "questions.images.values": new Uint32Array(0),
    "results.question": Uint32Array.from(results, (each) => each.question),
    "results.run": Uint16Array.from(results, (each) => each.run),
    "results.technique": new Uint8Array(results.length),
    "results.variant": new Uint16Array(results.length),
    "results.sample": Uint32Array.from(results, (each) => each.sample),
    "results.outcome": Uint8Array.from(results, (each) => (each.letter === "A" ? 0 : each.letter === "" ? 2 : 1)),
    "results.options": new Uint32Array(results.length),
    "results.answers": new Uint32Array(results.length),
    "results.extracted": Uint32Array.from(results, (each) => listOf(each.letter)),
    "results.confidence": new Float32Array(results.length).fill(NaN),
    "results.marks": new Uint8Array(results.length),
    "results.verdict": new Uint8Array(results.length),
    "results.finish": new Uint8Array(results.length),
    "results.seconds": new Float32Array(results.length).fill(NaN),
    "results.prompt": new Int32Array(results.length).fill(-1),
    "tags/0.offsets": Uint32Array.from({ length: ids.length + 1 }, (_, place) => place),
    "tags/0.values": Uint8Array.from(ids, (_, question) => question % 2),
    "units/0.questions.offsets": Uint32Array.from({ length: ids.length + 1 }, (_, place) => place),
    "units/0.questions.values": Uint32Array.from(ids.keys()),
    "units/0.values": Float64Array.from(readings.flatMap((byRun) => byRun.map(valueOf))),
  }));
  const tables: Tables = { words, options: [[["A", at("a circle")], ["B", at("a square")], ["C", at("a line")]]], lists, images: [] };
  const said = results.map(({ letter, run }): Answered => ({ response: `run ${run + 1} says ${letter}` }));
  const answers: Pick<Answers, "at" | "get" | "all"> = {
    at: (result) => said[result],
    get: (result) => Promise.resolve(said[result] ?? {}),
    all: (step) => { step?.(said.length); return Promise.resolve(); },
  };
  const blocks: Blocks = () => Promise.reject(new Error("no block"));
  return new Data({ head: headOf(names), tables, columns, answers: answers as Answers, blocks });
}

function headOf(names: readonly string[]): BundleHead {
  const modality = { name: "modality", of: "questions", values: ["ct", "mri"].map((value) => ({ value, title: value.toUpperCase(), short: "", select: null })) };
  const scales: readonly ScaleView[] = [{ benchmark: 0, technique: 0, measure: "accuracy", title: "accuracy", unit: "item", lower: false }];
  const pairs = names.slice(1).map((_, place) => ({ new: place + 1, baseline: 0 }));
  return {
    kind: "comparison", version: VERSION, runs: names.map((name) => ({ name, model: name, digest: "" })),
    benchmarks: [{ name: "shapes", title: "Shapes", score: "accuracy", definition: "", command: "", pairs: false, dimensions: [0], intervals: {} }],
    dimensions: [modality], kinds: ["single_choice"], outcomes: OUTCOMES, techniques: ["mc"], variants: [""], finishes: [""], chunk: 1, answers: 1, pairs, scales,
  } as unknown as BundleHead;
}
