import { count, MOST_SHOWN, pieces } from "../text";

/** A text of data or models: text nodes only, hidden characters named. A very long one is cut, unless `whole`. */
export const Visible = ({ text, whole = false }: { readonly text: string; readonly whole?: boolean }) => {
  const shown = whole ? text : text.slice(0, MOST_SHOWN);
  return (
    <>
      {pieces(shown).map((piece, place) => (place % 2 === 1 ? <span class="control">{piece}</span> : piece))}
      {shown.length < text.length && <span class="control">… {count(text.length - shown.length)} more characters</span>}
    </>
  );
};
