// Questions and results by their places: accessors over the typed arrays of a bundle.
import type { BenchmarkHead, ImageHead, TagDimension } from "./bundle";
import type { Bundle, Numbers } from "./read";

const NONE = -1;

/** An answer to a question, as records name it. */
export interface Key {
  readonly benchmark: string;
  readonly item: string;
  readonly technique: string;
  readonly variant: string;
  readonly sample: number;
}

export class Data {
  readonly bundle: Bundle;
  readonly questions: number;
  readonly results: number;
  /** The results of question q are `byQuestion[starts[q]]` to `byQuestion[starts[q + 1] - 1]`, in their order. */
  readonly starts: Uint32Array;
  readonly byQuestion: Uint32Array;

  constructor(bundle: Bundle) {
    this.bundle = bundle;
    this.questions = this.column("questions.id").length;
    const question = this.column("results.question");
    this.results = question.length;
    this.starts = new Uint32Array(this.questions + 1);
    for (const q of question) this.starts[q + 1] = (this.starts[q + 1] ?? 0) + 1;
    for (let q = 0; q < this.questions; q++) this.starts[q + 1] = (this.starts[q + 1] ?? 0) + (this.starts[q] ?? 0);
    this.byQuestion = new Uint32Array(this.results);
    const next = this.starts.slice();
    for (let r = 0; r < this.results; r++) {
      const q = question[r] ?? 0;
      const place = next[q] ?? 0;
      this.byQuestion[place] = r;
      next[q] = place + 1;
    }
  }

  column(name: string): Numbers {
    const found = this.bundle.columns.get(name);
    if (found === undefined) throw new Error(`the page has no column ${name}`);
    return found;
  }
  at(name: string, place: number): number {
    const value = this.column(name)[place];
    if (value === undefined) throw new Error(`column ${name} has no element ${place}`);
    return value;
  }
  list(name: string, place: number): readonly number[] {
    return [...this.column(`${name}.values`).subarray(this.at(`${name}.offsets`, place), this.at(`${name}.offsets`, place + 1))];
  }
  word(place: number): string {
    return at(this.bundle.tables.words, place);
  }

  benchmark(q: number): BenchmarkHead {
    return at(this.bundle.head.benchmarks, this.at("questions.benchmark", q));
  }
  id(q: number): string {
    return this.word(this.at("questions.id", q));
  }
  kind(q: number): string {
    return at(this.bundle.head.kinds, this.at("questions.kind", q));
  }
  text(q: number): string {
    return this.word(this.at("questions.text", q));
  }
  pair(q: number): string | null {
    const place = this.at("questions.pair", q);
    return place === NONE ? null : this.word(place);
  }
  images(q: number): readonly ImageHead[] {
    return this.list("questions.images", q).map((place) => at(this.bundle.tables.images, place));
  }
  /** Letters and texts of the options, in the order of the data set. */
  options(q: number): readonly (readonly [string, string])[] {
    return this.#options(this.at("questions.options", q));
  }
  answers(q: number): readonly string[] {
    return this.#list("questions.answers", q);
  }

  question(r: number): number {
    return this.at("results.question", r);
  }
  resultsOf(q: number): readonly number[] {
    return [...this.byQuestion.subarray(this.starts[q], this.starts[q + 1])];
  }
  outcome(r: number): string {
    return at(this.bundle.head.outcomes, this.at("results.outcome", r));
  }
  /** The technique by which a result was asked; runs that differ in it have another one in common for comparison. */
  technique(r: number): string {
    const column = this.bundle.columns.has("results.own_technique") ? "results.own_technique" : "results.technique";
    return at(this.bundle.head.techniques, this.at(column, r));
  }
  variant(r: number): string {
    return at(this.bundle.head.variants, this.at("results.variant", r));
  }
  sample(r: number): number {
    return this.at("results.sample", r);
  }
  /** The options as they were shown for this result. */
  shown(r: number): readonly (readonly [string, string])[] {
    return this.#options(this.at("results.options", r));
  }
  /** The right options of this result, as shown. */
  right(r: number): readonly string[] {
    return this.#list("results.answers", r);
  }
  extracted(r: number): readonly string[] {
    return this.#list("results.extracted", r);
  }
  finish(r: number): string {
    return at(this.bundle.head.finishes, this.at("results.finish", r));
  }
  /** Seconds, or null if the answer has no time. */
  seconds(r: number): number | null {
    const seconds = this.at("results.seconds", r);
    return Number.isNaN(seconds) ? null : seconds;
  }
  key(r: number): Key {
    const q = this.question(r);
    return {
      benchmark: this.benchmark(q).name,
      item: this.id(q),
      technique: this.technique(r),
      variant: this.variant(r),
      sample: this.sample(r),
    };
  }

  dimension(d: number): TagDimension {
    return at(this.bundle.head.dimensions, d);
  }
  /** The values of dimension d, as places, of question q or of its result r. */
  tags(d: number, q: number, r: number | null): readonly number[] {
    if (this.dimension(d).of === "questions") return this.list(`tags/${d}`, q);
    return r === null ? [] : this.list(`tags/${d}`, r);
  }

  #options(place: number): readonly (readonly [string, string])[] {
    return at(this.bundle.tables.options, place).map(([letter, text]) => [letter, this.word(text)]);
  }
  #list(name: string, place: number): readonly string[] {
    return at(this.bundle.tables.lists, this.at(name, place));
  }
}

const at = <T>(list: readonly T[], place: number): T => {
  const value = list[place];
  if (value === undefined) throw new Error(`the page has no element ${place} of ${list.length}`);
  return value;
};
