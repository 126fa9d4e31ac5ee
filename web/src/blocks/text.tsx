// Sentences, named facts, or a text as it is.
import type { TextBlock } from "../bundle";
import { Copy } from "../ui/copy";
import { Visible } from "../ui/text";
import { Linked } from "./figure";

/** A fact with more characters has a line of its own. */
const LONG = 38;

export const TextView = ({ of }: { readonly of: TextBlock }) => {
  const { lines = [], facts = [], verbatim = "" } = of;
  return (
    <>
      {lines.map((line) => <p class="line-of"><Visible text={line} /></p>)}
      {facts.length > 0 && (
        <dl class="facts">
          {facts.map(({ name, value, link }) => (
            <div class={name.length + value.length > LONG ? "long" : ""}>
              <dt><Visible text={name} /></dt>
              <dd><Linked to={link}><Visible text={value} /></Linked></dd>
            </div>
          ))}
        </dl>
      )}
      {verbatim !== "" && (
        <div class="verbatim">
          <pre><Visible text={verbatim} /></pre>
          <Copy text={verbatim}>Copy</Copy>
        </div>
      )}
    </>
  );
};
