// Branches over time: a lane per branch. A fork leaves the lane as a trunk with the shared prefix, and comes back at the join.

const LANE = 20;
const SHOWN_LANES = 40;
const NARROWEST_GUTTER = 72; // pixels of the labels
const WIDEST_GUTTER = 240;
const FOUND = 116; // pixels of the column at the right
const AXIS = 24; // pixels of the ticks
const UNMATCHED = 0.3; // opacity of calls without a match

const INDENT = 12; // pixels per fork

// Begin a drawing of lanes: the heads of the columns and the ticks.
function beginLanes(surface, host, head, { view, run, width, bottom }) {
  const context = surface.begin(width, bottom + AXIS),
    colours = coloursOf(host);
  context.fillStyle = colours.muted;
  context.fillText(head, 0, LANE / 2);
  context.fillText("found of", width - FOUND + 8, LANE / 2);
  drawTicks(context, colours, {
    from: view.from - run.t,
    to: view.to - run.t,
    left: view.left,
    room: view.room,
    top: LANE,
    height: bottom - LANE,
  });
  return { context, colours };
}

const indentOf = (name) => INDENT * Math.min(4, name.split(".").length - 1);

// A list of names within `room` letters; a shortened list ends after a whole name, and a long name is cut.
function namesWithin(names, room) {
  const text = visible(names);
  if (text.length <= room) return text;
  const end = text.lastIndexOf(",", room - 3);
  return end > 0 ? `${text.slice(0, end)}, …` : `${text.slice(0, Math.max(1, room - 1))}…`;
}

