// Reducers from records to states, equal to sgnb/viz/state/run_state.py and sgnb/viz/state/tree.py; a test compares both. `apply` changes only the given state, and
// replaces token arrays instead of changing them, because copies share the arrays.

const ROOT = 0;
const KEPT_BRANCHES = 12; // kept branches of a large batch; other branches are rows and counts
const KEPT_GHOSTS = 12;

function newState() {
  return {
    t: 0,
    lost: 0,
    missing: 0,
    engine: null,
    stopped: "",
    added: 0,
    evicted: 0,
    cachedTokens: 0,
    checkpoints: 0,
    pins: new Map(),
    tokenTable: new Map(),
    nodes: new Map([[ROOT, newNode(ROOT, -1, [], "", 0, 0)]]),
    ghosts: [],
    runs: new Map(),
    requests: new Map(),
    live: new Set(),
    comparison: null,
    automata: new Map(),
    others: new Map(),
  };
}

// Copy everything that later records may change.
function copyState(state) {
  const copied = (map, copy) => new Map([...map].map(([key, value]) => [key, copy(value)]));
  const branch = (b) => ({
    ...b,
    pieces: b.pieces.map((piece) => ({ ...piece })),
    variables: { ...b.variables },
    makers: { ...b.makers },
  });
  const same = (one) => ({ ...one });
  const run = (r) => ({
    ...r,
    metrics: { ...r.metrics },
    branches: copied(r.branches, branch),
    rows: copied(r.rows, same),
    models: copied(r.models, same),
    calls: copied(r.calls, same),
    asked: r.asked.map(same),
  });
  const tree = (own) => ({
    ...own,
    pins: new Map(own.pins),
    nodes: copied(own.nodes, (node) => ({ ...node, children: new Map(node.children) })),
    ghosts: [...own.ghosts],
    live: new Set(own.live),
  });
  const copy = {
    ...tree(state),
    tokenTable: new Map(state.tokenTable),
    runs: copied(state.runs, run),
    requests: copied(state.requests, (request) => ({ ...request, output: [...request.output] })),
    automata: new Map(state.automata),
  };
  copy.others = copied(state.others, (own) => shareWith(copy, tree(own)));
  return copy;
}

function newNode(id, parent, tokens, namespace, order, t) {
  return {
    id,
    parent,
    tokens,
    namespace,
    order,
    locks: 0,
    tick: 0,
    children: new Map(),
    used: t,
    hits: 0,
    request: null,
    checkpoint: false,
  };
}

const keyOf = (node) => `${node.namespace} ${node.tokens[0]}`;

// Decode token bytes to text. `pending` has the bytes of an incomplete character.
const utf8 = new TextDecoder("utf-8", { ignoreBOM: true });
const NO_BYTES = new Uint8Array();
const UNNAMED = new Uint8Array([0xef, 0xbf, 0xbd]);

function bytesOf(tokenTable, tokens) {
  const parts = tokens.map((token) => tokenTable.get(token) ?? UNNAMED);
  const bytes = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    bytes.set(part, at);
    at += part.length;
  }
  return bytes;
}

const latin1 = (text) => Uint8Array.from(text, (unit) => unit.charCodeAt(0));

function decodeMore(pending, bytes) {
  if (!pending.length && (!bytes.length || bytes.at(-1) < 0x80)) return [utf8.decode(bytes), pending];
  const all = new Uint8Array([...pending, ...bytes]);
  const text = new TextDecoder("utf-8", { ignoreBOM: true }).decode(all, { stream: true });
  for (let left = 0; left <= 3; left += 1) {
    if (utf8.decode(all.slice(0, all.length - left)) === text) return [text, all.slice(all.length - left)];
  }
  throw new Error("a character has more than four bytes");
}

const textOfTokens = (tokenTable, tokens) => utf8.decode(bytesOf(tokenTable, tokens));

function newRun(event, t) {
  return {
    run: event.run,
    title: event.title,
    source: event.source,
    file: event.file,
    firstLine: event.first_line,
    status: "running",
    message: "",
    began: null,
    seconds: 0,
    t,
    branches: new Map(),
    rows: new Map(),
    hidden: 0,
    failed: 0,
    firstError: "",
    models: new Map([[0, newModel(0)]]),
    calls: new Map(),
    asked: [], // calls to other models: open calls by branch, and calls without requests
    metrics: {
      prompt_tokens: 0,
      cached_tokens: 0,
      recomputed_tokens: 0,
      output_tokens: 0,
      jumped_tokens: 0,
      passes: 0,
      finished: 0,
      total: event.total,
    },
  };
}

