// The pages of `medvqa view` by their paths.
import { useEffect, useRef, useState } from "preact/hooks";

import { ask } from "../server";
import type { History, RunList, RunProgress } from "../served";
import "../style/served.css";
import { Compared } from "./compare";
import { useLoaded, useNews, useReady } from "./feed";
import { Disconnected, Frame, Waiting } from "./frame";
import { HistoryView } from "./history";
import { Home } from "./home";
import type { Route } from "./routes";
import { RunPage } from "./run";

/** Milliseconds between two readings of the list of runs at most: many runs may change at once. */
const CALM = 1000;

const HomePage = () => {
  const { value: list, problem, again } = useLoaded((signal) => ask<RunList>("runs", { signal }));
  const [progress, setProgress] = useState<ReadonlyMap<string, RunProgress>>(new Map());
  const waiting = useRef<ReturnType<typeof setTimeout> | undefined>(undefined);
  useEffect(() => () => { clearTimeout(waiting.current); }, []);
  useNews((news) => {
    if (news.kind === "progress") setProgress((before) => new Map(before).set(news.progress.name, news.progress));
    if (news.kind === "again") again();
    if (news.kind !== "runs" || waiting.current !== undefined) return;
    waiting.current = setTimeout(() => {
      waiting.current = undefined;
      again();
    }, CALM);
  });
  useReady(list !== null);
  return (
    <Frame title="Runs" home>
      {problem !== "" && list !== null && <p class="alert" role="alert">{problem}</p>}
      {list === null ? <Waiting problem={problem} what="Reading the runs." /> : <Home list={list} progress={progress} />}
    </Frame>
  );
};

const HistoryPage = ({ benchmark, id }: { readonly benchmark: string; readonly id: string }) => {
  const { value, problem, again } = useLoaded((signal) => ask<History>(`history?${new URLSearchParams({ benchmark, id }).toString()}`, { signal, seconds: 120 }));
  useNews((news) => { if (news.kind === "again") again(); });
  useReady(value !== null);
  return <Frame title={id}>{value === null ? <Waiting problem={problem} what="Reading this item in all runs." /> : <HistoryView history={value} />}</Frame>;
};

export const Served = ({ route }: { readonly route: Route }) => (
  <>
    <Disconnected />
    {route.kind === "home" && <HomePage />}
    {route.kind === "run" && <RunPage name={route.name} />}
    {route.kind === "compare" && <Compared names={route.names} />}
    {route.kind === "history" && <HistoryPage benchmark={route.benchmark} id={route.id} />}
    {route.kind === "unknown" && <Frame title="Unknown page"><Waiting problem="medvqa view has no such page." what="" /><p><a href="/">All runs</a></p></Frame>}
  </>
);
