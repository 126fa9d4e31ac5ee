// A modal dialog. Escape, the backdrop and its button close it; the focus goes back to where it was.
import type { ComponentChildren } from "preact";
import { useLayoutEffect, useRef } from "preact/hooks";

interface DialogProps {
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
  useLayoutEffect(() => {
    const element = dialog.current;
    element?.showModal();
    // Not the first button: keys scroll what is read.
    element?.querySelector<HTMLElement>(".body")?.focus({ preventScroll: true });
    return () => {
      element?.close();
      // The browser gives the focus back to the element before, unless that is gone.
      if (document.activeElement === null || document.activeElement === document.body) document.getElementById("main")?.focus({ preventScroll: true });
    };
  }, []);
  return (
    <dialog
      ref={dialog}
      id={id}
      aria-labelledby={`${id}-title`}
      onClose={() => { if (dialog.current !== null) close(); }}
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
      <div class="body" tabIndex={0} role="group" aria-labelledby={`${id}-title`}>{children}</div>
    </dialog>
  );
};
