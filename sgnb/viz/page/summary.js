// Heading of a run in words: status, title, savings, metrics and notes.

const secondsUnheard = (store) => Math.round((performance.now() - store.heard) / 1000);

// The status as [class, text].
function statusOf(store, run, silent) {
  if (silent) return ["error", `no message from the kernel for ${secondsUnheard(store)} s`];
  if (run) return [run.status, run.status];
  return store.live ? ["running", "live"] : ["done", "as it was"];
}

function headingOf(state, run) {
  if (!run) return state.engine ? visible(String(state.engine.model).split("/").at(-1)) : "engine";
  const variant = state.comparison?.variants.find(({ runs }) => runs.includes(run.run));
  return `${visible(run.title) || "run"}${variant ? `, ${variant.name}` : ""}`;
}

function savingsOf(run) {
  const f = run.metrics;
  if (!f.prompt_tokens) return "";
  const again = f.recomputed_tokens ? `; ${grouped(f.recomputed_tokens)} more recomputed for lack of a checkpoint` : "";
  return `${grouped(f.cached_tokens)} of ${plural(f.prompt_tokens, "prompt token")} found in the cache${again}`;
}

// "rerun of 2 of 4 rows"; "" for a run of all rows.
function wordsOfRerun(state, run) {
  if (!run.numbers.length) return "";
  let first = run;
  while (first.numbers.length && state.runs.has(first.earlier)) first = state.runs.get(first.earlier);
  const count = run.numbers.length;
  return first.numbers.length
    ? `rerun of ${plural(count, "row")}`
    : `rerun of ${count} of ${plural(first.metrics.total, "row")}`;
}

function wordsOfMetrics(state, run) {
  const f = run.metrics;
  const parts = [
    wordsOfRerun(state, run),
    f.total > 1 && `${f.finished}/${f.total} done`,
    f.output_tokens && plural(f.output_tokens, "new token"),
    f.jumped_tokens && `${f.jumped_tokens} forced`,
    f.output_tokens && run.seconds && `${Math.round(f.output_tokens / run.seconds)} tok/s`,
    plural(f.passes, "pass", "passes"),
    duration(run.seconds),
  ];
  if (run.status === "running" && f.finished && f.finished < f.total)
    parts.push(`${duration((run.seconds / f.finished) * (f.total - f.finished))} left`);
  return parts.filter(Boolean).join(" · ");
}

// reported: the cell's output has the error of the run.
function notesOf(state, run, reported) {
  const isBatch = run.metrics.total > 1,
    message = reported || isStop(run.message) ? "" : run.message;
  const notes = [
    message,
    isBatch && run.failed && !message.startsWith(`${run.failed} of `) && `${run.failed} failed`,
    isBatch && run.stopped && `${run.stopped} stopped, with partial texts`,
    state.lost && `incomplete: ${plural(state.lost, "record")} lost`,
    state.stopped && `the engine has stopped: ${state.stopped}`,
  ];
  return visible(notes.filter(Boolean).join("\n"));
}

// Counts of a view, for tests and measurements. `view`: name of the open panel.
function statsOf(store, run, view) {
  const state = store.state;
  const characters = run ? [...run.branches.values()].reduce((sum, branch) => sum + lengthOf(branch.pieces), 0) : 0;
  const hitRate = run && run.metrics.cached_tokens / Math.max(1, run.metrics.prompt_tokens);
  return {
    records: store.records.length,
    engines: 1 + state.others.size,
    nodes: state.nodes.size - 1,
    cached: state.cachedTokens,
    evicted: state.evicted,
    checkpoints: state.checkpoints,
    missing: state.missing,
    lost: state.lost,
    locked: [...state.nodes.values()].filter((node) => node.locks > 0).length,
    characters,
    view,
    ...(run ? { status: run.status, ...run.metrics, hit_rate: hitRate } : {}),
  };
}

const wordsOfCache = (run) => [
  wordsOfItems(run),
  wordsOfLoads(run),
  wordsOfOrders(run),
  wordsOfSplices(run),
  wordsOfFleet(run),
];
