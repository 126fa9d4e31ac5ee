import type { Page } from "../page";

export const Verdict = ({ page }: { readonly page: Page }) => {
  if (page.head.run === null) return null;
  return (
    <section id="verdict" aria-labelledby="verdict-title">
      <h2 id="verdict-title">Result</h2>
    </section>
  );
};
