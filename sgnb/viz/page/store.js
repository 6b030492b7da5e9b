// Records of a page, the state at any record, and columns for drawings over time.

const KEYFRAME = 2000; // records between two saved states

function newStore() {
  const store = {
      records: [],
      state: newState(),
      position: null,
      version: 0,
      live: true,
      reported: false, // the cell shows the error of the run
      heard: performance.now(),
      ...newColumns(),
    },
    others = new Map();
  const keyframes = [];

  // `position`: number of records in the shown state; null follows the latest record.
  store.add = (records) => {
    for (const record of records) {
      store.records.push(record);
      collect(store.of(record.of_engine), store.state, record);
      apply(store.state, record);
    }
    store.version += 1;
  };
  // The columns of an engine; the default engine's columns are in the store.
  store.of = (engine) => {
    if (!engine) return store;
    if (!others.has(engine)) others.set(engine, Object.assign(Object.create(store), newColumns()));
    return others.get(engine);
  };
  store.shown = () => (store.position === null ? store.state : store.at(store.position));

  let asked = { position: -1, state: null };
  store.at = (position) => {
    if (asked.position === position) return asked.state;
    const wanted = Math.floor(position / KEYFRAME);
    while (keyframes.length <= wanted) {
      const state = keyframes.length ? copyState(keyframes.at(-1)) : newState();
      const from = Math.max(0, (keyframes.length - 1) * KEYFRAME),
        to = keyframes.length * KEYFRAME;
      for (let i = from; i < to; i += 1) apply(state, store.records[i]);
      keyframes.push(state);
    }
    // A small step forward continues from the last requested state.
    const near = asked.state && asked.position < position && asked.position >= wanted * KEYFRAME;
    const state = near ? asked.state : copyState(keyframes[wanted]);
    for (let i = near ? asked.position : wanted * KEYFRAME; i < position; i += 1) apply(state, store.records[i]);
    asked = { position, state };
    return state;
  };
  store.seek = (position) => {
    store.position = position === null || position >= store.records.length ? null : Math.max(0, position);
    store.version += 1;
  };
  // The number of records up to a time, in seconds of the log.
  store.placeAt = (t) => {
    let low = 0,
      high = store.records.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (store.records[middle].t <= t) low = middle + 1;
      else high = middle;
    }
    return low;
  };
  return store;
}

const newSteps = () => ({
  t: [],
  seconds: [],
  prefill: [],
  decode: [],
  sampled: [], // tokens chosen by the model; a decode row may be a forced token
  waiting: [],
  free: [],
  cached: [],
  inFlight: [],
  freeStates: [],
  keptStates: [],
});

const newColumns = () => ({
  steps: newSteps(),
  admissions: [],
  evictions: [],
  drops: [],
  encodes: [],
  loads: [],
  prefixes: newPrefixes(),
});

function collect({ steps, admissions, evictions, drops, encodes, loads, prefixes }, state, record) {
  const request = state.requests.get(record.request);
  if (record.kind === "StepRan") {
    const { request: ids, start, length } = record.extended;
    const decode = ids.filter(
      (id, i) => length[i] === 1 && start[i] >= (state.requests.get(id)?.prompt.length ?? 0),
    ).length;
    const tokens = length.reduce((sum, one) => sum + one, 0);
    const row = {
      t: record.t,
      seconds: record.seconds,
      prefill: tokens - decode,
      decode,
      sampled: record.sampled.request.length,
      waiting: record.waiting,
      free: record.free,
      cached: record.cached,
      inFlight: record.in_flight,
      freeStates: record.free_states ?? 0,
      keptStates: record.kept_states ?? 0,
    };
    for (const [name, value] of Object.entries(row)) steps[name].push(value);
  } else if (record.kind === "RequestAdmitted") {
    if (!request || request.admitted !== null) return;
    const most = Math.min(request.prompt.length - 1, prefixes.add(request.prompt, request.namespace));
    admissions.push({
      t: record.t,
      run: request.run,
      prompt: request.prompt.length,
      cached: record.cached,
      again: record.again ?? 0,
      optimal: Math.max(record.cached, most),
    });
  } else if (record.kind === "RequestFinished") {
    if (request) prefixes.add([...request.prompt, ...request.output.map(({ token }) => token)], request.namespace);
  } else if (record.kind === "NodeEvicted") {
    evictions.push({
      t: record.t,
      tokens: stateOf(state, record.of_engine).nodes.get(record.node)?.tokens.length ?? 0,
    });
  } else if (record.kind === "CheckpointDropped") {
    drops.push({ t: record.t });
  } else if (record.kind === "ItemsEncoded") {
    encodes.push({ t: record.t, seconds: record.seconds, tokens: record.tokens, items: record.items.length });
  } else if (record.kind === "PrefixLoaded") {
    const { t, seconds, store, tokens, compute_seconds: computing } = record;
    loads.push({ t, seconds, store, tokens, computing });
  }
}

