// Layout of an automaton from `AutomatonDrawn`. Columns and rows of states come from Python (sgnb/grammar/layout.py).

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
