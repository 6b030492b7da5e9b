// Path of a text through the states of an automaton.

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
