// The exact prompt of an answer, folded.
import { useEffect, useState } from "preact/hooks";

import type { Answered } from "../bundle";
import type { Data } from "../data";
import { hasPrompts, orderInWords, plain, promptsOf, sentOf, type Sent } from "../prompt";
import { count, flat } from "../text";
import { Copy } from "../ui/copy";
import { Visible } from "../ui/text";

const Shown = ({ of, label }: { readonly of: Sent; readonly label: string }) => (
  <>
    {of.withheld > 0 && (
      <p class="notes">{count(of.withheld)} solved examples came before it. They are not kept, as their data are not declared public.</p>
    )}
    {of.messages.map(({ from, images, text }, place) => (
      <section key={place} class="message">
        <h4>{from}</h4>
        {images.length > 0 && (
          <p class="quiet">
            {of.blank ? "Grey images of the same size in place of these" : "Images"}, {orderInWords(of.order)}:{" "}
            <Visible text={images.join("; ")} />
          </p>
        )}
        <div class="response" dir="auto" tabIndex={0} role="group" aria-label={`${from}, ${flat(label)}`}><Visible text={text} /></div>
      </section>
    ))}
    {of.messages.every(({ images }) => images.length === 0) && <p class="quiet">No image was sent.</p>}
    {of.compared.length > 0 && (
      <>
        <h4>Compared continuations</h4>
        <p class="quiet">The model wrote nothing: the probabilities of these texts after the prompt were compared.</p>
        <ol class="compared">{of.compared.map((text, place) => <li key={place} dir="auto"><Visible text={text} /></li>)}</ol>
      </>
    )}
    <p class="quiet">
      {of.tokens !== null && (of.tokens === 0 ? "No limit of new tokens. " : `At most ${count(of.tokens)} new tokens. `)}
      The model's backend adds its chat template; the method section has its settings.
    </p>
    <p><Copy text={plain(of)}>Copy the prompt</Copy></p>
  </>
);

export const SentFold = ({ data, r, answered }: { readonly data: Data; readonly r: number; readonly answered: Answered | undefined }) => {
  const [open, setOpen] = useState(false);
  const [sent, setSent] = useState<Sent | string | null>(null);
  const earlier = answered?.folded?.find(({ name }) => name === "Earlier replies")?.texts;
  useEffect(() => {
    if (!open) return;
    let wanted = true;
    void promptsOf(data).then((prompts) => { if (wanted) setSent(sentOf(data, prompts, r, earlier ?? [])); });
    return () => { wanted = false; };
  }, [open, data, r, earlier]);
  if (!hasPrompts(data)) return null;
  return (
    <details class="more folded" onToggle={(event) => { setOpen(event.currentTarget.open); }}>
      <summary>The exact prompt</summary>
      {sent === null ? <p class="quiet">Reading the prompt.</p>
        : typeof sent === "string" ? <p class="notes">The exact prompt cannot be shown. <Visible text={sent} /></p>
        : <Shown of={sent} label={data.id(data.question(r))} />}
    </details>
  );
};
