// Orders of parts that a run chose. Twin of sgnb/viz/state/run_orders.py.
const SHOWN_PARTS = 12;

function countOrder(run, { order, gained }) {
  if (order.every((part, place) => part === place)) return;
  const shown = order.slice(0, SHOWN_PARTS).map((part) => part + 1);
  if (order.length > SHOWN_PARTS) shown.push("…");
  const last = `parts in the order ${shown.join(", ")}: ${wordsOfGain(gained)}`;
  run.orders = { count: run.orders.count + 1, gained: run.orders.gained + gained, last };
}

function wordsOfGain(tokens) {
  if (!tokens) return "as in an earlier prompt";
  return `${grouped(tokens)} more ${tokens === 1 ? "token" : "tokens"} cached`;
}

function wordsOfOrders(run) {
  const { count, gained, last } = run?.orders ?? { count: 0, last: "" };
  return count > 1 ? `parts of ${grouped(count)} texts in another order: ${wordsOfGain(gained)}` : last;
}
