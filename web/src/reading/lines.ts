// The lines of a reader's file, as medvqa.readings.reading_file has them: the study, then one line for each question.
import type { ReadingHead } from "../bundle";

/** Limits of a file: bytes, lines, characters of a code or an id, of a text. */
export const MAX_FILE = 2 ** 26;
const MAX_LINES = 200_000;
const MAX_NAME = 200;
export const MAX_TEXT = 20_000;

/** What the lines of each task have. A field that is not there has its default in Python. */
export interface Line {
  readonly reader: string;
  readonly benchmark: string;
  readonly item: string;
  readonly seconds?: number | undefined;
  readonly place?: number | undefined;
  readonly sitting?: number | undefined;
}

/** A text of the study of a page, such as the code of its reader; "" if there is none. */
export const ofStudy = ({ study }: ReadingHead, name: "reader" | "plan" | "name"): string => {
  const value = study[name];
  return typeof value === "string" ? value : "";
};

/** How the value of a field must look. */
export interface Field {
  readonly is: (value: unknown) => boolean;
  /** In words: "text of at most 9 characters". */
  readonly what: string;
}
export const text = (most = MAX_TEXT): Field => ({ is: (value) => typeof value === "string" && value.length <= most, what: `text of at most ${most} characters` });
export const whole = (least: number, most: number): Field => ({
  is: (value) => Number.isInteger(value) && (value as number) >= least && (value as number) <= most,
  what: `whole number from ${least} to ${most}`,
});
export const oneOf = (...values: readonly unknown[]): Field => ({ is: (value) => values.includes(value), what: `value of ${values.join(", ")}` });

/** How the lines of a task look, beside the fields that all have. */
export interface Kind<L extends Line> {
  readonly fields: Readonly<Record<Exclude<keyof L, keyof Line>, Field>>;
  /** Whether a line says enough to stand in the file; one that does not is a draft, which only the browser keeps. */
  readonly isAnswered: (line: L) => boolean;
}

const BEFORE = { reader: text(MAX_NAME), benchmark: text(), item: text(MAX_NAME) };
const AFTER = {
  seconds: { is: (value: unknown) => typeof value === "number" && value >= 0 && value <= 1e7, what: "number of seconds" },
  place: whole(1, 1e7),
  sitting: whole(1, 1e7),
};

/** The fields of a line in their order in the file. */
const fieldsOf = <L extends Line>({ fields }: Kind<L>): ReadonlyMap<string, Field> => new Map<string, Field>(Object.entries({ ...BEFORE, ...fields, ...AFTER }));

const isDefault = (value: unknown): boolean => value === undefined || value === null || value === "" || value === false;
/** Half of a surrogate pair is no text in UTF-8. */
const mended = (value: unknown): unknown => (typeof value === "string" ? value.replace(/\p{Surrogate}/gu, "\ufffd") : value);

/** A line as JSON, without the fields that have their defaults. `but`: fields to leave out. */
export const print = <L extends Line>(kind: Kind<L>, line: L, ...but: readonly string[]): string => {
  const given = new Map<string, unknown>(Object.entries({ ...line, seconds: line.seconds === undefined ? undefined : Math.round(10 * line.seconds) / 10 }));
  const names = [...fieldsOf(kind).keys()].filter((name) => !but.includes(name) && (name === "benchmark" || !isDefault(given.get(name))));
  return JSON.stringify(Object.fromEntries(names.map((name) => [name, mended(given.get(name))])));
};
/** Whether two lines say the same, whatever time they took. */
export const same = <L extends Line>(kind: Kind<L>, one: L, other: L): boolean => print(kind, one, "seconds") === print(kind, other, "seconds");

/** What tells a question from the others of a page. */
export const nameOf = ({ benchmark, item }: { readonly benchmark: string; readonly item: string }): string => JSON.stringify([benchmark, item]);

const objectOf = (value: unknown): ReadonlyMap<string, unknown> => {
  if (typeof value !== "object" || value === null || Array.isArray(value)) throw new Error("an object of JSON is expected");
  return new Map<string, unknown>(Object.entries(value).filter(([, each]) => each !== null));
};

const lineOf = <L extends Line>(kind: Kind<L>, head: ReadingHead, value: unknown): L => {
  const given = objectOf(value);
  const fields = fieldsOf(kind);
  const unknown = [...given.keys()].find((name) => !fields.has(name));
  if (unknown !== undefined) throw new Error(`no field '${unknown.slice(0, 40)}'; there are: ${[...fields.keys()].join(", ")}`);
  for (const [name, { is, what }] of fields) {
    if (Object.hasOwn(BEFORE, name) ? !is(given.get(name)) : given.has(name) && !is(given.get(name))) throw new Error(`'${name}' is no ${what}`);
  }
  if (given.get("reader") !== ofStudy(head, "reader")) throw new Error(`it is of another reader: this page is of ${ofStudy(head, "reader")}`);
  return Object.fromEntries(given) as unknown as L;
};

/** Read lines without that of the study, by the names of their questions. `from`: the number of the first one. */
export const linesOf = <L extends Line>(kind: Kind<L>, head: ReadingHead, lines: readonly string[], from = 2): ReadonlyMap<string, L> => {
  const found = new Map<string, L>();
  const known = new Set(head.tasks.map(nameOf));
  if (lines.length > MAX_LINES) throw new Error(`more than ${MAX_LINES} lines`);
  for (const [place, each] of lines.entries()) {
    if (each.trim() === "") continue;
    try {
      const line = lineOf(kind, head, JSON.parse(each));
      const name = nameOf(line);
      if (!known.has(name)) throw new Error(`the page has no question ${line.item.slice(0, 80)} of ${line.benchmark.slice(0, 80)}`);
      if (found.has(name)) throw new Error(`a second line about ${line.item.slice(0, 80)}; keep one`);
      found.set(name, line);
    } catch (error) {
      throw new Error(`line ${place + from}: ${error instanceof Error ? error.message : String(error)}`, { cause: error });
    }
  }
  return found;
};

/** Read a file of this study and this reader, by the names of its questions; a sentence says why it is another one. */
export const readFile = <L extends Line>(kind: Kind<L>, head: ReadingHead, content: string): ReadonlyMap<string, L> => {
  if (content.length > MAX_FILE) throw new Error(`larger than ${MAX_FILE} bytes`);
  const [first = "", ...lines] = content.replace(/^\ufeff/, "").split("\n");
  let study: ReadonlyMap<string, unknown>;
  try {
    study = objectOf(JSON.parse(first));
  } catch (error) {
    throw new Error("its first line is no study: choose a file that a reader's page exported", { cause: error });
  }
  const other = (["plan", "reader"] as const).find((name) => (study.get(name) ?? "") !== ofStudy(head, name));
  if (other === "plan" || (study.get("task") ?? "answer") !== head.task) throw new Error("it is of another study");
  if (other === "reader") throw new Error(`it is of another reader: this page is of ${ofStudy(head, "reader")}`);
  return linesOf(kind, head, lines);
};

/** Lines as a file, in the order of the page; "" without any. */
export const fileOf = <L extends Line>(kind: Kind<L>, head: ReadingHead, lines: Iterable<L>): string => {
  const place = new Map(head.tasks.map((task, index) => [nameOf(task), index]));
  const sorted = [...lines].sort((one, other) => (place.get(nameOf(one)) ?? 0) - (place.get(nameOf(other)) ?? 0));
  return sorted.length === 0 ? "" : [JSON.stringify({ readings: 1, ...head.study }), ...sorted.map((line) => print(kind, line)), ""].join("\n");
};
