// Layout of a radix tree: shown nodes and positions, and the nodes of a text, token or run. Knows no canvas.

const NARROWEST = 6;
const WIDEST = 24; // pixels per token
const WIDEST_STEP = 48; // pixels per doubling of the tokens, where lengths are logarithmic
const SHOWN_LEAVES = 24; // shown leaves of a larger tree: leaves of this run and the most recently used leaves
const OTHER_LEAVES = 6; // additional leaves of other runs
const SHORTEST = 26; // minimum pixels of a node
const STUB = 76; // pixels of the placeholder for hidden nodes
const NARROW_COLUMN = 104;
const WIDE_COLUMN = 240; // pixels from a node to the children in the link view

// `mine`: true for nodes of this run. `only`: set of nodes, or null for all. `whole`: show all nodes. `opened`: nodes with all children shown; `folded`: nodes with no children shown.
// `links`: a column per depth, instead of lengths in tokens.
function layoutTree(state, { mine, only, whole, opened, folded, links, width }) {
  const { nodes } = state;
  const inside = (id) => id !== ROOT && (!only || only.has(id));
  const outlinesBelow = (node) => (only ? [] : (state.outlines?.get(node.id) ?? []));
  const childrenOf = (node) => [
    ...[...node.children.values()].filter(inside).map((id) => nodes.get(id)),
    ...outlinesBelow(node),
  ];
  const all = [...(only ?? nodes.keys())].filter(inside).map((id) => nodes.get(id));
  const leaves = all.filter((node) => (only ? !childrenOf(node).length : !node.children.size));
  const rank = (node) => (mine(node) ? 1e12 : 0) + node.used;
  const own = leaves.filter(mine).length;
  const most = own ? Math.min(SHOWN_LEAVES, own + OTHER_LEAVES) : SHOWN_LEAVES;
  const chosen = whole ? leaves : leaves.sort((a, b) => rank(b) - rank(a)).slice(0, most);
  const shown = new Set();
  for (const leaf of chosen)
    for (let node = leaf; node && node.id !== ROOT && !shown.has(node.id); node = nodes.get(node.parent))
      shown.add(node.id);
  for (const id of opened) if (nodes.has(id)) for (const child of childrenOf(nodes.get(id))) shown.add(child.id);

  // Parents before children.
  const drawn = [{ node: nodes.get(ROOT), up: null, depth: 0 }];
  let deepest = 1;
  for (const entry of drawn) {
    deepest = Math.max(deepest, entry.depth);
    const children = childrenOf(entry.node),
      open = folded.has(entry.node.id) ? [] : children.filter((child) => shown.has(child.id));
    open.sort((a, b) => mine(b) - mine(a) || a.order - b.order);
    entry.children = open.map((node) => ({ node, up: entry, depth: entry.depth + 1 }));
    entry.hidden = folded.has(entry.node.id) ? countNodes(children) : children.length - open.length;
    for (const child of entry.children) drawn.push(child);
  }
  function countNodes(open) {
    let count = 0;
    for (; open.length; count += 1) for (const child of childrenOf(open.pop())) open.push(child);
    return count;
  }

  // Lengths are linear in tokens if all nodes fit, and otherwise grow with the logarithm: a longer node is always wider.
  const longestPath = (lengthOf) =>
    drawn.reduce((longest, entry) => {
      entry.end = (entry.up?.end ?? 0) + lengthOf(entry.node.tokens.length);
      return Math.max(longest, entry.end);
    }, 1);
  const linear = longestPath((count) => count),
    isLinear = linear <= width / NARROWEST;
  const lengthOf = isLinear ? (count) => count : (count) => Math.log2(1 + count);
  const longest = isLinear ? linear : longestPath(lengthOf);
  const scale = Math.max(NARROWEST, Math.min(isLinear ? WIDEST : WIDEST_STEP, (width - 6) / longest));

  const column = Math.max(NARROW_COLUMN, Math.min(WIDE_COLUMN, Math.floor((width - 6) / deepest)));
  const items = [];
  let rows = 0,
    right = 1;
  function arrange({ node, children, hidden }, x, up) {
    const first = rows;
    let item = null,
      end = x;
    if (node.id !== ROOT) {
      end += links ? column : Math.max(SHORTEST, lengthOf(node.tokens.length) * scale);
      item = { node, x, width: end - x, row: first, rows: 1, after: 0, up };
      items.push(item);
    }
    for (const child of children) arrange(child, end, item);
    if (hidden) {
      items.push({ node: null, of: node.id, hidden, x: end, width: STUB, row: rows, rows: 1, up: item });
      rows += 1;
    }
    if (rows === first) rows += 1;
    if (item) Object.assign(item, { rows: rows - first, after: items.length });
    right = Math.max(right, hidden ? end + STUB : end);
  }
  arrange(drawn[0], 0, null);
  return { items, rows, right, scale, isLinear, column, hidden: all.length - drawn.length + 1 };
}

// The nodes with an end of a match of the text, on paths from the root.
function findText(state, wanted) {
  const found = new Set(),
    open = [[state.nodes.get(ROOT), ""]];
  while (open.length) {
    const [node, before] = open.pop();
    const text = before + textOfTokens(state.tokenTable, node.tokens).toLowerCase();
    if (text.includes(wanted)) found.add(node.id);
    const tail = wanted.length > 1 ? text.slice(1 - wanted.length) : "";
    for (const child of node.children.values()) open.push([state.nodes.get(child), tail]);
  }
  return found;
}

// The nodes with a request's tokens from the root on, each with the position after the last token.
function* nodesOfRequest(state, request) {
  const goesOn = (node, at) => node.tokens.every((token, i) => (tokenIdAt(request, at + i) ?? token) === token);
  let node = state.nodes.get(ROOT),
    at = 0;
  while (tokenIdAt(request, at) !== undefined) {
    const first = tokenIdAt(request, at);
    node = state.nodes.get(node.children.get(`${node.id === ROOT ? (request.namespace ?? "") : ""} ${first}`));
    if (!node || !goesOn(node, at)) return;
    at += node.tokens.length;
    yield [node, at];
  }
}

// The positions of a request's tokens in a node, [from, to); [0, 0] for none.
function positionsIn(state, request, id) {
  for (const [node, end] of nodesOfRequest(state, request)) if (node.id === id) return [end - node.tokens.length, end];
  return [0, 0];
}

function nodesOfRun(state, run) {
  const found = new Set();
  for (const request of state.requests.values())
    if (request.run === run) for (const [node] of nodesOfRequest(state, request)) found.add(node.id);
  return found;
}

// The nodes of a selection: the selected node, or the node of a selected token.
function nodesOf(state, selection) {
  if (!state) return null;
  if (selection.node !== undefined) return new Set([selection.node]);
  const request = state.requests.get(selection.request);
  if (!request) return null;
  for (const [node, end] of nodesOfRequest(state, request)) if (end > selection.position) return new Set([node.id]);
  return null;
}

// The number of pins per node, including pins of descendants.
function pinsAbove(state) {
  const held = new Map();
  for (const [id, owners] of state.pins)
    for (let node = state.nodes.get(id); node && node.id !== ROOT; node = state.nodes.get(node.parent))
      held.set(node.id, (held.get(node.id) ?? 0) + owners.length);
  return held;
}
