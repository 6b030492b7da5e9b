// Walk of constrained generations: tokens with the allowed share of the vocabulary, forced text as one edge, and the automaton.

const SHOWN_STEPS = 400;

// The generations under a grammar, of a run or of all runs.
const boundBy = (state, run) =>
  [...state.requests.values()].filter((request) => request.bound && (!run || request.run === run.run));

// True if the records contain only an automaton, as for `%sglang fsm`.
const isBare = (state) => state.automata.size > 0 && !state.requests.size;

// The number of forced tokens of an output, without replacements of dropped tokens.
function forcedIn(output) {
  const jumps = new Set(output.map((token) => token.jump).filter(Boolean));
  const jumped = output.filter((token) => token.kind === "jumped").length;
  return jumped - [...jumps].reduce((sum, jump) => sum + jump.dropped, 0);
}

function newGrammarPanel(host, page) {
  const tools = el("div", "sgnb-tools");
  const which = el("select", "sgnb-select", "", { "aria-label": "generation" });
  which.addEventListener("change", () => page.repaint());
  tools.append(el("span", "sgnb-label", "generation"), which);
  const walk = el("div", "sgnb-walk", "", {
    tabindex: "0",
    role: "group",
    "aria-label": "the walk through the grammar; the arrow keys go from step to step",
  });
  const note = el("div", "sgnb-note");
  const figure = newFigure(page);
  host.append(tools, walk, note, figure.host);
  const selected = ({ target }) => {
    const step = target.closest("[data-position]");
    return step ? { request: Number(step.dataset.request), position: Number(step.dataset.position) } : null;
  };
  walk.addEventListener("mouseover", (event) => page.hover(selected(event)));
  walk.addEventListener("mouseleave", () => page.hover(null));
  walk.addEventListener("click", (event) => page.pin(selected(event)));

  let kept = null;
  walkByKeys(
    walk,
    () => walk.querySelectorAll(".sgnb-step-token"),
    (token) => token === kept,
    (token) => {
      kept = token;
      page.keep(token && selected({ target: token }));
    },
  );

  function paint(state, run) {
    const bound = boundBy(state, run);
    list(
      which,
      bound,
      () => el("option"),
      (option, request) => {
        option.value = request.id;
        setText(option, inLine(`${request.branch} ${request.name} (${request.grammar || "grammar"})`, 60));
      },
    );
    tools.hidden = bound.length < 2;
    const request = state.requests.get(Number(which.value)) ?? bound[0];
    const steps = request ? stepsOf(state, request) : [];
    walk.hidden = !steps.length;
    list(walk, steps.slice(0, SHOWN_STEPS), newStep, paintStep);
    setText(note, request ? noteOf(request, steps.length) : isBare(state) ? "" : "no generation here has a grammar");
    figure.paint(state, request, request ? state.automata.get(request.automaton) : [...state.automata.values()][0]);
  }
  function noteOf(request, steps) {
    const jumped = forcedIn(request.output);
    const parts = [
      `${plural(request.output.length, "token")}, ${jumped} of them forced: ${percent(jumped, request.output.length)} without a choice`,
    ];
    if (steps > SHOWN_STEPS) parts.push(`the first ${SHOWN_STEPS} steps`);
    if (request.grammar && !request.states) parts.push("llguidance matches this grammar, without an automaton");
    return parts.join(" · ");
  }
  function stepsOf(state, request) {
    const steps = [];
    let pending = NO_BYTES,
      text = "";
    request.output.forEach((token, i) => {
      const position = request.prompt.length + i,
        own = bytesOf(state.tokenTable, [token.token]),
        begun = pending.length;
      [text, pending] = decodeMore(pending, own);
      // A token with a partial character has no text.
      const piece = {
        request: request.id,
        position,
        text:
          begun || pending.length ? [...own].map((byte) => `\\x${byte.toString(16).padStart(2, "0")}`).join("") : text,
      };
      const last = steps.at(-1);
      if (token.kind === "jumped" && last?.jump === token.jump) last.tokens.push(piece);
      else
        steps.push({
          tokens: [piece],
          jump: token.jump ?? null,
          mask: token.mask,
          state: token.jump ? token.jump.after : (token.mask?.after ?? null),
        });
    });
    return steps;
  }
  function newStep() {
    const step = el("span", "sgnb-step");
    step.append(el("span", "sgnb-step-text"), el("span", "sgnb-step-bar"), el("span", "sgnb-step-note"));
    return step;
  }
  function paintStep(step, { tokens, jump, mask, state }) {
    Object.assign(step.dataset, { request: tokens[0].request, position: tokens[0].position });
    step.className = `sgnb-step ${jump ? "sgnb-step-jump" : mask ? "" : "sgnb-step-free"}`;
    list(
      step.children[0],
      tokens,
      () => el("span", "sgnb-step-token"),
      (one, { request, position, text }) => {
        Object.assign(one.dataset, { request, position });
        setText(one, inLine(text, 80) || "·");
      },
    );
    step.children[1].style.setProperty("--kept", mask ? `${Math.round(100 * Math.exp(mask.kept))}%` : "100%");
    setText(
      step.children[2],
      jump
        ? `forced${jump.labels.length ? ` · ${inLine(jump.labels.join(" "), 24)}` : ""}`
        : mask
          ? `${grouped(mask.allowed)} allowed`
          : "free",
    );
    step.title = state === null || state < 0 ? "" : `to state ${state}`;
  }
  function highlight(selection) {
    for (const old of walk.querySelectorAll(".sgnb-lit")) old.classList.remove("sgnb-lit");
    if (selection?.position !== undefined)
      for (const token of walk.querySelectorAll(
        `.sgnb-step-token[data-request="${selection.request}"][data-position="${selection.position}"]`,
      ))
        token.classList.add("sgnb-lit");
    figure.highlight(selection);
  }
  return { paint, highlight };
}