function timed(run, t) {
  run.began ??= t;
  run.seconds = t - run.began;
}

// The row of a batch program: the first part of the branch name.
function rowOf(run, branch) {
  return run.rows.get(branch.split(".")[0]);
}

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

// The request with the tokens of a new node.
function makerOf(state, parent, tokens) {
  let depth = 0;
  for (let node = parent; node && node.id !== ROOT; node = state.nodes.get(node.parent)) depth += node.tokens.length;
  for (const id of state.live) {
    const request = state.requests.get(id);
    if (tokens.every((token, i) => tokenIdAt(request, depth + i) === token)) return id;
  }
  return null;
}

function stream(state, request, kind, bytes, final = false) {
  const branch = request.shown && state.runs.get(request.run).branches.get(request.branch);
  if (!branch || branch.generatedFrom === null) return;
  let text;
  [text, request.pending] = decodeMore(request.pending, bytes);
  if (final && request.pending.length) text += "\ufffd";
  const to = request.prompt.length + request.output.length;
  const from = Math.min(request.told, to);
  // Forced text may start inside a token, because retokenization replaces the last tokens.
  const whole =
    kind === "jumped"
      ? textOfTokens(
          state.tokenTable,
          request.output.slice(from - request.prompt.length).map(({ token }) => token),
        )
      : text;
  const by = markOf(state.runs.get(request.run), request.model);
  append(branch.pieces, {
    kind,
    text,
    request: request.id,
    from,
    to,
    by,
    ...(whole.length > text.length && { skip: whole.length - text.length }),
  });
  if (text) request.told = to;
}

function finishText(run, event, text) {
  const row = rowOf(run, event.branch);
  if (row) Object.assign(row, { answer: text, name: event.name });
  const branch = run.branches.get(event.branch),
    by = markOf(run, run.calls.get(event.branch)?.model);
  run.calls.delete(event.branch);
  if (!branch) return;
  let same = 0;
  if (branch.generatedFrom !== null) {
    const streamed = textOf(drop(branch.pieces, branch.generatedFrom));
    same = commonPrefix(streamed, text);
    cut(branch, branch.generatedFrom + same);
    branch.generatedFrom = null;
  }
  append(branch.pieces, { kind: "sampled", text: text.slice(same), by });
  branch.variables[event.name] = text;
  branch.makers[event.name] = by;
}

// Handlers of records with a run id.
const OF_RUNS = {
  RunFinished(run, event) {
    run.status = event.status;
    run.message = event.message;
  },
  BranchStarted(run, event, state, t) {
    if (!event.branch.includes("."))
      run.rows.set(event.branch, {
        branch: event.branch,
        status: "running",
        error: "",
        arguments: "",
        name: "",
        answer: "",
        prompt: 0,
        cached: 0,
        again: 0,
        output: 0,
        began: t,
        ended: null,
      });
    if (run.branches.size >= KEPT_BRANCHES) {
      run.hidden += 1;
      return;
    }
    const branch = newBranch(event.branch, event.parent);
    const parent = run.branches.get(event.parent);
    if (parent && textOf(parent.pieces).endsWith(event.text)) {
      branch.pieces = parent.pieces.map((piece) => ({ ...piece }));
      branch.shared = lengthOf(parent.pieces);
    } else {
      append(branch.pieces, { kind: "text", text: event.text });
    }
    branch.forkedAt = parent ? lengthOf(parent.pieces) : 0;
    run.branches.set(event.branch, branch);
  },
  ProgramCalled(run, event) {
    const row = run.rows.get(event.branch);
    if (row) row.arguments = event.arguments;
  },
  BranchFinished(run, event, state, t) {
    run.calls.delete(event.branch);
    if (!event.branch.includes(".")) run.metrics.finished += 1;
    if (event.error) {
      run.failed += 1;
      run.firstError ||= event.error;
    }
    const status = { status: event.error ? "error" : "done", error: event.error };
    const row = run.rows.get(event.branch),
      branch = run.branches.get(event.branch);
    if (row) Object.assign(row, status, { ended: t });
    if (branch) Object.assign(branch, status);
  },
  TextAppended(run, event) {
    const branch = run.branches.get(event.branch);
    if (!branch) return;
    branch.generatedFrom = null;
    append(branch.pieces, { kind: "text", text: event.text });
  },
  TextStreamed(run, event) {
    const branch = run.branches.get(event.branch),
      by = markOf(run, run.calls.get(event.branch)?.model);
    if (!branch) return;
    branch.generatedFrom ??= lengthOf(branch.pieces);
    append(branch.pieces, { kind: "sampled", text: event.text, by });
  },
  ModelAsked: askModel,
  ModelAnswered(run, event, state, t) {
    answerModel(run, event, rowOf(run, event.branch), t);
  },
  GenerationDone(run, event) {
    finishText(run, event, event.text);
  },
  ChoiceMade(run, event) {
    finishText(run, event, event.chosen);
  },
};

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
    node.request = makerOf(state, parent, event.tokens);
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
  NodeTouched(state, event, t) {
    for (const node of pathOf(state, event.node)) Object.assign(node, { tick: event.tick, used: t });
    state.nodes.get(ROOT).tick = event.tick;
  },
};

