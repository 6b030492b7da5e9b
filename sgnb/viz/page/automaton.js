// Drawing of an automaton, with the path of a text.

function drawAutomaton(surface, colours, drawn, positions, way, lit) {
  const graph = graphOf(drawn),
    context = surface.begin(positions.width, Math.max(1, positions.height));
  const open = onEdge(way.position)?.edge,
    current = graph.arrowOf[open];
  drawParts(context, colours, positions);
  const drawnArrows = positions.arrows.map((arrow) => ({
    arrow,
    lines: linesOf(drawn, positions, arrow),
    number: graph.arrowOf[arrow.edges[0]],
  }));
  const taken = ({ number }) => way.taken.has(number) || number === current;
  for (const one of [...drawnArrows.filter((one) => !taken(one)), ...drawnArrows.filter(taken)]) {
    const { arrow, lines, number } = one,
      isTaken = taken(one);
    const forced = arrow.chosen < 1,
      faint = (colour) => (isTaken ? colour : `color-mix(in srgb, ${colour} 50%, ${colours.bg})`);
    strokeLines(context, lines, isTaken ? colours.sampled : faint(colours.muted), isTaken ? 2.2 : 1.1);
    if (forced)
      strokeLines(
        context,
        restOf(lines, arrow.chosen),
        faint(colours.jumped),
        positions.isCrowded(arrow) ? 1.2 : arrow.track >= 0 ? 3 : 5,
      );
    if (positions.shown(arrow.target))
      drawHead(context, lines.at(-1), forced ? faint(colours.jumped) : isTaken ? colours.sampled : colours.muted);
    for (const share of (positions.shown(arrow.start) && way.borders.get(number)?.shares) || []) {
      const [x, y] = restOf(lines, share)[0]?.[0] ?? lines.at(-1).at(-1);
      fillTinted(context, colours.fg, 1, x - 1, y - 6, 2, 12);
    }
  }
  const said = new Set();
  for (const one of drawnArrows) drawLabel(context, colours, positions, one, taken(one), said);
  drawn.states.forEach((_, i) => positions.shown(i) && drawState(i));

  function drawState(i) {
    const { x, y } = positions.at(i),
      left = x - positions.pill / 2,
      top = y - PILL / 2;
    const here = i === way.position.state,
      visited = way.visited.has(i) || here;
    const allowed = way.allowed.get(i) ?? drawn.allowed?.[i];
    surface.region({ x: left - 4, y: top - 6, width: positions.pill + 8, height: PILL + 24, state: i });
    context.beginPath();
    context.roundRect(left, top, positions.pill, PILL, PILL / 2);
    context.fillStyle = colours.bg;
    context.fill();
    context.fillStyle = here ? colours.sampled : visited ? colours.sampled : colours.soft;
    context.globalAlpha = here ? (way.position.open ? 0.45 : 1) : visited ? 0.22 : 1;
    context.fill();
    context.globalAlpha = 1;
    context.strokeStyle = i === lit ? colours.fg : visited ? colours.sampled : colours.muted;
    context.lineWidth = i === lit ? 2.5 : 1.2;
    context.stroke();
    if (graph.final.has(drawn.states[i])) {
      context.beginPath();
      context.lineWidth = 1;
      context.roundRect(left - 3, top - 3, positions.pill + 6, PILL + 6, PILL / 2 + 3);
      context.stroke();
    }
    context.textAlign = "center";
    context.fillStyle = here && !way.position.open ? colours.bg : colours.fg;
    context.fillText(String(drawn.states[i]), x, y + 0.5);
    if (allowed !== undefined) {
      context.fillStyle = colours.muted;
      context.fillText(grouped(allowed), x, y + PILL / 2 + 9);
    }
    context.textAlign = "start";
  }
}

function strokeLines(context, lines, colour, width) {
  context.strokeStyle = colour;
  context.lineWidth = width;
  context.lineJoin = "round";
  for (const points of lines) {
    context.beginPath();
    points.forEach(([x, y], i) => (i ? context.lineTo(x, y) : context.moveTo(x, y)));
    context.stroke();
  }
}

function drawHead(context, line, colour) {
  const [[x0, y0], [x, y]] = line.slice(-2),
    angle = Math.atan2(y - y0, x - x0);
  context.fillStyle = colour;
  context.beginPath();
  context.moveTo(x, y);
  for (const side of [-0.45, 0.45]) context.lineTo(x - 8 * Math.cos(angle + side), y - 8 * Math.sin(angle + side));
  context.fill();
}