// The automaton, with the path up to the selected or last token.
function newFigure(page) {
  const own = el("div", "sgnb-figure"),
    stage = el("div", "sgnb-automaton", "", { tabindex: "-1" });
  const surface = newSurface(stage, "automaton"),
    map = newSurface(own, "the whole automaton");
  const where = el("div", "sgnb-note sgnb-where");
  const legend = el("div", "sgnb-legend");
  const counts = el("span", "sgnb-legend-item", "below a state: number of allowed tokens");
  const ofWalk = [
    ["here", "current state"],
    ["way", "path taken"],
    ["border", "token ends inside an edge"],
  ].map(([name, text]) => legendItem(name, text));
  legend.append(...ofWalk, legendItem("forced", "forced text"), legendItem("final", "text may end"), counts);
  own.prepend(where, stage);
  own.append(legend);
  map.canvas.tabIndex = -1;
  let shown = null,
    selection = null,
    nearest = null,
    focus = null,
    followed = "";
  let pointed = false,
    part = null; // keep the layout stable under the pointer

  surface.canvas.addEventListener("mousemove", (event) => {
    pointed = true;
    const { box } = surface.at(event);
    page.hover(box ? selectionAt(box.state) : null);
    surface.canvas.style.cursor = box ? "pointer" : "";
  });
  surface.canvas.addEventListener("mouseleave", () => {
    pointed = false;
    page.hover(null);
  });
  surface.canvas.addEventListener("click", (event) => {
    const { box } = surface.at(event);
    if (box) page.pin(selectionAt(box.state));
  });
  map.canvas.addEventListener("click", (event) => {
    const { x, y } = map.at(event);
    focus = nearest?.(x, y) ?? null;
    draw();
  });
  surface.canvas.addEventListener("keydown", (event) => {
    const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!shown || (!by && event.key !== "Escape")) return;
    pointed = false;
    page.keep(by ? beside(by) : null);
    event.preventDefault();
    event.stopPropagation();
  });
  // A state on the path selects the token at the state; another state selects the state.
  function selectionAt(i) {
    const token = shown.way.visited.get(i);
    const { request, drawn } = shown;
    return token === undefined || token === null
      ? { automaton: drawn.automaton, state: drawn.states[i] }
      : { request: request.id, position: request.prompt.length + token };
  }
  function beside(by) {
    const { request, drawn, last } = shown;
    if (request?.output.length)
      return {
        request: request.id,
        position: request.prompt.length + Math.max(0, Math.min(request.output.length - 1, last + by)),
      };
    const at = drawn.states.indexOf(selection?.state);
    return {
      automaton: drawn.automaton,
      state: drawn.states[at < 0 ? 0 : Math.max(0, Math.min(drawn.states.length - 1, at + by))],
    };
  }

  function paint(state, request, drawn) {
    if (drawn !== shown?.drawn) part = null;
    shown = drawn ? { state, request, drawn, walk: request ? walkOf(state, drawn, request) : [] } : null;
    own.hidden = !shown && !request?.states;
    for (const part of [stage, legend]) part.hidden = !shown;
    map.canvas.hidden = !shown || drawn.states.length <= SHOWN_WHOLE;
    if (!shown && request?.states)
      setText(where, `the automaton has ${plural(request.states, "state")} and no drawing here`);
    for (const item of ofWalk) item.hidden = !request;
    counts.hidden = !request && !drawn?.allowed.length;
    draw();
  }
  function highlight(now) {
    if (JSON.stringify(now) === JSON.stringify(selection)) return;
    [selection, focus] = [now, null];
    draw();
  }
  function draw() {
    if (!shown) return;
    const { state, request, drawn, walk } = shown,
      graph = graphOf(drawn),
      colours = coloursOf(own);
    const chosen = request && selection?.request === request.id ? selection.position - request.prompt.length : -1;
    shown.last = chosen >= 0 ? Math.min(chosen, walk.length - 1) : walk.length - 1;
    const way = (shown.way = wayUpTo(drawn, request, walk, shown.last));
    if (!request) Object.assign(way, { position: { state: -1, open: null } });
    const lit = selection?.automaton === drawn.automaton ? graph.index.get(selection.state) : undefined;
    const width = widthInside(own) - 2;
    if (!pointed || !part) part = windowOf(drawn, graph, focus ?? lit ?? Math.max(0, way.position.state), width);
    const positions = placeAutomaton(drawn, { width, ...part });
    drawAutomaton(surface, colours, drawn, positions, way, lit);
    nearest = map.canvas.hidden ? null : drawMinimap(map, colours, drawn, part, way, width);
    const words = whereOf(state, shown, lit);
    setText(where, words);
    surface.say(
      `${plural(drawn.states.length, "state")}, ${plural(graph.arrows.length, "edge")}. ${words}. The arrow keys move between states.`,
    );
    map.say(
      `columns ${part.columns[0] + 1} to ${part.columns[1] + 1} of ${graph.width} are shown; a click shows another part`,
    );
    if (!pointed) follow(positions, lit ?? way.position.state);
  }
  function follow(positions, i) {
    const now = `${i} ${positions.height}`;
    if (followed === now || i < 0 || !positions.shown(i)) return;
    followed = now;
    const { y } = positions.at(i);
    if (y < stage.scrollTop + 20 || y > stage.scrollTop + stage.clientHeight - 30) stage.scrollTop = y - 60;
  }
  return { host: own, paint, highlight };
}

