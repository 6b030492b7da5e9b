// Branches over time: a lane per branch with waiting, prefill, decode and jumps, and the prefix reused by a fork.

const LANE = 20;
const SHOWN_LANES = 40;
const GUTTER = 132;

function timelineOf(state, run) {
  const lanes = new Map();
  for (const request of state.requests.values()) {
    if (request.run !== run.run) continue;
    if (!lanes.has(request.branch)) lanes.set(request.branch, { name: request.branch, requests: [] });
    lanes.get(request.branch).requests.push(request);
  }
  for (const call of run.asked.filter(({ counted }) => !counted)) {
    if (!lanes.has(call.branch)) lanes.set(call.branch, { name: call.branch, requests: [] });
    lanes.get(call.branch).requests.push(call);
  }
  for (const { requests } of lanes.values()) requests.sort((a, b) => a.queued - b.queued);
  const order = (name) =>
    name
      .split(".")
      .map((part) => part.padStart(6, "0"))
      .join(".");
  return [...lanes.values()].sort((a, b) => (order(a.name) < order(b.name) ? -1 : 1));
}

// Count only admitted requests: waiting requests and fully forced text have had no cache lookup.
const foundOf = (requests) => {
  const sum = (of) => requests.reduce((all, request) => all + (request.admitted === null ? 0 : of(request)), 0);
  return `${grouped(sum((request) => request.cached))} of ${grouped(sum((request) => request.prompt.length))}`;
};
const againOf = (requests) => {
  const again = requests.reduce((all, request) => all + request.again, 0);
  return again ? `, ${grouped(again)} recomputed` : "";
};

// The last sampled or forced token at a given time.
function tokenBefore(request, t) {
  return tokenBeside(request, request.prompt.length + request.output.findLastIndex((token) => token.t <= t));
}

// The output token at a position, or the nearest.
function tokenBeside(request, position) {
  const first = request.prompt.length;
  return { request: request.id, position: Math.max(first, Math.min(first + request.output.length - 1, position)) };
}

function newLaneLegend() {
  const legend = el("div", "sgnb-legend");
  legend.append(
    ...[
      ["wait", "waiting"],
      ["prefill", "prompt computed"],
      ["decode", "tokens sampled"],
      ["jump", "forced by the grammar"],
    ].map(([name, text]) => legendItem(name, text)),
  );
  return legend;
}

// Draw waiting, prefill, decode and jumps of a request; an open request extends to `now`. `begin` is the time of x = 0, for hover regions.
function drawRequest(context, colours, surface, request, now, xOf, y, tall, begin) {
  const end = request.finished ?? now,
    admitted = request.admitted ?? end,
    first = request.first ?? end;
  const bar = (colour, alpha, from, to) =>
    to > from && fillTinted(context, colour, alpha, xOf(from), y, Math.max(1, xOf(to) - xOf(from)), tall);
  bar(colours.muted, 0.3, request.queued, admitted);
  bar(colours.computed, 0.85, admitted, first);
  bar(colours.sampled, 0.75, first, end);
  for (const token of request.output)
    if (token.kind === "jumped") fillTinted(context, colours.jumped, 1, xOf(token.t) - 1, y - 1, 2.5, tall + 2);
  surface.region({
    x: xOf(request.queued),
    y,
    width: Math.max(3, xOf(end) - xOf(request.queued)),
    height: tall,
    of: request,
    begin,
  });
}

// Draw the letter of another model at the start of the request.
function drawMark(context, colours, mark, x, y, tall) {
  if (!mark) return;
  fillTinted(context, colours.fg, 1, x, y, 11, tall);
  context.fillStyle = colours.bg;
  context.fillText(mark, x + 2, y + tall / 2 + 1);
}

