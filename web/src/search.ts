// The texts of questions and answers in lower case, and the search in them. Answers are read in the background.
// Places lie within the columns of one bundle, so elements are there.
/* eslint-disable @typescript-eslint/non-nullable-type-assertion-style */
import type { Answered } from "./bundle";
import type { Data } from "./data";
import type { Lists } from "./filter";
import type { Numbers } from "./read";

export class Texts {
  readonly #data: Data;
  readonly #answers: (string | undefined)[] = [];
  #words: (string | undefined)[] = [];
  #reading: Promise<void> | null = null;
  /** Results whose texts have been read. */
  read = 0;
  /** Changes when a search may find more. */
  version = 0;

  constructor(data: Data) {
    this.#data = data;
  }

  get complete(): boolean {
    return this.read >= this.#data.results;
  }

  /** Read the texts of all answers; `step` is called now and then, and at the end. */
  load(step: () => void): Promise<void> {
    let told = performance.now();
    const { answers } = this.#data.bundle;
    if (answers.none) {
      this.read = this.#data.results;
      step();
      return Promise.resolve();
    }
    const error = this.#data.bundle.head.outcomes.indexOf("error");
    const outcome = this.#data.column("results.outcome");
    this.#reading ??= answers.all((results) => {
      for (let result = this.read; result < results; result++) this.#answers[result] = found(answers.at(result), outcome[result] === error);
      this.read = results;
      if (!this.complete && performance.now() - told < 400) return;
      told = performance.now();
      this.version += 1;
      step();
    });
    return this.#reading;
  }

  /** Mark those of some rows (null: all) whose id, question, options, response or reason of an error hold the words, in lower case. */
  find(words: string, mask: Uint8Array, rows: Uint32Array | null, questions: Lists, results: Lists): void {
    const data = this.#data;
    const [ids, texts, options, pairs] = ["id", "text", "options", "pair"].map((name) => data.column(`questions.${name}`)) as [Numbers, Numbers, Numbers, Numbers];
    const { words: all, options: offered } = data.bundle.tables;
    this.prepare();
    // Each word once, then the rows: no call for a row.
    const holding = new Uint8Array(all.length);
    for (let word = 0; word < holding.length; word++) if (this.#words[word]?.includes(words) === true) holding[word] = 1;
    const offering = new Uint8Array(offered.length);
    for (let place = 0; place < offering.length; place++) {
      for (const [, text] of offered[place] as readonly (readonly [string, number])[]) if (holding[text] === 1) offering[place] = 1;
    }
    const answers = this.#answers;
    for (let i = 0, end = rows?.length ?? mask.length; i < end; i++) {
      const row = rows === null ? i : (rows[i] as number);
      for (let at = questions.starts[row] as number, last = questions.starts[row + 1] as number; at < last && mask[row] === 0; at++) {
        const q = questions.members[at] as number;
        if (holding[ids[q] as number] === 1 || holding[texts[q] as number] === 1 || offering[options[q] as number] === 1 || holding[pairs[q] as number] === 1) mask[row] = 1;
      }
      for (let at = results.starts[row] as number, last = results.starts[row + 1] as number; at < last && mask[row] === 0; at++) {
        if (answers[results.members[at] as number]?.includes(words) === true) mask[row] = 1;
      }
    }
  }

  /** Make the first search as fast as those that follow. */
  prepare(): void {
    if (this.#words.length > 0) return;
    const { words, options } = this.#data.bundle.tables;
    const made = new Array<string | undefined>(words.length).fill(undefined);
    const add = (word: number): void => {
      if (word >= 0) made[word] ??= (words[word] ?? "").toLowerCase();
    };
    for (const name of ["id", "text", "pair"]) this.#data.column(`questions.${name}`).forEach(add);
    for (const offered of options) for (const [, text] of offered) add(text);
    this.#words = made;
  }
}

/** What a search may find of an answer: its response, and the reason of an error, not that of a score. */
const found = (answered: Answered | undefined, failed: boolean): string | undefined =>
  failed ? `${answered?.response ?? ""}\n${answered?.why ?? ""}`.toLowerCase() : answered?.response?.toLowerCase();
