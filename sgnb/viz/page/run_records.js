// Runs and branches: handlers of records with a run id.

function promptKind({ cached, again, reused: [begin, end] }, position) {
  if (position < cached) return "cached";
  if (position < cached + again) return "again";
  return position >= begin && position < end ? "reused" : "computed";
}

// The text of a prompt by cache result, with a piece per image, video or sound.
function promptPieces(state, request) {
  const { id, prompt, cached, again, reused } = request,
    borders = [cached, cached + again, ...reused].sort((a, b) => a - b),
    pieces = [];
  let pending = NO_BYTES;
  const add = (from, to, item) => {
    let text;
    [text, pending] = decodeMore(pending, bytesOf(state.tokenTable, prompt.slice(from, to)));
    if (to === prompt.length && pending.length) text += "\ufffd";
    pieces.push({ kind: promptKind(request, from), text, request: id, from, to, ...(item && { item: item.first_id }) });
  };
  for (const { begin, end, item } of spansOf(state.media, prompt)) {
    const starts = item ? [begin] : [begin, ...new Set(borders.filter((at) => at > begin && at < end))];
    starts.forEach((from, i) => add(from, starts[i + 1] ?? end, item));
  }
  return pieces;
}

// The length of the text of the given tokens.
function givenLength(state, { prompt, given }) {
  const [before] = decodeMore(NO_BYTES, bytesOf(state.tokenTable, prompt.slice(0, prompt.length - given)));
  const [text, pending] = decodeMore(NO_BYTES, bytesOf(state.tokenTable, prompt));
  return text.length + (pending.length ? 1 : 0) - before.length;
}

function stream(state, request, kind, bytes, final = false) {
  const branch = request.shown && state.runs.get(request.run).branches.get(request.branch);
  if (!branch || branch.generatedFrom === null) return;
  let text;
  [text, request.pending] = decodeMore(request.pending, bytes);
  if (final && request.pending.length) text += "\ufffd";
  const to = request.prompt.length + request.output.length;
  const from = Math.min(request.told, to);
  // Forced text may start inside a token, because retokenization replaces the last tokens.
  const whole =
    kind === "jumped"
      ? textOfTokens(
          state.tokenTable,
          request.output.slice(from - request.prompt.length).map(({ token }) => token),
        )
      : text;
  const by = markOf(state.runs.get(request.run), request.model);
  append(branch.pieces, {
    kind,
    text,
    request: request.id,
    from,
    to,
    by,
    ...(whole.length > text.length && { skip: whole.length - text.length }),
  });
  if (text) request.told = to;
}

function finishText(run, event, text) {
  const row = rowOf(run, event.branch);
  if (row) Object.assign(row, { answer: text, name: event.name, variables: { ...row.variables, [event.name]: text } });
  const branch = run.branches.get(event.branch),
    by = markOf(run, run.calls.get(event.branch)?.model);
  run.calls.delete(event.branch);
  if (!branch) return;
  let same = 0;
  if (branch.generatedFrom !== null) {
    const streamed = textOf(drop(branch.pieces, branch.generatedFrom));
    same = commonPrefix(streamed, text);
    cut(branch, branch.generatedFrom + same);
    branch.generatedFrom = null;
  }
  append(branch.pieces, { kind: event.recorded ? "text" : "sampled", text: text.slice(same), by });
  branch.variables[event.name] = text;
  branch.makers[event.name] = by;
}

// Errors of a branch that was stopped from outside. The branch keeps the partial text.
const STOPS = ["Aborted", "KeyboardInterrupt", "GeneratorExit", "CancelledError"];
const isStop = (error) => STOPS.includes(error.split(":")[0]);

// Handlers of records with a run id.
const OF_RUNS = {
  CallRouted(run, event, state, t) {
    countRoute(run, event, t);
  },
  CallRetried(run, event, state, t) {
    countRetry(run, event, t);
  },
  RunEdited(run, event) {
    run.edit = event;
  },
  RunFinished(run, event) {
    run.status = event.status;
    run.message = event.message;
  },
  BranchStarted(run, event, state, t) {
    if (!event.branch.includes("."))
      run.rows.set(event.branch, {
        run: run.run,
        number: run.numbers[run.rows.size] ?? run.rows.size,
        variables: {},
        items: [], // first token ids of images, videos and sounds
        branch: event.branch,
        status: "running",
        error: "",
        arguments: "",
        name: "",
        answer: "",
        prompt: 0,
        cached: 0,
        again: 0,
        output: 0,
        began: t,
        ended: null,
      });
    if (run.branches.size >= KEPT_BRANCHES) {
      run.hidden += 1;
      return;
    }
    const branch = newBranch(event.branch, event.parent);
    const parent = run.branches.get(event.parent);
    if (parent && textOf(parent.pieces).endsWith(event.text)) {
      branch.pieces = parent.pieces.map((piece) => ({ ...piece }));
      branch.shared = lengthOf(parent.pieces);
    } else {
      append(branch.pieces, { kind: "text", text: event.text });
    }
    branch.forkedAt = parent ? lengthOf(parent.pieces) : 0;
    run.branches.set(event.branch, branch);
  },
  RowsNumbered(run, { rows, earlier }) {
    Object.assign(run, { numbers: rows, earlier });
  },
  ProgramCalled(run, event) {
    const row = run.rows.get(event.branch);
    if (row) row.arguments = event.arguments;
  },
  BranchFinished(run, event, state, t) {
    run.calls.delete(event.branch);
    const error = isStop(event.error) ? "" : event.error;
    const status = { status: error ? "error" : event.error ? "stopped" : "done", error };
    if (!event.branch.includes(".")) {
      run.metrics.finished += status.status !== "stopped";
      run.stopped += status.status === "stopped";
    }
    if (error) {
      run.failed += 1;
      run.firstError ||= error;
    }
    const row = run.rows.get(event.branch),
      branch = run.branches.get(event.branch);
    if (row) Object.assign(row, status, { ended: t });
    if (branch) Object.assign(branch, status);
  },
  PartsOrdered(run, event) {
    countOrder(run, event);
  },
  TextAppended(run, event) {
    const branch = run.branches.get(event.branch);
    if (!branch) return;
    branch.generatedFrom = null;
    append(branch.pieces, { kind: "text", text: event.text });
  },
  TextStreamed(run, event) {
    const branch = run.branches.get(event.branch),
      by = markOf(run, run.calls.get(event.branch)?.model);
    if (!branch) return;
    branch.generatedFrom ??= lengthOf(branch.pieces);
    append(branch.pieces, { kind: "sampled", text: event.text, by });
  },
  ModelAsked: askModel,
  ModelAnswered(run, event, state, t) {
    answerModel(run, event, rowOf(run, event.branch), t);
  },
  GenerationDone(run, event) {
    finishText(run, event, event.text);
  },
  ChoiceMade(run, event) {
    finishText(run, event, event.chosen);
  },
};