function newBranchesPanel(host, page) {
  const surface = newSurface(host, "branches over time");
  const note = el("div", "sgnb-note");
  const tools = el("div", "sgnb-tools"),
    pair = newPair(page);
  const choices = ["compare branch", "with branch"].map((label) =>
    el("select", "sgnb-select", "", { "aria-label": label }),
  );
  tools.append(el("span", "sgnb-label", "compare"), choices[0], el("span", "sgnb-label", "with"), choices[1]);
  host.append(note, newLaneLegend(), tools, pair.root);
  let shown = null,
    lit = null;
  const compared = ["", ""];

  choices.forEach((choice, i) =>
    choice.addEventListener("change", () => {
      compared[i] = choice.value;
      page.repaint();
    }),
  );
  // Select a lane as the second of the pair view, or deselect the lane.
  function compare(name) {
    if (compared.includes(name)) compared[compared.indexOf(name)] = "";
    else compared[compared[0] ? 1 : 0] = name;
    page.repaint();
  }
  function paintPair(state, run, lanes) {
    tools.hidden = lanes.length < 2;
    const options = ["", ...lanes.map(({ name }) => name)];
    choices.forEach((choice, i) => {
      if (choice.childElementCount !== options.length)
        choice.replaceChildren(...options.map((name) => el("option", "", name || "–", { value: name })));
      choice.value = compared[i];
    });
    const [one, other] = compared.map((name) => lanes.find((lane) => lane.name === name));
    pair.root.hidden = !one || !other || one === other;
    if (!pair.root.hidden) pair.paint(state, run, [one, other]);
  }

  surface.canvas.addEventListener("mousemove", (event) => {
    const { x, box } = surface.at(event);
    page.hover(box?.of ? tokenBefore(box.of, shown.time(x)) : null);
  });
  surface.canvas.addEventListener("mouseleave", () => page.hover(null));
  surface.canvas.addEventListener("click", (event) => {
    const { x, box } = surface.at(event);
    if (box?.lane) compare(box.lane);
    else if (box) page.pin(tokenBefore(box.of, shown.time(x)));
  });
  surface.canvas.addEventListener("keydown", (event) => {
    if (!shown?.few.length) return;
    const at = shown.few.findIndex(({ requests }) => requests.some((request) => request.id === lit?.request));
    const of = shown.few[at]?.requests.find((request) => request.id === lit.request);
    const up = { ArrowDown: 1, ArrowUp: -1 }[event.key],
      along = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (up)
      page.keep(
        tokenBefore(shown.few[Math.max(0, Math.min(shown.few.length - 1, at < 0 ? 0 : at + up))].requests[0], Infinity),
      );
    else if (along && of) page.keep(tokenBeside(of, lit.position + along));
    else if (event.key === "c" && of) compare(of.branch);
    else if (event.key === "Escape") page.keep(null);
    else return;
    event.preventDefault();
    event.stopPropagation();
  });
  function paint(state, run) {
    const lanes = timelineOf(state, run),
      few = lanes.slice(0, SHOWN_LANES);
    const width = Math.max(260, host.clientWidth - 2 * MARGIN),
      begin = page.range?.from ?? run.t,
      end = page.range?.to ?? Math.max(begin + 1e-4, run.began + run.seconds);
    const room = width - GUTTER - 92;
    const xOf = (t) => GUTTER + (room * (t - begin)) / (end - begin);
    shown = { state, run, few, time: (x) => begin + ((x - GUTTER) / room) * (end - begin), xOf, width };
    setText(
      note,
      lanes.length
        ? lanes.length > few.length
          ? `and ${plural(lanes.length - few.length, "more lane")}`
          : ""
        : "no request yet",
    );
    surface.say(
      `${
        few
          .map(
            ({ name, requests }) =>
              `branch ${name}: ${plural(
                requests.reduce((sum, { output }) => sum + output.length, 0),
                "new token",
              )}, ${foundOf(requests)} prompt tokens found${againOf(requests)}`,
          )
          .join("; ") || "no request yet"
      }. Arrow keys go from lane to lane and from token to token; c, or a click on its name, compares a lane with another.`,
    );
    draw();
    paintPair(state, run, lanes);
  }
  function draw() {
    if (!shown) return;
    const { few, xOf, width, state } = shown;
    const context = surface.begin(width, (few.length + 1) * LANE + 18),
      colours = coloursOf(host);
    context.fillStyle = colours.muted;
    context.fillText("branch, variable", 4, LANE / 2);
    context.fillText("found of", width - 86, LANE / 2);
    few.forEach((lane, i) => drawLane(context, colours, lane, i, xOf, width));
    few.forEach((lane, i) => {
      const above = few.findIndex((other) => other.name === lane.name.split(".").slice(0, -1).join("."));
      const x = xOf(lane.requests[0].queued) + 0.5;
      if (above < 0 || x < GUTTER || x > width - 92) return;
      context.strokeStyle = colours.line;
      context.beginPath();
      context.moveTo(x, (above + 2) * LANE - 4);
      context.lineTo(x, (i + 1) * LANE + 4);
      context.stroke();
    });
    context.fillStyle = colours.muted;
    const y = (few.length + 1) * LANE + 8;
    const first = shown.time(GUTTER) - shown.run.t;
    context.fillText(first ? duration(first) : "0", GUTTER, y);
    const last = duration(shown.time(GUTTER + (width - GUTTER - 92)) - shown.run.t);
    context.fillText(last, width - 92 - 7 * last.length, y);
    if (state.t && lit) drawLit(context, colours);
  }
  function drawLane(context, colours, { name, requests }, i, xOf, width) {
    const y = (i + 1) * LANE + 3,
      tall = LANE - 7;
    const chosen = compared.indexOf(name);
    context.fillStyle = chosen < 0 ? colours.fg : colours.sampled;
    if (chosen >= 0) context.fillText("◂", GUTTER - 9, y + tall / 2);
    const indent = 9 * Math.min(4, name.split(".").length - 1);
    context.fillText(inLine(`${name} ${requests.at(-1).name}`, 18), 4 + indent, y + tall / 2, GUTTER - 8 - indent);
    context.save();
    context.beginPath();
    context.rect(GUTTER, 0, width - GUTTER - 92, y + LANE);
    context.clip();
    for (const request of requests)
      drawRequest(context, colours, surface, request, shown.state.t, xOf, y, tall, shown.run.t);
    for (const request of requests)
      drawMark(context, colours, markOf(shown.run, request.model), xOf(request.queued), y, tall);
    context.restore();
    surface.region({ x: 0, y, width: GUTTER - 1, height: tall, lane: name });
    context.fillStyle = colours.muted;
    context.fillText(foundOf(requests), width - 86, y + tall / 2);
  }
  function drawLit(context, colours) {
    const request = shown.state.requests.get(lit.request),
      token = request && tokenAt(request, lit.position);
    if (!token?.t) return;
    const lane = shown.few.findIndex((one) => one.name === request.branch);
    if (lane < 0) return;
    context.fillStyle = colours.fg;
    context.fillRect(shown.xOf(token.t) - 1, (lane + 1) * LANE, 2, LANE - 1);
  }
  function highlight(selection) {
    lit = selection?.request === undefined ? null : selection;
    draw();
    pair.highlight(selection);
  }
  return { paint, highlight };
}
