import type { Page } from "../page";

export const Slices = ({ page }: { readonly page: Page }) => {
  if (page.head.run === null) return null;
  return (
    <section id="slices" aria-labelledby="slices-title">
      <h2 id="slices-title">Slices</h2>
    </section>
  );
};