// Describe the current position in the pattern or schema.
function whereOf(state, { request, drawn, way, last }, lit) {
  const graph = graphOf(drawn),
    of = `${plural(drawn.states.length, "state")}${drawn.complete ? "" : " and more; the states nearest to the start are shown"}`;
  if (!request || lit !== undefined)
    return lit === undefined
      ? of
      : describeState(state, { automaton: drawn.automaton, state: drawn.states[lit] })
          .facts.map(([name, value]) => `${name} ${value}`)
          .join(" · ");
  const { position, edges } = way,
    on = onEdge(position),
    at = drawn.states[position.state];
  const parts = [
    position.open
      ? on
        ? `after state ${at}, byte ${on.read} of ${on.length} of ${inLine(graph.arrows[graph.arrowOf[on.edge]].text, 40)}`
        : `after state ${at}, inside a character`
      : `state ${at}`,
  ];
  const token = request.output[last];
  if (token && edges.length > 1)
    parts.push(`“${inLine(textOfTokens(state.tokenTable, [token.token]), 30)}” went along ${edges.length} edges`);
  const from = (on ? [on.edge] : graph.leads[position.state])
    .map((edge) => drawn.part_names[drawn.parts[edge]])
    .filter(Boolean);
  const names = [...new Set(from.flatMap((part) => part.split(", ")))];
  if (names.length) parts.push(`in ${inLine(names.slice(0, 3).join(", "), 80)}`);
  if (graph.final.has(at) && !position.open) parts.push("the text may end");
  return `${parts.join(" · ")} · ${of}`;
}
