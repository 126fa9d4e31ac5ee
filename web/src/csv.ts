// Tables for spreadsheets.

import { FORMULA } from "./bundle";

const begins = (text: string): boolean => text !== "" && FORMULA.includes(text.charAt(0));

// A text that begins like a formula gets an apostrophe, so that no spreadsheet computes it.
const cell = (value: string | number | null): string => {
  const text = String(value ?? "");
  const formula = typeof value === "string" && (begins(text) || begins(text.replace(/^[\s\x00-\x1f]+/, "")));
  const safe = formula ? `'${text}` : text;
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
