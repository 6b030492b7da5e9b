// Radix tree: handlers of records, and the nodes of a prompt.

function* pathOf(state, id) {
  let node = state.nodes.get(id);
  if (!node) state.missing += 1;
  for (; node && node.id !== ROOT; node = state.nodes.get(node.parent)) yield node;
}

// Mark the nodes hit by a prompt; recomputed nodes do not count as hits. Returns the last node on the path and the next tokens of the children.
function markHits(state, prompt, cached, again, t, namespace = "") {
  let node = state.nodes.get(ROOT),
    at = 0;
  while (at < cached + again) {
    const found = state.nodes.get(node.children.get(`${namespace} ${prompt[at]}`));
    if (!found) break;
    if (at < cached) found.hits += 1;
    at += found.tokens.length;
    found.used = t;
    [node, namespace] = [found, ""];
  }
  const after = [...node.children.values()]
    .map((id) => state.nodes.get(id))
    .filter((child) => child.namespace === namespace);
  return { node: node.id, others: after.slice(0, 4).map(({ tokens }) => tokens[0]) };
}

const tokenIdAt = (request, i) =>
  i < request.prompt.length ? request.prompt[i] : request.output[i - request.prompt.length]?.token;

function markCheckpoint(state, id, kept) {
  const node = state.nodes.get(id);
  if (!node) {
    state.missing += 1;
    return;
  }
  state.checkpoints += kept - node.checkpoint;
  node.checkpoint = kept;
}

// Remove the subtree of a node with an unrecorded eviction.
function cutSubtree(state, id) {
  const top = state.nodes.get(id);
  if (!top || id === ROOT) return;
  state.nodes.get(top.parent).children.delete(keyOf(top));
  const subtree = [top];
  for (const node of subtree) {
    subtree.push(...[...node.children.values()].map((child) => state.nodes.get(child)));
    state.nodes.delete(node.id);
    state.pins.delete(node.id);
    state.cachedTokens -= node.tokens.length;
    state.checkpoints -= node.checkpoint;
  }
}

const OF_TREE = {
  NodeAdded(state, event, t) {
    cutSubtree(state, event.node);
    const parent = state.nodes.get(event.parent);
    if (!parent || event.node === ROOT) {
      state.missing += 1;
      return;
    }
    const node = newNode(event.node, event.parent, event.tokens, event.namespace, state.added + 1, t);
    cutSubtree(state, parent.children.get(keyOf(node)));
    state.added += 1;
    node.request = state.live.has(event.request) ? event.request : null;
    state.nodes.set(node.id, node);
    parent.children.set(keyOf(node), node.id);
    state.cachedTokens += node.tokens.length;
  },
  NodeSplit(state, event) {
    const node = state.nodes.get(event.node);
    if (!node || state.nodes.has(event.upper) || event.length < 1 || event.length >= node.tokens.length) {
      state.missing += 1;
      return;
    }
    const upper = {
      ...node,
      id: event.upper,
      tokens: node.tokens.slice(0, event.length),
      children: new Map(),
      checkpoint: false,
    };
    state.nodes.set(upper.id, upper);
    state.nodes.get(node.parent).children.set(keyOf(upper), upper.id);
    Object.assign(node, { parent: upper.id, tokens: node.tokens.slice(event.length), namespace: "" });
    upper.children.set(keyOf(node), node.id);
  },
  NodeEvicted(state, event) {
    const node = state.nodes.get(event.node);
    if (!node) {
      state.missing += 1;
      return;
    }
    cutSubtree(state, node.id);
    state.evicted += 1;
    state.ghosts = [...state.ghosts.slice(1 - KEPT_GHOSTS), { ...node, reason: event.reason }];
  },
  CheckpointKept(state, event) {
    markCheckpoint(state, event.node, true);
  },
  CheckpointDropped(state, event) {
    markCheckpoint(state, event.node, false);
  },
  NodeLocked(state, event) {
    for (const node of pathOf(state, event.node)) node.locks += event.delta;
  },
  NodePinned(state, event) {
    if (!state.nodes.has(event.node)) {
      state.missing += 1;
      return;
    }
    const owners = state.pins.get(event.node) ?? [],
      at = owners.indexOf(event.owner);
    const now = event.delta > 0 ? [...owners, event.owner] : owners.filter((_, i) => i !== at);
    if (now.length) state.pins.set(event.node, now);
    else state.pins.delete(event.node);
  },
  TiersStarted(state, event) {
    state.tiers = event;
  },
  BlocksNamed(state, event) {
    nameBlocks(state.copies, event);
  },
  CopiesChanged(state, event) {
    changeCopies(state.copies, event);
  },
  NodeTouched(state, event, t) {
    for (const node of pathOf(state, event.node)) Object.assign(node, { tick: event.tick, used: t });
    state.nodes.get(ROOT).tick = event.tick;
  },
};

// Records that change the tokens or the copies of nodes.
const OF_SHAPE = new Set(["NodeAdded", "NodeSplit", "NodeEvicted", "CopiesChanged"]);
