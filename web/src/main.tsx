import "./style/base.css";

import { render } from "preact";

import { App } from "./app";
import { Data } from "./data";
import { blocksOfPage, readBundle, readHead } from "./read";
import { isServed } from "./served/routes";
import { serve } from "./served/start";

const main = async (): Promise<void> => {
  const root = document.getElementById("app");
  if (root === null) throw new Error("the page has no element app");
  if (isServed()) {
    serve(root);
    return;
  }
  const head = await readHead(blocksOfPage);
  root.replaceChildren();
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
