import type { Page } from "../page";

export const Scorecard = ({ page }: { readonly page: Page }) => {
  if (page.head.run === null) return null;
  return (
    <section id="scorecard" aria-labelledby="scorecard-title">
      <h2 id="scorecard-title">Scorecard</h2>
    </section>
  );
};
