// Lanes of a run: calls, tools, pauses and Python time of each branch. Twin of sgnb/viz/state/lanes.py; the calls of a lane are the requests of the state.

const KEPT_LANES = 400; // maximum lanes per run

const LANE_BEGINS = {
  ToolCalled: ["tools", ({ name }) => name],
  ModelAsked: ["service", ({ name }) => name],
  BranchPaused: ["paused", ({ before }) => before],
};
const LANE_ENDS = { ToolReturned: "tools", ModelAnswered: "service", BranchResumed: "paused" };

const copyLane = (lane) => ({ ...lane, activities: lane.activities.map((activity) => ({ ...activity })) });

function laneOf(run, branch) {
  if (!run.lanes.has(branch) && run.lanes.size < KEPT_LANES)
    run.lanes.set(branch, { branch, parent: "", forkedAt: 0, began: null, ended: null, activities: [] });
  return run.lanes.get(branch);
}

function applyToLanes(state, record, t) {
  const { kind, branch } = record,
    run = branch === undefined ? null : state.runs.get(record.run);
  if (!run) return;
  if (kind === "BranchStarted") {
    const lane = laneOf(run, branch);
    if (!lane) run.moreLanes += 1;
    else Object.assign(lane, { parent: record.parent, began: t, forkedAt: record.text.length });
  } else if (kind === "RequestQueued") {
    laneOf(run, branch);
  } else if (kind === "BranchFinished") {
    if (run.lanes.has(branch)) run.lanes.get(branch).ended = t;
  } else if (kind in LANE_BEGINS) {
    const [activity, nameOf] = LANE_BEGINS[kind];
    laneOf(run, branch)?.activities.push({ kind: activity, name: nameOf(record), began: t, ended: null });
  } else if (kind in LANE_ENDS) {
    const open = laneOf(run, branch)?.activities.findLast(
      (activity) => activity.kind === LANE_ENDS[kind] && activity.ended === null,
    );
    if (open) open.ended = t;
  }
}

// The lanes of a run with the calls, forks after the parent.
function timelineOf(state, run) {
  const lanes = new Map(
    [...run.lanes.values()].map((lane) => [lane.branch, { ...lane, name: lane.branch, requests: [] }]),
  );
  for (const request of state.requests.values())
    if (request.run === run.run) lanes.get(request.branch)?.requests.push(request);
  for (const call of run.asked) if (!call.counted) lanes.get(call.branch)?.requests.push(call);
  for (const lane of lanes.values()) {
    lane.requests.sort((a, b) => a.queued - b.queued);
    lane.order = lane.name
      .split(".")
      .map((part) => part.padStart(6, "0"))
      .join(".");
  }
  return [...lanes.values()].sort((a, b) => (a.order < b.order ? -1 : 1));
}

// The variables of a lane's calls, each once.
const variablesOf = ({ requests }) => [...new Set(requests.map(({ name }) => name).filter(Boolean))].join(", ");

// The parts of [begin, end] outside of the busy times.
function gapsOf(begin, end, busy) {
  const free = [];
  let at = begin;
  for (const [start, stop] of busy.filter(([from, to]) => from < to).sort((a, b) => a[0] - b[0])) {
    if (start >= end) break;
    if (start > at) free.push([at, start]);
    at = Math.max(at, stop);
  }
  if (at < end) free.push([at, end]);
  return free;
}

// The times of a lane without a call, tool, pause or running fork. `now` is the end of an open branch.
function pythonSpans(lane, lanes, now) {
  if (lane.began === null) return [];
  const end = lane.ended ?? now;
  const busy = [
    ...lane.requests.map(({ queued, finished }) => [queued, finished ?? end]),
    ...lane.activities.map(({ began, ended }) => [began, ended ?? end]),
    ...lanes
      .filter(({ parent, began }) => parent === lane.name && began !== null)
      .map(({ began, ended }) => [began, ended ?? end]),
  ];
  return gapsOf(lane.began, end, busy);
}

// The forks of all lanes: {parent, branches, forked, joined}. `joined` is the end of the last branch, or null while a branch runs or if the parent ended first.
function forkGroups(lanes) {
  const groups = new Map();
  for (const lane of lanes) {
    const parent = lanes.find(({ name }) => name === lane.parent);
    if (!parent || lane.began === null) continue;
    const key = `${lane.parent} ${lane.forkedAt}`;
    if (!groups.has(key)) groups.set(key, { parent, branches: [] });
    groups.get(key).branches.push(lane);
  }
  return [...groups.values()].map(({ parent, branches }) => {
    const over = branches.every(({ ended }) => ended !== null);
    const last = over ? Math.max(...branches.map(({ ended }) => ended)) : null;
    const joined = over && (parent.ended === null || parent.ended > last) ? last : null;
    return { parent, branches, forked: Math.min(...branches.map(({ began }) => began)), joined };
  });
}

const tokensOfRequest = ({ prompt, output }) => [...prompt, ...output.map(({ token }) => token)];

// The number of prompt tokens shared by the first calls of all branches of a fork; 0 for a fork with one branch or unknown tokens.
function sharedTokens({ branches }) {
  const prompts = branches.map(({ requests }) => requests[0]?.prompt ?? []);
  if (prompts.length < 2) return 0;
  return prompts.slice(1).reduce((shared, prompt) => Math.min(shared, commonTokens(prompts[0], prompt)), Infinity);
}
