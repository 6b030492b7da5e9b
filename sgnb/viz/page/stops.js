// Stops of a paused run, by branch: twin of sgnb/viz/state/stops.py. A place is [words, stopped request or null].

const quoted = (name) => (name.includes("'") && !name.includes('"') ? `"${name}"` : `'${name}'`);

const OF_STOPS = {
  BranchPaused(run, { branch, before, line }) {
    run.stops.set(branch, [`before ${before}${line ? `, line ${line}` : ""}`, null]);
  },
  BranchResumed(run, { branch }) {
    run.stops.delete(branch);
  },
  BranchFinished(run, { branch }) {
    run.stops.delete(branch);
  },
  RequestWaits(run, { reason }, { id, branch, name, finished }) {
    if (reason === "paused" && finished === null)
      run.stops.set(branch, [`after a token${name ? ` of ${quoted(name)}` : ""}`, id]);
  },
  RequestAdmitted(run, event, { branch, finished }) {
    if (finished === null) run.stops.delete(branch);
  },
  RequestFinished(run, event, { branch, finished }) {
    if (finished === null) run.stops.delete(branch);
  },
};

function applyToStops(state, record) {
  const handler = OF_STOPS[record.kind],
    request = record.request === undefined ? undefined : state.requests.get(record.request);
  const run = handler && state.runs.get(request ? request.run : record.run);
  if (run) handler(run, record, request);
}

const isStopRecord = ({ kind, reason }) => kind === "BranchPaused" || (kind === "RequestWaits" && reason === "paused");

const stopsRun = (state, run, record) =>
  isStopRecord(record) && run.run === (record.run ?? state.requests.get(record.request)?.run);

const wordsOfStops = ({ stops }) => [...stops].map(([branch, [place]]) => visible(`paused ${place} [${branch}]`));
