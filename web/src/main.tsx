import "./style/base.css";

import { render } from "preact";

import { App } from "./app";
import type { BundleHead, ReadingHead } from "./bundle";
import { Data } from "./data";
import { blocksOfPage, readBundle, readHead } from "./read";
import { ANSWERING } from "./reading/answering";
import { REVIEWING } from "./reading/reviewing";
import { ReaderPage } from "./reading/screens";
import { isServed } from "./served/routes";
import { serve } from "./served/start";

const main = async (): Promise<void> => {
  const root = document.getElementById("app");
  if (root === null) throw new Error("the page has no element app");
  if (isServed() && document.getElementById("block-head") === null) {
    serve(root);
    return;
  }
  const head = await readHead<BundleHead | ReadingHead>(blocksOfPage);
  root.replaceChildren();
  if (head.kind === "reading") {
    // Images are looked up in the page, which the browser must have read to its end.
    if (document.readyState === "loading") await new Promise((ended) => { document.addEventListener("DOMContentLoaded", ended); });
    render(head.task === "answer" ? <ReaderPage head={head} of={ANSWERING} /> : <ReaderPage head={head} of={REVIEWING} />, root);
    document.documentElement.dataset["ready"] = "";
    return;
  }
  render(<App head={head} data={null} />, root);
  performance.mark("summary");
  const data = new Data(await readBundle(blocksOfPage, head));
  render(<App head={head} data={data} />, root);
  performance.mark("ready");
  document.documentElement.dataset["ready"] = "";
};

main().catch((error: unknown) => {
  const message = document.createElement("p");
  message.setAttribute("role", "alert");
  message.textContent = `This page cannot be shown: ${error instanceof Error ? error.message : String(error)}`;
  document.body.prepend(message);
  throw error;
});
