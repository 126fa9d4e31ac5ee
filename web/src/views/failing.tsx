import type { Page } from "../page";

export const Failing = ({ page }: { readonly page: Page }) => {
  if (page.head.run === null) return null;
  return (
    <section id="failing" aria-labelledby="failing-title">
      <h2 id="failing-title">Where it fails</h2>
    </section>
  );
};
