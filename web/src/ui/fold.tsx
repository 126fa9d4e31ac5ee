import type { ComponentChildren } from "preact";

interface FoldOf {
  readonly title: ComponentChildren;
  /** A few quiet words beside the title. */
  readonly note?: ComponentChildren;
  readonly open?: boolean;
  /** The level of its heading. */
  readonly level?: 3 | 4;
  readonly children: ComponentChildren;
}

/** A part of a section that can be folded; it is unfolded for printing. */
export const Fold = ({ title, note = "", open = true, level = 4, children }: FoldOf) => (
  <details class="fold" open={open}>
    <summary>
      {level === 3 ? <h3>{title}</h3> : <h4>{title}</h4>} {note !== "" && <span class="quiet">{note}</span>}
    </summary>
    {children}
  </details>
);