// Draw an edge's label above the edge; on a bus, once per label and target, at the start.
function drawLabel(context, colours, positions, { arrow, lines }, taken, said) {
  const text = labelOf(arrow),
    key = `${arrow.target} ${text}`,
    loop = arrow.start === arrow.target;
  const beyond = arrow.track < 0 && !positions.shown(arrow.target) && lines[0].at(-1)[0] < positions.width;
  if (
    !positions.shown(arrow.start) ||
    beyond ||
    (arrow.track >= 0 && said.has(key)) ||
    (positions.isCrowded(arrow) && !taken)
  )
    return;
  if (arrow.track >= 0) said.add(key);
  const room = LETTER * text.length,
    [a, b] = longestPiece(lines[0]);
  const middle = (a[0] + b[0] - room) / 2,
    x = loop
      ? middle
      : arrow.track >= 0
        ? Math.min(a[0], b[0]) + 6
        : lines.length > 1 || !positions.shown(arrow.target)
          ? a[0] + 8
          : middle - 4;
  const y = b[1] - (loop ? 7 : arrow.track >= 0 ? 0 : arrow.chosen < 1 ? 11 : 8);
  const left = Math.min(x, positions.width - room);
  if (arrow.track >= 0) fillTinted(context, colours.bg, 1, left - 2, y - 6, room + 4, 12);
  context.fillStyle = taken ? colours.fg : colours.muted;
  context.fillText(text, left, y);
}

// The longest segment of a line in horizontal direction.
function longestPiece(line) {
  const pieces = line.slice(1).map((point, i) => [line[i], point]),
    across = ([a, b]) => Math.abs(b[0] - a[0]);
  return pieces.reduce((best, piece) => (across(piece) > across(best) ? piece : best));
}

// Draw headings above each band: parts of the pattern or schema.
function drawParts(context, colours, positions) {
  for (const band of positions.bands) {
    const parts = new Map();
    for (const { start, part, track } of positions.arrows)
      if (
        track < 0 &&
        part &&
        positions.shown(start) &&
        positions.at(start).band === band &&
        !parts.has(positions.at(start).x)
      )
        parts.set(positions.at(start).x, part);
    let last = "",
      end = -Infinity;
    for (const [x, part] of [...parts].sort(([a], [b]) => a - b)) {
      if (part === last) continue;
      const left = Math.max(x - positions.pill / 2, end + 14),
        room = Math.floor((positions.width - left - 5) / LETTER) - 1;
      if (room < 3) continue;
      const text = inLine(part, Math.min(32, room));
      context.fillStyle = colours.line;
      context.fillRect(left, band.y + 2, 1, 12);
      context.fillStyle = colours.muted;
      context.fillText(text, left + 5, band.y + 8);
      [last, end] = [part, left + 5 + context.measureText(text).width];
    }
  }
}

// Map of all states of a large automaton, with the path and the visible part.
function drawMinimap(surface, colours, drawn, shown, way, width) {
  const graph = graphOf(drawn),
    height = Math.max(16, Math.min(56, 6 * graph.height)) + 8;
  const context = surface.begin(width, height),
    across = (width - 12) / graph.width,
    down = (height - 8) / graph.height;
  const left = (column) => 6 + across * column,
    top = (row) => 4 + down * row;
  const dot = Math.max(1, Math.min(4, across - 0.5)),
    tall = Math.max(1, Math.min(4, down - 0.5));
  context.fillStyle = colours.muted;
  context.globalAlpha = 0.55;
  drawn.states.forEach((_, i) => context.fillRect(left(drawn.columns[i]), top(drawn.rows[i]), dot, tall));
  context.globalAlpha = 1;
  context.fillStyle = colours.sampled;
  for (const i of way.visited.keys())
    context.fillRect(left(drawn.columns[i]), top(drawn.rows[i]) - 1, Math.max(2, dot), tall + 2);
  context.strokeStyle = colours.fg;
  context.lineWidth = 1;
  const {
    columns: [from, to],
    rows: [first, last],
  } = shown;
  context.strokeRect(
    left(from) - 2.5,
    top(first) - 2.5,
    across * (to - from + 1) + 4,
    down * (Math.min(last, graph.height - 1) - first + 1) + 4,
  );
  return (x, y) => {
    const far = (i) => Math.hypot(left(drawn.columns[i]) - x, top(drawn.rows[i]) - y);
    return drawn.states.reduce((best, _, i) => (far(i) < far(best) ? i : best), 0);
  };
}
