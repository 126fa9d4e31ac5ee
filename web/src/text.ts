// How texts and numbers are written. Numbers of measures come written from Python; these are the app's own.

// Characters that are not seen, or that turn the direction of text, are named, not obeyed. `texts.HIDDEN` is the same.
const HIDDEN =
  /([\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u180e\u200b\u200e\u200f\u2028\u2029\u202a-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb\u{e0000}-\u{e007f}]+)/u;
const code = (character: string): string =>
  `⟨U+${(character.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, "0")}⟩`;

/** A text as pieces; each second piece names hidden characters. */
export const pieces = (text: string): string[] =>
  text.split(HIDDEN).map((piece, place) => (place % 2 === 1 ? Array.from(piece, code).join("") : piece));

/** Characters of a text that are drawn at first: a browser needs seconds for a million. */
export const MOST_SHOWN = 100_000;
const MOST_FLAT = 10_000;

/** A text whose hidden characters are named, for attributes. */
export const flat = (text: string): string =>
  pieces(text.length > MOST_FLAT ? `${text.slice(0, MOST_FLAT)}…` : text).join("");

// Made once: a page has thousands of numbers.
const FORMAT = new Intl.NumberFormat("en-US", { maximumFractionDigits: 2 });
export const count = (number: number): string => FORMAT.format(number);
export const percent = (numerator: number, denominator: number): string =>
  denominator > 0 ? ((100 * numerator) / denominator).toFixed(2) : "–";
export const digits = (number: number): string =>
  number >= 100 ? number.toFixed(0) : String(Number(number.toPrecision(3)));
/** A name of ours for people: `set_accuracy` -> `set accuracy`. */
export const label = (name: string): string => name.replaceAll("_", " ");
/** A phrase with a capital letter, to begin a heading with. */
export const capital = (text: string): string => text.charAt(0).toUpperCase() + text.slice(1);
export const took = (seconds: number): string => (seconds < 0.001 ? "under 1 ms" : `${digits(seconds)} s`);
export const plural = (number: number, one: string, many = `${one}s`): string =>
  `${count(number)} ${number === 1 ? one : many}`;

export { FEW } from "./bundle";
