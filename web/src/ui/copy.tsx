import type { ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";

/** Copies a text. */
export const Copy = ({ text, children }: { readonly text: string; readonly children: ComponentChildren }) => {
  const [said, say] = useState("");
  useEffect(() => {
    if (said === "") return;
    const waiting = setTimeout(() => { say(""); }, 1500);
    return () => { clearTimeout(waiting); };
  }, [said]);
  const copy = (): void => {
    navigator.clipboard.writeText(text).then(() => { say("Copied"); }, () => { say("The browser did not allow it"); });
  };
  return <button type="button" onClick={copy}>{said === "" ? children : said}</button>;
};
