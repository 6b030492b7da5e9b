// Tokens that a run loaded from lower tiers of the cache. Twin of sgnb/viz/state/run_loads.py.

const PLACES = { host: "host memory", disk: "the disk" };

function countLoad(run, { store, tokens, seconds, compute_seconds }) {
  const before = run.loads.get(store) ?? [0, 0, 0];
  run.loads.set(store, [before[0] + tokens, before[1] + seconds, before[2] + compute_seconds]);
}

const wordsOfLoads = (run) =>
  [...(run?.loads ?? [])]
    .map(([store, [tokens, seconds, compute]]) => {
      const place = PLACES[store] ?? "a store";
      return `${grouped(tokens)} tokens from ${place} in ${duration(seconds)}, instead of about ${duration(compute)} of prefill`;
    })
    .join("\n");
