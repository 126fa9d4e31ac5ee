import { Visible } from "./text";

/** The mark of an outcome: told by word, shape and colour. */
export const Outcome = ({ name }: { readonly name: string }) => (
  <span class={`outcome o-${name}`}>
    <span class="dot" aria-hidden="true" />
    <Visible text={name} />
  </span>
);
