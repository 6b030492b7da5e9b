// Workers of a run on a fleet: a lane per worker, and the reason of each routing decision. Twin of sgnb/viz/state/run_fleet.py.

const KEPT_ROUTES = 400; // decisions per worker
const KEPT_CHANGES = 20; // of the number of workers

const copyWorkerLane = (lane) => ({
  ...lane,
  absences: lane.absences.map((absence) => ({ ...absence })),
  routes: lane.routes.map((route) => ({ ...route })),
});

function workerLane(run, worker, engine) {
  if (!run.workers.has(worker))
    run.workers.set(worker, {
      worker,
      engine,
      joined: null,
      calls: 0,
      tokens: 0,
      cached: 0,
      retried: 0,
      absences: [],
      routes: [],
    });
  return Object.assign(run.workers.get(worker), { engine });
}

function countRoute(run, event, t) {
  const lane = workerLane(run, event.worker, event.engine);
  lane.calls += 1;
  lane.tokens += event.tokens;
  lane.cached += event.cached;
  if (lane.routes.length < KEPT_ROUTES) lane.routes.push({ t, event, moved: null });
}

function countRetry(run, { worker, branch, name }, t) {
  const lane = run.workers.get(worker);
  if (!lane) return;
  lane.retried += 1;
  const route = lane.routes.findLast(({ event }) => event.branch === branch && event.name === name);
  if (route) route.moved = t;
}

function joinWorker(run, { worker, engine }, t) {
  const isKnown = run.workers.has(worker),
    lane = workerLane(run, worker, engine),
    absence = lane.absences.at(-1);
  if (!isKnown) lane.joined = t;
  else if (absence && absence.ended === null) absence.ended = t;
}

function loseWorker(run, { worker, reason }, t) {
  run.workers.get(worker)?.absences.push({ began: t, reason, ended: null });
}

function scaleFleet(run, { worker, change, reason }) {
  if (run.scaled.length < KEPT_CHANGES) run.scaled.push(`worker ${worker} ${change}: ${reason}`);
}

// Lanes of all workers; `usedLanes`: of the workers with calls.
const workerLanes = (run) => [...(run?.workers.values() ?? [])].sort((a, b) => a.worker - b.worker);
const usedLanes = (run) => workerLanes(run).filter(({ calls }) => calls);

// The calls of each worker with their requests: worker -> [{route, requests}]. `lanes`: the branches; calls of other branches are left out.
function callsOfWorkers(run, lanes) {
  const requests = new Map();
  for (const lane of lanes)
    for (const request of lane.requests) {
      const key = `${request.engine} ${lane.name}`;
      if (!requests.has(key)) requests.set(key, []);
      requests.get(key).push(request);
    }
  const branches = new Set(lanes.map(({ name }) => name));
  const callsOf = ({ routes }) =>
    routes
      .toReversed()
      .map((route) => {
        const own = requests.get(`${route.event.engine} ${route.event.branch}`) ?? [];
        const first = own.findIndex(({ queued }) => queued >= route.t);
        return { route, requests: first < 0 ? [] : own.splice(first) };
      })
      .filter(({ route }) => branches.has(route.event.branch))
      .reverse();
  return new Map(workerLanes(run).map((lane) => [lane.worker, callsOf(lane)]));
}

// Arrival of a call at the fleet.
const beginOfCall = ({ route }) => route.t - (route.event.waited ?? 0);

// The end of a call on its worker: `now` for an open call, and the decision's time without a request.
function endOfCall({ route, requests }, now) {
  if (route.moved !== null) return route.moved;
  return requests.length ? Math.max(...requests.map(({ finished }) => finished ?? now)) : route.t;
}

// A row for each call of a worker. Calls of a row do not overlap.
function rowsOfCalls(calls, now) {
  const ends = [];
  return calls.map((call) => {
    const free = ends.findIndex((end) => end <= beginOfCall(call)),
      row = free < 0 ? ends.length : free;
    ends[row] = endOfCall(call, now);
    return row;
  });
}

function wordsOfAbsence({ began, reason, ended }) {
  const back = ended === null ? "" : `, back after ${duration(ended - began)}`;
  return `ended: ${visible(reason)}${back}`;
}

function wordsOfRoute({ event }) {
  const { branch, name, worker, cached, tokens, wait, work, elsewhere } = event;
  const other = cached ? `; ${duration(elsewhere)} on the least busy worker` : "";
  return `${visible(branch)} ${visible(name)}: worker ${worker}, ${grouped(cached)} of ${grouped(tokens)} prompt tokens cached, first token in ${duration(wait + work)}${other}`;
}

// A line per worker and per change of their number, or "" without a fleet.
const wordsOfFleet = (run) =>
  [...wordsOfWorkers(run), ...(usedLanes(run).length ? run.scaled.map(visible) : [])].join("\n");

const wordsOfWorkers = (run) =>
  usedLanes(run).map(({ worker, calls, cached, tokens, retried, absences }) => {
    const parts = [`${plural(calls, "call")} · ${grouped(cached)} of ${grouped(tokens)} prompt tokens cached`];
    if (retried) parts.push(`${grouped(retried)} continued elsewhere`);
    parts.push(...absences.slice(-1).map(wordsOfAbsence));
    return `worker ${worker}: ${parts.join(" · ")}`;
  });

// The last decision for a call, or undefined.
function routeOf(run, { branch, name, queued }) {
  const routes = usedLanes(run).flatMap((lane) => lane.routes);
  return routes
    .filter(({ t, event }) => event.branch === branch && event.name === name && t <= queued)
    .sort((a, b) => a.t - b.t)
    .at(-1);
}

// The leading tokens in the cache of each worker that has any: [worker, tokens].
function holdersOf(run, peers, tokens, namespace = "") {
  const heldBy = ({ worker, engine }) => {
    const ids = tokens.map((id) => ownNumber(id) + engine * OF_ENGINE_FROM);
    return [worker, peers.has(engine) ? cachedLength(peers.get(engine), ids, namespace) : 0];
  };
  return workerLanes(run)
    .map(heldBy)
    .filter(([, length]) => length);
}

function cachedLength({ nodes }, tokens, namespace) {
  let node = nodes.get(ROOT),
    length = 0;
  while (length < tokens.length) {
    node = nodes.get(node.children.get(`${node.id === ROOT ? namespace : ""} ${tokens[length]}`));
    if (!node) break;
    const common = commonTokens(node.tokens, tokens.slice(length));
    length += common;
    if (common < node.tokens.length) break;
  }
  return length;
}

// Engines with a cache to show: those of other models, and the workers of a fleet; without a run, all workers.
function enginesOf(state, run) {
  const models = [...(run?.models.values() ?? [])],
    workers = run ? usedLanes(run) : [...state.workers].map(([worker, engine]) => ({ worker, engine }));
  return [
    ...models.map((model) => ({ engine: model.engine, title: titleOf(model) })),
    ...workers.map(({ engine, worker }) => ({ engine, title: `worker ${worker}` })),
  ];
}