const OF_ENGINE = {
  EngineStarted(state, event) {
    state.engine = event;
  },
  EngineStopped(state, event) {
    state.stopped = event.reason;
  },
  RecordsLost(state, event) {
    state.lost += event.count;
  },
  TokensNamed(state, event) {
    event.ids.forEach((id, i) => state.tokenTable.set(id, latin1(event.pieces[i])));
  },
  // Twin of sgnb/viz/state/comparison.py: the latest comparison of a log.
  VariantRan(state, event) {
    const { comparison: id, variant, run, note, left } = event;
    const before = state.comparison?.id === id ? state.comparison : { id, variants: [], lines: [] };
    const old = before.variants.find((one) => one.name === variant) ?? { name: variant, note: "", runs: [] };
    const next = { ...old, note: old.note || note, runs: state.runs.has(run) ? [...old.runs, run] : old.runs };
    const variants = before.variants.includes(old)
      ? before.variants.map((one) => (one === old ? next : one))
      : [...before.variants, next];
    state.comparison = { ...before, variants, left };
  },
  ComparisonDone(state, event) {
    if (state.comparison?.id === event.comparison) state.comparison = { ...state.comparison, lines: event.lines };
  },
  RunStarted(state, event, t) {
    const run = newRun(event, t);
    state.runs.set(event.run, run);
    timed(run, t);
  },
  RequestQueued(state, event, t) {
    const run = state.runs.get(event.run);
    const live = [...state.live].map((id) => state.requests.get(id)).filter((request) => request.finished === null);
    const busy = live.some((request) => request.shown && request.run === event.run && request.branch === event.branch);
    const engine = event.of_engine ?? 0,
      model = run ? ([...run.models.values()].find((one) => one.engine === engine)?.number ?? 0) : 0;
    const call = engine ? run?.calls.get(event.branch) : undefined;
    if (call) call.counted = run.asked[call.index].counted = true;
    if (run) beginUse(run.models.get(model), t);
    state.requests.set(event.request, {
      id: event.request,
      engine,
      model,
      run: event.run,
      branch: event.branch,
      name: event.name,
      purpose: event.purpose,
      file: event.file,
      line: event.line,
      prompt: event.prompt,
      namespace: event.namespace,
      output: [],
      queued: t,
      admitted: null,
      first: null,
      finished: null,
      cached: 0,
      again: 0,
      written: 0,
      told: event.prompt.length,
      pending: NO_BYTES,
      forced: NO_BYTES,
      leaves: null,
      grammar: "",
      states: 0,
      automaton: 0,
      bound: false,
      shown: Boolean(run?.branches.has(event.branch)) && !busy,
    });
    state.live.add(event.request);
    if (run) timed(run, t);
  },
  RequestAdmitted(state, event, t) {
    const request = state.requests.get(event.request);
    if (!request || request.admitted !== null) return;
    const { cached, again = 0 } = event;
    Object.assign(request, { admitted: t, cached, again });
    request.leaves = markHits(state, request.prompt, cached, again, t, request.namespace);
    const run = state.runs.get(request.run);
    if (!run) return;
    timed(run, t);
    countFound(run, request.model, rowOf(run, request.branch), request.prompt.length, cached, again);
    if (!request.shown) return;
    const piece = (kind, text, from, to) => ({ kind, text, request: request.id, from, to });
    const whole = textOfTokens(state.tokenTable, request.prompt),
      found = cached + again;
    const [before, within] = [cached, found].map(
      (end) => decodeMore(NO_BYTES, bytesOf(state.tokenTable, request.prompt.slice(0, end)))[0].length,
    );
    const pieces = [
      piece("cached", whole.slice(0, before), 0, cached),
      piece("again", whole.slice(before, within), cached, found),
      piece("computed", whole.slice(within), found, request.prompt.length),
    ];
    const branch = run.branches.get(request.branch);
    showPrompt(branch, pieces, request.purpose === "generate", request.model > 0);
    for (let above = run.branches.get(branch.parent); above; above = run.branches.get(above.parent))
      showSent(above, pieces);
    stream(state, request, "jumped", request.forced);
  },
  AutomatonDrawn(state, event) {
    state.automata.set(event.automaton, event);
  },
  GrammarReady(state, event) {
    const request = state.requests.get(event.request);
    if (request)
      Object.assign(request, { grammar: event.grammar, states: event.states, automaton: event.automaton, bound: true });
  },
  StepRan(state, event, t) {
    for (const id of state.live) if (state.requests.get(id).finished !== null) state.live.delete(id);
    const involved = new Set();
    event.sampled.request.forEach((id, i) => {
      const request = state.requests.get(id);
      if (!request || request.finished !== null) return;
      const token = event.sampled.token[i];
      request.first ??= t;
      request.written += 1;
      request.output.push({ token, t, kind: "sampled", logprob: event.sampled.logprob[i], mask: null });
      const run = state.runs.get(request.run);
      if (!run) return;
      involved.add(run);
      countWritten(run, request.model, rowOf(run, request.branch), 1);
      stream(state, request, "sampled", bytesOf(state.tokenTable, [token]));
    });
    event.masked.request.forEach((id, i) => {
      const request = state.requests.get(id),
        last = request?.output.at(-1);
      if (!last) return;
      request.bound = true;
      last.mask = {
        allowed: event.masked.allowed[i],
        kept: event.masked.kept[i],
        before: event.masked.before[i],
        after: event.masked.after[i],
      };
    });
    for (const id of event.extended.request) {
      const request = state.requests.get(id);
      const run = request && request.finished === null && state.runs.get(request.run);
      if (run) involved.add(run);
    }
    for (const run of involved) {
      run.metrics.passes += 1;
      timed(run, t);
    }
  },
  Alternatives(state, event) {
    const output = state.requests.get(event.request)?.output ?? [];
    const alternatives = event.tokens.map((token, i) => ({
      token,
      logprob: event.logprobs[i],
      allowed: event.allowed[i],
    }));
    if (output.length) output[output.length - 1] = { ...output.at(-1), alternatives };
  },
  Jumped(state, event, t) {
    const request = state.requests.get(event.request);
    if (!request || request.finished !== null) return;
    const count = event.tokens.length - event.dropped,
      bytes = latin1(event.data);
    request.output.length = Math.max(0, request.output.length - event.dropped);
    request.told = Math.min(request.told, request.prompt.length + request.output.length);
    request.bound = true;
    const jump = { before: event.before, after: event.after, labels: event.labels, dropped: event.dropped };
    for (const token of event.tokens)
      request.output.push({ token, t, kind: "jumped", logprob: null, mask: null, jump });
    request.written += count;
    const run = state.runs.get(request.run);
    if (!run) return;
    timed(run, t);
    countWritten(run, request.model, rowOf(run, request.branch), count);
    run.metrics.jumped_tokens += count;
    if (request.admitted !== null) stream(state, request, "jumped", bytes);
    else request.forced = new Uint8Array([...request.forced, ...bytes]);
  },
  RequestFinished(state, event, t) {
    const request = state.requests.get(event.request);
    if (!request || request.finished !== null) return;
    request.finished = t;
    const run = state.runs.get(request.run);
    if (!run) return;
    timed(run, t);
    const untold = !request.prompt.length; // tokens are counted elsewhere
    if (untold) countFound(run, request.model, rowOf(run, request.branch), event.prompt_tokens, event.cached_tokens);
    countWritten(run, request.model, untold ? rowOf(run, request.branch) : null, event.output_tokens - request.written);
    endUse(run.models.get(request.model), t);
    stream(state, request, "sampled", NO_BYTES, true);
  },
};

function apply(state, record) {
  const { kind, t } = record,
    own = stateOf(state, record.of_engine);
  state.t = own.t = Math.max(state.t, t);
  if (OF_ENGINE[kind]) OF_ENGINE[kind](own, record, t);
  else if (OF_TREE[kind]) OF_TREE[kind](own, record, t);
  else if (OF_RUNS[kind] && state.runs.has(record.run)) {
    const run = state.runs.get(record.run);
    OF_RUNS[kind](run, record, state, t);
    timed(run, t);
  }
}
