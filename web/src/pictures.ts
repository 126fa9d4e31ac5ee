// The images of questions as viewers take them.
import type { Data } from "./data";
import { json } from "./read";
import type { Picture } from "./ui/viewer";

const reading = new WeakMap<Data, Promise<readonly string[]>>();

/** Only images inside the page, and files in the folder beside it. */
const ALLOWED = /^(data:image\/(jpeg|png|webp);base64,|images\/[0-9a-f]+\.(jpg|png|webp)$)/;

const sourcesOf = async (data: Data): Promise<readonly string[]> => {
  const known = reading.get(data);
  if (known !== undefined) return known;
  const read = json<readonly string[]>(data.bundle.blocks, "images");
  reading.set(data, read);
  return read;
};

export const picturesOf = async (data: Data, questions: readonly number[]): Promise<readonly Picture[]> => {
  const heads = questions.flatMap((q) => data.images(q));
  if (heads.length === 0) return [];
  const sources = await sourcesOf(data);
  return heads.map(({ name, source }) => {
    const found = sources[source];
    const known = found !== undefined && ALLOWED.test(found);
    return { name, source: known ? found : null, why: known ? "" : "The image is not part of this page.", original: null };
  });
};
