// Where the tokens of tree nodes have copies, and evicted nodes with copies. Twin of sgnb/viz/state/residency.py.

const WHERE = { host: "in host memory", disk: "on disk" };
const MAX_OUTLINES = 400; // maximum number of evicted nodes in a view

// The number of copied tokens of a node by store. `state`: result of `withCopies`.
const NO_COPIES = {};
const copiedOf = (state, node) => node.copied ?? state.copied?.get(node.id) ?? NO_COPIES;

// The copies of a node in words, first of the whole node, or "" without copies.
function wordsOfCopies(state, node) {
  const copied = copiedOf(state, node),
    names = Object.keys(WHERE).filter((name) => copied[name]),
    isWhole = (name) => copied[name] === node.tokens.length;
  const text = [
    ...names.filter(isWhole).map((name) => WHERE[name]),
    ...names.filter((name) => !isWhole(name)).map((name) => `${grouped(copied[name])} ${WHERE[name]}`),
  ].join(" and ");
  if (node.outline) return text ? `evicted, ${text}` : "evicted";
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

const shownCopies = new WeakMap(); // by state: the last copies and outlines, and their version

// A state for display, with `copied`: copied tokens by node, and `outlines`: evicted nodes with copies by parent, which are also in `nodes`. Returns the same state if no block was ever copied.
function withCopies(state) {
  if (!state.copies.blocks.size) return state;
  let known = shownCopies.get(state);
  if (known?.version !== state.shape) {
    const { copied, covered } = markCopies(state),
      outlines = outlinesOf(state, covered);
    const nodes = outlines.length ? new Map([...state.nodes, ...outlines.map((node) => [node.id, node])]) : state.nodes;
    const byParent = Map.groupBy(outlines, ({ parent }) => parent);
    known = { version: state.shape, nodes, copied, outlines: byParent };
    shownCopies.set(state, known);
  }
  const { nodes, copied, outlines } = known;
  return { ...state, nodes, copied, outlines };
}

// The copied tokens of each node, and the blocks in the tree.
function markCopies({ nodes, copies }) {
  const covered = new Set(),
    copied = new Map(),
    below = (node) => [...node.children.values()].map((id) => nodes.get(id));
  const stack = below(nodes.get(ROOT))
    .filter(({ namespace }) => !namespace)
    .map((node) => ({ node, block: START, rest: [] }));
  while (stack.length) {
    const { node, block: above, rest } = stack.pop(),
      tokens = rest.length ? [...rest, ...node.tokens] : node.tokens;
    let block = above,
      at = 0;
    for (let next; at < tokens.length && (next = findBlock(copies, block, tokens, at)) !== undefined;) {
      block = next;
      covered.add(block);
      const { length } = copies.blocks.get(block).tokens;
      at += length;
      for (const name of storesOf(copies.blocks.get(block))) {
        if (!copied.has(node.id)) copied.set(node.id, {});
        const own = copied.get(node.id);
        own[name] = (own[name] ?? 0) + Math.min(length, at - rest.length);
      }
    }
    if (tokens.length - at < copies.length)
      for (const child of below(node)) stack.push({ node: child, block, rest: tokens.slice(at) });
  }
  return { copied, covered };
}

// The blocks outside of the tree that have a copy at the end or below, as nodes; parents come first.
function outlinesOf({ nodes, copies }, covered) {
  const below = new Map(),
    outlines = [];
  for (const number of [...copies.blocks.keys()].filter((one) => !covered.has(one)).sort((a, b) => b - a)) {
    const block = copies.blocks.get(number);
    if (!storesOf(block).length && !below.has(number)) continue;
    if (!below.has(block.parent)) below.set(block.parent, []);
    below.get(block.parent).push(number); // descending
  }
  const stack = [...below]
    .filter(([parent]) => parent === START || covered.has(parent))
    .flatMap(([, numbers]) => numbers)
    .sort((a, b) => b - a)
    .slice(-MAX_OUTLINES)
    .map((number) => attachOutline(nodes, copies, number));
  while (stack.length && outlines.length < MAX_OUTLINES) {
    const { first, above, tokens } = stack.pop(),
      stores = storesOf(copies.blocks.get(first));
    let last = first;
    for (let after; (after = below.get(last) ?? []).length === 1;) {
      if (storesOf(copies.blocks.get(after[0])).join() !== stores.join()) break;
      last = after[0];
      for (const token of copies.blocks.get(last).tokens) tokens.push(token);
    }
    const node = newNode(-first, above, tokens, "", 1e9 + first, 0);
    node.outline = true;
    node.copied = Object.fromEntries(stores.map((name) => [name, tokens.length]));
    outlines.push(node);
    for (const number of below.get(last) ?? [])
      stack.push({ first: number, above: node.id, tokens: [...copies.blocks.get(number).tokens] });
  }
  return outlines;
}

// The outline of the first block outside of the tree, below the last node whose tokens all precede the end of the block.
function attachOutline(nodes, copies, number) {
  const path = pathOfBlock(copies, number);
  let node = nodes.get(ROOT),
    end = 0;
  while (end < path.length) {
    const child = nodes.get(node.children.get(` ${path[end]}`));
    if (!child || !hasAt(path, end, child.tokens)) break;
    node = child;
    end += child.tokens.length;
  }
  return { first: number, above: node.id, tokens: path.slice(end) };
}
