import type { ComponentChildren } from "preact";

/** A part of a section that can be folded. */
export const Fold = ({
  title,
  note = "",
  open = true,
  children,
}: {
  readonly title: string;
  readonly note?: string;
  readonly open?: boolean;
  readonly children: ComponentChildren;
}) => (
  <details class="fold" open={open}>
    <summary>
      <h4>{title}</h4> {note !== "" && <span class="quiet">{note}</span>}
    </summary>
    {children}
  </details>
);
