// Tokens that a run loaded from lower tiers of the cache. Twin of sgnb/viz/state/run_loads.py.

const KEPT_LOADS = 200; // loads of a run with a bar

function countLoad(run, { request, store, tokens, seconds, compute_seconds, begin = 0 }, t) {
  const before = run.loads.get(store) ?? [0, 0, 0];
  run.loads.set(store, [before[0] + tokens, before[1] + seconds, before[2] + compute_seconds]);
  if (run.loadBars.length < KEPT_LOADS)
    run.loadBars.push({ request, store, tokens, began: t - seconds, ended: t, computing: compute_seconds, begin });
}

const wordsOfLoad = (store, tokens, seconds, computing) =>
  `${grouped(tokens)} tokens from ${PLACES[store] ?? "a store"} in ${duration(seconds)}, instead of about ${duration(computing)} of prefill`;

const wordsOfLoads = (run) =>
  [...(run?.loads ?? [])]
    .map(([store, [tokens, seconds, computing]]) => wordsOfLoad(store, tokens, seconds, computing))
    .join("\n");

// Details of a load: selection {run, load}.
function describeLoad(state, { run: name, load: at }) {
  const load = state.runs.get(name)?.loadBars[at],
    request = load && state.requests.get(load.request);
  if (!load) return null;
  const facts = [
    ["load", `${plural(load.tokens, "token")} from ${PLACES[load.store] ?? "a store"}`],
    ["time", duration(load.ended - load.began)],
    ["computing", `would have taken about ${duration(load.computing)}`],
  ];
  if (load.begin) facts.push(["meanwhile", `the tokens before token ${grouped(load.begin)} were computed`]);
  if (request) facts.push(["for", `branch ${request.branch}${request.name ? `, ${visible(request.name)}` : ""}`]);
  return { text: "", facts };
}

// Legend of loads. Returns a function that shows the given stores only.
function newLoadLegend(legend) {
  const items = Object.keys(PLACES).map((name) => [name, legendItem(name, `loaded from ${PLACES[name]}`)]);
  legend.append(...items.map(([, item]) => item));
  return (stores) => {
    for (const [name, item] of items) item.hidden = !stores.has(name);
  };
}

// A bar of a load; bars from the disk are striped.
function drawLoad(context, colours, store, left, right, y, tall) {
  const colour = colours[store] ?? colours.muted;
  fillTinted(context, colour, 0.25, left, y, right - left, tall);
  context.strokeStyle = colour;
  context.lineWidth = 3;
  context.setLineDash(store === "disk" ? [3, 2] : []);
  context.beginPath();
  context.moveTo(left, y + tall - 1.5);
  context.lineTo(right, y + tall - 1.5);
  context.stroke();
  context.setLineDash([]);
  context.lineWidth = 1;
}

// Draw the loads of a run in one lane. A bar with room has the tokens and the time.
function drawLoads(context, colours, surface, run, { xOf, y, tall, within }) {
  run.loadBars.forEach((load, i) => {
    const left = Math.max(within[0], xOf(load.began)),
      right = Math.min(within[1], Math.max(left + 2, xOf(load.ended)));
    if (right <= left) return;
    drawLoad(context, colours, load.store, left, right, y, tall);
    const label = `${grouped(load.tokens)} ${load.store}, ${duration(load.ended - load.began)}`;
    context.fillStyle = colours.fg;
    if (right - left > context.measureText(label).width + 8) context.fillText(label, left + 4, y + tall / 2 - 1);
    surface.region({ x: left, y, width: right - left, height: tall, load: { run: run.run, load: i } });
  });
}

// Draw the loads of an engine in a strip over time, with the total at the right.
function drawLoadStrip(context, colours, loads, { from, to, left, room, x, top, height }) {
  const within = loads.filter(({ t }) => t >= from && t <= to);
  for (const { t, seconds, store } of within) {
    const begin = x(Math.max(from, t - seconds));
    drawLoad(context, colours, store, begin, Math.max(begin + 2, x(t)), top + 1, height - 2);
  }
  context.fillStyle = colours.muted;
  const total = within.reduce((sum, { tokens }) => sum + tokens, 0);
  context.fillText(`${grouped(total)} tok`, left + room + 4, top + 7);
}

// The loads of a time in words, by store.
function wordsOfTotalLoads(loads) {
  const run = { loads: new Map(), loadBars: [] };
  for (const load of loads) countLoad(run, { ...load, compute_seconds: load.computing }, load.t);
  return wordsOfLoads(run).split("\n").filter(Boolean);
}
