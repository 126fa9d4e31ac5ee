// What stands first and last on every page.

/** The first link, for those who use the keyboard. */
export const Skip = () => (
  <a class="skip" href="#main" onClick={(event) => { event.preventDefault(); document.getElementById("main")?.focus(); }}>
    Skip to content
  </a>
);

const licences = (): string => {
  const element = document.getElementById("licences");
  return element instanceof HTMLTemplateElement ? element.content.textContent : "";
};

/** `of`: the page or the file that holds the software. */
export const Licences = ({ of }: { readonly of: string }) => (
  <details>
    <summary>Licences of the software in this {of}</summary>
    <pre>{licences()}</pre>
  </details>
);
