// Workers of a run on a fleet: a lane per worker, and the reason of each routing decision. Twin of sgnb/viz/state/run_fleet.py.

const KEPT_ROUTES = 400; // decisions per worker

const copyWorkerLane = (lane) => ({ ...lane, routes: [...lane.routes] });

function countRoute(run, event, t) {
  const { worker, engine, tokens, cached } = event;
  if (!run.workers.has(worker))
    run.workers.set(worker, { worker, engine, calls: 0, tokens: 0, cached: 0, retried: 0, ended: "", routes: [] });
  const lane = run.workers.get(worker);
  lane.calls += 1;
  lane.tokens += tokens;
  lane.cached += cached;
  if (lane.routes.length < KEPT_ROUTES) lane.routes.push({ t, event });
}

function countRetry(run, { worker }) {
  if (run.workers.has(worker)) run.workers.get(worker).retried += 1;
}

function loseWorker(run, { worker, reason }) {
  if (run.workers.has(worker)) run.workers.get(worker).ended = reason;
}

const workerLanes = (run) => [...(run?.workers.values() ?? [])].sort((a, b) => a.worker - b.worker);

function wordsOfRoute({ event }) {
  const { branch, name, worker, cached, tokens, wait, work, elsewhere } = event;
  const other = cached ? `; ${duration(elsewhere)} on the least busy worker` : "";
  return `${visible(branch)} ${visible(name)}: worker ${worker}, ${grouped(cached)} of ${grouped(tokens)} prompt tokens cached, first token in ${duration(wait + work)}${other}`;
}

// A line per worker, or "" without a fleet.
const wordsOfFleet = (run) =>
  workerLanes(run)
    .map(({ worker, calls, cached, tokens, retried, ended }) => {
      const parts = [`${plural(calls, "call")} · ${grouped(cached)} of ${grouped(tokens)} prompt tokens cached`];
      if (retried) parts.push(`${grouped(retried)} continued elsewhere`);
      if (ended) parts.push(`ended: ${visible(ended)}`);
      return `worker ${worker}: ${parts.join(" · ")}`;
    })
    .join("\n");

// The last decision for a call, or undefined.
function routeOf(run, { branch, name, queued }) {
  const routes = workerLanes(run).flatMap((lane) => lane.routes);
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

// Engines with a cache to show: those of other models, and the workers of a fleet.
const enginesOf = (state, run) => [
  ...[...(run?.models.values() ?? [])].map((model) => ({ engine: model.engine, title: titleOf(model) })),
  ...workerLanes(run).map(({ engine, worker }) => ({ engine, title: `worker ${worker}` })),
];
