// The query line: `outcome:wrong modality:ct,mri -is:truncated seconds>5 "pleural effusion"`. Terms are joined by AND,
// the values of a term by OR. A text is parsed without knowing any field; `resolve` compares it with the fields of a
// run, and says which fields and values there are.

export type Operator = ":" | ">" | "<" | ">=" | "<=";

/** One term of a query; `field` "" means words to search for. `start` and `end` are its place in the text. */
export interface Term {
  readonly field: string;
  readonly operator: Operator;
  readonly values: readonly string[];
  readonly not: boolean;
  readonly start: number;
  readonly end: number;
}

/** A value that a field can have: `name` as typed, `label` as shown, `also` further names, such as abbreviations. */
export interface Value {
  readonly name: string;
  readonly label: string;
  readonly also?: readonly string[];
}

/** The part of a field that a query needs. `find` looks up identities, of which there are too many to list. */
export interface Name {
  readonly name: string;
  readonly label: string;
  /** Further names by which it can be typed. The name of any field counts first. */
  readonly also?: readonly string[];
  readonly takes: "value" | "number" | "identity";
  readonly values: readonly Value[];
  readonly find?: (text: string) => readonly number[];
  readonly like?: (text: string, most: number) => readonly string[];
}

/** A term whose field and values are known; `field` -1 means words. An equal number has its tolerance as second value. */
export interface Clause {
  readonly field: number;
  readonly not: boolean;
  readonly values: readonly number[];
  readonly operator: Operator;
  readonly text: string;
}

/** What is wrong with a term, in a sentence, and texts that may stand in its place. */
export interface Problem {
  readonly term: Term;
  readonly message: string;
  readonly instead: readonly string[];
}

const OPERATOR = /^(>=|<=|[:=<>])/;
const BARE_FIELD = /^[^\s"\-:<>=,\\][^\s":<>=,\\]*$/;
// A value that begins with "=" would become part of an operator: `seconds<=5`.
const BARE_VALUE = /^[^\s",\\=][^\s",\\]*$/;
const BARE_WORD = /^[^\s"\-:<>=\\][^\s":<>=\\]*$/;
const CONNECTIVE = /^(AND|OR|NOT|&&?|\|\|?)$/;
const NAMED = 12; // names in a message

/** The terms of a text. An open quotation ends with the text, so that every text has terms. */
export function parse(text: string): Term[] {
  const terms: Term[] = [];
  let at = 0;
  const quoted = (): string => {
    let found = "";
    for (at += 1; at < text.length && text[at] !== '"'; at += 1) {
      if (text[at] === "\\" && at + 1 < text.length) at += 1;
      found += text[at] ?? "";
    }
    at += 1;
    return found;
  };
  const bare = (stop: RegExp): string => {
    const start = at;
    while (at < text.length && !stop.test(text[at] ?? "")) at += 1;
    return text.slice(start, at);
  };
  const operator = (): Operator | null => {
    const found = OPERATOR.exec(text.slice(at, at + 2))?.[0];
    if (found === undefined) return null;
    at += found.length;
    return found === "=" ? ":" : (found as Operator);
  };
  while (at < text.length) {
    if (/\s/.test(text[at] ?? "")) {
      at += 1;
      continue;
    }
    const start = at;
    const not = text[at] === "-" && at + 1 < text.length && !/\s/.test(text[at + 1] ?? "");
    if (not) at += 1;
    const begin = at;
    let first = text[at] === '"' ? quoted() : bare(/[\s:=<>]/);
    // `outcome!=wrong` is `-outcome:wrong`.
    const unlike = text[begin] !== '"' && /.!$/.test(first) && text[at] === "=";
    if (unlike) first = first.slice(0, -1);
    const sign = at > begin && first !== "" ? operator() : null;
    if (sign === null) {
      // Words: a quotation, or everything up to white space.
      const word = text[begin] === '"' ? first : first + bare(/\s/);
      if (word !== "") terms.push({ field: "", operator: ":", values: [word], not, start, end: Math.min(at, text.length) });
      continue;
    }
    const values: string[] = [];
    for (;;) {
      const value = text[at] === '"' ? quoted() : bare(/[\s,]/);
      if (value !== "") values.push(value);
      if (text[at] !== ",") break;
      at += 1;
    }
    terms.push({ field: first, operator: sign, values, not: not !== unlike, start, end: Math.min(at, text.length) });
  }
  return terms;
}

