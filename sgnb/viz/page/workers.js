// Workers of a fleet over time: a lane per worker with its calls. Calls at the same time have rows of their own.

const CALL_ROW = 16; // pixels
const LANE_PAD = 6; // pixels between lanes
const SHOWN_WORKERS = 16;
const SHOWN_CALL_ROWS = 8; // per worker
const WORKER_GUTTER = 96; // pixels of the labels
const WORKER_KEYS =
  "Arrow keys go from worker to worker and from call to call; + and - zoom, shift and the arrow keys pan, Home shows the whole run.";

// Present the workers with calls first, up to `SHOWN_WORKERS`, in the order of the numbers.
function workersToDraw(run) {
  const used = usedLanes(run),
    idle = workerLanes(run).filter(({ calls }) => !calls);
  const kept = new Set([...used, ...idle].slice(0, SHOWN_WORKERS));
  return workerLanes(run).filter((lane) => kept.has(lane));
}

const isCallOf = ({ route }, selection) =>
  selection?.routed === undefined
    ? false
    : route.t === selection.routed &&
      route.event.branch === selection.branch &&
      route.event.worker === selection.worker;

function newWorkersPanel(host, page) {
  const tools = el("div", "sgnb-tools");
  host.append(tools);
  const surface = newSurface(host, "workers over time");
  const note = el("div", "sgnb-note"),
    legend = el("div", "sgnb-legend");
  legend.append(
    ...[
      ["optimal", "in the fleet, without a worker"],
      ["wait", "waiting at the worker"],
      ["prefill", "prompt computed"],
      ["decode", "tokens sampled"],
      ["jump", "forced by the grammar"],
      ["gone", "worker ended; its calls continue elsewhere"],
    ].map(([name, text]) => legendItem(name, text)),
  );
  host.append(note, legend);
  let shown = null,
    lit = null;
  const time = newTimeTools(surface, page, () => shown?.view ?? null, {
    drags: () => page.window !== null,
    pans: true,
    ranged: true,
  });
  tools.append(time.range, el("span", "sgnb-space"), time.buttons);

  // The selection of a call: the decision, and the token at the time `t`, if any.
  function selectionOf({ route, requests }, t) {
    const request = requests.findLast(({ queued }) => queued <= t) ?? requests[0];
    const token = request?.output.length ? tokenBefore(request, t) : {};
    return { run: shown.run.run, worker: route.event.worker, branch: route.event.branch, routed: route.t, ...token };
  }
  surface.canvas.addEventListener("mousemove", (event) => {
    const { x, box } = surface.at(event);
    surface.canvas.style.cursor = page.window ? "grab" : "";
    if (!time.isDragged()) page.hover(box ? selectionOf(box.call, shown.time(x)) : null);
  });
  surface.canvas.addEventListener("mouseleave", () => page.hover(null));
  surface.canvas.addEventListener("click", (event) => {
    if (time.isDragged()) return;
    const { x, box } = surface.at(event);
    if (box) page.pin(selectionOf(box.call, shown.time(x)));
  });
  surface.canvas.addEventListener("keydown", (event) => {
    const lanes = shown?.lanes.filter(({ calls }) => calls.length) ?? [];
    const up = { ArrowDown: 1, ArrowUp: -1 }[event.key],
      along = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    const at = lanes.findIndex(({ calls }) => calls.some((call) => isCallOf(call, lit)));
    const calls = lanes[at]?.calls ?? [],
      call = calls.findIndex((one) => isCallOf(one, lit));
    const next =
      up && lanes.length
        ? lanes[at < 0 ? 0 : clamped(at + up, 0, lanes.length - 1)].calls[0]
        : along && calls[clamped(call + along, 0, calls.length - 1)];
    if (event.key === "Escape") page.keep(null);
    else if (next) page.keep(selectionOf(next, Infinity));
    else return;
    event.preventDefault();
    event.stopPropagation();
  });

  function paint(state, run) {
    const all = callsOfWorkers(run, timelineOf(state, run));
    const width = widthInside(host),
      whole = { from: run.t, to: Math.max(run.t + 1e-4, run.began + run.seconds) };
    const view = {
      ...shownTimes(page, whole, true),
      whole,
      left: WORKER_GUTTER,
      room: width - WORKER_GUTTER - FOUND,
    };
    const now = Math.min(whole.to, state.t);
    let top = LANE;
    const lanes = workersToDraw(run).map((lane) => {
      const calls = all.get(lane.worker),
        rows = rowsOfCalls(calls, now);
      const count = clamped(Math.max(0, ...rows) + 1, 2, SHOWN_CALL_ROWS);
      const hidden = rows.filter((row) => row >= count).length + lane.calls - calls.length;
      const placed = { ...lane, total: lane.calls, calls, rows, hidden, top, height: count * CALL_ROW };
      top += placed.height + LANE_PAD;
      return placed;
    });
    const xOf = (t) => view.left + (view.room * (t - view.from)) / (view.to - view.from);
    const timeOf = (x) => view.from + ((x - view.left) / view.room) * (view.to - view.from);
    shown = { state, run, lanes, view, now, xOf, time: timeOf, width, bottom: top };
    time.paint(view, run.t);
    const more = workerLanes(run).length - lanes.length;
    setText(note, more ? `and ${plural(more, "more worker")}` : "");
    surface.say(`${wordsOfFleet(run).split("\n").join("; ")}. ${WORKER_KEYS}`);
    draw();
  }
  function draw() {
    if (!shown) return;
    const { lanes, bottom } = shown,
      { left, room } = shown.view;
    const { context, colours } = beginLanes(surface, host, "worker, calls", shown);
    const holders = holdersOfLit();
    for (const lane of lanes) drawLabels(context, colours, lane, holders.get(lane.worker));
    context.save();
    context.beginPath();
    context.rect(left, 0, room, bottom);
    context.clip();
    for (const lane of lanes) drawAbsences(context, colours, lane);
    for (const lane of lanes) lane.calls.forEach((call, i) => drawCall(context, colours, lane, call, i));
    drawMoves(context, colours);
    context.restore();
  }
  const yOf = (lane, i) => lane.top + lane.rows[i] * CALL_ROW + 2;
  const isDrawn = (lane, i) => (lane.rows[i] + 1) * CALL_ROW <= lane.height;

  function drawLabels(context, colours, lane, held) {
    const y = lane.top + CALL_ROW / 2,
      right = shown.width - FOUND + 8;
    context.fillStyle = colours.line;
    context.fillRect(0, lane.top - LANE_PAD / 2, shown.width, 1);
    context.fillStyle = colours.fg;
    context.fillText(`worker ${lane.worker}`, 0, y);
    context.fillStyle = colours.muted;
    const calls = lane.hidden ? `${lane.total}, ${lane.hidden} hidden` : plural(lane.total, "call");
    context.fillText(calls, 0, y + CALL_ROW);
    if (lane.total) context.fillText(`${grouped(lane.cached)} of ${grouped(lane.tokens)}`, right, y);
    if (!held) return;
    context.fillStyle = colours.cached;
    context.fillText(`holds ${grouped(held)}`, right, y + CALL_ROW);
  }
  function drawAbsences(context, colours, { joined, absences, top, height }) {
    const { xOf, view, now } = shown;
    const absent = absences.map(({ began, ended }) => [began, ended ?? now, "ended"]);
    if (joined !== null) absent.push([view.from, joined, ""]);
    for (const [from, to, word] of absent) {
      const [x, width] = [xOf(from), xOf(to) - xOf(from)];
      fillTinted(context, word ? colours.bad : colours.muted, 0.15, x, top, width, height);
      if (!word) continue;
      fillTinted(context, colours.bad, 1, x - 1, top, 2, height);
      context.fillStyle = colours.bad;
      if (width > context.measureText(word).width + 10) context.fillText(word, x + 5, top + height - CALL_ROW / 2);
    }
  }
  function drawCall(context, colours, lane, call, i) {
    if (!isDrawn(lane, i)) return;
    const { xOf, view, run, now } = shown,
      { route, requests } = call;
    const within = [view.left, view.left + view.room],
      y = yOf(lane, i),
      tall = CALL_ROW - 4,
      end = endOfCall(call, now);
    const [begin, sent, stop] = [beginOfCall(call), route.t, end].map(xOf);
    fillTinted(context, colours.muted, 1, begin, y + tall / 2, sent - begin, 1);
    fillTinted(context, colours.muted, 0.3, sent, y, xOf(requests[0]?.queued ?? end) - sent, tall);
    for (const request of requests)
      drawRequest(context, colours, surface, request, { now: end, xOf, y, tall, begin: run.t, within });
    fillTinted(context, colours.muted, 1, sent - 0.5, y, 1, tall);
    if (route.moved !== null) fillTinted(context, colours.bad, 1, stop - 1.5, y - 1, 3, tall + 2);
    const from = Math.max(within[0], xOf(requests[0]?.first ?? route.t)),
      to = Math.min(within[1], stop);
    if (requests.some(({ first }) => first !== null))
      drawName(context, colours, visible(`${route.event.branch} ${route.event.name}`), from, to, y, tall);
    const [left, right] = [Math.max(within[0], begin), Math.min(within[1], Math.max(stop, begin + 3))];
    if (right <= left) return;
    surface.region({ x: left, y, width: right - left, height: tall, call });
    if (!isLit(call)) return;
    context.strokeStyle = colours.fg;
    context.lineWidth = 1.5;
    context.strokeRect(left - 1, y - 1, right - left + 2, tall + 2);
    context.lineWidth = 1;
  }
  // A selected call, or the call of a selected token.
  function isLit(call) {
    if (lit?.routed !== undefined) return isCallOf(call, lit);
    return call.requests.some(({ id }) => id !== undefined && id === lit?.request);
  }
  // Lines from the lost worker to the next worker of each moved call.
  function drawMoves(context, colours) {
    const { lanes, xOf } = shown;
    const places = lanes.flatMap((lane) =>
      lane.calls.map((call, i) => ({ call, y: yOf(lane, i) + CALL_ROW / 2 - 2, isDrawn: isDrawn(lane, i) })),
    );
    context.strokeStyle = colours.bad;
    context.setLineDash([2, 2]);
    context.beginPath();
    for (const from of places.filter(({ call, isDrawn }) => isDrawn && call.route.moved !== null)) {
      const next = nextRoute(places, from.call);
      if (!next?.isDrawn) continue;
      context.moveTo(xOf(from.call.route.moved), from.y);
      context.lineTo(xOf(next.call.route.t), next.y);
    }
    context.stroke();
    context.setLineDash([]);
  }
  // The number of leading tokens of the selected node in the cache of each worker.
  function holdersOfLit() {
    const own = stateOf(shown.state, page.engine),
      node = own.nodes.get(lit?.node);
    if (!node) return new Map();
    const { tokens, namespace } = pathOfNode(own, node);
    return new Map(holdersOf(shown.run, shown.state.peers, tokens, namespace));
  }
  function highlight(selection) {
    lit = selection;
    draw();
  }
  return { paint, highlight };
}

