// Cache and batch over time: what the KV pool holds, how large the steps are, how much of the prompts was found.

const STRIPS = [
  { name: "KV pool", height: 74 },
  { name: "batch", height: 62 },
  { name: "hit rate", height: 46 },
];

function newTimePanel(host, page) {
  const surface = newSurface(host, "cache and batch over time");
  const legend = el("div", "sgnb-legend");
  for (const [name, text] of [["cached", "in the tree"], ["decode", "of running requests; rows decoding"], ["prefill", "prompt tokens"], ["wait", "requests waiting"], ["gone", "evicted"]]) {
    const item = el("span", "sgnb-legend-item");
    item.append(el("span", `sgnb-swatch sgnb-swatch-${name}`), text);
    legend.append(item);
  }
  host.append(legend);
  let range = null;

  surface.canvas.addEventListener("click", (event) => {
    const { x } = surface.at(event);
    if (range) page.seekTime(range.from + ((x - range.left) / range.room) * (range.to - range.from));
  });

  surface.canvas.addEventListener("keydown", (event) => {
    const by = { ArrowRight: 0.01, ArrowLeft: -0.01 }[event.key];
    if (!by || !range) return;
    page.seekTime(Math.max(range.from, range.at + by * (range.to - range.from)));
    event.preventDefault();
    event.stopPropagation();
  });

  function paint(state, run, live, store) {
    const { steps } = store, width = Math.max(260, host.clientWidth - 2 * MARGIN), left = 64, room = width - left - 64;
    const from = run ? run.t : (steps.t[0] ?? 0), to = Math.max(from + 1e-4, store.records.at(-1)?.t ?? 0);
    range = { from, to, left, room, at: store.place === null ? to : state.t };
    const context = surface.begin(width, STRIPS.reduce((sum, strip) => sum + strip.height + 8, 14)), colours = coloursOf(host);
    const x = (t) => left + (room * (t - from)) / (to - from);
    const columns = bucket(steps, from, to, Math.max(1, Math.floor(room / 2)));
    let top = 2;
    for (const { name, height } of STRIPS) {
      context.strokeStyle = colours.line;
      context.strokeRect(left + 0.5, top + 0.5, room, height);
      context.fillStyle = colours.muted;
      context.fillText(name, 2, top + 8);
      if (name === "KV pool") drawPool(context, colours, columns, x, top, height);
      else if (name === "batch") drawBatch(context, colours, columns, x, top, height);
      else drawHits(context, colours, store.admissions.filter(({ t }) => t >= from), x, top, height, width);
      top += height + 8;
    }
    for (const t of store.evictions) if (t >= from) fillTinted(context, colours.bad, 0.9, x(t), 2, 1.5, STRIPS[0].height);
    const last = columns.at(-1);
    surface.say(`${plural(columns.length, "step")} in ${duration(to - from)}${last ? `; at the end ${plural(last.cached, "token")} in the tree, ${last.inFlight} of running requests, ${last.free} free` : ""}; ${plural(store.evictions.filter(({ t }) => t >= from).length, "eviction")}. A click or the arrow keys go to a moment.`);
    context.fillStyle = colours.muted;
    context.fillText("0", left, top + 4);
    const end = duration(to - from);
    context.fillText(end, left + room - 7 * end.length, top + 4);
    if (store.place !== null) {
      context.fillStyle = colours.fg;
      context.fillRect(x(state.t), 2, 1.5, top - 8);
    }
  }
  const label = (context, colours, text, x, y) => {
    context.fillStyle = colours.muted;
    context.fillText(text, x + 4, y);
  };
  function drawPool(context, colours, columns, x, top, height) {
    const last = columns.at(-1);
    if (!last) return;
    const size = last.free + last.cached + last.inFlight, most = Math.max(1, ...columns.map((c) => c.cached + c.inFlight));
    for (const c of columns) {
      const cached = (height * c.cached) / most, flight = (height * c.inFlight) / most;
      fillTinted(context, colours.cached, 0.5, x(c.from), top + height - cached, x(c.to) - x(c.from) + 0.6, cached);
      fillTinted(context, colours.sampled, 0.7, x(c.from), top + height - cached - flight, x(c.to) - x(c.from) + 0.6, flight);
    }
    label(context, colours, share(most, size), range.left + range.room, top + 7);
    label(context, colours, "used", range.left + range.room, top + 19);
  }
  function drawBatch(context, colours, columns, x, top, height) {
    const rows = Math.max(1, ...columns.map((c) => Math.max(c.decode, c.waiting))), tokens = Math.max(1, ...columns.map((c) => c.prefill));
    for (const c of columns) {
      const width = x(c.to) - x(c.from) + 0.6;
      fillTinted(context, colours.sampled, 0.6, x(c.from), top + height * (1 - c.decode / rows), width, (height * c.decode) / rows);
      fillTinted(context, colours.computed, 0.8, x(c.from), top + height * (1 - c.prefill / tokens), Math.max(1.5, width * 0.4), (height * c.prefill) / tokens);
      fillTinted(context, colours.muted, 0.8, x(c.from), top + height * (1 - c.waiting / rows) - 0.8, width, c.waiting ? 1.6 : 0);
    }
    label(context, colours, `${plural(rows, "row")}`, range.left + range.room, top + 7);
    label(context, colours, `${tokens} tok`, range.left + range.room, top + 19);
  }
  function drawHits(context, colours, admissions, x, top, height, width) {
    let prompt = 0, cached = 0, rate = 0, before = range.left;
    context.fillStyle = colours.cached;
    for (const one of admissions) {
      const now = x(one.t);
      context.fillRect(before, top + height * (1 - rate) - 1, now - before, 2);
      [prompt, cached, before] = [prompt + one.prompt, cached + one.cached, now];
      rate = prompt ? cached / prompt : 0;
    }
    context.fillRect(before, top + height * (1 - rate) - 1, range.left + range.room - before, 2);
    label(context, colours, percent(cached, prompt), range.left + range.room, top + 7);
  }
  return { paint, highlight() {} };
}

// Steps in at most `count` columns of time: the largest step of each stands for it.
function bucket(steps, from, to, count) {
  const columns = [], span = (to - from) / count;
  for (let i = 0; i < steps.t.length; i += 1) {
    const t = steps.t[i];
    if (t < from || t > to) continue;
    const step = { from: Math.max(from, t - steps.seconds[i]), to: t, decode: steps.decode[i], prefill: steps.prefill[i], waiting: steps.waiting[i], free: steps.free[i], cached: steps.cached[i], inFlight: steps.inFlight[i] };
    const last = columns.at(-1);
    if (last && t - last.from < span) {
      for (const name of ["decode", "prefill", "waiting"]) step[name] = Math.max(step[name], last[name]);
      columns[columns.length - 1] = { ...step, from: last.from };
    } else {
      columns.push({ ...step, from: last ? last.to : step.from });
    }
  }
  return columns;
}
