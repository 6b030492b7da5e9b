// The views' own cost: share of the kernel's processor time, and time from an event to its drawing.

const KEPT_DELAYS = 200;

function newViewCost() {
  const delays = []; // ms, the latest last
  let share = null,
    received = [];
  return {
    // `now`: time of the log at sending. The transport between kernel and page is not included.
    receive({ now, share: ofProcessor }, records) {
      if (now === undefined) return;
      share = ofProcessor;
      if (records.length) received.push({ at: performance.now(), age: 1000 * (now - records[0].t) });
    },
    drawn() {
      const end = performance.now();
      delays.push(...received.map(({ at, age }) => age + end - at));
      delays.splice(0, delays.length - KEPT_DELAYS);
      received = [];
    },
    words() {
      if (share === null) return "";
      const cost = `views: ${(100 * share).toFixed(1)} % of the processor time`;
      if (!delays.length) return cost;
      const sorted = [...delays].sort((a, b) => a - b);
      return `${cost}, drawn within ${Math.round(sorted[Math.floor(0.95 * (sorted.length - 1))])} ms`;
    },
  };
}
