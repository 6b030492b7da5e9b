// Details of a selected token or node, as [name, value] pairs.

function describe(state, selection) {
  if (!state || !selection) return null;
  if (selection.automaton !== undefined) return describeState(state, selection);
  if (selection.load !== undefined) return describeLoad(state, selection);
  if (selection.routed !== undefined) return describeCall(state, selection);
  return selection.node !== undefined ? describeNode(state, selection.node) : describeToken(state, selection);
}

function describeToken(state, { request: id, position }) {
  const request = state.requests.get(id),
    token = request && tokenAt(request, position);
  if (!token) return null;
  const span = request.items.find(({ begin, end }) => position >= begin && position < end);
  if (span) return describeItem(state, request, span);
  const before = tokenAt(request, position - 1);
  const facts = [
    ["origin", KINDS[token.kind].join(": ")],
    ["token", `${ownNumber(token.token)}, position ${position}`],
    ["of", `branch ${request.branch}${request.name ? `, ${visible(request.name)}` : ""}`],
  ];
  const run = state.runs.get(request.run);
  if (request.model) facts.push(["model", titleOf(run.models.get(request.model))]);
  const route = routeOf(run, request);
  if (route) facts.push(["worker", wordsOfRoute(route)]);
  if (request.line) facts.push(["line", locationOf(state, request)]);
  if (token.logprob !== null && token.logprob !== undefined)
    facts.push(["probability", `${(100 * Math.exp(token.logprob)).toFixed(1)} % (log ${token.logprob.toFixed(2)})`]);
  if (token.t !== undefined && before?.t !== undefined)
    facts.push(["time", `${duration(token.t - before.t)} after the token before`]);
  else if (token.t !== undefined) facts.push(["time", `${duration(token.t - request.queued)} after the request`]);
  if (request.again && position >= request.cached && position < request.cached + request.again)
    facts.push(["recomputed", whyAgain(request)]);
  facts.push(...rerunFacts(state, request, position));
  if (position === missedAt(request) && request.leaves) facts.push(...missFacts(state, request));
  if (token.mask)
    facts.push([
      "grammar",
      `${plural(token.mask.allowed, "token")} allowed, ${(100 * Math.exp(token.mask.kept)).toFixed(1)} % of the probability${token.mask.before >= 0 ? `, state ${token.mask.before} → ${token.mask.after}` : ""}`,
    ]);
  if (token.alternatives) facts.push(["likeliest", alternativesOf(state, token)]);
  if (token.jump)
    facts.push([
      "grammar",
      `forced${token.jump.labels.length ? ` by ${visible(token.jump.labels.join(" "))}` : ""}${token.jump.before >= 0 ? `, state ${token.jump.before} → ${token.jump.after}` : ""}`,
    ]);
  const node = [...(nodesOf(stateOf(state, request.engine), { request: id, position }) ?? [])][0];
  if (node !== undefined) facts.push(["cache", `node ${node}`]);
  return { text: textOfTokens(state.tokenTable, [token.token]), facts };
}

// Alternatives with probabilities before and, if present, after the grammar mask.
function alternativesOf(state, { alternatives, mask }) {
  const share = (logprob) => `${(100 * Math.exp(logprob)).toFixed(1)} %`;
  return alternatives
    .map(({ token, logprob, allowed }) => {
      const after = !mask ? "" : allowed ? ` → ${share(logprob - mask.kept)}` : " → not allowed";
      return `“${inLine(textOfTokens(state.tokenTable, [token]), 20)}” ${share(logprob)}${after}`;
    })
    .join(", ");
}

// The reason for recomputing cached tokens.
function whyAgain({ cached, again }) {
  return `${plural(again, "token")} in the tree: no checkpoint${cached ? ` after token ${grouped(cached)}` : ""} to resume from`;
}

// The location of the call in the program: the source line, or file and line number.
function locationOf(state, { run: name, file, line }) {
  const run = state.runs.get(name),
    own = run && run.file === file ? run.source.split("\n")[line - run.firstLine] : undefined;
  return own === undefined
    ? `${line} of ${visible(file.split("/").at(-1))}`
    : `${line - run.firstLine + 1}: ${inLine(own.trim(), 80)}`;
}

