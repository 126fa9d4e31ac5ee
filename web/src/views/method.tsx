// How the run was made, folded: nobody reads it first, and everybody who repeats the run needs it.
import { useEffect, useRef } from "preact/hooks";

import type { Page } from "../page";
import { flat } from "../text";
import { Visible } from "../ui/text";

/** A fact with more characters has a line of its own. */
const LONG = 38;

export const Method = ({ page }: { readonly page: Page }) => {
  const details = useRef<HTMLDetailsElement>(null);
  const asked = page.state.section === "method";
  useEffect(() => {
    if (asked && details.current !== null) details.current.open = true;
  }, [asked]);
  const method = page.head.run?.method;
  if (method === undefined) return null;
  return (
    <section id="method" aria-labelledby="method-title">
      <h2 id="method-title">Method</h2>
      <details class="part method" ref={details}>
        <summary><Visible text={method.line} /></summary>
        {page.head.benchmarks.length > 0 && (
          <>
            <h3>Commands</h3>
            <p class="quiet">Each asks the questions of one benchmark again.</p>
            {page.head.benchmarks.map((each) => <pre class="command"><code>{flat(each.command)}</code></pre>)}
          </>
        )}
        {method.groups.map((group) => (
          <>
            <h3><Visible text={group.title} /></h3>
            {group.note !== undefined && group.note !== "" && <p class="quiet">{group.note}</p>}
            <dl class="facts">
              {group.facts.map((fact) => (
                <div class={fact.name.length + fact.value.length > LONG ? "long" : ""}>
                  <dt><Visible text={fact.name} /></dt>
                  <dd class={fact.exact === true ? "exact" : ""}><Visible text={fact.value} /></dd>
                </div>
              ))}
            </dl>
          </>
        ))}
      </details>
    </section>
  );
};
