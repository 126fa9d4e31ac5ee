// The first image of a question, small; its name where it is not part of the page.
import type { Data } from "../data";
import { count } from "../text";
import { Thumb } from "../ui/picture";

export const Thumbnail = ({ data, question }: { readonly data: Data; readonly question: number }) => {
  const images = data.images(question);
  const [first] = images;
  return (
    <div class="thumbnail">
      {first === undefined ? <p class="no-image">This question has no image.</p> : <Thumb image={first} label={`First image of question ${data.id(question)}`} />}
      {images.length > 1 && <span class="number">{count(images.length)} images</span>}
    </div>
  );
};
