// Wall time of a run by activity: twin of sgnb/viz/state/time_parts.py.

// Activities, first the activity that counts if several are in progress.
const TIME_PARTS = ["decode", "prefill", "grammar", "encoder", "waiting", "service", "tools", "paused", "Python"];
const SHOWN_SHARE = 0.01;
const WAIT_PARTS = { grammar: "grammar", mask: "grammar", encoder: "encoder", paused: "paused" };
const BEGUN_PARTS = {
  ToolCalled: ["tools", 1],
  ToolReturned: ["tools", -1],
  ModelAsked: ["service", 1],
  ModelAnswered: ["service", -1],
  BranchPaused: ["paused", 1],
  BranchResumed: ["paused", -1],
};

function newTimeParts() {
  const zeros = () => Object.fromEntries(TIME_PARTS.map((name) => [name, 0]));
  return { at: null, ended: false, seconds: zeros(), active: zeros(), waitedFor: {} };
}

const copyTimeParts = (time) => ({
  ...time,
  seconds: { ...time.seconds },
  active: { ...time.active },
  waitedFor: { ...time.waitedFor },
});

const activityOf = ({ active }) => TIME_PARTS.find((name) => active[name] > 0) ?? "Python";

function countTime(time, activity, until) {
  time.seconds[activity] += until - time.at;
  time.at = until;
}

// Count the time until `t` for the activity in progress.
function advanceTime({ time }, t) {
  time.at ??= t;
  if (t > time.at && !time.ended) countTime(time, activityOf(time), t);
}

// Set the activity of a request; "" for the end of the request.
function moveRequest(run, request, activity) {
  const { active } = run.time;
  if (request.activity) active[request.activity] -= 1;
  if (activity) active[activity] += 1;
  request.activity = activity;
}

const TIMED = new Set(["RequestQueued", "BranchStarted", "BranchFinished", "RunFinished", ...Object.keys(BEGUN_PARTS)]);
const MOVES = {
  RequestWaits: (request, { reason }) => WAIT_PARTS[reason] ?? "waiting",
  RequestAdmitted: (request) => (request.sampled ? "decode" : "prefill"),
  RequestRetracted: () => "waiting",
  GrammarReady: (request) => (request.activity === "grammar" ? "waiting" : null),
  RequestFinished: () => "",
};

// Apply a record before the handlers of the state.
function applyToTime(state, record, t) {
  if (record.kind === "StepRan") return stepTime(state, record, t);
  const request = record.kind in MOVES ? state.requests.get(record.request) : undefined;
  const run = state.runs.get(request ? request.run : record.run);
  if (!run || !(request || TIMED.has(record.kind))) return;
  if (request) {
    const activity = request.activity ? MOVES[record.kind](request, record) : null;
    if (activity === null) return;
    timed(run, t);
    moveRequest(run, request, activity);
    return;
  }
  timed(run, t);
  if (record.kind === "RunFinished") run.time.ended = true;
  if (!(record.kind in BEGUN_PARTS)) return;
  const [part, change] = BEGUN_PARTS[record.kind];
  run.time.active[part] += change;
}

function stepTime(state, event, t) {
  const computed = new Map(),
    resumed = [],
    others = [];
  event.extended.request.forEach((id, i) => {
    const request = state.requests.get(id);
    if (!request || !request.activity) return;
    others.push(request);
    const run = state.runs.get(request.run);
    if (!run || run.time.ended) return;
    const start = event.extended.start[i],
      length = event.extended.length[i];
    const inPrompt = Math.max(0, Math.min(length, request.prompt.length - start));
    const [prompt, output] = computed.get(run) ?? [0, 0];
    computed.set(run, [prompt + inPrompt, output + length - inPrompt]);
    if (!["prefill", "decode"].includes(request.activity)) resumed.push([run, request]);
  });
  for (const [run, [prompt, output]] of computed) {
    advanceTime(run, Math.max(run.time.at, t - event.seconds));
    for (const [own, request] of resumed)
      if (own === run) moveRequest(run, request, request.sampled ? "decode" : "prefill");
    const middle = run.time.at + ((t - run.time.at) * prompt) / (prompt + output);
    countTime(run.time, "prefill", middle);
    countTime(run.time, "decode", Math.max(middle, t));
    timed(run, t);
  }
  for (const id of event.sampled.request) {
    const request = state.requests.get(id),
      run = request?.activity && !request.sampled && state.runs.get(request.run);
    if (!run) continue;
    request.sampled = true;
    moveRequest(run, request, "decode");
  }
  for (const run of state.runs.values()) {
    if (computed.has(run) || run.time.ended || activityOf(run.time) !== "waiting") continue;
    const waited = Math.min(event.seconds, t - run.time.at);
    timed(run, t);
    const known = others.filter(({ queued }) => queued >= run.began).map((request) => request.run);
    for (const other of new Set(known)) run.time.waitedFor[other] = (run.time.waitedFor[other] ?? 0) + waited;
  }
}

// The time by activity as a sentence, largest part first.
function wordsOfTime({ time }) {
  const total = Object.values(time.seconds).reduce((sum, seconds) => sum + seconds, 0);
  const shown = Object.entries(time.seconds).filter(([, seconds]) => seconds > SHOWN_SHARE * total);
  shown.sort((one, other) => other[1] - one[1]);
  const longest = Object.entries(time.waitedFor).sort((one, other) => other[1] - one[1])[0];
  const labelOf = (name) =>
    name === "waiting" && longest ? `waiting for ${visible(longest[0]) || "other requests"}` : name;
  const parts = shown.map(([name, seconds]) => `${labelOf(name)} ${duration(seconds)}`);
  return parts.length ? `of ${duration(total)}: ${parts.join(", ")}` : "";
}
