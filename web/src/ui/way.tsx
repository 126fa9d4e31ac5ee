/** The direction of a difference, told by word, shape and colour. */
export type Direction = "better" | "worse" | "";

const SHAPES: Readonly<Record<Direction, string>> = { better: "▲", worse: "▼", "": "○" };

export const Way = ({ way, open = "not shown" }: { readonly way: Direction; readonly open?: string }) => (
  <span class={`way w-${way === "" ? "open" : way}`}>
    <span aria-hidden="true">{SHAPES[way]}</span> {way === "" ? open : way}
  </span>
);
