// Reducers from records to states, equal to sgnb/viz/state/run_state.py and sgnb/viz/state/tree.py; a test compares both. `apply` changes only the given state, and
// replaces token arrays instead of changing them, because copies share the arrays.

const OF_ENGINE = {
  EngineStarted(state, event) {
    state.engine = event;
  },
  WorkerJoined(state, event, t) {
    state.workers.set(event.worker, event.engine);
    for (const run of state.runs.values()) joinWorker(run, event, t);
  },
  // The open requests of the worker end, because the engine has no further events.
  WorkerLost(state, event, t) {
    const { engine } = event;
    state.workers.delete(event.worker);
    for (const run of state.runs.values()) loseWorker(run, event, t);
    for (const { id, written, finished, ...request } of state.requests.values())
      if (request.engine === engine && finished === null)
        apply(state, {
          kind: "RequestFinished",
          t,
          of_engine: engine,
          request: id,
          prompt_tokens: 0,
          cached_tokens: 0,
          output_tokens: written,
        });
  },
  FleetScaled(state, event) {
    for (const run of state.runs.values()) if (["waiting", "running"].includes(run.status)) scaleFleet(run, event);
  },
  EngineStopped(state, event) {
    state.stopped = event.reason;
  },
  RecordsLost(state, event) {
    state.lost += event.count;
  },
  TokensNamed(state, event) {
    event.ids.forEach((id, i) => state.tokenTable.set(id, latin1(event.pieces[i])));
  },
  MediaNamed(state, event) {
    for (let i = 0; i < event.count; i += 1) state.tokenTable.set(event.first_id + i, NO_BYTES);
    state.tokenTable.set(event.first_id, utf8Bytes.encode(`[${event.label}]`));
    nameItem(state.media, event);
  },
  ItemsEncoded(state, event, t) {
    encoderRan(state, event.of_engine ?? 0, event, t);
  },
  PrefixLoaded(state, event, t) {
    const request = state.requests.get(event.request),
      run = request && request.finished === null && state.runs.get(request.run);
    if (!run) return;
    countLoad(run, event, t);
    if (event.begin) countFound(run, request.model, rowOf(run, request.branch), 0, event.tokens);
    timed(run, t);
  },
  PrefixNotLoaded(state, event) {
    state.requests.get(event.request)?.notLoaded.push(event);
  },
  AnswerSpliced(state, event) {
    const request = state.requests.get(event.request),
      run = state.runs.get(request?.run);
    if (!run || request.finished !== null) return;
    request.reused = [event.begin, event.begin + event.reused];
    run.metrics.reused_tokens += event.reused;
    countSplice(run, event);
  },
  AnswerVerified(state, event) {
    const run = state.runs.get(state.requests.get(event.request)?.run);
    if (run) countVerdict(run, event);
  },
  // Twin of sgnb/viz/state/comparison.py: the latest comparison of a log.
  VariantRan(state, event) {
    const { comparison: id, variant, run, note, left } = event;
    const before = state.comparison?.id === id ? state.comparison : { id, variants: [], lines: [], rerun: null };
    const old = before.variants.find((one) => one.name === variant) ?? { name: variant, note: "", runs: [] };
    const next = { ...old, note: old.note || note, runs: state.runs.has(run) ? [...old.runs, run] : old.runs };
    const variants = before.variants.includes(old)
      ? before.variants.map((one) => (one === old ? next : one))
      : [...before.variants, next];
    state.comparison = { ...before, variants, left };
  },
  ComparisonDone(state, event) {
    if (state.comparison?.id === event.comparison) state.comparison = { ...state.comparison, lines: event.lines };
  },
  RunsCompared(state, event) {
    if (state.comparison?.id === event.comparison) state.comparison = { ...state.comparison, rerun: event };
  },
  RunStarted(state, event, t) {
    const run = newRun(event, t);
    for (const [worker, engine] of state.workers) workerLane(run, worker, engine);
    state.runs.set(event.run, run);
    timed(run, t);
  },
  RequestQueued(state, event, t) {
    const run = state.runs.get(event.run);
    const live = [...state.live].map((id) => state.requests.get(id)).filter((request) => request.finished === null);
    const busy = live.some((request) => request.shown && request.run === event.run && request.branch === event.branch);
    const engine = event.of_engine ?? 0,
      model = run ? ([...run.models.values()].find((one) => one.engine === engine)?.number ?? 0) : 0;
    const call = engine ? run?.calls.get(event.branch) : undefined;
    if (call) call.counted = run.asked[call.index].counted = true;
    if (run) beginUse(run.models.get(model), t);
    const items = itemsOfPrompt(state.media, event.request, event.prompt),
      row = run && items.length ? rowOf(run, event.branch) : null;
    if (row) row.items = [...new Set([...row.items, ...items.map(({ item }) => item.first_id)])];
    state.requests.set(event.request, {
      id: event.request,
      engine,
      model,
      run: event.run,
      branch: event.branch,
      name: event.name,
      purpose: event.purpose,
      file: event.file,
      line: event.line,
      prompt: event.prompt,
      items,
      encoded: [], // first ids of items encoded before the admission
      namespace: event.namespace,
      given: event.num_given ?? 0, // last prompt tokens that are output
      output: [],
      queued: t,
      admitted: null,
      first: null,
      finished: null,
      cached: 0,
      again: 0,
      reused: [0, 0], // positions of approximate keys and values
      written: 0,
      told: event.prompt.length,
      pending: NO_BYTES,
      forced: NO_BYTES,
      leaves: null,
      notLoaded: [], // events about stored tokens without a load
      notUsed: "", // why stored copies were not used
      grammar: "",
      states: 0,
      automaton: 0,
      bound: false,
      shown: Boolean(run?.branches.has(event.branch)) && !busy,
      activity: "",
      sampled: false,
    });
    state.live.add(event.request);
    const activity = event.prompt.length ? "waiting" : "service";
    if (run) moveRequest(run, state.requests.get(event.request), activity);
    else state.requests.get(event.request).activity = activity;
  },
  RequestAdmitted(state, event, t) {
    const request = state.requests.get(event.request);
    if (!request || request.admitted !== null || request.finished !== null) return;
    const { cached, again = 0 } = event;
    Object.assign(request, { admitted: t, cached, again });
    request.notUsed = whyNotLoaded(state, request);
    request.leaves = markHits(state, request.prompt, cached, again, t, request.namespace);
    const run = state.runs.get(request.run);
    if (!run) return;
    timed(run, t);
    countFound(run, request.model, rowOf(run, request.branch), request.prompt.length, cached, again);
    countItems(state, run, request);
    if (!request.shown) return;
    const pieces = promptPieces(state, request);
    const branch = run.branches.get(request.branch);
    showPrompt(branch, pieces, request.purpose === "generate", request.model > 0);
    if (request.given && branch.generatedFrom !== null) branch.generatedFrom -= givenLength(state, request);
    for (let above = run.branches.get(branch.parent); above; above = run.branches.get(above.parent))
      showSent(above, pieces);
    stream(state, request, "jumped", request.forced);
  },
  AutomatonDrawn(state, event) {
    state.automata.set(event.automaton, event);
  },
  GrammarReady(state, event) {
    const request = state.requests.get(event.request);
    if (request)
      Object.assign(request, { grammar: event.grammar, states: event.states, automaton: event.automaton, bound: true });
  },
  StepRan(state, event, t) {
    for (const id of state.live) if (state.requests.get(id).finished !== null) state.live.delete(id);
    const involved = new Set();
    event.sampled.request.forEach((id, i) => {
      const request = state.requests.get(id);
      if (!request || request.finished !== null) return;
      const token = event.sampled.token[i];
      request.first ??= t;
      request.written += 1;
      request.output.push({ token, t, kind: "sampled", logprob: event.sampled.logprob[i], mask: null });
      const run = state.runs.get(request.run);
      if (!run) return;
      involved.add(run);
      countWritten(run, request.model, rowOf(run, request.branch), 1);
      stream(state, request, "sampled", bytesOf(state.tokenTable, [token]));
    });
    event.masked.request.forEach((id, i) => {
      const request = state.requests.get(id),
        last = request?.output.at(-1);
      if (!last) return;
      request.bound = true;
      last.mask = {
        allowed: event.masked.allowed[i],
        kept: event.masked.kept[i],
        before: event.masked.before[i],
        after: event.masked.after[i],
      };
    });
    for (const id of event.extended.request) {
      const request = state.requests.get(id);
      const run = request && request.finished === null && state.runs.get(request.run);
      if (run) involved.add(run);
    }
    for (const run of involved) {
      run.metrics.passes += 1;
      timed(run, t);
    }
  },
  Alternatives(state, event) {
    const output = state.requests.get(event.request)?.output ?? [];
    const alternatives = event.tokens.map((token, i) => ({
      token,
      logprob: event.logprobs[i],
      allowed: event.allowed[i],
    }));
    if (output.length) output[output.length - 1] = { ...output.at(-1), alternatives };
  },
  Jumped(state, event, t) {
    const request = state.requests.get(event.request);
    if (!request || request.finished !== null) return;
    const count = event.tokens.length - event.dropped,
      bytes = latin1(event.data);
    request.output.length = Math.max(0, request.output.length - event.dropped);
    request.told = Math.min(request.told, request.prompt.length + request.output.length);
    request.bound = true;
    const jump = { before: event.before, after: event.after, labels: event.labels, dropped: event.dropped };
    for (const token of event.tokens)
      request.output.push({ token, t, kind: "jumped", logprob: null, mask: null, jump });
    request.written += count;
    const run = state.runs.get(request.run);
    if (!run) return;
    timed(run, t);
    countWritten(run, request.model, rowOf(run, request.branch), count);
    run.metrics.jumped_tokens += count;
    if (request.admitted !== null) stream(state, request, "jumped", bytes);
    else request.forced = new Uint8Array([...request.forced, ...bytes]);
  },
  RequestFinished(state, event, t) {
    const request = state.requests.get(event.request);
    if (!request || request.finished !== null) return;
    request.finished = t;
    const run = state.runs.get(request.run);
    if (!run) return;
    timed(run, t);
    const untold = !request.prompt.length; // tokens are counted elsewhere
    if (untold) countFound(run, request.model, rowOf(run, request.branch), event.prompt_tokens, event.cached_tokens);
    countWritten(run, request.model, untold ? rowOf(run, request.branch) : null, event.output_tokens - request.written);
    endUse(run.models.get(request.model), t);
    stream(state, request, "sampled", NO_BYTES, true);
  },
};

function apply(state, record) {
  const { kind, t } = record,
    own = stateOf(state, record.of_engine);
  state.t = own.t = Math.max(state.t, t);
  applyToTime(own, record, t);
  applyToStops(own, record);
  applyToLanes(own, record, t);
  if (OF_ENGINE[kind]) OF_ENGINE[kind](own, record, t);
  else if (OF_TREE[kind]) {
    OF_TREE[kind](own, record, t);
    own.shape += OF_SHAPE.has(kind);
  } else if (OF_RUNS[kind] && state.runs.has(record.run)) {
    const run = state.runs.get(record.run);
    OF_RUNS[kind](run, record, state, t);
    timed(run, t);
  }
}
