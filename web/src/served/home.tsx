// The list of all runs.
import type { RunList, RunProgress } from "../served";
import { count } from "../text";
import { Visible } from "../ui/text";
import { compareLink, runLink } from "./routes";

/** `progress`: what has been told of runs since the page was opened, by name. */
export const Home = ({ list, progress }: { readonly list: RunList; readonly progress: ReadonlyMap<string, RunProgress> }) => (
  <>
    <h1>Runs in <Visible text={list.root} /></h1>
    {list.runs.length > 1 && <p><a href={compareLink(list.runs.map(({ name }) => name))}>Compare all</a></p>}
    <ul>
      {list.runs.map(({ name, state, answered, selected }) => {
        const now = progress.get(name);
        return <li key={name}><a href={runLink(name)}><Visible text={name} /></a> {now?.state ?? state}, {count(now?.answered ?? answered)} of {count(now?.selected ?? selected)} answered</li>;
      })}
    </ul>
  </>
);
