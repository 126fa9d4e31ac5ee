// The results of one item over all runs.
import type { History } from "../served";
import { Outcome } from "../ui/outcome";
import { Visible } from "../ui/text";
import { runLink } from "./routes";

export const HistoryView = ({ history }: { readonly history: History }) => (
  <>
    <h1><Visible text={history.benchmark} /> · <Visible text={history.id} /></h1>
    <ul>
      {history.rows.map(({ run, item }) => <li key={`${run} ${item.row}`}><a href={runLink(run)}><Visible text={run} /></a> <Outcome name={item.outcome} /></li>)}
    </ul>
  </>
);
