// The tree, the filters and the table of questions.
(() => {
  "use strict";
  const { html, $, visible, flat, count, percent, spaced, title, digits, took, used, copy, Column, Judged, Folded, byJudge } = common;
  const PAGE = 50;
  const FEW = 10; // units below which counts are shown

  const word = (outcome) => (outcome === "error" ? "error" : outcome);

  let data, items, state, opened = null, timer = 0;

  // ---- items -------------------------------------------------------------------------------------------------------

  const unpack = () => {
    const c = data.items;
    items = c.id.map((id, i) => {
      const technique = c.technique[i] === null ? "" : data.techniques[c.technique[i]];
      const row = {
        i, id, b: c.benchmark[i], outcome: c.outcome[i], terms: c.terms[i], tags: c.tags[i], technique,
        sample: c.sample[i], variant: c.variant?.[i] ?? "", ofPrompt: data.prompt_terms?.[i] ?? c.terms[i],
        question: data.texts[c.question[i]], pair: c.pair[i], response: c.response[i],
      };
      const ways = [...(row.variant ? [row.variant] : []), ...(row.sample ? [`sample ${row.sample}`] : [])];
      row.label = ways.length ? `${id} (${ways.join(", ")})` : id;
      row.key = [data.benchmarks[row.b].name, id, ...(data.techniques.length > 1 ? [technique] : []), ...(row.variant ? [row.variant] : []), ...(row.sample ? [`sample${row.sample}`] : [])].join("/");
      return row;
    });
    items.forEach((row) => {
      const options = data.options[c.options[row.i]].map(([, text]) => text).join("\n");
      row.text = `${row.id}\n${row.question}\n${options}\n${row.response ?? ""}`.toLowerCase();
    });
  };
  const column = (name, row) => data.items[name][row.i];

  // ---- state and its permalink -------------------------------------------------------------------------------------

  const picked = (name) => (Object.hasOwn(state.tags, name) ? state.tags[name] : undefined);
  // Of a run that asks by several techniques one is shown at a time: their answers are to the same questions.
  const first = () => data.techniques[0] ?? "";
  const fresh = (b = 0, technique = first()) => ({ b, tags: {}, outcomes: [], technique, q: "", page: 0, item: null });
  const parse = () => {
    const hash = new URLSearchParams(location.hash.slice(1));
    const b = Math.max(0, data.benchmarks.findIndex((each) => each.name === hash.get("b")));
    const made = fresh(b);
    for (const [name, value] of hash) {
      if (name.startsWith("t.")) made.tags[name.slice(2)] = value;
    }
    made.outcomes = (hash.get("o") ?? "").split(",").filter((each) => data.outcomes.includes(each));
    made.technique = data.techniques.find((each) => each === hash.get("technique")) ?? first();
    made.q = hash.get("q") ?? "";
    made.page = Math.max(0, (parseInt(hash.get("p"), 10) || 1) - 1);
    made.item = hash.get("item");
    const row = made.item === null ? null : items.find((each) => each.key === made.item);
    if (row && !hash.has("b")) made.b = row.b;
    if (row) made.technique = row.technique;
    return made;
  };
  const hashOf = (s) => {
    const hash = new URLSearchParams();
    hash.set("b", data.benchmarks[s.b].name);
    for (const [name, value] of Object.entries(s.tags)) hash.set("t." + name, value);
    if (s.outcomes.length) hash.set("o", s.outcomes.join(","));
    if (data.techniques.length > 1) hash.set("technique", s.technique);
    if (s.q) hash.set("q", s.q);
    if (s.page) hash.set("p", s.page + 1);
    if (s.item !== null) hash.set("item", s.item);
    return "#" + hash;
  };
  const go = (change, { replace = false } = {}) => {
    state = { ...state, page: 0, ...change };
    history[replace ? "replaceState" : "pushState"](null, "", hashOf(state));
    draw();
  };
  const pick = (name, value) => {
    const tags = { ...state.tags };
    if (picked(name) === value) delete tags[name];
    else tags[name] = value;
    go({ tags });
  };
  const toggle = (outcome) => {
    const has = state.outcomes.includes(outcome);
    go({ outcomes: has ? state.outcomes.filter((each) => each !== outcome) : [...state.outcomes, outcome] });
  };

  // ---- counting ----------------------------------------------------------------------------------------------------

  // One pass: an item that fails nothing counts everywhere, one that fails a single choice counts in that column.
  // The answers to a question follow one another, and are one question in every sum: over all prompts, or over one.
  const select = () => {
    const about = data.benchmarks[state.b];
    const wanted = about.dimensions.map(({ name, values }) =>
      picked(name) === undefined ? null : values.findIndex(([value]) => value === picked(name)));
    const outcomes = new Set(state.outcomes.map((each) => data.outcomes.indexOf(each)));
    const q = state.q.trim().toLowerCase();
    const counts = about.dimensions.map(({ values }) => values.map(() => [0, 0, 0, null]));
    const byOutcome = data.outcomes.map(() => 0);
    const rows = [];
    let branch = [0, 0, 0, null];
    const add = (sum, row, terms) => {
      sum[0] += terms[0];
      sum[1] += terms[1];
      if (sum[3] !== row.id) sum[2] += 1;
      sum[3] = row.id;
    };
    for (const row of items) {
      if (row.b !== state.b || row.technique !== state.technique) continue;
      let failed = -1, fails = 0;
      for (let d = 0; d < wanted.length && fails < 2; d++) {
        if (wanted[d] !== null && !row.tags[d].includes(wanted[d])) { fails++; failed = d; }
      }
      if (fails > 1 || (q && !row.text.includes(q))) continue;
      if (fails === 0) byOutcome[row.outcome]++;
      if (outcomes.size && !outcomes.has(row.outcome)) continue;
      const terms = picked("prompt") === undefined ? row.terms : row.ofPrompt;
      if (fails === 0) { rows.push(row); add(branch, row, terms); }
      for (let d = fails ? failed : 0; d < (fails ? failed + 1 : wanted.length); d++) {
        const ofValue = about.dimensions[d].name === "prompt" ? row.ofPrompt : terms;
        for (const value of new Set(row.tags[d])) add(counts[d][value], row, ofValue);
      }
    }
    branch[1] = Number(branch[1].toFixed(9)); // thirds of three samples are one
    return { about, counts, byOutcome, rows, branch, wanted };
  };
  const expression = (about) => {
    const parts = about.dimensions.flatMap(({ name, values, select }) => {
      const place = values.findIndex(([value]) => value === picked(name));
      return place < 0 ? [] : [select[place]];
    });
    return parts.includes(null) ? null : parts.length ? `lexicon(${parts.join(", ")})` : "";
  };

  // ---- drawing -----------------------------------------------------------------------------------------------------

  const Outcome = ({ of }) =>
    of === null || of === undefined ? "" : html`<span class=${"outcome o-" + data.outcomes[of]}><span class="dot"></span>${word(data.outcomes[of])}</span>`;

  // The interval of a branch that is one slice of metrics.json: all, or one value of one dimension. Of others none is
  // known, and none is made up.
  const interval = ({ about, wanted }) => {
    const picks = wanted.flatMap((value, d) => (value === null ? [] : [`${d}.${value}`]));
    const found = about.intervals[state.technique];
    if (!found || state.q.trim() || state.outcomes.length || picks.length > 1) return null;
    return Object.hasOwn(found, picks[0] ?? "") ? found[picks[0] ?? ""] : null;
  };
  const Score = ({ found }) => {
    const { about, branch } = found;
    const few = branch[1] > 0 && branch[1] < FEW;
    const bounds = few ? null : interval(found);
    return html`<span><span class="big" id="score" data-sum=${branch[0]} data-n=${branch[1]}>${few ? `${count(branch[0])}/${count(branch[1])}` : percent(branch)}</span>
      ${few ? " " : " % "}${about.score}${" "}
      ${bounds && html`<span id="interval" data-low=${bounds[0]} data-high=${bounds[1]}>95 % interval ${(100 * bounds[0]).toFixed(2)}–${(100 * bounds[1]).toFixed(2)}</span> `}
      <span class="quiet">of ${count(branch[1])} scored</span></span>`;
  };
  const Branch = ({ found, answered }) => {
    const { about, rows, branch } = found;
    const m = expression(about);
    const asked = state.technique ? ` --technique=${state.technique}` : "";
    const command = m === null ? null : about.command + asked + (m ? ` -m "${m}"` : "");
    const named = Object.entries(state.tags);
    return html`<div class="branch" role="status">
      <p class="sum"><span><span class="big">${count(branch[2])}</span> ${branch[2] === 1 ? "question" : "questions"}${branch[2] !== rows.length && `, ${count(rows.length)} answers`}</span>
        ${answered && about.score && html`<${Score} found=${found} />`}
        ${(named.length > 0 || state.q || state.outcomes.length > 0) &&
          html`<button type="button" onClick=${() => go(fresh(state.b, state.technique))}>Clear</button>`}</p>
      ${command === null
        ? html`<p class="quiet">${picked("prompt") !== undefined && data.prompt_terms
            ? `The option of pytest for a prompt: --prompt=${picked("prompt")}`
            : "pytest cannot select by this dimension: its name has other characters than letters, digits and _."}</p>`
        : html`${m && html`<p class="line"><code id="expression">-m "${m}"</code><button type="button" onClick=${copy(`-m "${m}"`)}>Copy</button></p>`}
          <p class="line"><code id="command">${visible(command)}</code><button type="button" onClick=${copy(command)}>Copy</button></p>`}
    </div>`;
  };

  const letters = (row, name) => column(name, row) ?? [];
  const Row = ({ row, answered }) => {
    const about = data.benchmarks[row.b];
    const tags = about.dimensions.slice(0, 3).flatMap(({ name, values }, d) => name === "kind" ? [] : row.tags[d].slice(0, 1).map((v) => title(values[v])));
    return html`<tr onClick=${() => go({ item: row.key, page: state.page })}>
      <td class="c-id"><a href=${hashOf({ ...state, item: row.key })} data-key=${row.key} onClick=${(event) => event.preventDefault()}>${visible(row.label)}</a></td>
      ${answered && html`<td class="c-outcome"><${Outcome} of=${row.outcome} />${judgement(row) && html` <span class="mark" title=${flat(byJudge(judgement(row)))}>judge</span>`}</td>`}
      <td title=${flat(row.question)}>${visible(row.question)}</td>
      ${answered && html`<td class="c-answer">${visible(letters(row, "extracted").join(", ") || "–")} <span class="quiet">/ ${visible(letters(row, "answers").join(", ") || "–")}</span></td>`}
      <td class="c-tags quiet">${visible(tags.join(" · "))}</td>
    </tr>`;
  };

  const Items = ({ found, answered }) => {
    const { rows, byOutcome } = found;
    const pages = Math.max(1, Math.ceil(rows.length / PAGE));
    const page = Math.min(state.page, pages - 1);
    const shown = rows.slice(page * PAGE, (page + 1) * PAGE);
    const turn = (to) => go({ page: to }, { replace: true });
    return html`<div>
      <div class="filters">
        <label><span class="sr">Search questions, options and responses</span>
          <input id="search" type="search" placeholder="Search id, question, options, response" value=${state.q}
            onInput=${(event) => { const q = event.target.value; clearTimeout(timer); timer = setTimeout(() => go({ q }, { replace: true }), 120); }} /></label>
        ${answered && html`<div class="chips" role="group" aria-label="Outcome">${data.outcomes.map((outcome, o) => (byOutcome[o] > 0 || state.outcomes.includes(outcome)) &&
          html`<button type="button" class=${"o-" + outcome} aria-pressed=${String(state.outcomes.includes(outcome))} onClick=${() => toggle(outcome)}>
            <span class="dot"></span>${word(outcome)} <span class="quiet">${count(byOutcome[o])}</span></button>`)}</div>`}
        ${data.techniques.length > 1 && html`<div class="chips" role="group" aria-label="Technique">${data.techniques.map((name) =>
          html`<button type="button" aria-pressed=${String(state.technique === name)} onClick=${() => go({ technique: name })}>${name}</button>`)}</div>`}
        <button type="button" id="csv" onClick=${() => common.save(csv(rows), `${data.benchmarks[state.b].name}.csv`)}>CSV</button>
      </div>
      ${rows.length === 0 ? html`<p class="empty">No question matches.</p>` : html`
      <div class="scroll"><table class="items">
        <thead><tr><th scope="col" class="c-id">Id</th>${answered && html`<th scope="col" class="c-outcome">Outcome</th>`}<th scope="col">Question</th>
          ${answered && html`<th scope="col" class="c-answer">Read / correct</th>`}<th scope="col" class="c-tags">Tags</th></tr></thead>
        <tbody>${shown.map((row) => html`<${Row} key=${row.key} row=${row} answered=${answered} />`)}</tbody>
      </table></div>
      <div class="pager">
        <button type="button" disabled=${page === 0} onClick=${() => turn(page - 1)}>Previous</button>
        <span>${count(page * PAGE + 1)} to ${count(page * PAGE + shown.length)} of ${count(rows.length)}</span>
        <button type="button" disabled=${page >= pages - 1} onClick=${() => turn(page + 1)}>Next</button>
      </div>`}
    </div>`;
  };

  const probabilities = (row) => {
    const given = column("logprobs", row);
    const names = data.options[column("options", row)].map(([letter]) => letter);
    if (!given) return null;
    // A missing option was below the server's top-k.
    const of = (letter) => (Object.hasOwn(given, letter) ? given[letter] : -Infinity);
    const most = Math.max(...names.map(of));
    if (!Number.isFinite(most)) return null;
    const sum = names.reduce((total, letter) => total + Math.exp(of(letter) - most), 0);
    return Object.fromEntries(names.map((letter) => [letter, Math.exp(of(letter) - most) / sum]));
  };
  const Pictures = ({ row }) => column("names", row).map((name, i) => {
    const source = data.sources[column("images", row)[i]] || "";
    return html`<figure key=${i}>${source
      ? html`<div class="picture"><img src=${source} alt=${"Image " + (i + 1) + " of question " + flat(row.label)} /></div>`
      : html`<div class="missing">The image is not part of this page.</div>`}
      <figcaption>${visible(name)}</figcaption></figure>`;
  });
  const judgement = (row) => data.judgements[row.i] ?? null;

  const Item = ({ row, side }) => {
    const about = data.benchmarks[row.b];
    const options = data.options[column("options", row)];
    const right = new Set(letters(row, "answers")), chosen = new Set(letters(row, "extracted"));
    const p = probabilities(row);
    const answered = row.outcome !== null;
    const usage = column("usage", row), judge = judgement(row);
    const facts = [
      ...(judge ? [["Judge", byJudge(judge)]] : []),
      ...(answered ? [["Option read", letters(row, "extracted").join(", ") || "none"], ["Reason", column("why", row)]] : []),
      ["Correct", letters(row, "answers").join(", ") || "key withheld"],
      ...(answered ? [["Technique", row.technique]] : []),
      ...(column("seconds", row) !== null ? [["Time", took(column("seconds", row))]] : []),
      ...(column("finish", row) && column("finish", row) !== "stop" ? [["Ended by", column("finish", row)]] : []),
      ...(usage ? [["Used", used(usage)]] : []),
      ...about.dimensions.flatMap(({ name, values }, d) => row.tags[d].length ? [[spaced(name), row.tags[d].map((v) => title(values[v])).join(", ")]] : []),
    ];
    return html`<article class="item" aria-label=${"Question " + flat(row.label)}>
      <div>${side && html`<p class="line"><strong>${visible(row.label)}</strong> <${Outcome} of=${row.outcome} />${judgement(row) && html` <span class="mark">${visible(byJudge(judgement(row)))}</span>`}</p>`}
        <${Pictures} row=${row} />${column("names", row).length === 0 && html`<div class="missing">This question has no image.</div>`}</div>
      <div>
        <p class="question" dir="auto">${visible(row.question)}</p>
        <ul class="options">${options.map(([letter, text]) => html`<li key=${letter} class=${(right.has(letter) ? "right " : "") + (chosen.has(letter) ? "chosen" : "")}>
          <b>${visible(letter)}</b><span dir="auto">${visible(text)}</span>
          <em>${[right.has(letter) && "✓ correct", chosen.has(letter) && "● chosen", p && `${(100 * p[letter]).toFixed(1)} %`].filter(Boolean).join(" · ")}</em></li>`)}</ul>
        ${answered && html`<h3>Response</h3>${row.response === null
          ? html`<p class="quiet">No answer.</p>`
          : row.response === "" ? html`<p class="quiet">${p ? "No text: this technique compares the probabilities of the options" : "An empty text"}.</p>`
          : html`<div class="response" dir="auto" tabindex="0" role="region" aria-label=${"Response to " + flat(row.label)}>${visible(row.response)}</div>`}`}
        ${data.beside?.[row.i] && html`<${Folded} label=${row.label} of=${data.beside[row.i]} />`}
        ${judge && html`<${Judged} label=${row.label} of=${judge} />`}
        <h3>${answered ? "Details" : "Tags"}</h3>
        <dl class="meta">${facts.map(([name, text]) => html`<dt>${visible(name)}</dt><dd dir="auto">${visible(text)}</dd>`)}</dl>
      </div>
    </article>`;
  };

  const Dialog = ({ rows }) => {
    const row = items.find((each) => each.key === state.item);
    if (!row) return null;
    const at = rows.indexOf(row);
    const step = (by) => { const to = rows[at + by]; if (at >= 0 && to) go({ item: to.key, page: state.page }, { replace: true }); };
    const partner = row.pair === null ? [row]
      : items.filter((each) => each.b === row.b && each.pair === row.pair && each.technique === row.technique && each.variant === row.variant && each.sample === row.sample);
    return html`<dialog id="item" aria-labelledby="item-title" onClose=${close} onKeyDown=${(event) => {
        if (event.target.closest(".response")) return;
        if (event.key === "ArrowLeft") step(-1);
        if (event.key === "ArrowRight") step(1);
      }}>
      <header><h2 id="item-title">${visible(data.benchmarks[row.b].name)} · ${row.pair === null ? visible(row.label) : html`pair ${visible(row.pair)}`}</h2>
        ${partner.length === 1 && html`<${Outcome} of=${row.outcome} />${judgement(row) && html`<span class="mark">${visible(byJudge(judgement(row)))}</span>`}`}
        <button type="button" disabled=${at <= 0} onClick=${() => step(-1)}>Previous</button>
        <button type="button" disabled=${at < 0 || at >= rows.length - 1} onClick=${() => step(1)}>Next</button>
        <button type="button" id="close" onClick=${() => $("item").close()}>Close</button></header>
      <div class="body" tabindex="0" role="region" aria-label="Question and answer"><div class=${partner.length > 1 ? "sides" : ""}>${partner.map((each) => html`<${Item} key=${each.key} row=${each} side=${partner.length > 1} />`)}</div></div>
    </dialog>`;
  };
  const close = () => { if (state.item !== null) go({ item: null, page: state.page }, { replace: true }); };

  const csv = (rows) => {
    const about = data.benchmarks[state.b];
    const names = about.dimensions.map(({ name }) => name);
    const judges = rows.some(judgement); // a column of its own only where somebody judged
    const variants = rows.some((row) => row.variant);
    const head = ["benchmark", "id", "technique", ...(variants ? ["variant"] : []), "sample", "outcome", "extracted", "answers", ...names, "question", "response", "why", ...(judges ? ["judge", "judge said"] : [])];
    const lines = rows.map((row) => [
      about.name, row.id, row.technique, ...(variants ? [row.variant] : []), row.sample || "", row.outcome === null ? "" : data.outcomes[row.outcome], letters(row, "extracted").join(","), letters(row, "answers").join(","),
      ...about.dimensions.map(({ values }, d) => row.tags[d].map((v) => values[v][0]).join(",")), row.question, row.response, column("why", row),
      ...(judges ? [judgement(row)?.judge, judgement(row)?.replies.join("\n\n")] : []),
    ]);
    return common.table([head, ...lines]);
  };
  const App = () => {
    const found = select();
    const answered = data.items.outcome.some((each) => each !== null);
    return html`<div>
      ${data.benchmarks.length > 1 && html`<div class="tabs" role="group" aria-label="Benchmark">${data.benchmarks.map(({ name, title }, b) =>
        html`<button type="button" aria-pressed=${String(b === state.b)} title=${flat(title)} onClick=${() => go(fresh(b, state.technique))}>${visible(name)}</button>`)}</div>`}
      <div class="columns" tabindex="0" role="region" aria-label="Lexical tree">${found.about.dimensions.map((dimension, d) =>
        html`<${Column} key=${state.b + dimension.name} dimension=${dimension} sums=${found.counts[d]} scored=${answered && found.about.score}
          chosen=${picked(dimension.name)} pick=${pick} redraw=${draw} />`)}</div>
      <${Branch} found=${found} answered=${answered} />
      <${Items} found=${found} answered=${answered} />
      <${Dialog} rows=${found.rows} />
    </div>`;
  };
  const draw = () => { opened = common.paint(html`<${App} />`, state.item, opened); };

  const main = async () => {
    common.start();
    data = await common.read();
    unpack();
    const follow = () => {
      if (location.hash && !location.hash.includes("=")) return;
      state = parse();
      draw();
      if (location.hash.includes("=") && state.item === null) $("explore").scrollIntoView();
    };
    state = fresh();
    if (location.hash.includes("=")) follow();
    else draw();
    addEventListener("hashchange", follow);
    addEventListener("popstate", follow);
    performance.mark("ready");
    document.documentElement.dataset.ready = "";
  };
  main();
})();
