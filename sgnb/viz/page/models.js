// Models of a run: the default model and models named by calls. Twin of sgnb/viz/state/models.py. Also separates records of several engines: ids of another engine's requests, tokens and automata get an offset, and each engine has a tree.

const OF_ENGINE_FROM = 2 ** 40; // id offset per engine number

const ownNumber = (number) => number % OF_ENGINE_FROM;

// Token ids of a list with pairs [first, count] for consecutive ids.
const unpacked = (ids) =>
  ids.some(Array.isArray)
    ? ids.flatMap((one) => (Array.isArray(one) ? Array.from({ length: one[1] }, (_, i) => one[0] + i) : [one]))
    : ids;

// Parse a line of JSON to a record with ids unique among engines.
function parseLine(line) {
  const record = JSON.parse(line),
    from = (record.of_engine ?? 0) * OF_ENGINE_FROM;
  for (const name of ["prompt", "tokens"]) if (Array.isArray(record[name])) record[name] = unpacked(record[name]);
  if (!from) return record;
  const move = (holder, ...names) => {
    for (const name of names) {
      const value = holder?.[name];
      if (Array.isArray(value)) holder[name] = value.map((one) => one + from);
      else if (value !== undefined) holder[name] = value + from;
    }
  };
  move(record, "request", "prompt", "ids", "first_id", "items");
  if (Array.isArray(record.tokens)) move(record, "tokens");
  if (record.automaton) move(record, "automaton");
  move(record.extended, "request");
  move(record.sampled, "request", "token");
  move(record.masked, "request");
  return record;
}

// The part of a state that belongs to an engine: `state`, or a state of another engine with shared runs and requests.
function stateOf(state, engine) {
  if (!engine) return state;
  if (!state.others.has(engine)) state.others.set(engine, shareWith(state, newState()));
  return state.others.get(engine);
}

const shareWith = ({ runs, requests, tokenTable, media, automata, peers, t }, other) =>
  Object.assign(other, { runs, requests, tokenTable, media, automata, peers, t });

function newModel(number, name = "", engine = 0) {
  return { number, name, engine, prompt: 0, cached: 0, output: 0, seconds: 0, open: 0, since: 0 };
}

const letterOf = ({ number }) => String.fromCharCode(65 + (number % 26));
const titleOf = (model) => `${letterOf(model)} ${visible(model.name)}`.trimEnd();

// Returns "" for the run's default model.
const markOf = (run, number) => (number ? letterOf(run.models.get(number)) : "");

function beginUse(model, t) {
  if (!model.open) model.since = t;
  model.open += 1;
}

function endUse(model, t) {
  model.open -= 1;
  if (!model.open) model.seconds += t - model.since;
}

function countFound(run, number, row, prompt, cached, again = 0) {
  const model = run.models.get(number);
  run.metrics.prompt_tokens += prompt;
  run.metrics.cached_tokens += cached;
  run.metrics.recomputed_tokens += again;
  model.prompt += prompt;
  model.cached += cached;
  if (!row) return;
  row.prompt += prompt;
  row.cached += cached;
  row.again += again;
}

function countWritten(run, number, row, count) {
  run.metrics.output_tokens += count;
  run.models.get(number).output += count;
  if (row) row.output += count;
}

// Start a call to another model. Metrics come from the requests or, without requests in the log, from `answerModel`.
function askModel(run, { branch: name, name: variable, number, model, engine }, state, t) {
  if (state.engine) run.models.get(0).name = String(state.engine.model).split("/").at(-1);
  if (!run.models.has(number)) run.models.set(number, newModel(number, model, engine));
  beginUse(run.models.get(number), t);
  run.calls.set(name, { model: number, counted: false, index: run.asked.length });
  run.asked.push({
    branch: name,
    name: variable,
    model: number,
    prompt: [],
    output: [],
    cached: 0,
    again: 0,
    queued: t,
    admitted: null,
    first: null,
    finished: null,
    counted: false,
  });
  const branch = run.branches.get(name);
  if (branch) branch.generatedFrom = lengthOf(branch.pieces);
}

function answerModel(run, event, row, t) {
  const call = run.calls.get(event.branch);
  if (!call) return;
  endUse(run.models.get(call.model), t);
  run.asked[call.index].finished = t;
  if (call.counted) return;
  countFound(run, call.model, row, event.prompt_tokens, event.cached_tokens);
  countWritten(run, call.model, row, event.output_tokens);
}

// Summary per model, for a run with several models.
function wordsOfModels(run) {
  if (!run || run.models.size < 2) return [];
  return [...run.models.values()].map((model) => {
    const found = model.cached ? ` (${grouped(model.cached)} found in the cache)` : "";
    const tokens =
      model.prompt || model.output
        ? `${grouped(model.prompt)} prompt${found} + ${grouped(model.output)} new tokens`
        : "no tokens counted";
    return `${titleOf(model)}: ${tokens} · ${duration(model.seconds)}`;
  });
}
