// Numbers of questions, each a link to them.
import type { QuestionsBlock } from "../bundle";
import { count } from "../text";
import { isOutcome, Outcome } from "../ui/outcome";
import { Visible } from "../ui/text";
import { Linked } from "./figure";
import { Notes } from "./table";

/** The counts as parts of a bar. */
const Stack = ({ of, total }: { readonly of: QuestionsBlock["chosen"]; readonly total: number }) => {
  let seen = 0;
  const places = of.map(({ title, count: number }) => ({ title, start: (seen += number) - number, number }));
  const at = (number: number): string => `${((100 * number) / total).toFixed(2)}%`;
  return (
    <svg class="stack" width="100%" height={12} aria-hidden="true" focusable="false">
      {places.map(({ title, start, number }) => number > 0 && <rect class={isOutcome(title) ? `o-${title}` : undefined} x={at(start)} width={at(number)} height={12} />)}
    </svg>
  );
};

export const QuestionsView = ({ of }: { readonly of: QuestionsBlock }) => (
  <>
    {(of.total ?? 0) > 0 && <Stack of={of.chosen} total={of.total ?? 0} />}
    <ul class="counts">
      {of.chosen.map(({ title, count: number, link }) => (
        <li>
          <Linked to={number > 0 ? link : undefined}>
            <data value={number}>{count(number)}</data> {isOutcome(title) ? <Outcome name={title} /> : <Visible text={title} />}
          </Linked>
        </li>
      ))}
    </ul>
    <Notes of={of.notes} />
  </>
);
