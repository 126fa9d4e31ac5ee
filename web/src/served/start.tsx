// The app when `medvqa view` serves it.
import { render } from "preact";

import { routeOf } from "./routes";
import { Served } from "./shell";

/** Draw the page of the present address. Links between pages load them anew, so that each starts from nothing. */
export const serve = (root: HTMLElement): void => {
  root.replaceChildren();
  render(<Served route={routeOf(location)} />, root);
};
