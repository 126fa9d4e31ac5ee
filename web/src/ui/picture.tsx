import { useState } from "preact/hooks";

import type { ImageHead } from "../bundle";
import { nameOf, sourceOf, whyNone } from "../images";
import "../style/picture.css";
import { flat } from "../text";
import { Visible } from "./text";

/** The place of an image that is not shown: its name and the reason. */
export const NoPicture = ({ image, failed = false }: { readonly image: ImageHead; readonly failed?: boolean }) => (
  <div class="no-picture" title={flat(`${nameOf(image)}: ${whyNone(image, failed)}`)}>
    <svg viewBox="0 0 24 24" width={20} height={20} aria-hidden="true" focusable="false">
      <path d="M3 4h18v16H3zM3 17l6-6 5 5 3-3 4 4M4 21 21 3" />
    </svg>
    <p>
      <span class="sr">No image: </span>
      <strong dir="auto"><Visible text={nameOf(image)} /></strong>
      <span class="why"><Visible text={whyNone(image, failed)} /></span>
    </p>
  </div>
);

/** A small picture that fills its box, or the place of one. `label` says whose it is. */
export const Thumb = ({ image, label }: { readonly image: ImageHead; readonly label: string }) => {
  const [broken, setBroken] = useState<string | null>(null);
  const source = sourceOf(image);
  if (source === null || broken === source) return <NoPicture image={image} failed={source !== null} />;
  return (
    <img
      class="thumb"
      src={source}
      alt={flat(label)}
      title={flat(nameOf(image))}
      width={image.drawn_width ?? 0}
      height={image.drawn_height ?? 0}
      loading="lazy"
      decoding="async"
      onError={() => { setBroken(source); }}
    />
  );
};
