// The images of questions as viewers take them.
import type { Data } from "./data";
import { sizeOf, sourceOf, whyNone } from "./images";
import type { Picture } from "./ui/viewer";

export const picturesOf = (data: Data, questions: readonly number[]): readonly Picture[] =>
  questions
    .flatMap((q) => data.images(q))
    .map((image) => ({
      // The pseudonym of an image that the model did not read: the page may show it nevertheless.
      name: image.name.replace(/^unread-(?=\d+$)/, "image "),
      source: sourceOf(image),
      size: sizeOf(image),
      why: whyNone(image, false),
      failed: whyNone(image, true),
    }));
