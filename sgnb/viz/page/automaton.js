// An automaton from `AutomatonDrawn`: the path of a text through the states, and the drawing. Columns and rows of states come from Python (sgnb/grammar/layout.py).

const PILL = 18;
const ROW = 58;
const TRACK = 14;
const HEADER = 28;
const LOOP = 22; // pixels: heights of a state, a row, a bus, a band's header, and loops
const LABEL = 19;
const FORCED_LABEL = 23; // maximum characters of an edge label
const SHOWN_WHOLE = 60; // maximum states for a complete drawing
const GAP = 44;
const CROWD = 12;
const CROWDED_GAP = 120; // pixels between columns; minimum number of direct edges after a column to omit labels; gap for edges without labels
const AROUND = 2; // rows above and below the current state of a larger automaton
const TALL = 400; // maximum height of the columns in pixels

const graphs = new WeakMap();

// Derived data of an automaton for walks and drawings, cached.
function graphOf(drawn) {
  if (!graphs.has(drawn)) graphs.set(drawn, newGraph(drawn));
  return graphs.get(drawn);
}

function newGraph(drawn) {
  const { states, columns, starts, targets, texts, ways } = drawn;
  const index = new Map(states.map((state, i) => [state, i]));
  const leads = states.map(() => []),
    arrows = [],
    known = new Map();
  starts.forEach((start, edge) => {
    const target = targets[edge],
      key = start * states.length + target;
    leads[start].push(edge);
    if (!known.has(key))
      known.set(
        key,
        arrows.push({
          start,
          target,
          edges: [],
          track: drawn.tracks[edge],
          chosen: 0,
          text: "",
          part: drawn.part_names[drawn.parts[edge]],
        }) - 1,
      );
    arrows[known.get(key)].edges.push(edge);
  });
  for (const arrow of arrows) {
    arrow.text = [...new Set(arrow.edges.map((edge) => texts[ways[edge]]).filter(Boolean))].join(" | ");
    arrow.chosen = Math.max(...arrow.edges.map((edge) => chosenShare(drawn.paths[ways[edge]])));
  }
  const arrowOf = starts.map((start, edge) => known.get(start * states.length + targets[edge]));
  return {
    index,
    leads,
    arrows,
    arrowOf,
    begun: [],
    bytes: drawn.paths.map((paths) => paths.map(bytesOfPath)),
    final: new Set(drawn.final),
    width: 1 + Math.max(...columns),
    height: 1 + Math.max(...drawn.rows),
  };
}

// The fraction of an edge before the forced ending.
const chosenShare = (paths) =>
  Math.max(
    ...paths.map((path) => {
      const end = path.at(-1).length,
        all = path.reduce((sum, part, i) => sum + (i % 2 ? part.length : part ? 1 : 0), 0);
      return (all - end) / all;
    }),
  );

// The permitted ranges for each byte of a path: [low, high, low, high, ...].
function bytesOfPath(path) {
  const codes = (text) => [...text].map((unit) => unit.charCodeAt(0));
  return path.flatMap((part, i) => (i % 2 ? codes(part).map((code) => [code, code]) : part ? [codes(part)] : []));
}

const isIn = (ranges, byte) => ranges.some((low, i) => i % 2 === 0 && low <= byte && byte <= ranges[i + 1]);

// Advance by one byte. `position` is {state, open}; `open` lists possible edges as [edge, bytes, number of bytes read]. Returns null if no edge matches.
function advance(drawn, graph, { state, open }, byte, crossed) {
  const begun =
    open ??
    (graph.begun[state] ??= graph.leads[state].flatMap((edge) =>
      graph.bytes[drawn.ways[edge]].map((bytes) => [edge, bytes, 0]),
    ));
  const left = begun
    .filter(([, bytes, read]) => isIn(bytes[read], byte))
    .map(([edge, bytes, read]) => [edge, bytes, read + 1]);
  const done = left.find(([, bytes, read]) => read === bytes.length);
  if (!done) return left.length ? { state, open: left } : null;
  crossed.push(done[0]);
  return { state: drawn.targets[done[0]], open: null };
}

