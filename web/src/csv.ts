// Tables for spreadsheets.
import { FORMULA_STARTS } from "./bundle";

/** A cell without control characters; one that spreadsheets would run begins with an apostrophe, as in Python's files. */
const cell = (value: string | number | null): string => {
  if (typeof value === "number") return String(value);
  const text = (value ?? "").replace(/[\x00-\x08\x0b\x0c\x0e-\x1f]/g, "");
  // White space before a formula counts for nothing, and may be such a start itself.
  const begins = [text.replace(/^ +/, ""), text.trimStart()];
  const safe = FORMULA_STARTS.some((start) => begins.some((each) => each.startsWith(start))) ? `'${text}` : text;
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
};

export const csv = (lines: readonly (readonly (string | number | null)[])[]): string =>
  lines.map((line) => `${line.map(cell).join(",")}\r\n`).join("");

/** Offer a text as a file; a table begins with a byte order mark, by which spreadsheets know UTF-8. */
export const save = (text: string, name: string, type: string): void => {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob(type.startsWith("text/csv") ? ["\ufeff", text] : [text], { type }));
  link.download = name;
  link.click();
  setTimeout(() => {
    URL.revokeObjectURL(link.href);
  }, 1000);
};
