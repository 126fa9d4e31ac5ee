import type { ComparisonView } from "../bundle";
import type { Page } from "../page";

export const Flips = ({ page, of }: { readonly page: Page; readonly of: ComparisonView }) => <p>{page.state.run}{of.pairs.length}</p>;
