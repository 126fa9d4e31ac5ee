// What the pages share. Text of data and models only ever becomes text nodes: Preact makes the elements, and no string
// of theirs is parsed as HTML, followed as a link or run.
const common = (() => {
  "use strict";
  const { h, render } = preact;
  const html = htm.bind(h);
  const $ = (id) => document.getElementById(id);
  const LONG = 16; // values in a dimension from which its column can be searched

  const read = async () => {
    const bytes = Uint8Array.from(atob($("data").textContent), (c) => c.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
    return JSON.parse(await new Response(stream).text());
  };

  // Control characters and marks that turn the direction of text are named, not obeyed.
  const HIDDEN = /([\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028\u2029\u202a-\u202e\u2060-\u2069\ufeff])/;
  const code = (c) => "U+" + c.charCodeAt(0).toString(16).toUpperCase().padStart(4, "0");
  const visible = (text) =>
    String(text).split(HIDDEN).map((part, i) => (i % 2 ? html`<span class="control">⟨${code(part)}⟩</span>` : part));
  const flat = (text) => String(text).split(HIDDEN).map((part, i) => (i % 2 ? `⟨${code(part)}⟩` : part)).join("");

  const count = (n) => n.toLocaleString("en-US", { maximumFractionDigits: 2 });
  const percent = (sum) => (sum[1] ? ((100 * sum[0]) / sum[1]).toFixed(2) : "–");
  const digits = (x) => (x >= 100 ? x.toFixed(0) : String(Number(x.toPrecision(3))));
  const spaced = (name) => name.replaceAll("_", " ");
  const title = ([value, shown]) => (shown === value ? spaced(value) : shown);
  const took = (seconds) => (seconds < 0.001 ? "under 1 ms" : digits(seconds) + " s");
  const used = (usage) => Object.entries(usage).map(([name, n]) => (name === "cost" ? `cost ${digits(n)}` : `${count(n)} tokens ${name}`)).join(", ");

  const READ = { options: "read by judge", closeness: "compared by judge", score: "scored by judge" };
  const byJudge = (said) => (said ? `${READ[said.task] ?? "read by judge"} ${said.judge}` : "");
  // What a judge says is a model's word too: it stands apart from the response, under the judge's name.
  const Judged = ({ label, of }) => html`<section class="judged" aria-label=${"The judge on " + flat(label)}>
    <h3>The judge's reply <span class="quiet">${visible(of.judge)}</span></h3>
    ${of.replies.length === 0 && html`<p class="quiet">No reply.</p>`}
    ${of.replies.map((reply, i) => html`${of.replies.length > 1 && html`<p class="quiet">Reply ${i + 1}</p>`}
      <div class="response" dir="auto" tabindex="0" role="region" aria-label=${`Reply ${i + 1} of the judge to ` + flat(label)}>${visible(reply)}</div>`)}
    <dl class="meta">${[["Prompt", of.template], ...(of.seconds !== null ? [["Time", took(of.seconds)]] : []), ...(of.usage ? [["Used", used(of.usage)]] : [])]
      .map(([name, text]) => html`<dt>${name}</dt><dd dir="auto">${visible(text)}</dd>`)}</dl>
  </section>`;

  // Texts beside the answer that are never scored, such as hidden thoughts: closed at first.
  const Folded = ({ label, of }) => of.map(([name, texts]) => html`<details class="more folded"><summary>${visible(name)}</summary>
    ${texts.map((text, i) => html`${texts.length > 1 && html`<p class="quiet">${i + 1}</p>`}
      <div class="response" dir="auto" tabindex="0" role="region" aria-label=${flat(`${name} ${texts.length > 1 ? i + 1 : ""} of ${label}`)}>${visible(text)}</div>`)}
  </details>`);

  const copy = (text) => async (event) => {
    const button = event.currentTarget;
    await navigator.clipboard.writeText(text);
    button.textContent = "Copied";
    setTimeout(() => (button.textContent = "Copy"), 1500);
  };
  const narrowed = Object.create(null); // what was typed into the search field of a column
  const Column = ({ dimension, sums, scored, chosen, pick, redraw }) => {
    const { name, values } = dimension;
    const typed = (narrowed[name] ?? "").toLowerCase();
    const order = values.map((value, i) => [title(value), value, sums[i]])
      .filter(([text, value, sum]) => (sum[2] > 0 || value[0] === chosen) && (!typed || text.toLowerCase().includes(typed)))
      .sort((x, y) => (x[0].toLowerCase() < y[0].toLowerCase() ? -1 : 1));
    return html`<section class=${scored ? "column" : "column plain"} aria-label=${flat(spaced(name))}>
      <h3>${visible(spaced(name))}<small>${chosen === undefined ? `${order.length}` : ""}</small></h3>
      ${values.length > LONG && html`<input type="search" aria-label=${"Find in " + flat(spaced(name))} placeholder="Find" value=${narrowed[name] ?? ""}
        onInput=${(event) => { narrowed[name] = event.target.value; redraw(); }} />`}
      <ul>${order.map(([text, value, sum]) => html`<li key=${value[0]}><button type="button" aria-pressed=${String(value[0] === chosen)}
        title=${flat(value[2] ? `${text} (${value[2]})` : text)} onClick=${() => pick(name, value[0])}>
        <span>${visible(text)}</span><span class="n">${count(sum[2])}</span>
        ${scored && html`<span class="s">${sum[1] ? ((100 * sum[0]) / sum[1]).toFixed(1) : "–"}</span>`}
      </button></li>`)}</ul>
    </section>`;
  };

  // A cell that begins like a formula gets an apostrophe, so that no spreadsheet computes it.
  const cell = (value) => {
    const text = String(value ?? "");
    const safe = /^[\s\x00-\x1f]*[=+\-@]/.test(text) || /^[\t\r\n]/.test(text) ? "'" + text : text;
    return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
  };
  const table = (lines) => lines.map((line) => line.map(cell).join(",")).join("\r\n") + "\r\n";
  const save = (text, name) => {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob(["\ufeff", text], { type: "text/csv" }));
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  };

  const sortable = () => {
    for (const table of document.querySelectorAll("table.sortable")) {
      const body = table.tBodies[0];
      const heads = [...table.tHead.rows[0].cells];
      heads.forEach((head, place) => {
        if (!head.dataset.sort) return;
        const button = document.createElement("button");
        button.type = "button";
        button.append(...head.childNodes);
        head.append(button);
        button.addEventListener("click", () => {
          const number = head.dataset.sort === "number";
          const before = head.getAttribute("aria-sort");
          const down = before === "descending" ? false : before === "ascending" ? true : number;
          heads.forEach((each) => each.dataset.sort && each.setAttribute("aria-sort", "none"));
          head.setAttribute("aria-sort", down ? "descending" : "ascending");
          const of = (row) => {
            const found = row.cells[place];
            if (!number) return found.textContent.trim().toLowerCase();
            const value = found.querySelector("data")?.value ?? "";
            return value === "" ? null : Number(value);
          };
          // What has no value stands last either way.
          const compare = (x, y) => (x === null ? (y === null ? 0 : 1) : y === null ? -1 : (x < y ? -1 : x > y ? 1 : 0) * (down ? -1 : 1));
          body.append(...[...body.rows].sort((x, y) => compare(of(x), of(y))));
        });
      });
    }
  };
  const theme = () => {
    const button = $("theme");
    const system = matchMedia("(prefers-color-scheme: dark)");
    const dark = () => (document.documentElement.dataset.theme ?? (system.matches ? "dark" : "light")) === "dark";
    const name = () => (button.textContent = dark() ? "Light" : "Dark");
    button.addEventListener("click", () => { document.documentElement.dataset.theme = dark() ? "light" : "dark"; name(); });
    system.addEventListener("change", name);
    name();
    button.hidden = false;
  };
  const printing = () => {
    let folded = [];
    addEventListener("beforeprint", () => {
      folded = [...document.querySelectorAll("details.slices:not([open])")];
      folded.forEach((each) => (each.open = true));
    });
    addEventListener("afterprint", () => folded.forEach((each) => (each.open = false)));
  };

  // Draws what moves, and keeps the dialog in step with what is open: `key`, and `before` when it was drawn last.
  const paint = (what, key, before) => {
    render(what, $("app"));
    const dialog = $("item");
    if (dialog) {
      if (!dialog.open) dialog.showModal();
      if (before !== key) dialog.querySelector(".body").scrollTop = 0;
    } else if (before !== null) {
      // Where the reader was before: at the row of what was shown last.
      [...document.querySelectorAll(".items a")].find((link) => link.dataset.key === before)?.focus();
    }
    return key;
  };

  const start = () => { theme(); sortable(); printing(); };
  return { html, paint, $, read, visible, flat, count, percent, digits, took, used, spaced, title, copy, Column, Judged, Folded, byJudge, table, save, start };
})();