// The place of the decision after a moved call.
function nextRoute(places, { route }) {
  const isNext = ({ call: { route: other } }) =>
    other.event.branch === route.event.branch && other.event.name === route.event.name && other.t >= route.moved;
  return places.filter(isNext).sort((a, b) => a.call.route.t - b.call.route.t)[0];
}

// Details of a call on a worker: selection {run, worker, branch, routed}.
function describeCall(state, selection) {
  const run = state.runs.get(selection.run);
  const calls = run && callsOfWorkers(run, timelineOf(state, run)).get(selection.worker),
    call = calls?.find((one) => isCallOf(one, selection));
  if (!call) return null;
  const { event, t, moved } = call.route,
    lane = run.workers.get(event.worker);
  const facts = [
    ["call", `branch ${visible(event.branch)}${event.name ? `, ${visible(event.name)}` : ""}`],
    ["worker", `${event.worker}, ${grouped(event.cached)} of ${grouped(event.tokens)} prompt tokens cached`],
    [
      "expected",
      `first token in ${duration(event.wait + event.work)}: waiting ${duration(event.wait)}, prefill ${duration(event.work)}`,
    ],
    ["measured", wordsOfPhases(call, event.waited)],
    ...costsOf(event),
  ];
  if (moved !== null) {
    const absence = lane.absences.findLast(({ began }) => began <= moved);
    facts.push([
      "moved",
      `after ${duration(moved - t)}${absence ? `: the worker ended, ${visible(absence.reason)}` : ""}`,
    ]);
  }
  return { text: "", facts };
}

// The phases of a call with their times; phases to come are left out.
function wordsOfPhases({ route, requests }, waited = 0) {
  const [request] = requests,
    words = [`in the fleet ${duration(waited)}`];
  const phase = (name, from, to) => from !== null && to !== null && words.push(`${name} ${duration(to - from)}`);
  if (request) {
    phase("waiting", route.t, request.admitted);
    phase("prefill", request.admitted, request.first);
    phase("decode", request.first, request.finished);
  }
  return words.join(", ");
}

// The cost of each compared worker, the cheapest first: the time to the first token, and the delays of later calls.
function costsOf({ worker, compared = [], compared_cached, compared_first, compared_others }) {
  return compared.map((one, i) => {
    const [cached, first, others] = [compared_cached[i], compared_first[i], compared_others[i]];
    const words = `${duration(first + others)}${one === worker ? ", the choice" : ""}: first token ${duration(first)}, later calls ${duration(others)}; ${plural(cached, "token")} cached`;
    return [`cost of worker ${one}`, words];
  });
}