const quote = (text: string): string => `"${text.replace(/["\\]/g, "\\$&")}"`;
const word = (text: string): string => (BARE_WORD.test(text) && !CONNECTIVE.test(text) ? text : quote(text));
/** A field or a value as it is typed. */
const fieldText = (text: string): string => (BARE_FIELD.test(text) ? text : quote(text));
const valueText = (text: string): string => (BARE_VALUE.test(text) ? text : quote(text));

type Typed = Pick<Term, "field" | "operator" | "values" | "not">;

/** One term as text. */
export const printTerm = ({ field, operator, values, not }: Typed): string =>
  (not ? "-" : "") + (field === "" ? word(values[0] ?? "") : fieldText(field) + operator + values.map(valueText).join(","));

/** Terms as text; `parse` gives them back. */
export const print = (terms: readonly Typed[]): string => terms.map(printTerm).join(" ");

/** A name without case, width and punctuation: `X-ray` and `x ray` are `x_ray`. */
export const slug = (name: string): string =>
  name.normalize("NFKC").toLowerCase().replace(/[^\p{L}\p{N}\p{M}]+/gu, "_").replace(/^_+|_+$/g, "");

const same = (text: string, names: readonly string[]): boolean => {
  const typed = slug(text);
  return typed !== "" && names.some((name) => slug(name) === typed);
};

const namesOf = (field: Name): readonly string[] => [field.name, field.label, ...(field.also ?? [])];

/** The place of a field by its name, -1 without. */
export function fieldOf(fields: readonly Name[], text: string): number {
  const exact = fields.findIndex((field) => field.name === text);
  if (exact >= 0) return exact;
  const also = fields.findIndex((field) => field.also?.includes(text));
  return also >= 0 ? also : fields.findIndex((field) => same(text, namesOf(field)));
}

/** The places of the values that a text names: the exact name, else all that differ by case and punctuation alone. */
export function valuesOf(field: Name, text: string): number[] {
  if (field.find) return [...field.find(text)];
  const exact = field.values.findIndex((value) => value.name === text);
  if (exact >= 0) return [exact];
  return field.values.flatMap((value, i) => (same(text, [value.name, value.label, ...(value.also ?? [])]) ? [i] : []));
}

/** How far two names are apart: 0 if one begins with the other, then containing, then by edits; Infinity if unlike. */
export function distance(typed: string, name: string): number {
  const a = slug(typed).slice(0, 40);
  const b = slug(name).slice(0, 40);
  if (a === "" || b === "") return Infinity;
  if (b.startsWith(a) || a.startsWith(b)) return 0;
  if (b.includes(a) || a.includes(b)) return 1;
  let row = Array.from({ length: b.length + 1 }, (_, i) => i);
  for (let i = 1; i <= a.length; i += 1) {
    const next = [i];
    for (let j = 1; j <= b.length; j += 1) {
      const swap = (row[j - 1] ?? 0) + (a[i - 1] === b[j - 1] ? 0 : 1);
      next.push(Math.min(swap, (row[j] ?? 0) + 1, (next[j - 1] ?? 0) + 1));
    }
    row = next;
  }
  const edits = row[b.length] ?? Infinity;
  return edits <= Math.max(2, Math.floor(b.length / 3)) ? 1 + edits : Infinity;
}

/** Names, those like the typed text first; at most `most`, then how many more there are. */
function listed(typed: string, names: readonly string[], most = NAMED): string {
  const near = nearest(typed, names, most);
  const rest = names.filter((name) => !near.includes(name));
  const shown = [...near, ...rest].slice(0, most);
  const more = names.length - shown.length;
  return shown.map(valueText).join(", ") + (more > 0 ? ` and ${more.toLocaleString("en-US")} more` : "");
}

function nearest(typed: string, names: readonly string[], most: number): string[] {
  return names
    .map((name) => [distance(typed, name), name] as const)
    .filter(([far]) => far < Infinity)
    .sort(([x], [y]) => x - y)
    .slice(0, most)
    .map(([, name]) => name);
}

const NUMBER = /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?(%?)$/i;
const number = (text: string): number => {
  const found = NUMBER.exec(text);
  return found ? Number(text.replace("%", "")) / (found[3] ? 100 : 1) : NaN;
};
/** Half a unit of the last digit of a number as typed: `0.05` stands for all that round to it. */
const half = (text: string): number => {
  const [, digits = "", power = "", percent = ""] = NUMBER.exec(text) ?? [];
  return (0.5 * 10 ** (Number(power.slice(1)) - (digits.split(".")[1]?.length ?? 0))) / (percent ? 100 : 1);
};

