// State of the views, copies of the state, and text of tokens.

const ROOT = 0;
const KEPT_BRANCHES = 12; // kept branches of a large batch; other branches are rows and counts
const KEPT_GHOSTS = 12;

function newState() {
  const others = new Map();
  return {
    t: 0,
    shape: 0, // number of changes of the tree and of the copies
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
    media: newMedia(),
    tiers: null, // the `TiersStarted` of an engine with copies
    copies: newCopiedBlocks(),
    nodes: new Map([[ROOT, newNode(ROOT, -1, [], "", 0, 0)]]),
    ghosts: [],
    runs: new Map(),
    requests: new Map(),
    live: new Set(),
    comparison: null,
    automata: new Map(),
    workers: new Map(), // engines of the present workers of a fleet, by number
    others,
    peers: others, // states of all joined engines, also in these states
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
    items: { ...r.items },
    time: copyTimeParts(r.time),
    stops: new Map(r.stops),
    loads: new Map(r.loads),
    loadBars: [...r.loadBars],
    workers: copied(r.workers, copyWorkerLane),
    scaled: [...r.scaled],
    lanes: copied(r.lanes, copyLane),
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
    copies: copyCopiedBlocks(own.copies),
    live: new Set(own.live),
  });
  const copy = {
    ...tree(state),
    tokenTable: new Map(state.tokenTable),
    media: { ...state.media },
    runs: copied(state.runs, run),
    requests: copied(state.requests, (request) => ({
      ...request,
      output: [...request.output],
      notLoaded: [...request.notLoaded],
    })),
    automata: new Map(state.automata),
    workers: new Map(state.workers),
  };
  copy.others = copy.peers = new Map();
  for (const [engine, own] of state.others) copy.others.set(engine, shareWith(copy, tree(own)));
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
const utf8Bytes = new TextEncoder();
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
    numbers: [], // row of each program, if a batch does not run all rows
    earlier: "", // run with the other rows
    hidden: 0,
    failed: 0,
    stopped: 0, // programs stopped from outside
    firstError: "",
    models: new Map([[0, newModel(0)]]),
    calls: new Map(),
    asked: [], // calls to other models: open calls by branch, and calls without requests
    metrics: {
      prompt_tokens: 0,
      cached_tokens: 0,
      recomputed_tokens: 0,
      reused_tokens: 0, // with approximate keys and values
      output_tokens: 0,
      jumped_tokens: 0,
      passes: 0,
      finished: 0,
      total: event.total,
    },
    items: newRunItems(),
    orders: { count: 0, gained: 0, last: "" }, // of parts, other than the given orders
    splices: new Map(), // by request: events of the splice and of the comparison
    loads: new Map(), // by store: [tokens, seconds, seconds of computing]
    loadBars: [], // the first loads
    workers: new Map(), // lanes of a fleet's workers, by number
    scaled: [], // changes of the number of workers, in words
    time: newTimeParts(),
    stops: new Map(),
    edit: null, // the `RunEdited` of a run that continues an edit
    lanes: new Map(),
    moreLanes: 0, // branches without a lane
  };
}

function timed(run, t) {
  run.began ??= t;
  run.seconds = t - run.began;
  advanceTime(run, t);
}

const isBatch = (run) => run.metrics.total > 1 || Boolean(run.earlier);

// The row of a batch program: the first part of the branch name.
function rowOf(run, branch) {
  return run.rows.get(branch.split(".")[0]);
}