// The path of a request's output: per token the completed edges and the position after the token; null for a token without a grammar.
function walkOf(state, drawn, request) {
  const graph = graphOf(drawn);
  let position = { state: 0, open: null };
  return request.output.map((token, i) => {
    const { jump } = token,
      known = jump ?? token.mask;
    if (known && known.before < 0) return null;
    const begins = known && !(jump && (jump.dropped || request.output[i - 1]?.jump === jump));
    // If bytes and states disagree, for example after lost records, trust the recorded state.
    if (begins && !position.open && drawn.states[position.state] !== known.before && graph.index.has(known.before))
      position = { state: graph.index.get(known.before), open: null };
    const from = position.state,
      edges = [];
    let next = position;
    for (const byte of bytesOf(state.tokenTable, [token.token])) next &&= advance(drawn, graph, next, byte, edges);
    position = next ?? { state: graph.index.get(known?.after) ?? from, open: null };
    return { from, edges: next ? edges : [], ...position };
  });
}

// The point on an edge, if only one edge is possible, with the number of bytes read.
function onEdge({ open }) {
  const edges = new Set(open?.map(([edge]) => edge));
  return edges.size === 1 ? { edge: open[0][0], read: open[0][2], length: open[0][1].length } : null;
}

function labelOf({ text, chosen }) {
  const most = chosen < 0.5 ? FORCED_LABEL : LABEL;
  return inLine(text, text.length > most ? most - 1 : most);
}

// Layout in pixels: adjacent columns in bands from top to bottom. `columns` and `rows` are the first and last shown.
function placeAutomaton(drawn, { width, columns: [from, to], rows: [top, bottom] }) {
  const graph = graphOf(drawn);
  const shown = (i) =>
    drawn.columns[i] >= from && drawn.columns[i] <= to && drawn.rows[i] >= top && drawn.rows[i] <= bottom;
  const arrows = graph.arrows.filter(({ start, target }) => shown(start) || shown(target));
  const pill = 14 + LETTER * Math.max(...drawn.states.map((state) => String(state).length));
  const gaps = new Map(),
    many = new Map(),
    before = new Map();
  // The label between two columns lies in the lower row of the arrow's ends. A row has space for one label.
  const lowerRow = ({ start, target }) => `${drawn.columns[start]} ${Math.max(drawn.rows[start], drawn.rows[target])}`;
  for (const arrow of arrows) {
    const { start, target, track } = arrow;
    if (track < 0 && start !== target)
      for (const position of [drawn.columns[start], lowerRow(arrow)]) many.set(position, (many.get(position) ?? 0) + 1);
  }
  const isCrowded = (arrow) => {
    const { start, target, track } = arrow;
    return (
      track < 0 &&
      start !== target &&
      (many.get(drawn.columns[start]) > CROWD ||
        (drawn.rows[start] !== drawn.rows[target] && many.get(lowerRow(arrow)) > 1))
    );
  };
  const widen = (column, room) => gaps.set(column, Math.max(gaps.get(column) ?? GAP, room));
  for (const arrow of arrows) {
    const room = LETTER * labelOf(arrow).length,
      column = drawn.columns[arrow.start];
    if (arrow.start === arrow.target) {
      for (const side of [column - 1, column]) widen(side, room / 2 + 12);
      before.set(column, Math.max(before.get(column) ?? 0, (room - pill) / 2));
    } else if (arrow.track < 0) {
      widen(column, isCrowded(arrow) ? CROWDED_GAP : room + 26);
    }
  }
  const gap = (column) => gaps.get(column) ?? GAP;

  const bands = [],
    x = new Map(),
    bandOf = new Map();
  for (let column = from, end = 0; column <= to; column += 1) {
    end += pill + gap(column);
    if (!bands.length || end > width) {
      bands.push({ from: column, to: column });
      end = Math.max(24, before.get(column) ?? 0) + pill + gap(column);
    }
    bands.at(-1).to = column;
    x.set(column, end - gap(column) - pill / 2);
    bandOf.set(column, bands.at(-1));
  }
  const members = new Map(bands.map((band) => [band, []]));
  drawn.states.forEach((_, i) => shown(i) && members.get(bandOf.get(drawn.columns[i])).push(i));
  let y = 0;
  for (const band of bands) {
    const rows = members.get(band).map((i) => drawn.rows[i]);
    const crosses = ({ start, target, track }) =>
      track >= 0 &&
      Math.min(drawn.columns[start], drawn.columns[target]) <= band.to &&
      Math.max(drawn.columns[start], drawn.columns[target]) >= band.from;
    const tracks = new Set(arrows.filter(crosses).map(({ track }) => track));
    band.first = Math.min(...rows);
    const looped = arrows.some(({ start, target }) => start === target && bandOf.get(drawn.columns[start]) === band);
    band.top = y + HEADER + (looped ? LOOP : 0);
    band.rows = 1 + Math.max(...rows) - band.first;
    const below = band.top + ROW * band.rows - 8;
    band.tracks = new Map([...tracks].sort((a, b) => a - b).map((track, i) => [track, below + TRACK * (i + 0.5)]));
    band.y = y;
    y = below + TRACK * tracks.size + 8;
  }
  const at = (i) => {
    const band = bandOf.get(drawn.columns[i]);
    return { x: x.get(drawn.columns[i]), y: band.top + ROW * (drawn.rows[i] - band.first) + PILL / 2, band };
  };
  return { arrows, bands, pill, at, shown, isCrowded, width, height: y };
}