/** The clauses of terms, and a problem for each term that names no known field or value. */
export function resolve(terms: readonly Term[], fields: readonly Name[]): { clauses: Clause[]; problems: Problem[] } {
  const clauses: Clause[] = [];
  const problems: Problem[] = [];
  for (const term of terms) {
    const resolved = clause(term, fields);
    if ("message" in resolved) problems.push(resolved);
    else clauses.push(resolved);
  }
  return { clauses, problems };
}

function clause(term: Term, fields: readonly Name[]): Clause | Problem {
  const { operator, not, values } = term;
  const text = print([{ ...term, not: false }]);
  if (term.field === "") {
    const [word_ = ""] = values;
    // Between quotation marks, such a word is one to search for.
    if (CONNECTIVE.test(word_) && term.end - term.start === word_.length + (not ? 1 : 0)) {
      return {
        term,
        message: `${word_} joins no terms here. All terms must hold; a comma between values is an OR, as in FIELD:ONE,TWO; a minus sign excludes, as in -FIELD:VALUE.`,
        instead: [printTerm(term)],
      };
    }
    return { field: -1, not, values: [], operator, text: word_ };
  }
  const at = fieldOf(fields, term.field);
  const field = fields[at];
  const change = (with_: Partial<Typed>): string => printTerm({ ...term, ...with_ });
  if (field === undefined) {
    const names = fields.map((each) => each.name);
    return {
      term,
      message: `There is no field ${valueText(term.field)}. Fields: ${listed(term.field, names, 24)}. To search for the words, put them in quotation marks.`,
      instead: [...nearest(term.field, names, 3).map((name) => change({ field: name })), printTerm({ field: "", operator: ":", values: [text], not })],
    };
  }
  const name = fieldText(field.name);
  if (field.takes === "number") {
    const given = number(values[0] ?? "");
    if (values.length !== 1 || Number.isNaN(given)) {
      return { term, message: `${name} takes one number, such as ${name}>5 or ${name}<0.5.`, instead: [] };
    }
    return { field: at, not, values: operator === ":" ? [given, half(values[0] ?? "")] : [given], operator, text };
  }
  const known = field.like ? [] : field.values.map((value) => value.name);
  if (operator !== ":") {
    return { term, message: `${name} is no number: type ${name}:VALUE. ${say(field, "")}`, instead: [change({ operator: ":" })] };
  }
  if (values.length === 0) {
    return { term, message: `${name}: needs a value. ${say(field, "")}`, instead: known.slice(0, 3).map((value) => change({ values: [value] })) };
  }
  const places = new Set<number>();
  for (const value of values) {
    const found = valuesOf(field, value);
    if (found.length === 0) {
      const like = field.like ? field.like(value, 3) : nearest(value, known, 3);
      return {
        term,
        message: `${name} has no value ${valueText(value)}. ${say(field, value)}`,
        instead: like.map((each) => change({ values: values.map((old) => (old === value ? each : old)) })),
      };
    }
    for (const place of found) places.add(place);
  }
  return { field: at, not, values: [...places].sort((x, y) => x - y), operator, text };
}

function say(field: Name, typed: string): string {
  if (field.like) {
    const like = field.like(typed, NAMED);
    return like.length > 0 ? `Some: ${like.map(valueText).join(", ")}.` : "";
  }
  return field.values.length === 0 ? "This run has none." : `Values: ${listed(typed, field.values.map((value) => value.name))}.`;
}

/** A query of fields and values that a table has: its first facet with a value, and the first one that tells rows apart. */
export function exampleOf(fields: readonly Name[], facets: readonly number[], value: string): string {
  const counted = facets.flatMap((place) => fields[place] ?? []);
  const apart = counted.find((field, i) => i > 0 && field.name !== "pair" && field.values.length > 1);
  const terms = [[counted[0], value], [apart, apart?.values[0]?.name]] as const;
  const typed = terms.flatMap(([field, name]) => (field?.values.some((each) => each.name === name) ? [{ field: field.name, operator: ":" as const, values: [name ?? ""], not: false }] : []));
  return `${print(typed)} "some words"`.trim();
}

// ---- edits ---------------------------------------------------------------------------------------------------------

const isOf = (fields: readonly Name[], field: Name, term: Term): boolean =>
  term.field !== "" && fields[fieldOf(fields, term.field)] === field;

