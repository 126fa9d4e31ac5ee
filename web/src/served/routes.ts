// The pages of `medvqa view` by their paths, and links to them. What a page shows within itself stands in the hash.

export type Route =
  | { readonly kind: "home" }
  | { readonly kind: "run"; readonly name: string }
  | { readonly kind: "compare"; readonly names: readonly string[] }
  | { readonly kind: "history"; readonly benchmark: string; readonly id: string }
  | { readonly kind: "unknown" };

const RUNS = "/runs/";

/** Read an address: never fails. */
export const routeOf = ({ pathname, search }: { readonly pathname: string; readonly search: string }): Route => {
  const given = new URLSearchParams(search);
  if (pathname === "/") return { kind: "home" };
  if (pathname === "/compare" && given.has("run")) return { kind: "compare", names: given.getAll("run") };
  if (pathname === "/history" && given.has("benchmark") && given.has("id")) return { kind: "history", benchmark: given.get("benchmark") ?? "", id: given.get("id") ?? "" };
  if (!pathname.startsWith(RUNS) || pathname === RUNS) return { kind: "unknown" };
  try {
    return { kind: "run", name: pathname.slice(RUNS.length).split("/").map(decodeURIComponent).join("/") };
  } catch {
    return { kind: "unknown" };
  }
};

/** The page of a run: its name may have "/". */
export const runLink = (name: string): string => RUNS + name.split("/").map(encodeURIComponent).join("/");
/** The comparison of runs, the first of them as the baseline. */
export const compareLink = (names: readonly string[]): string => `/compare?${names.map((name) => `run=${encodeURIComponent(name)}`).join("&")}`;
/** The results of one item over all runs. */
export const historyLink = (benchmark: string, id: string): string => `/history?${new URLSearchParams({ benchmark, id }).toString()}`;

/** Whether `medvqa view` serves this page: else it is a file, and there is no server to ask. */
export const isServed = (): boolean => document.querySelector('meta[name="medvqa-view"]') !== null;