// The lines of an arrow from start to target, as lists of [x, y]. Arrows to hidden states end at the border.
function linesOf(drawn, positions, arrow) {
  const { start, target, track } = arrow;
  const { bands, pill, width } = positions;
  const a = positions.shown(start) ? positions.at(start) : null,
    b = positions.shown(target) ? positions.at(target) : null;
  if (start === target)
    return [
      [
        [a.x - 7, a.y - PILL / 2],
        [a.x - 13, a.y - 23],
        [a.x + 13, a.y - 23],
        [a.x + 7, a.y - PILL / 2],
      ],
    ];
  const right = a && a.x + pill / 2,
    left = b && b.x - pill / 2;
  if (track < 0) {
    if (!a)
      return [
        [
          [left - 22, b.y],
          [left, b.y],
        ],
      ];
    if (!b && drawn.columns[target] <= bands.at(-1).to)
      return [
        [
          [right, a.y],
          [right + 22, a.y],
        ],
      ];
    // The long segment lies in the lower of two rows, to separate labels of edges with a common state.
    const elbow =
      !b || positions.isCrowded(arrow)
        ? []
        : a.y < b.y
          ? [
              [right + 6, a.y],
              [right + 18, b.y],
            ]
          : a.y > b.y
            ? [
                [left - 24, a.y],
                [left - 12, b.y],
              ]
            : [];
    if (a.band === b?.band) return [[[right, a.y], ...elbow, [left, b.y]]];
    const level =
      a.band.top + ROW * Math.min(a.band.rows - 1, Math.max(0, drawn.rows[target] - a.band.first)) + PILL / 2;
    return [
      [
        [right, a.y],
        ...(level === a.y
          ? []
          : [
              [right + 6, a.y],
              [right + 18, level],
            ]),
        [width, level],
      ],
      ...(b
        ? [
            [
              [0, b.y],
              [left, b.y],
            ],
          ]
        : []),
    ];
  }
  const forward = drawn.columns[target] > drawn.columns[start];
  const begin = a?.band ?? (forward ? bands[0] : bands.at(-1)),
    end = b?.band ?? (forward ? bands.at(-1) : bands[0]);
  // Offset the vertical lines of stacked states, to keep the lines apart.
  const aside = (i, { band }) => 3 * ((drawn.rows[i] - band.first) % 4);
  const turn = forward ? 4 : -4,
    down = a && right + 9 + aside(start, a),
    up = b && left - 12 - aside(target, b),
    lines = [];
  for (let i = bands.indexOf(begin); ; i += forward ? 1 : -1) {
    const y = bands[i].tracks.get(track);
    const here =
      a && bands[i] === begin
        ? [
            [right, a.y],
            [down - 4, a.y],
            [down, a.y + 4],
            [down, y - 4],
            [down + turn, y],
          ]
        : [[forward ? 0 : width, y]];
    const there =
      b && bands[i] === end
        ? [
            [up - turn, y],
            [up, y - 4],
            [up, b.y + 4],
            [up + 4, b.y],
            [left, b.y],
          ]
        : [[forward ? width : 0, y]];
    lines.push([...here, ...there]);
    if (bands[i] === end) return lines;
  }
}

