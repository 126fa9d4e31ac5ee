import type { ComponentChildren } from "preact";

interface FoldOf {
  readonly title: ComponentChildren;
  /** A few quiet words beside the title. */
  readonly beside?: ComponentChildren;
  readonly open?: boolean;
  readonly children: ComponentChildren;
}

/** A part that can be folded; it is unfolded for printing. */
export const Fold = ({ title, beside, open = true, children }: FoldOf) => (
  <details class="slices" open={open}>
    <summary>
      <h3>{title}</h3> {beside !== undefined && <span class="quiet">{beside}</span>}
    </summary>
    {children}
  </details>
);
