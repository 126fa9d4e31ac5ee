import fc from "fast-check";
import { render } from "preact";
import { act } from "preact/test-utils";
import { afterEach, expect, test } from "vitest";

import type { ImageHead } from "../src/bundle";
import { isShrunk, nameOf, sizeOf, sourceOf, whyNone } from "../src/images";
import { Thumb } from "../src/ui/picture";
import { Visible } from "../src/ui/text";

const FILE = `images/${"0123456789abcdef".repeat(4)}.png`;
const image = (fields: Partial<ImageHead>): ImageHead => ({ name: "ct/1.png", ...fields });

const block = (name: string, content: string): void => {
  const element = document.createElement("script");
  element.type = "application/octet-stream";
  element.id = `block-${name}`;
  element.textContent = content;
  document.body.append(element);
};

afterEach(() => {
  document.body.replaceChildren();
});

test("an image inside the page is a data URI, another one a file beside it", () => {
  expect(sourceOf(image({ source: FILE }))).toBe(FILE);
  block(FILE, "AAEC");
  expect(sourceOf(image({ source: FILE }))).toBe("data:image/png;base64,AAEC");
  expect(sourceOf(image({}))).toBeNull();
});

test("no other address is ever loaded", () => {
  const hostile = ["https://example.org/x.png", "images/../../x.png", `${FILE}?x`, ` ${FILE}`, `/${FILE}`, "javascript:1", "head"];
  fc.assert(
    fc.property(fc.oneof(fc.constantFrom(...hostile), fc.string(), fc.constantFrom("__proto__", "constructor")), (source) => {
      expect(sourceOf(image({ source }))).toBeNull();
    }),
  );
});

test("a picture that is not shown says its name and the reason", () => {
  const root = document.createElement("div");
  document.body.append(root);
  render(<Thumb image={image({ name: "a\u202e<b>.png", why: "no such file" })} label="Image 1" />, root);
  expect(root.textContent).toBe("No image: a⟨U+202E⟩<b>.pngno such file");
  expect(root.querySelector("img, b")).toBeNull();
});

test("a file that the browser cannot load leaves the place of its image", async () => {
  const root = document.createElement("div");
  document.body.append(root);
  render(<Thumb image={image({ source: FILE, drawn_width: 3, drawn_height: 2 })} label="Image 1 of question q" />, root);
  const shown = root.querySelector("img");
  expect(shown?.getAttribute("alt")).toBe("Image 1 of question q");
  expect(shown?.getAttribute("src")).toBe(FILE);
  await act(() => {
    shown?.dispatchEvent(new Event("error"));
  });
  expect(root.querySelector("img")).toBeNull();
  expect(root.textContent).toContain("send the folder images too");
  block(FILE, "AAEC");
  expect(whyNone(image({ source: FILE }), true)).toBe("its data in this page are damaged");
});

test("a very long text is cut, and says so", () => {
  const root = document.createElement("div");
  render(<Visible text={"x".repeat(100_001)} />, root);
  expect(root.textContent).toBe(`${"x".repeat(100_000)}… 1 more characters`);
  render(<Visible text={"\u0000".repeat(90_000)} />, root);
  expect(root.querySelectorAll("*").length).toBe(1);
  render(<Visible text={"x".repeat(100_001)} whole />, root);
  expect(root.textContent).toBe("x".repeat(100_001));
});

test("the size says what was lost", () => {
  const size = { width: 1024, height: 768, source: FILE };
  expect(sizeOf(image({}))).toBe("");
  expect(sizeOf(image({ ...size, drawn_width: 1024, drawn_height: 768, exact: true }))).toBe("1,024 × 768 pixels");
  expect(sizeOf(image({ ...size, drawn_width: 1024, drawn_height: 768 }))).toBe("1,024 × 768 pixels, compressed here");
  expect(sizeOf(image({ ...size, drawn_width: 512, drawn_height: 384 }))).toBe("1,024 × 768 pixels, shrunk here to 512 × 384");
  expect(sizeOf(image({ ...size, source: "" }))).toBe("1,024 × 768 pixels");
  expect([1024, 512].map((drawn_width) => isShrunk(image({ ...size, drawn_width })))).toEqual([false, true]);
});

test("an image that the model did not read is called by its place, with its window", () => {
  expect(["unread-1", "unread-12?window=lung", "unread-1.png", "ct/unread-1"].map((name) => nameOf(image({ name })))).toEqual(["image 1", "image 12?window=lung", "unread-1.png", "ct/unread-1"]);
});
