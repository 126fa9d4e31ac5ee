import { Visible } from "./text";

/** The mark of an outcome: told by word, shape and colour. `of`: the outcome, if the word is another. */
export const Outcome = ({ name, of = name }: { readonly name: string; readonly of?: string }) => (
  <span class={`outcome o-${of}`}>
    <span class="dot" aria-hidden="true" />
    <Visible text={name} />
  </span>
);
