import type { Data } from "../data";
import type { Page } from "../page";

export const ItemDialog = ({ page, data }: { readonly page: Page; readonly data: Data }) => (
  <p hidden>
    {page.state.item} of {data.questions}
  </p>
);
