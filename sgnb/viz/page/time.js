// Cache and batch over time: use of the KV pool, step sizes, and hit rate.

const STRIPS = [
  { name: "KV pool", height: 74 },
  { name: "states", height: 40 }, // only for models with recurrent layers
  { name: "encode", height: 20 }, // only with images, videos or sounds
  { name: "loads", height: 20 }, // only with loads from lower tiers of the cache
  { name: "batch", height: 62 },
  { name: "hit rate", height: 46 },
];

const RUNS = 6; // maximum runs with separate metrics; the latest runs count

function newTimePanel(host, page) {
  const tools = el("div", "sgnb-tools");
  host.append(tools);
  const surface = newSurface(host, "cache and batch over time");
  const legend = el("div", "sgnb-legend");
  legend.append(
    ...[
      ["cached", "in the tree"],
      ["decode", "of running requests; rows decoding"],
      ["prefill", "tokens of prompts and forced text"],
      ["wait", "requests waiting"],
      ["gone", "evicted"],
      ["optimal", "hit rate of a cache without limit"],
    ].map(([name, text]) => legendItem(name, text)),
  );
  const drops = legendItem("gone", "of states: checkpoints dropped");
  const encodes = legendItem("prefill", "images, videos and sounds encoded");
  legend.append(drops, encodes);
  const paintLoadLegend = newLoadLegend(legend);
  const metrics = el("div", "sgnb-note");
  host.append(metrics, legend);
  let range = null; // drawn times, positions, and the shown moment
  const drags = ({ shiftKey }) => shiftKey;
  const time = newTimeTools(surface, page, () => range, { drags, pans: false, ranged: false });
  tools.append(time.range, el("span", "sgnb-space"), time.buttons);

  const timeAt = (event) =>
    range.from + (clamped(surface.at(event).x - range.left, 0, range.room) / range.room) * (range.to - range.from);
  let began = null; // start of a drag
  surface.canvas.addEventListener("pointerdown", (event) => {
    if (!range || event.shiftKey) return;
    began = { x: event.clientX, t: timeAt(event) };
    surface.canvas.setPointerCapture(event.pointerId);
  });
  surface.canvas.addEventListener("pointermove", (event) => {
    if (!began || !event.buttons || Math.abs(event.clientX - began.x) < DRAG) return;
    const t = timeAt(event);
    page.brush({ from: Math.min(began.t, t), to: Math.max(began.t, t) });
  });
  surface.canvas.addEventListener("pointerup", (event) => {
    if (began && Math.abs(event.clientX - began.x) < DRAG) page.seekTime(timeAt(event));
    began = null;
  });

  let anchor = null; // fixed end of a range selected by keys
  surface.canvas.addEventListener("keydown", (event) => {
    const by = { ArrowRight: 0.01, ArrowLeft: -0.01 }[event.key];
    if (!range || !(by || (event.key === "Escape" && page.range))) return;
    if (!by) page.brush(null);
    else if (event.shiftKey) brushByKey(by * (range.to - range.from));
    else seekByKey(by * (range.to - range.from));
    event.preventDefault();
    event.stopPropagation();
  });
  // Move the moment, and the window with a moment outside.
  function seekByKey(step) {
    const t = Math.max(range.whole.from, range.at + step);
    if (page.window && (t < range.from || t > range.to))
      page.window = panned(range, range.whole, t - (range.from + range.to) / 2);
    page.seekTime(t);
  }
  // Move the end opposite the anchor.
  function brushByKey(step) {
    const { from, to } = page.range ?? { from: range.at, to: range.at };
    if (!page.range || (anchor !== from && anchor !== to)) anchor = page.range ? from : range.at;
    const end = clamped((anchor === from ? to : from) + step, range.whole.from, range.whole.to);
    page.brush({ from: Math.min(anchor, end), to: Math.max(anchor, end) });
  }

  function paint(state, run, live, store) {
    const { steps } = store,
      width = widthInside(host),
      left = 64,
      room = width - left - 64;
    const start = run ? run.t : steps.t.length ? steps.t[0] - steps.seconds[0] : 0,
      whole = { from: start, to: Math.max(start + 1e-4, store.records.at(-1)?.t ?? 0) },
      { from, to } = shownTimes(page, whole);
    range = { from, to, whole, left, room, at: store.position === null ? whole.to : state.t };
    time.paint(range, start);
    const present = { states: state.engine?.states, encode: store.encodes.length, loads: store.loads.length };
    const strips = STRIPS.filter(({ name }) => !(name in present) || present[name]);
    const context = surface.begin(
        width,
        strips.reduce((sum, strip) => sum + strip.height + 8, AXIS),
      ),
      colours = coloursOf(host);
    const x = (t) => left + (room * (t - from)) / (to - from);
    const columns = bucket(steps, from, to, Math.max(1, Math.floor(room / 2)));
    const bottom = strips.reduce((sum, strip) => sum + strip.height + 8, 0);
    drawTicks(context, colours, { from: from - start, to: to - start, left, room, top: 0, height: bottom });
    const inWindow = ({ t }) => t >= from && t <= to;
    let top = 0;
    drops.hidden = !present.states;
    encodes.hidden = !present.encode;
    paintLoadLegend(new Set(store.loads.map((load) => load.store)));
    const tops = new Map();
    for (const { name, height } of strips) {
      tops.set(name, top);
      context.strokeStyle = colours.line;
      context.strokeRect(left + 0.5, top + 0.5, room, height);
      context.fillStyle = colours.muted;
      context.fillText(name, 0, top + 8);
      if (name === "KV pool") drawPool(context, colours, columns, x, top, height);
      else if (name === "states") drawStates(context, colours, columns, x, top, height, state.engine.states);
      else if (name === "encode") drawEncodes(context, colours, store.encodes, x, top, height);
      else if (name === "loads") drawLoadStrip(context, colours, store.loads, { ...range, x, top, height });
      else if (name === "batch") drawBatch(context, colours, columns, x, top, height);
      else
        drawHits(
          context,
          colours,
          store.admissions.filter(({ t }) => t >= start && t <= to),
          run,
          x,
          top,
          height,
        );
      top += height + 8;
    }
    for (const { t } of store.evictions)
      if (inWindow({ t })) fillTinted(context, colours.bad, 0.9, x(t), 0, 1.5, STRIPS[0].height);
    if (page.range) drawRange(context, colours, x, top - 8);
    if (state.engine?.states)
      for (const { t } of store.drops)
        if (inWindow({ t })) fillTinted(context, colours.bad, 0.9, x(t), tops.get("states"), 1.5, STRIPS[1].height);
    const counted = page.range ?? { from, to };
    const words = wordsOf(figuresWithin(store, counted), counted.to - counted.from);
    setText(metrics, words.join("\n"));
    const last = columns.at(-1);
    surface.say(
      `${words[0]}${last ? `; at the end ${plural(last.cached, "token")} in the tree, ${last.inFlight} of running requests, ${last.free} free${state.engine?.states ? `; of states ${last.keptStates} in the tree, ${state.engine.states - last.keptStates - last.freeStates} of running requests, ${last.freeStates} free` : ""}` : ""}. A click or the arrow keys go to a moment, a drag or the arrow keys with shift choose a range; + and - zoom, a drag with shift pans, Home shows the whole run.`,
    );
    if (store.position !== null && inWindow(state)) {
      context.fillStyle = colours.fg;
      context.fillRect(x(state.t), 0, 1.5, top - 8);
    }
  }
  function drawRange(context, colours, x, height) {
    const edges = [page.range.from, page.range.to].map((t) => clamped(x(t), range.left, range.left + range.room));
    fillTinted(context, colours.bg, 0.6, range.left + 1, 0, edges[0] - range.left - 1, height);
    fillTinted(context, colours.bg, 0.6, edges[1], 0, range.left + range.room - edges[1], height);
    for (const edge of edges) fillTinted(context, colours.sampled, 1, edge - 1, 0, 2, height);
  }
  // A line for all runs and, for several runs, a line per run.
  function wordsOf(
    { requests, runs, steps, prefill, sampled, evicted, freed, dropped, encoded, loads, ...all },
    seconds,
  ) {
    const rate = ({ prompt, cached, again, optimal }) =>
      `${percent(cached, prompt)} of ${plural(prompt, "prompt token")} found, ${again ? `${percent(again, prompt)} recomputed for lack of a checkpoint, ` : ""}${percent(optimal, prompt)} with an unlimited cache`;
    const parts = [
      plural(requests, "request"),
      requests && rate(all),
      `${plural(prefill, "token")} of prompts and forced text computed and ${grouped(sampled)} sampled in ${plural(steps, "step")}`,
      encoded.items &&
        `${plural(encoded.items, "item")} with ${plural(encoded.tokens, "token")} encoded in ${duration(encoded.seconds)}`,
      ...wordsOfTotalLoads(loads),
      evicted && `${plural(evicted, "node")} with ${plural(freed, "token")} evicted`,
      dropped && `${plural(dropped, "checkpoint")} dropped`,
    ];
    const own =
      runs.length > 1
        ? runs
            .slice(-RUNS)
            .map(
              (one) => `${visible(one.run) || "outside of programs"}: ${plural(one.requests, "request")}, ${rate(one)}`,
            )
        : [];
    return [
      `${page.range || page.window ? "in these" : "in"} ${duration(seconds)}: ${parts.filter(Boolean).join(" · ")}`,
      ...own,
      ...(runs.length > RUNS ? [`and ${plural(runs.length - RUNS, "run")} before`] : []),
    ];
  }
  const label = (context, colours, text, x, y) => {
    context.fillStyle = colours.muted;
    context.fillText(text, x + 4, y);
  };
  function drawPool(context, colours, columns, x, top, height) {
    const last = columns.at(-1);
    if (!last) return;
    const pool = last.free + last.cached + last.inFlight;
    const most = drawUse(
      context,
      colours,
      columns.map(({ from, to, cached, inFlight }) => ({ from, to, cached, inFlight })),
      x,
      top,
      height,
      pool,
    );
    label(context, colours, share(most, pool), range.left + range.room, top + 7);
    label(context, colours, "used", range.left + range.room, top + 19);
  }
  function drawStates(context, colours, columns, x, top, height, size) {
    const most = drawUse(
      context,
      colours,
      columns.map(({ from, to, keptStates, freeStates }) => ({
        from,
        to,
        cached: keptStates,
        inFlight: size - keptStates - freeStates,
      })),
      x,
      top,
      height,
      size,
    );
    label(context, colours, `${most} of`, range.left + range.room, top + 7);
    label(context, colours, `${size}`, range.left + range.room, top + 19);
  }
  // Draw tokens held by the tree, and tokens of running requests above. The full height is the `capacity`. Returns the maximum of the sum.
  function drawUse(context, colours, columns, x, top, height, capacity) {
    for (const c of columns) {
      const cached = heightOfUse(c.cached, capacity, height),
        flight = heightOfUse(c.inFlight, capacity, height);
      fillTinted(context, colours.cached, 0.5, x(c.from), top + height - cached, x(c.to) - x(c.from) + 0.6, cached);
      fillTinted(
        context,
        colours.sampled,
        0.7,
        x(c.from),
        top + height - cached - flight,
        x(c.to) - x(c.from) + 0.6,
        flight,
      );
    }
    return Math.max(0, ...columns.map((c) => c.cached + c.inFlight));
  }
  function drawBatch(context, colours, columns, x, top, height) {
    const rows = Math.max(1, ...columns.map((c) => Math.max(c.decode, c.waiting))),
      tokens = Math.max(1, ...columns.map((c) => c.prefill));
    for (const c of columns) {
      const width = x(c.to) - x(c.from) + 0.6;
      fillTinted(
        context,
        colours.sampled,
        0.6,
        x(c.from),
        top + height * (1 - c.decode / rows),
        width,
        (height * c.decode) / rows,
      );
      const narrow = Math.max(1.5, width * 0.4); // right-aligned, because a step is recorded at the end
      fillTinted(
        context,
        colours.computed,
        0.8,
        x(c.to) - narrow,
        top + height * (1 - c.prefill / tokens),
        narrow,
        (height * c.prefill) / tokens,
      );
      fillTinted(
        context,
        colours.muted,
        0.8,
        x(c.from),
        top + height * (1 - c.waiting / rows) - 0.8,
        width,
        c.waiting ? 1.6 : 0,
      );
    }
    label(context, colours, `${plural(rows, "row")}`, range.left + range.room, top + 7);
    label(context, colours, `${tokens} tok`, range.left + range.room, top + 19);
  }
  function drawEncodes(context, colours, encodes, x, top, height) {
    const within = encodes.filter(({ t }) => t >= range.from && t <= range.to);
    for (const { t, seconds } of within) {
      const begin = x(Math.max(range.from, t - seconds));
      fillTinted(context, colours.computed, 0.8, begin, top, Math.max(1.5, x(t) - begin), height);
    }
    const total = within.reduce((sum, { seconds }) => sum + seconds, 0);
    label(context, colours, duration(total), range.left + range.room, top + 7);
  }
  function drawHits(context, colours, admissions, run, x, top, height) {
    const own = run ? admissions.filter((one) => one.run === run.run) : admissions;
    const line = (rows, name, colour, tall) => {
      let prompt = 0,
        found = 0,
        before = range.left;
      const y = () => top + (height - tall) * (1 - (prompt ? found / prompt : 0));
      context.fillStyle = colour;
      for (const one of rows) {
        const now = Math.max(range.left, x(one.t));
        context.fillRect(before, y(), now - before, tall);
        [prompt, found, before] = [prompt + one.prompt, found + one[name], now];
      }
      context.fillRect(before, y(), range.left + range.room - before, tall);
      return percent(found, prompt);
    };
    const most = line(own, "optimal", colours.muted, 1);
    if (own.length < admissions.length) line(admissions, "cached", colours.line, 2);
    label(context, colours, line(own, "cached", colours.cached, 2), range.left + range.room, top + 7);
    label(context, colours, `of ${most}`, range.left + range.room, top + 19);
  }
  return { paint, highlight() {} };
}

// Pixels of a used part of a pool; at least one pixel for a part above 0.
const heightOfUse = (used, capacity, height) => (used ? Math.max(1, (height * used) / Math.max(1, capacity)) : 0);

// Group steps into at most `count` columns of time. The largest step represents a column.
function bucket(steps, from, to, count) {
  const columns = [],
    span = (to - from) / count;
  for (let i = 0; i < steps.t.length; i += 1) {
    const t = steps.t[i];
    if (t < from || t - steps.seconds[i] > to) continue;
    const step = {
      from: Math.max(from, t - steps.seconds[i]),
      to: Math.min(t, to),
      decode: steps.decode[i],
      prefill: steps.prefill[i],
      waiting: steps.waiting[i],
      free: steps.free[i],
      cached: steps.cached[i],
      inFlight: steps.inFlight[i],
      keptStates: steps.keptStates[i],
      freeStates: steps.freeStates[i],
    };
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
