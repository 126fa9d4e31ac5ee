import { pieces } from "../text";

/** A text of data or models: text nodes only, hidden characters named. */
export const Visible = ({ text }: { readonly text: string }) => (
  <>{pieces(text).map((piece, place) => (place % 2 === 1 ? <span class="control">{piece}</span> : piece))}</>
);
