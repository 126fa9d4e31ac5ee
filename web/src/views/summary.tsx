// The summary of a run: its sections, one below the other.
import type { Page } from "../page";
import { Visible } from "../ui/text";
import { Failing } from "./failing";
import { Method } from "./method";
import { Scorecard } from "./scorecard";
import { Slices } from "./slices";
import { Verdict } from "./verdict";

export const Summary = ({ page }: { readonly page: Page }) => (
  <>
    <h1 class="sr">Report of run <Visible text={page.head.title} /></h1>
    <Verdict page={page} />
    <Scorecard page={page} />
    <Failing page={page} />
    <Slices page={page} />
    <Method page={page} />
  </>
);
