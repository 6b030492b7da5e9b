// The records that a page has, the state at any of them, and the columns that drawings over time read.

const KEYFRAME = 2000; // records between the copies from which an earlier state is made again

function newStore() {
  const store = { records: [], state: newState(), place: null, version: 0, live: true, heard: performance.now(), steps: newSteps(), admissions: [], evictions: [] };
  const keyframes = [];

  // `place`: how many records the shown state has seen; null follows the newest.
  store.add = (records) => {
    for (const record of records) {
      store.records.push(record);
      collect(store, record);
      apply(store.state, record);
    }
    store.version += 1;
  };
  store.shown = () => (store.place === null ? store.state : store.at(store.place));

  let asked = { place: -1, state: null };
  store.at = (place) => {
    if (asked.place === place) return asked.state;
    const wanted = Math.floor(place / KEYFRAME);
    while (keyframes.length <= wanted) {
      const state = keyframes.length ? copyState(keyframes.at(-1)) : newState();
      const from = Math.max(0, (keyframes.length - 1) * KEYFRAME), to = keyframes.length * KEYFRAME;
      for (let i = from; i < to; i += 1) apply(state, store.records[i]);
      keyframes.push(state);
    }
    // A step forward goes on from the state that was asked for last.
    const near = asked.state && asked.place < place && asked.place >= wanted * KEYFRAME;
    const state = near ? asked.state : copyState(keyframes[wanted]);
    for (let i = near ? asked.place : wanted * KEYFRAME; i < place; i += 1) apply(state, store.records[i]);
    asked = { place, state };
    return state;
  };
  store.seek = (place) => {
    store.place = place === null || place >= store.records.length ? null : Math.max(0, place);
    store.version += 1;
  };
  // The number of records up to a time, in seconds of the log.
  store.placeAt = (t) => {
    let low = 0, high = store.records.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (store.records[middle].t <= t) low = middle + 1;
      else high = middle;
    }
    return low;
  };
  return store;
}

const newSteps = () => ({ t: [], seconds: [], prefill: [], decode: [], waiting: [], free: [], cached: [], inFlight: [] });

function collect({ steps, admissions, evictions, state }, record) {
  if (record.kind === "StepRan") {
    const decode = record.extended.length.filter((length) => length === 1).length;
    const tokens = record.extended.length.reduce((sum, length) => sum + length, 0);
    const row = { t: record.t, seconds: record.seconds, prefill: tokens - decode, decode, waiting: record.waiting, free: record.free, cached: record.cached, inFlight: record.in_flight };
    for (const [name, value] of Object.entries(row)) steps[name].push(value);
  } else if (record.kind === "RequestAdmitted") {
    const request = state.requests.get(record.request);
    if (request && request.admitted === null) admissions.push({ t: record.t, run: request.run, prompt: request.prompt.length, cached: record.cached });
  } else if (record.kind === "NodeEvicted") {
    evictions.push(record.t);
  }
}

// Seconds that a token of a prompt takes to compute, in the step so far that was fastest at it; null while none computed a prompt.
function secondsPerToken(steps) {
  const each = steps.seconds.map((seconds, i) => seconds / (steps.prefill[i] + steps.decode[i])).filter((_, i) => steps.prefill[i] >= 8);
  return each.length ? each.reduce((least, one) => Math.min(least, one)) : null;
}

const parseLines = (text) => text.split("\n").filter(Boolean).map((line) => JSON.parse(line));
