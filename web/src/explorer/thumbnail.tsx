// The first image of a question, small; its name where it is not part of the page.
import type { Data } from "../data";
import { count } from "../text";
import { Visible } from "../ui/text";

export const Thumbnail = ({ data, question }: { readonly data: Data; readonly question: number }) => {
  const images = data.images(question);
  const [first] = images;
  return (
    <div class="thumbnail missing">
      <span>{first === undefined ? "no image" : <Visible text={first.name} />}</span>
      {images.length > 1 && <span class="more">{count(images.length)} images</span>}
    </div>
  );
};
