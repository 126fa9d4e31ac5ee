// How texts and numbers are written. Numbers of measures come written from Python; these are the app's own.

// Control characters and marks that turn the direction of text are named, not obeyed.
const HIDDEN = /([\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028\u2029\u202a-\u202e\u2060-\u2069\ufeff])/;
const code = (character: string): string =>
  `⟨U+${character.charCodeAt(0).toString(16).toUpperCase().padStart(4, "0")}⟩`;

/** A text as pieces; each second piece is the name of a hidden character. */
export const pieces = (text: string): string[] =>
  text.split(HIDDEN).map((piece, place) => (place % 2 === 1 ? code(piece) : piece));

/** A text whose hidden characters are named, for attributes. */
export const flat = (text: string): string => pieces(text).join("");

export const count = (number: number): string => number.toLocaleString("en-US", { maximumFractionDigits: 2 });
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

/** Units below which counts are shown in place of percentages. */
export const FEW = 10;
