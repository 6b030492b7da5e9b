// Tokens that a run loaded from lower tiers of the cache, and tokens gained by the order of parts. Twin of sgnb/viz/state/run_loads.py.

const PLACES = { host: "host memory", disk: "the disk" };

function countLoad(run, { store, tokens, seconds, compute_seconds }) {
  const before = run.loads.get(store) ?? [0, 0, 0];
  run.loads.set(store, [before[0] + tokens, before[1] + seconds, before[2] + compute_seconds]);
}

const SHOWN_PARTS = 12;

function countOrder(run, { order, gained }) {
  if (order.every((part, place) => part === place)) return;
  const shown = order.slice(0, SHOWN_PARTS).map((part) => part + 1);
  if (order.length > SHOWN_PARTS) shown.push("…");
  run.orders.count += 1;
  run.orders.gained += gained;
  run.orders.last = `parts in the order ${shown.join(", ")}: ${wordsOfGain(gained)}`;
}

function wordsOfGain(tokens) {
  if (!tokens) return "as in an earlier prompt";
  return `${grouped(tokens)} more ${tokens === 1 ? "token" : "tokens"} cached`;
}

function wordsOfLoads(run) {
  const lines = [...(run?.loads ?? [])].map(([store, [tokens, seconds, compute]]) => {
    const place = PLACES[store] ?? "a store";
    return `${grouped(tokens)} tokens from ${place} in ${duration(seconds)}, instead of about ${duration(compute)} of prefill`;
  });
  const { count, gained, last } = run?.orders ?? { count: 0 };
  if (count > 1) lines.push(`parts of ${grouped(count)} texts in another order: ${wordsOfGain(gained)}`);
  if (count === 1) lines.push(last);
  return lines.join("\n");
}
