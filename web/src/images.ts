// The images of questions, and where their pixels are: inside the page, in a file beside it, or at a server.
import type { ImageHead } from "./bundle";
import { count } from "./text";

/** A reader's page has a folder of its own, such as R1-images. */
const FILE = /^(?:[\w.-]+-)?images\/[0-9a-f]{64}\.(png|jpg|webp)$/;
const TYPES: ReadonlyMap<string, string> = new Map([
  ["png", "image/png"],
  ["jpg", "image/jpeg"],
  ["webp", "image/webp"],
]);

let folder = "";
let served = false;

/** Say where a server has the images of the page. */
export const setImagesAt = (address: string): void => {
  folder = address;
  served = true;
};

/** The address of an image for `src`; null if it has no file. Blocks of images stand in the page as base64. */
export const sourceOf = ({ source = "" }: ImageHead): string | null => {
  const type = TYPES.get(FILE.exec(source)?.[1] ?? "");
  if (type === undefined) return null;
  const block = document.getElementById(`block-${source}`);
  return block === null ? folder + source : `data:${type};base64,${block.textContent}`;
};

/** The reason for showing nothing. `failed`: the browser could not load the file. */
export const whyNone = ({ source = "", why = "" }: ImageHead, failed: boolean): string => {
  if (!failed || source === "") return why || "it is not part of this page";
  if (served) return "the server did not send it";
  const inside = document.getElementById(`block-${source}`) !== null;
  return inside ? "its data in this page are damaged" : "its file is not beside this page: send the folder images too";
};

/** Whether the page has fewer pixels than the model got: a scale is then that of the shrunk image. */
export const isShrunk = ({ width = 0, drawn_width = 0 }: ImageHead): boolean => drawn_width < width;

/** The size of an image in words, and how the page shows it; "" if it was not read. */
export const sizeOf = (image: ImageHead): string => {
  const { width = 0, height = 0, drawn_width = 0, drawn_height = 0, exact = false, source = "" } = image;
  if (width === 0) return "";
  const native = `${count(width)} × ${count(height)} pixels`;
  if (source === "" || exact) return native;
  return drawn_width === width ? `${native}, compressed here` : `${native}, shrunk here to ${count(drawn_width)} × ${count(drawn_height)}`;
};

/** The name of an image for people. Private data have pseudonyms: one that the model did not read is called by its place. */
export const nameOf = ({ name }: ImageHead): string => name.replace(/^unread-(?=\d+(?:\?|$))/, "image ");

/** An image that may be shown. */
export interface Picture {
  readonly name: string;
  /** The address of its file, null if it is not part of the page. */
  readonly source: string | null;
  /** Its pixels in words, and how its file here differs; "" if unknown. */
  readonly size: string;
  /** The window that was applied to a grey image, and the spacing of its pixels; "" if there is none. */
  readonly shown?: string;
  readonly shrunk: boolean;
  /** Why it is not shown. */
  readonly why: string;
  /** Why it is not shown if the browser cannot load its file. */
  readonly failed: string;
}

/** Images as viewers take them. */
export const picturesOf = (images: readonly ImageHead[]): readonly Picture[] =>
  images.map((image) => ({
    name: nameOf(image),
    source: sourceOf(image),
    size: sizeOf(image),
    shown: image.shown ?? "",
    shrunk: isShrunk(image),
    why: whyNone(image, false),
    failed: whyNone(image, true),
  }));