function newBranchesPanel(host, page) {
  const search = newLaneSearch(() => page.repaint(), jump);
  const tools = el("div", "sgnb-tools"),
    compareTools = el("div", "sgnb-tools");
  host.append(tools);
  const surface = newSurface(host, "branches over time");
  const note = el("div", "sgnb-note"),
    pair = newPair(page);
  const choices = ["compare branch", "with branch"].map((label) =>
    el("select", "sgnb-select", "", { "aria-label": label }),
  );
  compareTools.append(el("span", "sgnb-label", "compare"), choices[0], el("span", "sgnb-label", "with"), choices[1]);
  const legend = newLaneLegend(),
    paintLoadLegend = newLoadLegend(legend);
  host.append(note, legend, compareTools, pair.root);
  let shown = null,
    lit = null;
  const compared = ["", ""];
  const time = newTimeTools(surface, page, () => shown?.view ?? null, {
    drags: () => page.window !== null,
    pans: true,
    ranged: true,
  });
  tools.append(...search.parts, time.range, el("span", "sgnb-space"), time.buttons);

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
    compareTools.hidden = lanes.length < 2;
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
  // Show and select a match of the search.
  function jump({ lane, request }) {
    const view = shown.view,
      at = request?.queued ?? lane.began ?? view.from,
      end = request?.finished ?? at;
    if (page.window && (at < view.from || at > view.to || end > view.to))
      setWindow(page, panned(view, view.whole, at - view.from - PAN * (view.to - view.from)), view.whole);
    if (request?.output.length) page.keep(tokenBeside(request, 0));
    else page.repaint();
  }

  surface.canvas.addEventListener("mousemove", (event) => {
    const { x, box } = surface.at(event);
    surface.canvas.style.cursor = page.window && !box?.lane ? "grab" : "";
    if (!time.isDragged()) page.hover(box?.load ? box.load : box?.of ? tokenBefore(box.of, shown.time(x)) : null);
  });
  surface.canvas.addEventListener("mouseleave", () => page.hover(null));
  surface.canvas.addEventListener("click", (event) => {
    if (time.isDragged()) return;
    const { x, box } = surface.at(event);
    if (box?.lane) compare(box.lane);
    else if (box?.load) page.pin(box.load);
    else if (box) page.pin(tokenBefore(box.of, shown.time(x)));
  });
  surface.canvas.addEventListener("keydown", (event) => {
    const withCalls = shown?.few.filter(({ requests }) => requests.length) ?? [];
    if (!withCalls.length) return;
    const at = withCalls.findIndex(({ requests }) => requests.some((request) => request.id === lit?.request));
    const of = withCalls[at]?.requests.find((request) => request.id === lit.request);
    const up = { ArrowDown: 1, ArrowUp: -1 }[event.key],
      along = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (up)
      page.keep(tokenBefore(withCalls[at < 0 ? 0 : clamped(at + up, 0, withCalls.length - 1)].requests[0], Infinity));
    else if (along && of) page.keep(tokenBeside(of, lit.position + along));
    else if (event.key === "c" && of) compare(of.branch);
    else if (event.key === "Escape") page.keep(null);
    else return;
    event.preventDefault();
    event.stopPropagation();
  });

  // The drawn lanes: lanes with a match first, then in order.
  function lanesToDraw(lanes) {
    if (!search.isActive() || lanes.length <= SHOWN_LANES) return lanes.slice(0, SHOWN_LANES);
    const matched = lanes.filter((lane) => search.has(lane)).slice(0, SHOWN_LANES);
    const kept = new Set([...matched, ...lanes.slice(0, SHOWN_LANES - matched.length)]);
    return lanes.filter((lane) => kept.has(lane));
  }
  function paint(state, run) {
    const lanes = timelineOf(state, run),
      groups = forkGroups(lanes);
    search.find(state, lanes, groups);
    const few = lanesToDraw(lanes);
    const width = widthInside(host);
    const whole = { from: run.t, to: Math.max(run.t + 1e-4, run.began + run.seconds) };
    const letters = Math.max(16, ...few.map((lane) => lane.name.length + 1 + variablesOf(lane).length));
    const gutter = clamped(LETTER * letters + 36, NARROWEST_GUTTER, Math.min(WIDEST_GUTTER, width / 3));
    const view = { ...shownTimes(page, whole, true), whole, left: gutter, room: width - gutter - FOUND };
    const xOf = (t) => view.left + (view.room * (t - view.from)) / (view.to - view.from);
    const timeOf = (x) => view.from + ((x - view.left) / view.room) * (view.to - view.from);
    const drawn = groups.map((group) => [group, sharedTokens(group)]);
    const python = new Map(few.map((lane) => [lane, pythonSpans(lane, lanes, Math.min(whole.to, state.t))]));
    shown = { state, run, few, forks: drawn, python, view, time: timeOf, xOf, width };
    time.paint(view, run.t);
    const more = lanes.length - few.length + run.moreLanes;
    setText(note, lanes.length ? (more ? `and ${plural(more, "more lane")}` : "") : "no request yet");
    const words = [wordsOfLanes(few, drawn) || "no request yet", ...wordsOfLoads(run).split("\n")];
    surface.say(`${words.filter(Boolean).join("; ")}. ${LANE_KEYS}`);
    paintLoadLegend(run.loads);
    draw();
    paintPair(
      state,
      run,
      lanes.filter(({ requests }) => requests.length),
    );
  }
  function draw() {
    if (!shown) return;
    const { few, xOf, width, view, run, forks, state } = shown;
    const bottom = (few.length + 1 + (run.loadBars.length > 0)) * LANE,
      { context, colours } = beginLanes(surface, host, "branch, variables", { view, run, width, bottom }),
      { left, room } = view;
    context.save();
    context.beginPath();
    context.rect(left, 0, room, bottom);
    context.clip();
    few.forEach((lane, i) => drawBars(context, colours, lane, i));
    const rows = new Map(few.map(({ name }, i) => [name, (i + 1.5) * LANE]));
    const middleOf = ({ name }) => rows.get(name) ?? null;
    for (const [group, shared] of forks)
      drawFork(context, colours, group, shared, { xOf, middleOf, left, right: left + room });
    const loadsAt = bottom - LANE + 2;
    if (run.loadBars.length)
      drawLoads(context, colours, surface, run, { xOf, y: loadsAt, tall: LANE - 4, within: [left, left + room] });
    context.restore();
    context.fillStyle = colours.muted;
    if (run.loadBars.length) context.fillText("cache loads", 0, loadsAt + LANE / 2 - 2);
    few.forEach((lane, i) => drawLabels(context, colours, lane, i));
    if (state.t && lit) drawLit(context, colours);
  }
  function drawBars(context, colours, lane, i) {
    const { xOf, view, run, state, python } = shown,
      y = (i + 1) * LANE + 4,
      tall = LANE - 8,
      within = [view.left, view.left + view.room],
      now = state.t;
    drawActivities(context, colours, lane, python.get(lane), { now, xOf, y, tall });
    for (const request of lane.requests) {
      const isMatch = search.isActive() && search.has(lane, request);
      context.globalAlpha = 1;
      drawRequest(context, colours, surface, request, { now, xOf, y, tall, begin: run.t, within });
      const from = Math.max(within[0], xOf(request.first ?? request.queued)),
        to = Math.min(within[1], xOf(request.finished ?? now));
      const mark = markOf(run, request.model);
      drawMark(context, colours, mark, xOf(request.queued), y, tall);
      if (request.first !== null) drawName(context, colours, visible(request.name), from, to, y, tall);
      if (!search.isActive()) continue;
      const left = Math.max(within[0], xOf(request.queued));
      if (!isMatch) fillTinted(context, colours.bg, 1 - UNMATCHED, left, y - 1, to - left, tall + 2);
      else {
        const isCurrent = search.current()?.request === request;
        context.strokeStyle = colours.fg;
        context.lineWidth = isCurrent ? 3 : 1.5;
        context.strokeRect(left - 1, y - 1, Math.max(4, to - left + 2), tall + 2);
        context.lineWidth = 1;
      }
    }
  }
  function drawLabels(context, colours, lane, i) {
    const { view, width } = shown,
      y = (i + 1.5) * LANE,
      indent = indentOf(lane.name);
    const isCompared = compared.includes(lane.name),
      isFound = search.isActive() && search.has(lane);
    context.fillStyle = colours.muted;
    context.fillText(lane.name, indent, y);
    const at = indent + LETTER * (lane.name.length + 1);
    context.fillStyle = isFound || isCompared ? colours.sampled : colours.fg;
    const room = Math.floor((view.left - 12 - at) / LETTER);
    if (room > 1) context.fillText(namesWithin(variablesOf(lane), room), at, y);
    if (isCompared) context.fillText("◂", view.left - 9, y);
    surface.region({ x: 0, y: y - LANE / 2, width: view.left - 1, height: LANE, lane: lane.name });
    context.fillStyle = colours.muted;
    if (lane.requests.length) context.fillText(foundOf(lane.requests), width - FOUND + 8, y);
  }
  function drawLit(context, colours) {
    const request = shown.state.requests.get(lit.request),
      token = request && tokenAt(request, lit.position);
    if (!token?.t || token.t < shown.view.from || token.t > shown.view.to) return;
    const lane = shown.few.findIndex((one) => one.name === request.branch);
    if (lane < 0) return;
    context.fillStyle = colours.fg;
    context.fillRect(shown.xOf(token.t) - 1, (lane + 1) * LANE, 2, LANE);
  }
  function highlight(selection) {
    lit = selection?.request === undefined ? null : selection;
    draw();
    pair.highlight(selection);
  }
  return { paint, highlight };
}

const LANE_KEYS =
  "Arrow keys go from lane to lane and from token to token; + and - zoom, shift and the arrow keys pan, Home shows the whole run; c, or a click on its name, compares a lane with another.";

// Lanes, forks and joins for a screen reader.
function wordsOfLanes(lanes, forks) {
  const newTokens = (requests) => requests.reduce((sum, { output }) => sum + output.length, 0);
  const calls = lanes
    .filter(({ requests }) => requests.length)
    .map(
      ({ name, requests }) =>
        `branch ${name}: ${plural(newTokens(requests), "new token")}, ${foundOf(requests)} prompt tokens found${againOf(requests)}`,
    );
  const joints = forks.map(
    ([{ parent, branches, joined }, shared]) =>
      `${plural(branches.length, "branch", "branches")} of ${parent.name}${shared ? ` share ${plural(shared, "token")}` : ""}${joined === null ? "" : ", joined"}`,
  );
  return [...calls, ...joints].join("; ");
}
