import type { Page } from "../page";
import { count, plural } from "../text";

export const Explorer = ({ page }: { readonly page: Page }) => (
  <section id="questions" aria-labelledby="questions-title">
    <h2 id="questions-title">Questions</h2>
    <p role="status">
      {page.data === null
        ? "Reading the questions."
        : `${plural(page.data.questions, "question")}, ${count(page.data.results)} results.`}
    </p>
  </section>
);
