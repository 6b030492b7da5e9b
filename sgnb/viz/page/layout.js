// Which nodes of a radix tree are drawn, and where; which of them a text, a token or a run belongs to. Knows no canvas.

const NARROWEST = 6;
const WIDEST = 24; // pixels of a token
const SHOWN_LEAVES = 24; // of a larger tree those of this run and the latest used,
const OTHER_LEAVES = 6; // and beside this run's so many
const SHORTEST = 26; // pixels of a node
const SHORT = 12; // tokens that a node may have without being drawn broken
const STUB = 76; // pixels of what stands for nodes that are not drawn
const NARROW_COLUMN = 104;
const WIDE_COLUMN = 240; // pixels from a node to its children, where links are drawn

// `mine`: whether a node is this run's. `only`: a set of nodes, or null for all. `whole`: all of these. `opened`: nodes whose children are all shown; `folded`: whose are not.
// `links`: a column for each depth, instead of lengths in tokens.
function layoutTree(state, { mine, only, whole, opened, folded, links, width }) {
  const { nodes } = state;
  const inside = (id) => id !== ROOT && (!only || only.has(id));
  const childrenOf = (node) => [...node.children.values()].filter(inside).map((id) => nodes.get(id));
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

  // Lengths are linear up to `cap`; a longer node is drawn broken.
  let cap = drawn.reduce((longest, { node }) => Math.max(longest, node.tokens.length), 1),
    longest;
  for (; ; cap = Math.max(SHORT, Math.floor(cap / 2))) {
    longest = 1;
    for (const entry of drawn) {
      entry.end = (entry.up?.end ?? 0) + Math.min(entry.node.tokens.length, cap);
      longest = Math.max(longest, entry.end);
    }
    if (longest <= width / NARROWEST || cap <= SHORT) break;
  }
  const scale = Math.max(NARROWEST, Math.min(WIDEST, (width - 6) / longest));

  const column = Math.max(NARROW_COLUMN, Math.min(WIDE_COLUMN, Math.floor((width - 6) / deepest)));
  const items = [];
  let rows = 0,
    right = 1;
  function place({ node, children, hidden }, x, up) {
    const first = rows;
    let item = null,
      end = x;
    if (node.id !== ROOT) {
      end += links ? column : Math.max(SHORTEST, Math.min(node.tokens.length, cap) * scale);
      item = { node, x, width: end - x, row: first, rows: 1, after: 0, broken: !links && node.tokens.length > cap, up };
      items.push(item);
    }
    for (const child of children) place(child, end, item);
    if (hidden) {
      items.push({ node: null, of: node.id, hidden, x: end, width: STUB, row: rows, rows: 1, up: item });
      rows += 1;
    }
    if (rows === first) rows += 1;
    if (item) Object.assign(item, { rows: rows - first, after: items.length });
    right = Math.max(right, hidden ? end + STUB : end);
  }
  place(drawn[0], 0, null);
  return { items, rows, right, scale, column, hidden: all.length - drawn.length + 1 };
}

// The nodes in which the text ends, on the way from the root.
function findText(state, wanted) {
  const found = new Set(),
    open = [[state.nodes.get(ROOT), ""]];
  while (open.length) {
    const [node, before] = open.pop();
    const text = before + textOfTokens(state.vocabulary, node.tokens).toLowerCase();
    if (text.includes(wanted)) found.add(node.id);
    const tail = wanted.length > 1 ? text.slice(1 - wanted.length) : "";
    for (const child of node.children.values()) open.push([state.nodes.get(child), tail]);
  }
  return found;
}

// The nodes that hold a request's tokens, from the root on, each with the position after its last.
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

// The positions of a request's tokens that a node holds, [from, to); [0, 0] for none.
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

// The nodes of a selection: the one named, or that which holds a token.
function nodesOf(state, selection) {
  if (!state) return null;
  if (selection.node !== undefined) return new Set([selection.node]);
  const request = state.requests.get(selection.request);
  if (!request) return null;
  for (const [node, end] of nodesOfRequest(state, request)) if (end > selection.position) return new Set([node.id]);
  return null;
}

// How many pins hold each node: those of it and of nodes below.
function pinsAbove(state) {
  const held = new Map();
  for (const [id, owners] of state.pins)
    for (let node = state.nodes.get(id); node && node.id !== ROOT; node = state.nodes.get(node.parent))
      held.set(node.id, (held.get(node.id) ?? 0) + owners.length);
  return held;
}