// A state of an automaton, by number.
function describeState(state, { automaton, state: number }) {
  const drawn = state.automata.get(automaton),
    at = drawn?.states.indexOf(number) ?? -1;
  if (at < 0) return null;
  const graph = graphOf(drawn),
    ways = graph.arrows.filter((arrow) => arrow.start === at);
  const facts = [["state", `${number}${graph.final.has(number) ? ": the text may end here" : ""}`]];
  if (drawn.allowed?.[at] !== undefined) facts.push(["allowed", plural(drawn.allowed[at], "token")]);
  const parts = [...new Set(ways.flatMap(({ part }) => part.split(", ")).filter(Boolean))];
  if (parts.length) facts.push(["part", inLine(parts.slice(0, 3).join(", "), 120)]);
  const shown = ways.slice(0, 6).map(({ text, target }) => `${inLine(text, 60)} to ${drawn.states[target]}`);
  facts.push([
    "leads on",
    shown.length ? `${shown.join(", ")}${ways.length > 6 ? ` and ${ways.length - 6} more ways` : ""}` : "nowhere",
  ]);
  return { text: "", facts };
}

// Describe the checkpoint at a node's end or, without a checkpoint, the recomputed tokens.
function checkpointOf(state, node) {
  if (node.checkpoint)
    return `a request can resume here: the recurrent states take ${bytesIn(state.engine.state_bytes)}`;
  let again = 0;
  for (; node && node.id !== ROOT && !node.checkpoint; node = state.nodes.get(node.parent)) again += node.tokens.length;
  const from = node && node.id !== ROOT ? `resumes from node ${node.id}` : "starts at the first token";
  return `none: a request with this prefix ${from} and recomputes ${plural(again, "token")}`;
}

// The tokens from the root to the end of a node, and the namespace.
function pathOfNode(state, node) {
  const parts = [];
  let namespace = "";
  for (; node && node.id !== ROOT; node = state.nodes.get(node.parent)) {
    parts.unshift(node.tokens);
    namespace = node.namespace;
  }
  return { tokens: parts.flat(), namespace };
}

function describeNode(cached, id) {
  const state = withCopies(cached),
    node = state.nodes.get(id);
  if (!node) return null;
  const maker = node.request === null ? null : state.requests.get(node.request);
  const path = pathOfNode(state, node),
    depth = path.tokens.length - node.tokens.length;
  const facts = [
    ["node", `${id}: ${plural(node.tokens.length, "token")}, positions ${depth} to ${depth + node.tokens.length}`],
  ];
  const items = itemsOfNode(state, node),
    copies = wordsOfCopies(state, node);
  facts.push(...items.facts);
  if (copies) facts.push(["copies", copies]);
  if (node.outline) return { text: labelOfTokens(state, node.tokens, 2000), item: items.item, facts };
  facts.push(["found", node.hits ? `${plural(node.hits, "time")} since this view began` : "not since this view began"]);
  facts.push(["last used", `${duration(Math.max(0, state.t - node.used))} before`]);
  if (state.engine?.token_bytes)
    facts.push(["keys and values", bytesIn(node.tokens.length * state.engine.token_bytes)]);
  if (state.engine?.states) facts.push(["checkpoint", checkpointOf(state, node)]);
  const pinned = pinsAbove(state).get(id) ?? 0,
    owners = state.pins.get(id);
  if (node.locks > pinned) facts.push(["in use", `by ${plural(node.locks - pinned, "request")}`]);
  const lanes = [...state.runs.values()].findLast((run) => run.workers.size);
  const holders = holdersOf(lanes, state.peers, path.tokens, path.namespace);
  if (holders.length)
    facts.push(["workers", holders.map(([worker, length]) => `${worker} (${plural(length, "token")})`).join(", ")]);
  if (pinned) facts.push(["pinned", owners ? `by ${owners.map(visible).join(", ")}` : "through a descendant"]);
  if (maker?.line) facts.push(["line", locationOf(state, maker)]);
  if (maker)
    facts.push([
      "made by",
      `${maker.run ? `run ${visible(maker.run)}, ` : ""}branch ${maker.branch}${maker.name ? `, ${visible(maker.name)}` : ""}`,
    ]);
  facts.push(["goes on", plural(node.children.size, "way")]);
  return { text: labelOfTokens(state, node.tokens, 2000), item: items.item, facts };
}
