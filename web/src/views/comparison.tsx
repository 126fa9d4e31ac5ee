import type { Page } from "../page";

export const Comparison = ({ page }: { readonly page: Page }) => <h1 class="sr">Comparison: {page.head.title}</h1>;
