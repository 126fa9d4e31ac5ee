import type { Page } from "../page";

export const Method = ({ page }: { readonly page: Page }) => {
  if (page.head.run === null) return null;
  return (
    <section id="method" aria-labelledby="method-title">
      <h2 id="method-title">Method</h2>
    </section>
  );
};