const span = ([a, b]) => Math.hypot(b[0] - a[0], b[1] - a[1]);
const spanOf = (lines) =>
  lines
    .flatMap((line) => line.slice(1).map((point, i) => span([line[i], point])))
    .reduce((sum, length) => sum + length, 0);

// The part of the lines after a fraction of the length.
function restOf(lines, share) {
  let skip = share * spanOf(lines);
  const left = [];
  for (const line of lines) {
    const points = [];
    for (let i = 1; i < line.length; i += 1) {
      const [a, b] = [line[i - 1], line[i]],
        length = span([a, b]);
      if (skip < length) {
        if (!points.length)
          points.push([a[0] + ((b[0] - a[0]) * skip) / length, a[1] + ((b[1] - a[1]) * skip) / length]);
        points.push(b);
      }
      skip = Math.max(0, skip - length);
    }
    if (points.length) left.push(points);
  }
  return left;
}

// Summary of a walk up to token `last`: counts of arrows, token ends on arrows, allowed tokens per state, and the current position.
function wayUpTo(drawn, request, walk, last) {
  const graph = graphOf(drawn);
  const way = {
    taken: new Map(),
    allowed: new Map(),
    visited: new Map(),
    borders: new Map(),
    edges: [],
    position: { state: 0, open: null },
  };
  for (let i = 0; i <= last && i < walk.length; i += 1) {
    const step = walk[i];
    if (!step) continue;
    if (!way.visited.has(step.from)) way.visited.set(step.from, null);
    const { mask } = request.output[i];
    if (mask && graph.index.get(mask.before) === step.from) way.allowed.set(step.from, mask.allowed);
    for (const edge of step.edges) {
      const arrow = graph.arrowOf[edge];
      way.taken.set(arrow, (way.taken.get(arrow) ?? 0) + 1);
      way.visited.set(drawn.targets[edge], i);
    }
    const on = onEdge(step);
    if (on) {
      const arrow = graph.arrowOf[on.edge],
        pass = way.taken.get(arrow) ?? 0,
        known = way.borders.get(arrow);
      const shares = known?.pass === pass ? known.shares : [];
      way.borders.set(arrow, { pass, shares: [...shares, on.read / on.length] });
    }
    Object.assign(way, { edges: step.edges, position: { state: step.state, open: step.open } });
  }
  return way;
}

// The shown columns and rows: all of a small automaton, or the surroundings of a state.
function windowOf(drawn, graph, around, width) {
  if (drawn.states.length <= SHOWN_WHOLE) return { columns: [0, graph.width - 1], rows: [0, graph.height - 1] };
  const row = Math.max(AROUND, Math.min(graph.height - 1 - AROUND, drawn.rows[around])),
    rows = [Math.max(0, row - AROUND), row + AROUND];
  const isLow = ({ bands, height }) => bands.length === 1 || height <= TALL;
  const fits = (from, to) =>
    from >= 0 && to < graph.width && isLow(placeAutomaton(drawn, { width, columns: [from, to], rows }));
  let from = drawn.columns[around],
    to = from;
  if (fits(from - 1, to)) from -= 1;
  while (fits(from, to + 1)) to += 1;
  while (fits(from - 1, to)) from -= 1;
  return { columns: [from, to], rows };
}

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
      context.font = "10px system-ui, sans-serif";
      context.fillText(grouped(allowed), x, y + PILL / 2 + 9);
      context.font = FONT;
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
  context.font = "10.5px system-ui, sans-serif";
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
  context.font = FONT;
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