/** The text with a value of a field added to its first term, or taken away where it stands. */
export function toggle(text: string, fields: readonly Name[], field: Name, value: string): string {
  const terms: Typed[] = parse(text);
  const wanted = valuesOf(field, value);
  const names = (typed: string): boolean => valuesOf(field, typed).some((place) => wanted.includes(place));
  const there = terms.findIndex((term) => isOf(fields, field, term as Term) && !term.not && term.values.some(names));
  if (there >= 0) {
    const left = terms[there]?.values.filter((typed) => !names(typed)) ?? [];
    return print(left.length > 0 ? terms.map((term, i) => (i === there ? { ...term, values: left } : term)) : terms.filter((_, i) => i !== there));
  }
  const first = terms.findIndex((term) => isOf(fields, field, term as Term) && !term.not && term.operator === ":");
  if (first >= 0) return print(terms.map((term, i) => (i === first ? { ...term, values: [...term.values, value] } : term)));
  return print([...terms, { field: field.name, operator: ":", values: [value], not: false }]);
}

/** The text without any term of a field. */
export const without = (text: string, fields: readonly Name[], field: Name): string =>
  print(parse(text).filter((term) => !isOf(fields, field, term)));

/** The text with a term at its end, or without it where it stands. */
export function switched(text: string, term: string): string {
  const terms = parse(text);
  const rest = terms.filter((each) => printTerm(each) !== term);
  return rest.length < terms.length ? print(rest) : `${text.trim()} ${term}`.trim();
}

/** The text with another in place of a term. */
export const replaced = (text: string, term: Pick<Term, "start" | "end">, by: string): string =>
  (text.slice(0, term.start) + by + text.slice(term.end)).trim();

// ---- suggestions ---------------------------------------------------------------------------------------------------

/** A text that may stand between `start` and `end` of the query; `more` is true if a value must follow. */
export interface Suggestion {
  readonly text: string;
  readonly label: string;
  readonly start: number;
  readonly end: number;
  readonly more: boolean;
}

/** Suggestions for the term that the caret stands in or behind. */
export function suggest(text: string, caret: number, fields: readonly Name[], most = 10): Suggestion[] {
  const term = parse(text).find((each) => each.start <= caret && caret <= each.end);
  if (term === undefined) return fields.slice(0, most).map((field) => ofField(field, caret, caret, ""));
  const sign = term.not ? "-" : "";
  if (term.field !== "") {
    const field = fields[fieldOf(fields, term.field)];
    if (field === undefined) return matching(term.field, fields, most).map((each) => ofField(each, term.start, term.end, sign));
    if (field.takes === "number") return [];
    const before = text.slice(term.start, caret);
    const typed = before.slice(Math.max(before.lastIndexOf(","), before.search(/[:=]/)) + 1).replace(/^"|"$/g, "");
    const start = caret - before.length + Math.max(before.lastIndexOf(","), before.search(/[:=]/)) + 1;
    const after = /^[^\s,]*/.exec(text.slice(caret))?.[0].length ?? 0;
    const names: readonly Value[] = field.like ? field.like(typed, most).map((name) => ({ name, label: name })) : field.values;
    return beginning(typed, names, most).map((value) => ({
      text: valueText(value.name),
      label: value.label,
      start,
      end: caret + after,
      more: false,
    }));
  }
  const typed = term.values[0] ?? "";
  const found = matching(typed, fields, most).map((field) => ofField(field, term.start, term.end, sign));
  for (const field of fields) {
    if (found.length >= most) break;
    if (field.takes !== "value" || slug(typed).length < 2) continue;
    for (const value of beginning(typed, field.values, 3)) {
      found.push({ text: `${sign}${fieldText(field.name)}:${valueText(value.name)}`, label: `${field.label}: ${value.label}`, start: term.start, end: term.end, more: false });
    }
  }
  return found.slice(0, most);
}

const ofField = (field: Name, start: number, end: number, sign: string): Suggestion => ({
  text: `${sign}${fieldText(field.name)}${field.takes === "number" ? ">" : ":"}`,
  label: field.label,
  start,
  end,
  more: true,
});

const matching = (typed: string, fields: readonly Name[], most: number): Name[] =>
  fields.filter((field) => namesOf(field).some((name) => slug(name).startsWith(slug(typed)))).slice(0, most);

function beginning(typed: string, values: readonly Value[], most: number): Value[] {
  const wanted = slug(typed);
  if (wanted === "") return values.slice(0, most);
  const first: Value[] = [];
  const later: Value[] = [];
  for (const value of values) {
    const names = [value.name, value.label, ...(value.also ?? [])].map(slug);
    if (names.some((name) => name.startsWith(wanted))) first.push(value);
    else if (names.some((name) => name.includes(wanted))) later.push(value);
    if (first.length >= most) break;
  }
  return [...first, ...later].slice(0, most);
}