// Contents of a cache without a size limit: all prompts and outputs in a prefix tree.
function newPrefixes() {
  const roots = new Map();
  // Add the tokens, and return the length of the prefix already present in the namespace.
  function add(tokens, namespace = "") {
    if (!roots.has(namespace)) roots.set(namespace, { tokens: [], from: 0, to: 0, next: new Map() });
    let node = roots.get(namespace),
      at = 0;
    while (at < tokens.length) {
      const child = node.next.get(tokens[at]);
      if (!child) {
        node.next.set(tokens[at], { tokens, from: at, to: tokens.length, next: new Map() });
        break;
      }
      const length = Math.min(child.to - child.from, tokens.length - at);
      let same = 1;
      while (same < length && child.tokens[child.from + same] === tokens[at + same]) same += 1;
      if (child.from + same < child.to) {
        const upper = { ...child, to: child.from + same, next: new Map([[child.tokens[child.from + same], child]]) };
        node.next.set(tokens[at], upper);
        child.from += same;
        node = upper;
      } else {
        node = child;
      }
      at += same;
    }
    return at;
  }
  return { add };
}

// Metrics of events after `from` and up to `to`, in seconds of the log.
function figuresWithin({ steps, admissions, evictions, drops, encodes, loads }, { from, to }) {
  const inside = ({ t }) => t > from && t <= to;
  const sum = (rows, name) => rows.reduce((all, row) => all + row[name], 0);
  const hits = (rows) => ({
    requests: rows.length,
    prompt: sum(rows, "prompt"),
    cached: sum(rows, "cached"),
    again: sum(rows, "again"),
    optimal: sum(rows, "optimal"),
  });
  const admitted = admissions.filter(inside),
    evicted = evictions.filter(inside),
    encoded = encodes.filter(inside);
  const runs = [...new Set(admitted.map(({ run }) => run))],
    computed = { steps: 0, prefill: 0, sampled: 0 };
  steps.t.forEach((t, i) => {
    if (!inside({ t })) return;
    computed.steps += 1;
    computed.prefill += steps.prefill[i];
    computed.sampled += steps.sampled[i];
  });
  return {
    ...hits(admitted),
    ...computed,
    evicted: evicted.length,
    freed: sum(evicted, "tokens"),
    dropped: drops.filter(inside).length,
    encoded: { items: sum(encoded, "items"), tokens: sum(encoded, "tokens"), seconds: sum(encoded, "seconds") },
    loads: loads.filter(inside),
    runs: runs.map((run) => ({ run, ...hits(admitted.filter((row) => row.run === run)) })),
  };
}

// The nodes of an engine created or used in a time range, if present in the state.
function nodesWithin(store, state, { from, to }, engine = 0) {
  const found = new Set();
  for (let i = store.placeAt(from); i < store.placeAt(to); i += 1) {
    const { kind, node, of_engine: of = 0 } = store.records[i];
    if (of !== engine || (kind !== "NodeAdded" && kind !== "NodeTouched")) continue;
    for (
      let one = state.nodes.get(node);
      one && one.id !== ROOT && !found.has(one.id);
      one = state.nodes.get(one.parent)
    )
      found.add(one.id);
  }
  return found;
}

const parseLines = (text) => text.split("\n").filter(Boolean).map(parseLine);
