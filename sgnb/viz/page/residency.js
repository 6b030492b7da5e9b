// Where the tokens of tree nodes have copies, and evicted nodes with copies. Twin of sgnb/viz/state/residency.py.

const WHERE = { host: "in host memory", disk: "on disk" };
const MAX_OUTLINES = 400; // maximum number of evicted nodes in a view

// The copies of a node in words, first of the whole node, or "" without copies.
function wordsOfCopies({ tokens, copied, outline }) {
  const names = Object.keys(WHERE).filter((name) => copied?.[name]),
    isWhole = (name) => copied[name] === tokens.length;
  const text = [
    ...names.filter(isWhole).map((name) => WHERE[name]),
    ...names.filter((name) => !isWhole(name)).map((name) => `${grouped(copied[name])} ${WHERE[name]}`),
  ].join(" and ");
  if (outline) return text ? `evicted, ${text}` : "evicted";
  return text && `also ${text}`;
}

// The number of copied tokens in words, per store with copies; each part follows the separator.
function wordsOfTotals({ copies }, separator) {
  const counts = {};
  for (const block of copies.blocks.values())
    for (const name of storesOf(block)) counts[name] = (counts[name] ?? 0) + block.tokens.length;
  return Object.keys(WHERE)
    .filter((name) => counts[name])
    .map((name) => `${separator}${plural(counts[name], "token")} ${WHERE[name]}`)
    .join("");
}

const shownCopies = new WeakMap(); // by state: the last result

// A state for display: nodes have `copied`, and evicted nodes with copies are added as outlines. Returns the same state if no block was ever copied.
function withCopies(state) {
  if (!state.copies.blocks.size) return state;
  const known = shownCopies.get(state);
  if (known?.changes === state.changes) return known;
  const nodes = new Map(
    [...state.nodes].map(([id, node]) => [id, { ...node, children: new Map(node.children), copied: {} }]),
  );
  const shown = { ...state, nodes };
  addOutlines(shown, markCopies(shown));
  shownCopies.set(state, shown);
  return shown;
}

// Set `copied` of each node. Returns the blocks in the tree.
function markCopies({ nodes, copies }) {
  const covered = new Set(),
    below = (node) => [...node.children.values()].map((id) => nodes.get(id));
  const stack = below(nodes.get(ROOT))
    .filter(({ namespace }) => !namespace)
    .map((node) => ({ node, block: START, rest: [] }));
  while (stack.length) {
    let { node, block, rest } = stack.pop();
    const tokens = [...rest, ...node.tokens];
    let at = 0;
    for (let found; (found = findBlock(copies, block, tokens, at)) !== undefined;) {
      block = found;
      covered.add(block);
      const { length } = copies.blocks.get(block).tokens;
      at += length;
      for (const name of storesOf(copies.blocks.get(block)))
        node.copied[name] = (node.copied[name] ?? 0) + Math.min(length, at - rest.length);
    }
    if (tokens.length - at < copies.length)
      for (const child of below(node)) stack.push({ node: child, block, rest: tokens.slice(at) });
  }
  return covered;
}

// Add the blocks outside of the tree that have a copy at the end or below.
function addOutlines({ nodes, copies }, covered) {
  const below = new Map();
  for (const number of [...copies.blocks.keys()].sort((a, b) => b - a)) {
    const block = copies.blocks.get(number);
    if (!covered.has(number) && (storesOf(block).length || below.has(number)))
      below.set(block.parent, [number, ...(below.get(block.parent) ?? [])]);
  }
  const stack = [...below]
    .filter(([parent]) => parent === START || covered.has(parent))
    .flatMap(([, numbers]) => numbers.map((number) => attachOutline(nodes, copies, number)))
    .sort((a, b) => b.first - a.first);
  for (let i = 0; i < MAX_OUTLINES && stack.length; i += 1) {
    const { first, above, tokens } = stack.pop(),
      stores = storesOf(copies.blocks.get(first));
    let last = first;
    for (let after; (after = below.get(last) ?? []).length === 1;) {
      if (storesOf(copies.blocks.get(after[0])).join() !== stores.join()) break;
      last = after[0];
      tokens.push(...copies.blocks.get(last).tokens);
    }
    const node = newNode(-first, above, tokens, "", 1e9 + first, 0);
    node.outline = true;
    node.copied = Object.fromEntries(stores.map((name) => [name, tokens.length]));
    nodes.set(node.id, node);
    nodes.get(above).children.set(`outline ${first}`, node.id);
    for (const number of (below.get(last) ?? []).reverse())
      stack.push({ first: number, above: node.id, tokens: [...copies.blocks.get(number).tokens] });
  }
}

// The outline of the first block outside of the tree, below the last node whose tokens all precede the end of the block.
function attachOutline(nodes, copies, number) {
  const path = pathOfBlock(copies, number);
  let node = nodes.get(ROOT),
    end = 0;
  while (end < path.length) {
    const child = nodes.get(node.children.get(` ${path[end]}`));
    if (!child || !child.tokens.every((token, i) => token === path[end + i])) break;
    node = child;
    end += child.tokens.length;
  }
  return { first: number, above: node.id, tokens: path.slice(end) };
}
