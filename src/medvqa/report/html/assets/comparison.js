// The flips of a comparison, and its tables as CSV.
(() => {
  "use strict";
  const { html, $, visible, flat, count, spaced, title, took, Column, Judged, Folded, byJudge } = common;
  const PAGE = 50;

  let data, units, state, opened = null, timer = 0;

  // ---- units -------------------------------------------------------------------------------------------------------

  const question = (i) => ({
    i, id: data.questions.id[i], sample: data.questions.sample[i], text: data.texts[data.questions.question[i]],
    options: data.options[data.questions.options[i]], answers: data.questions.answers[i],
    images: data.questions.images[i], names: data.questions.names[i], new: data.questions.new[i], baseline: data.questions.baseline[i],
  });
  const unpack = () => {
    const c = data.units;
    units = c.unit.map((unit, i) => {
      const row = {
        i, unit, c: c.comparison[i], b: c.benchmark[i], technique: c.technique[i], flips: new Map(c.flips[i]), tags: c.tags[i],
        questions: c.questions[i],
      };
      const { new: name } = data.comparisons[row.c];
      row.key = [name, data.benchmarks[row.b].name, data.techniques[row.technique], unit].join("/");
      row.text = `${unit}\n` + row.questions.map((q) => {
        const { id, text, options, ...sides } = question(q);
        const said = [sides.new, sides.baseline].map((r) => data.results.response[r] ?? "").join("\n");
        return `${id}\n${text}\n${options.map(([, words]) => words).join("\n")}\n${said}`;
      }).join("\n");
      row.text = row.text.toLowerCase();
      return row;
    });
    // What can be chosen: what of a comparison has flips of a benchmark, a technique and a measure.
    const kinds = new Map();
    for (const row of units) {
      for (const m of row.flips.keys()) {
        const kind = { c: row.c, b: row.b, t: row.technique, m };
        const key = JSON.stringify(kind);
        if (!kinds.has(key)) kinds.set(key, kind);
      }
    }
    data.kinds = [...kinds.values()];
  };

  // ---- state and its permalink -------------------------------------------------------------------------------------

  const picked = (name) => (Object.hasOwn(state.tags, name) ? state.tags[name] : undefined);
  const same = (kind, wanted, names) => names.every((name) => kind[name] === wanted[name]);
  // The kind of flips nearest to what is wanted: what was chosen last counts first.
  const nearest = (wanted) =>
    [["c", "b", "t", "m"], ["c", "b", "t"], ["c", "b"], ["c"], []]
      .map((names) => data.kinds.find((kind) => same(kind, wanted, names))).find(Boolean);
  const fresh = (wanted = {}) => ({ ...nearest(wanted), tags: {}, ways: [], q: "", page: 0, unit: null });
  const WAYS = ["worse", "better"];
  const parse = () => {
    const hash = new URLSearchParams(location.hash.slice(1));
    const place = (list, name) => list.findIndex((each) => each === hash.get(name));
    const row = units.find((each) => each.key === hash.get("flip"));
    const wanted = {
      c: place(data.comparisons.map((each) => each.new), "run"), b: place(data.benchmarks.map((each) => each.name), "b"),
      t: place(data.techniques, "technique"), m: place(data.metrics, "measure"),
    };
    if (row) Object.assign(wanted, { c: row.c, b: row.b, t: row.technique }, row.flips.has(wanted.m) ? {} : { m: row.flips.keys().next().value });
    const made = fresh(wanted);
    for (const [name, value] of hash) {
      if (name.startsWith("t.")) made.tags[name.slice(2)] = value;
    }
    made.ways = (hash.get("way") ?? "").split(",").filter((each) => WAYS.includes(each));
    made.q = hash.get("q") ?? "";
    made.page = Math.max(0, (parseInt(hash.get("p"), 10) || 1) - 1);
    made.unit = row ? row.key : null;
    return made;
  };
  const hashOf = (s) => {
    const hash = new URLSearchParams();
    hash.set("run", data.comparisons[s.c].new);
    hash.set("b", data.benchmarks[s.b].name);
    hash.set("technique", data.techniques[s.t]);
    hash.set("measure", data.metrics[s.m]);
    for (const [name, value] of Object.entries(s.tags)) hash.set("t." + name, value);
    if (s.ways.length) hash.set("way", s.ways.join(","));
    if (s.q) hash.set("q", s.q);
    if (s.page) hash.set("p", s.page + 1);
    if (s.unit !== null) hash.set("flip", s.unit);
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
  const toggle = (way) => go({ ways: state.ways.includes(way) ? state.ways.filter((each) => each !== way) : [...state.ways, way] });

  // ---- counting ----------------------------------------------------------------------------------------------------

  // One pass: a unit that fails nothing counts everywhere, one that fails a single choice counts in that column.
  const select = () => {
    const about = data.benchmarks[state.b];
    const wanted = about.dimensions.map(({ name, values }) =>
      picked(name) === undefined ? null : values.findIndex(([value]) => value === picked(name)));
    const ways = new Set(state.ways.map((each) => WAYS.indexOf(each)));
    const q = state.q.trim().toLowerCase();
    const counts = about.dimensions.map(({ values }) => values.map(() => [0, 0, 0]));
    const byWay = WAYS.map(() => 0);
    const rows = [];
    for (const row of units) {
      if (row.c !== state.c || row.b !== state.b || row.technique !== state.t || !row.flips.has(state.m)) continue;
      let failed = -1, fails = 0;
      for (let d = 0; d < wanted.length && fails < 2; d++) {
        if (wanted[d] !== null && !row.tags[d].includes(wanted[d])) { fails++; failed = d; }
      }
      if (fails > 1 || (q && !row.text.includes(q))) continue;
      const way = row.flips.get(state.m);
      if (fails === 0) byWay[way]++;
      if (ways.size && !ways.has(way)) continue;
      if (fails === 0) rows.push(row);
      for (let d = fails ? failed : 0; d < (fails ? failed + 1 : wanted.length); d++) {
        for (const value of row.tags[d]) counts[d][value][2]++;
      }
    }
    return { about, counts, byWay, rows };
  };

  // ---- drawing -----------------------------------------------------------------------------------------------------

  const of = (r) => ({
    outcome: data.outcomes[data.results.outcome[r]], extracted: data.results.extracted[r], why: data.texts[data.results.why[r]],
    response: data.results.response[r], seconds: data.results.seconds[r], judge: data.judgements[r] ?? null, beside: data.beside?.[r],
  });
  const Outcome = ({ name }) => html`<span class=${"outcome o-" + name}><span class="dot"></span>${name}</span>`;
  const Way = ({ way }) => html`<span class=${"outcome o-" + (way ? "correct" : "wrong")}><span class="dot"></span>${WAYS[way]}</span>`;
  const label = (q) => (q.sample ? `${q.id} (sample ${q.sample})` : q.id);

  const Answers = ({ row, side }) => html`${row.questions.map((i) => {
    const said = of(question(i)[side]);
    return html`<div key=${i}><${Outcome} name=${said.outcome} /> <span class="quiet">${visible(said.extracted.join(", "))}</span></div>`;
  })}`;
  const Row = ({ row }) => {
    const { dimensions } = data.benchmarks[row.b];
    const first = question(row.questions[0]);
    const tags = dimensions.slice(0, 3).flatMap(({ name, values }, d) => (name === "kind" ? [] : row.tags[d].slice(0, 1).map((v) => title(values[v]))));
    return html`<tr onClick=${() => go({ unit: row.key, page: state.page })}>
      <td class="c-id"><a href=${hashOf({ ...state, unit: row.key })} data-key=${row.key} onClick=${(event) => event.preventDefault()}>${visible(row.unit)}</a></td>
      <td class="c-way"><${Way} way=${row.flips.get(state.m)} /></td>
      <td title=${flat(first.text)}>${visible(first.text)}</td>
      <td class="c-said"><${Answers} row=${row} side="baseline" /></td>
      <td class="c-said"><${Answers} row=${row} side="new" /></td>
      <td class="c-tags quiet">${visible(tags.join(" · "))}</td>
    </tr>`;
  };

  const Choice = ({ name, label, values }) => values.length > 1 && html`<span>${label}</span><div class="chips" role="group" aria-label=${label}>${values.map(([value, text]) =>
    html`<button type="button" key=${value} aria-pressed=${String(state[name] === value)} onClick=${() => go(fresh({ c: state.c, b: state.b, t: state.t, [name]: value }))}>${visible(text)}</button>`)}</div>`;
  const Choices = () => {
    const among = (name, within) => [...new Set(data.kinds.filter((kind) => same(kind, state, within)).map((kind) => kind[name]))];
    return html`<div class="choices">
      <${Choice} name="c" label="Comparison" values=${among("c", []).map((c) => [c, `${data.comparisons[c].new} against ${data.comparisons[c].baseline}`])} />
      <${Choice} name="b" label="Benchmark" values=${among("b", ["c"]).map((b) => [b, data.benchmarks[b].name])} />
      <${Choice} name="t" label="Technique" values=${among("t", ["c", "b"]).map((t) => [t, data.techniques[t]])} />
      <${Choice} name="m" label="Measure" values=${among("m", ["c", "b", "t"]).map((m) => [m, spaced(data.metrics[m])])} />
    </div>`;
  };

  const Units = ({ found }) => {
    const { rows, byWay } = found;
    const pages = Math.max(1, Math.ceil(rows.length / PAGE));
    const page = Math.min(state.page, pages - 1);
    const shown = rows.slice(page * PAGE, (page + 1) * PAGE);
    const turn = (to) => go({ page: to }, { replace: true });
    const narrow = state.q || state.ways.length > 0 || Object.keys(state.tags).length > 0;
    const about = data.comparisons[state.c];
    return html`<div>
      <div class="filters">
        <label><span class="sr">Search questions, options and both responses</span>
          <input id="search" type="search" placeholder="Search id, question, options, both responses" value=${state.q}
            onInput=${(event) => { const q = event.target.value; clearTimeout(timer); timer = setTimeout(() => go({ q }, { replace: true }), 120); }} /></label>
        <div class="chips" role="group" aria-label="Better or worse">${WAYS.map((way, w) =>
          html`<button type="button" class=${"o-" + (w ? "correct" : "wrong")} aria-pressed=${String(state.ways.includes(way))} onClick=${() => toggle(way)}>
            <span class="dot"></span>${way} <span class="quiet">${count(byWay[w])}</span></button>`)}</div>
        ${narrow && html`<button type="button" onClick=${() => go(fresh(state))}>Clear</button>`}
        <button type="button" id="csv" onClick=${() => common.save(csv(rows), "flips.csv")}>CSV</button>
      </div>
      ${rows.length === 0 ? html`<p class="empty">No changed answer matches.</p>` : html`
      <div class="scroll"><table class="items">
        <thead><tr><th scope="col" class="c-id">Id</th><th scope="col" class="c-way">Flip</th><th scope="col">Question</th>
          <th scope="col" class="c-said">Baseline: ${visible(about.baseline)}</th><th scope="col" class="c-said">New: ${visible(about.new)}</th><th scope="col" class="c-tags">Tags</th></tr></thead>
        <tbody>${shown.map((row) => html`<${Row} key=${row.key} row=${row} />`)}</tbody>
      </table></div>
      <div class="pager">
        <button type="button" disabled=${page === 0} onClick=${() => turn(page - 1)}>Previous</button>
        <span role="status">${count(page * PAGE + 1)} to ${count(page * PAGE + shown.length)} of ${count(rows.length)}</span>
        <button type="button" disabled=${page >= pages - 1} onClick=${() => turn(page + 1)}>Next</button>
      </div>`}
    </div>`;
  };

  const Side = ({ q, side, name }) => {
    const said = of(q[side]);
    const what = `${name}, question ${label(q)}`;
    const facts = [
      ["Option read", said.extracted.join(", ") || "none"], ["Reason", said.why], ...(said.judge ? [["Judge", byJudge(said.judge)]] : []),
      ...(said.seconds !== null ? [["Time", took(said.seconds)]] : []),
    ];
    return html`<section class="side" aria-label=${flat(what)}>
      <h3><span class="quiet">${side === "new" ? "New" : "Baseline"}</span> ${visible(name)} <${Outcome} name=${said.outcome} /></h3>
      ${said.response === null ? html`<p class="quiet">No answer.</p>` : said.response === "" ? html`<p class="quiet">An empty text.</p>`
        : html`<div class="response" dir="auto" tabindex="0" role="region" aria-label=${"Response of " + flat(what)}>${visible(said.response)}</div>`}
      ${said.beside && html`<${Folded} label=${what} of=${said.beside} />`}
      ${said.judge && html`<${Judged} label=${what} of=${said.judge} />`}
      <dl class="meta">${facts.map(([term, text]) => html`<dt>${term}</dt><dd dir="auto">${visible(text)}</dd>`)}</dl>
    </section>`;
  };
  const Question = ({ row, q }) => {
    const about = data.comparisons[row.c];
    const right = new Set(q.answers);
    const chosen = (side) => new Set(of(q[side]).extracted);
    const [before, after] = [chosen("baseline"), chosen("new")];
    return html`<article class="flip" aria-label=${"Question " + flat(label(q))}>
      <div class=${q.images.length ? "asked" : ""}>
        ${q.images.map((place, i) => data.sources[place] && html`<div class="picture" key=${i}><img src=${data.sources[place]} alt=${`Image ${i + 1} of question ${flat(label(q))}`} /></div>`)}
        <div>${row.questions.length > 1 && html`<p class="line"><strong>${visible(label(q))}</strong></p>`}
          <p class="question" dir="auto">${visible(q.text)}</p>
          <ul class="options">${q.options.map(([letter, text]) => html`<li key=${letter} class=${(right.has(letter) ? "right " : "") + (after.has(letter) || before.has(letter) ? "chosen" : "")}>
            <b>${visible(letter)}</b><span dir="auto">${visible(text)}</span>
            <em>${[right.has(letter) && "✓ correct", before.has(letter) && "● baseline", after.has(letter) && "● new"].filter(Boolean).join(" · ")}</em></li>`)}</ul>
          ${q.options.length === 0 && html`<p class="quiet">Correct: ${visible(q.answers.join(", ") || "key withheld")}</p>`}</div>
      </div>
      <div class="sides"><${Side} q=${q} side="baseline" name=${about.baseline} /><${Side} q=${q} side="new" name=${about.new} /></div>
    </article>`;
  };
  const Dialog = ({ rows }) => {
    const row = units.find((each) => each.key === state.unit);
    if (!row) return null;
    const at = rows.indexOf(row);
    const step = (by) => { const to = rows[at + by]; if (at >= 0 && to) go({ unit: to.key, page: state.page }, { replace: true }); };
    const { dimensions, name } = data.benchmarks[row.b];
    const tags = dimensions.flatMap(({ name, values }, d) => (row.tags[d].length ? [[spaced(name), row.tags[d].map((v) => title(values[v])).join(", ")]] : []));
    return html`<dialog id="item" aria-labelledby="item-title" onClose=${close} onKeyDown=${(event) => {
        if (event.target.closest(".response")) return;
        if (event.key === "ArrowLeft") step(-1);
        if (event.key === "ArrowRight") step(1);
      }}>
      <header><h2 id="item-title">${visible(name)} · ${new Set(row.questions.map((i) => question(i).id)).size > 1 ? "pair " : ""}${visible(row.unit)}</h2>
        ${[...row.flips].map(([m, way]) => html`<span><span class="quiet">${visible(spaced(data.metrics[m]))}</span> <${Way} way=${way} /></span>`)}
        <button type="button" disabled=${at <= 0} onClick=${() => step(-1)}>Previous</button>
        <button type="button" disabled=${at < 0 || at >= rows.length - 1} onClick=${() => step(1)}>Next</button>
        <button type="button" id="close" onClick=${() => $("item").close()}>Close</button></header>
      <div class="body" tabindex="0" role="region" aria-label="Question and both answers">
        ${row.questions.map((i) => html`<${Question} key=${i} row=${row} q=${question(i)} />`)}
        <dl class="meta">${tags.map(([term, text]) => html`<dt>${visible(term)}</dt><dd dir="auto">${visible(text)}</dd>`)}</dl>
      </div>
    </dialog>`;
  };
  const close = () => { if (state.unit !== null) go({ unit: null, page: state.page }, { replace: true }); };

  const csv = (rows) => {
    const about = data.benchmarks[state.b], runs = data.comparisons[state.c];
    const names = about.dimensions.map(({ name }) => name);
    const head = ["new run", "baseline run", "benchmark", "technique", "measure", "unit", "way", "id", "sample", ...names, "question", "answers",
      "outcome of baseline", "read of baseline", "response of baseline", "outcome of new", "read of new", "response of new"];
    const said = (r) => { const each = of(r); return [each.outcome, each.extracted.join(","), each.response]; };
    return common.table([head, ...rows.flatMap((row) => row.questions.map(question).map((q) => [
      runs.new, runs.baseline, about.name, data.techniques[row.technique], data.metrics[state.m], row.unit, WAYS[row.flips.get(state.m)], q.id, q.sample || "",
      ...about.dimensions.map(({ values }, d) => row.tags[d].map((v) => values[v][0]).join(",")), q.text, q.answers.join(","),
      ...said(q.baseline), ...said(q.new),
    ]))]);
  };

  const App = () => {
    if (units.length === 0) return html`<p class="empty">No headline measure changed for any question.</p>`;
    const found = select();
    return html`<div>
      <${Choices} />
      <div class="columns" tabindex="0" role="region" aria-label="Lexical tree">${found.about.dimensions.map((dimension, d) =>
        html`<${Column} key=${state.b + dimension.name} dimension=${dimension} sums=${found.counts[d]} chosen=${picked(dimension.name)} pick=${pick} redraw=${draw} />`)}</div>
      <${Units} found=${found} />
      <${Dialog} rows=${found.rows} />
    </div>`;
  };
  const draw = () => { opened = common.paint(html`<${App} />`, state.unit, opened); };

  const main = async () => {
    common.start();
    data = await common.read();
    unpack();
    for (const name of Object.keys(data.csv)) {
      const button = $(name + "-csv");
      button?.addEventListener("click", () => common.save(data.csv[name], name + ".csv"));
      if (button) button.hidden = data.comparisons.length === 0;
    }
    const follow = () => {
      if (units.length === 0 || (location.hash && !location.hash.includes("="))) return;
      state = parse();
      draw();
      if (location.hash.includes("=") && state.unit === null) $("flips").scrollIntoView();
    };
    state = units.length ? fresh() : {};
    if (units.length && location.hash.includes("=")) follow();
    else draw();
    addEventListener("hashchange", follow);
    addEventListener("popstate", follow);
    performance.mark("ready");
    document.documentElement.dataset.ready = "";
  };
  main();
})();
