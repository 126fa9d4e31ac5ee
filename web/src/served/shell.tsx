// The pages of `medvqa view` by their paths.
import { ask } from "../server";
import type { History } from "../served";
import "../style/served.css";
import { Compared } from "./compare";
import { useLoaded, useReady, useRuns } from "./feed";
import { Disconnected, Frame, Waiting } from "./frame";
import { HistoryView } from "./history";
import { Home } from "./home";
import type { Route } from "./routes";
import { RunPage } from "./run";

const HomePage = () => {
  const { value: runs, problem } = useRuns();
  useReady(runs !== null);
  return (
    <Frame title="Runs" home>
      {runs === null ? <Waiting problem={problem} what="Reading the runs." /> : <><Disconnected why={problem} /><Home list={runs.list} /></>}
    </Frame>
  );
};

const HistoryPage = ({ benchmark, id }: { readonly benchmark: string; readonly id: string }) => {
  const { value, problem } = useLoaded((signal) => ask<History>(`history?${new URLSearchParams({ benchmark, id }).toString()}`, { signal, seconds: 120 }));
  useReady(value !== null);
  return <Frame title={id}>{value === null ? <Waiting problem={problem} what="Reading this item in all runs." /> : <HistoryView history={value} />}</Frame>;
};

export const Served = ({ route }: { readonly route: Route }) => (
  <>
    {route.kind === "home" && <HomePage />}
    {route.kind === "run" && <RunPage name={route.name} />}
    {route.kind === "compare" && <Compared names={route.names} />}
    {route.kind === "history" && <HistoryPage benchmark={route.benchmark} id={route.id} />}
    {route.kind === "unknown" && <Frame title="Unknown page"><Waiting problem="medvqa view has no such page." what="" /><p><a href="/">All runs</a></p></Frame>}
  </>
);
