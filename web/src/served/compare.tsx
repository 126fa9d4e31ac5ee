// The comparison of several runs, which the server draws.
import { useEffect, useState } from "preact/hooks";

import { App } from "../app";
import { plural } from "../text";
import { Visible } from "../ui/text";
import { useDrawn } from "./drawn";
import { useReady, useRuns } from "./feed";
import { Disconnected, Frame, Waiting } from "./frame";
import { runLink } from "./routes";

export const Compared = ({ names }: { readonly names: readonly string[] }) => {
  const [turn, setTurn] = useState(1);
  const [changed, setChanged] = useState<ReadonlySet<string>>(new Set());
  const { page, problem } = useDrawn(names, turn);
  const { value: runs, problem: silent } = useRuns();
  useEffect(() => {
    const mine = (runs?.changed ?? []).filter((name) => names.includes(name));
    if (mine.length > 0) setChanged((before) => new Set([...before, ...mine]));
  }, [runs, names]);
  useReady(page?.data != null);
  if (page === null) {
    return (
      <Frame title="Comparison">
        <h1>Comparison of {plural(names.length, "run")}</h1>
        <Waiting problem={problem} what={`Drawing the comparison of ${plural(names.length, "run")}.`} />
        <ul>{names.map((name) => <li key={name}><a href={runLink(name)}><Visible text={name} /></a></li>)}</ul>
      </Frame>
    );
  }
  const again = (): void => {
    setChanged(new Set());
    setTurn(turn + 1);
  };
  const drawing = page.turn !== turn && problem === "";
  return (
    <App
      key={page.turn}
      head={page.head}
      data={page.data}
      served
      said={
        <div role="status" class="served-news">
          <Disconnected why={silent} />
          {problem !== "" && <p class="alert">{problem}</p>}
          {drawing && <p class="aside">Drawing the comparison again.</p>}
          {!drawing && (changed.size > 0 || problem !== "") && (
            <p class="aside">
              {changed.size > 0 && <>Changed since this comparison was drawn: <Visible text={[...changed].join(", ")} />. </>}
              <button type="button" onClick={again}>Draw it again</button>
            </p>
          )}
        </div>
      }
    />
  );
};
