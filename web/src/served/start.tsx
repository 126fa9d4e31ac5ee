// The app when `medvqa view` serves it.
import { render } from "preact";

import { startFeed } from "./events";
import { FeedProvider } from "./feed";
import { routeOf } from "./routes";
import { Served } from "./shell";

/** Draw the page of the present address. Links between pages load them anew, so that each starts from nothing. */
export const serve = (root: HTMLElement): void => {
  root.replaceChildren();
  render(<FeedProvider value={startFeed()}><Served route={routeOf(location)} /></FeedProvider>, root);
};
