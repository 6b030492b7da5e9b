// Drawing of lanes: calls, tools, Python time, and forks with the shared prefix as a trunk.

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
      ["python", "Python"],
      ["tool", "tools"],
      ["trunk", "shared prefix of a fork"],
    ].map(([name, text]) => legendItem(name, text)),
  );
  return legend;
}

// Draw waiting, prefill, decode and jumps of a request; an open request extends to `now`. `begin`: time of x = 0, for hover regions. `within`: leftmost and rightmost pixels of the lane.
function drawRequest(context, colours, surface, request, { now, xOf, y, tall, begin, within = [0, Infinity] }) {
  const end = request.finished ?? now,
    admitted = request.admitted ?? end,
    first = request.first ?? end;
  const bar = (colour, alpha, from, to) =>
    to > from && fillTinted(context, colour, alpha, xOf(from), y, Math.max(1, xOf(to) - xOf(from)), tall);
  bar(colours.muted, 0.3, request.queued, admitted);
  bar(colours.computed, 0.85, admitted, first);
  bar(colours.sampled, 0.85, first, end);
  for (const token of request.output)
    if (token.kind === "jumped") fillTinted(context, colours.jumped, 1, xOf(token.t) - 1, y - 1, 2.5, tall + 2);
  const left = Math.max(within[0], xOf(request.queued)),
    right = Math.min(within[1], Math.max(left + 3, xOf(end)));
  if (right > left) surface.region({ x: left, y, width: right - left, height: tall, of: request, begin });
}

// Draw the variable of a call in the bar, if the whole name fits into the visible part.
function drawName(context, colours, name, from, to, y, tall) {
  if (!name || to - from < context.measureText(name).width + 8) return;
  context.fillStyle = colours.bg;
  context.fillText(name, from + 4, y + tall / 2 + 1);
}

// Draw the life of a branch, Python time, tools and pauses.
function drawActivities(context, colours, lane, python, { now, xOf, y, tall }) {
  const middle = y + tall / 2,
    bar = (from, to, height, colour, alpha) =>
      fillTinted(context, colour, alpha, xOf(from), middle - height / 2, Math.max(1, xOf(to) - xOf(from)), height);
  for (const [from, to] of python) bar(from, to, 4, colours.other, 0.8);
  for (const { kind, name, began, ended } of lane.activities) {
    const [left, right] = [xOf(began), xOf(ended ?? now)];
    if (kind === "paused") bar(began, ended ?? now, 1, colours.muted, 1);
    if (kind !== "tools") continue;
    bar(began, ended ?? now, tall, colours.soft, 1);
    context.strokeStyle = colours.fg;
    context.strokeRect(left + 0.5, y + 0.5, Math.max(1, right - left - 1), tall - 1);
    context.fillStyle = colours.fg;
    const label = visible(name);
    if (right - left > context.measureText(label).width + 8) context.fillText(label, left + 4, middle + 1);
  }
}

// Draw a fork: the trunk from the parent's lane down to the branches, and lines from the ends of the branches back to the parent at the join. `middleOf(lane)`: y of a lane, or null for a hidden lane.
function drawFork(context, colours, { parent, branches, forked, joined }, shared, { xOf, middleOf, left, right }) {
  const from = middleOf(parent),
    ends = branches.map(middleOf),
    shown = ends.filter((y) => y !== null);
  if (from === null || !shown.length) return;
  const curve = 6,
    x = Math.round(xOf(forked));
  const line = (colour, width, points) => {
    context.strokeStyle = colour;
    context.lineWidth = width;
    context.beginPath();
    points(context);
    context.stroke();
    context.lineWidth = 1;
  };
  line(colours.cached, 3, (path) => {
    path.moveTo(x, from);
    path.lineTo(x, Math.max(...shown) - curve);
    for (const y of shown) {
      path.moveTo(x, y - curve);
      path.quadraticCurveTo(x, y, x + curve, y);
    }
  });
  if (joined !== null) {
    const to = Math.round(xOf(joined));
    line(colours.muted, 1, (path) => {
      branches.forEach((branch, i) => {
        if (ends[i] === null) return;
        path.moveTo(xOf(branch.ended), ends[i] + 0.5);
        path.lineTo(to - curve, ends[i] + 0.5);
        path.quadraticCurveTo(to + 0.5, ends[i], to + 0.5, ends[i] - curve);
      });
      path.moveTo(to + 0.5, Math.max(...shown) - curve);
      path.lineTo(to + 0.5, from);
    });
    fillTinted(context, colours.muted, 1, to - 2, from - 2, 5, 5);
  }
  if (!shared) return;
  // The parent's lane is empty up to the join, and the first branch's lane up to the fork.
  const label = plural(shared, "shared token"),
    width = context.measureText(label).width + 12;
  context.fillStyle = colours.muted;
  if ((joined === null ? right : Math.min(right, xOf(joined))) - x > width) context.fillText(label, x + 6, from);
  else if (x - left > width) context.fillText(label, x - width + 4, shown[0]);
}

// Draw the letter of another model at the start of the request.
function drawMark(context, colours, mark, x, y, tall) {
  if (!mark) return;
  fillTinted(context, colours.fg, 1, x, y, 11, tall);
  context.fillStyle = colours.bg;
  context.fillText(mark, x + 2, y + tall / 2 + 1);
}
