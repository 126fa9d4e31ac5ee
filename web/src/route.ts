// The state of the page, and the hash that says it: a link opens the page as it was, and Back works.

export type View = "summary" | "questions" | "review";

const VIEWS: readonly View[] = ["summary", "questions", "review"];

export interface State {
  readonly view: View;
  /** The name of the benchmark that the explorer shows, "" for the first. */
  readonly benchmark: string;
  readonly technique: string;
  /** In a comparison: the names of the new run and of its baseline, the measure, and the dimension; "" for the first. */
  readonly run: string;
  readonly against: string;
  readonly measure: string;
  readonly dimension: string;
  /** The query line: the one filter. */
  readonly query: string;
  /** A column, with "-" before it for descending; "" for the default order. */
  readonly sort: string;
  readonly layout: string;
  /** The key of the open item (`keyText`), or null. */
  readonly item: string | null;
  /** The section of the summary that was asked for, "" for its top. */
  readonly section: string;
}

export const START: State = {
  view: "summary",
  benchmark: "",
  technique: "",
  run: "",
  against: "",
  measure: "",
  dimension: "",
  query: "",
  sort: "",
  layout: "",
  item: null,
  section: "",
};

const NAMES = {
  run: "run",
  against: "against",
  benchmark: "b",
  technique: "technique",
  measure: "measure",
  dimension: "dimension",
  query: "q",
  sort: "sort",
  layout: "layout",
  item: "item",
} as const;

/** Read a hash: `#summary`, `#SECTION`, `#review`, or `#questions?b=...&q=...&item=...`. Never fails. */
export const parse = (hash: string): State => {
  const [place = "", fields = ""] = hash.replace(/^#/, "").split(/\?(.*)/s);
  const given = new URLSearchParams(fields);
  const of = (name: keyof typeof NAMES): string => given.get(NAMES[name]) ?? "";
  const view = VIEWS.find((name) => name === place) ?? "summary";
  return {
    view,
    benchmark: of("benchmark"),
    technique: of("technique"),
    run: of("run"),
    against: of("against"),
    measure: of("measure"),
    dimension: of("dimension"),
    query: of("query"),
    sort: of("sort"),
    layout: of("layout"),
    item: given.get(NAMES.item),
    section: view === "summary" && place !== "summary" ? place : "",
  };
};

/** The hash of a state: the inverse of `parse`. */
export const print = (state: State): string => {
  const given = new URLSearchParams();
  for (const [field, name] of Object.entries(NAMES) as [keyof typeof NAMES, string][]) {
    const value = state[field];
    if (value !== null && (value !== "" || field === "item")) given.set(name, value);
  }
  const place = state.view === "summary" ? state.section || "summary" : state.view;
  const fields = given.toString();
  return `#${place}${fields === "" ? "" : `?${fields}`}`;
};

export type Go = (change: Partial<State>, how?: { readonly replace?: boolean }) => void;
