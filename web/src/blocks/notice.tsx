// Sentences that limit the numbers or warn: the first of them, and the others folded.
import type { NoticeBlock } from "../bundle";
import { plural } from "../text";
import { Visible } from "../ui/text";
import { Linked } from "./figure";

const SHOWN = 6;
const SIGNS = { "": "", good: "✓", part: "◐", bad: "!", open: "◆" } as const;

const List = ({ of }: { readonly of: readonly NoticeBlock[] }) => (
  <ul class="notices">
    {of.map(({ text, state = "part", link }) => (
      <li class={`s-${state}`}>
        {SIGNS[state] !== "" && <span class="sign" aria-hidden="true">{SIGNS[state]}</span>}
        <span><Visible text={text} />{(link ?? "") !== "" && <> <Linked to={link}>Show</Linked></>}</span>
      </li>
    ))}
  </ul>
);

export const NoticesView = ({ of }: { readonly of: readonly NoticeBlock[] }) => (
  <>
    <List of={of.slice(0, SHOWN)} />
    {of.length > SHOWN && (
      <details class="limits">
        <summary>{plural(of.length - SHOWN, "more notice")}</summary>
        <List of={of.slice(SHOWN)} />
      </details>
    )}
  </>
);
