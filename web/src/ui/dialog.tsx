// A modal dialog. Escape, the backdrop and its button close it; the focus goes back to where it was.
import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";

export interface DialogProps {
  readonly id: string;
  readonly title: ComponentChildren;
  /** Buttons between the title and the button that closes. */
  readonly tools?: ComponentChildren;
  readonly children: ComponentChildren;
  readonly close: () => void;
  readonly onKeyDown?: (event: KeyboardEvent) => void;
}

export const Dialog = ({ id, title, tools, children, close, onKeyDown }: DialogProps) => {
  const dialog = useRef<HTMLDialogElement>(null);
  const pressed = useRef(false);
  useEffect(() => {
    const opener = document.activeElement;
    const element = dialog.current;
    element?.showModal();
    // The attribute `autofocus` would make browsers complain that something else had the focus.
    element?.querySelector<HTMLElement>(".body")?.focus();
    return () => {
      const now = document.activeElement;
      // A list may have given the focus to the row of what was shown last.
      if (now !== null && now !== document.body && element?.contains(now) === false) return;
      element?.close();
      const before = opener instanceof HTMLElement && opener.isConnected && opener !== document.body ? opener : null;
      (before ?? document.getElementById("main"))?.focus({ preventScroll: true });
    };
  }, []);
  return (
    <dialog
      ref={dialog}
      id={id}
      aria-labelledby={`${id}-title`}
      onClose={close}
      onKeyDown={onKeyDown}
      onPointerDown={(event) => { pressed.current = event.target === dialog.current; }}
      onClick={(event) => {
        // A text that is selected from inside to outside must not close the dialog.
        if (pressed.current && event.target === dialog.current) close();
      }}
    >
      <header>
        <h2 id={`${id}-title`}>{title}</h2>
        {tools}
        <button type="button" id="close" onClick={close}>Close</button>
      </header>
      <div class="body" tabIndex={0} role="region" aria-labelledby={`${id}-title`}>{children}</div>
    </dialog>
  );
};
