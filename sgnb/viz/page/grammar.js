// The walk of constrained generations: every token with what the grammar left of the vocabulary, forced text as one edge.

const SHOWN_STEPS = 400;

// The generations of a run, or of all, that a grammar binds.
const boundBy = (state, run) => [...state.requests.values()].filter((request) => request.bound && (!run || request.run === run.run));

function newGrammarPanel(host, page) {
  const tools = el("div", "sgnb-tools");
  const which = el("select", "sgnb-select", "", { "aria-label": "generation" });
  which.addEventListener("change", () => page.repaint());
  tools.append(el("span", "sgnb-label", "generation"), which);
  const walk = el("div", "sgnb-walk", "", { tabindex: "0", role: "group", "aria-label": "the walk through the grammar; the arrow keys go from step to step" });
  const note = el("div", "sgnb-note");
  host.append(tools, walk, note);
  const selected = ({ target }) => {
    const step = target.closest("[data-position]");
    return step ? { request: Number(step.dataset.request), position: Number(step.dataset.position) } : null;
  };
  walk.addEventListener("mouseover", (event) => page.hover(selected(event)));
  walk.addEventListener("mouseleave", () => page.hover(null));
  walk.addEventListener("click", (event) => page.pin(selected(event)));

  let kept = null;
  walkByKeys(walk, () => walk.children, (step) => step === kept, (step) => {
    kept = step;
    page.keep(step && selected({ target: step }));
  });

  function paint(state, run) {
    const bound = boundBy(state, run);
    list(which, bound, () => el("option"), (option, request) => {
      option.value = request.id;
      setText(option, inLine(`${request.branch} ${request.name} (${request.grammar || "grammar"})`, 60));
    });
    tools.hidden = bound.length < 2;
    const request = state.requests.get(Number(which.value)) ?? bound[0];
    const steps = request ? stepsOf(state, request) : [];
    list(walk, steps.slice(0, SHOWN_STEPS), newStep, paintStep);
    const jumps = new Set(request ? request.output.map((token) => token.jump).filter(Boolean) : []);
    const jumped = request ? request.output.filter((token) => token.kind === "jumped").length - [...jumps].reduce((sum, jump) => sum + jump.dropped, 0) : 0;
    setText(note, !request ? "nothing here is bound by a grammar" : `${plural(request.output.length, "token")}, ${jumped} of them forced: ${request.output.length ? percent(jumped, request.output.length) : "0 %"} without a choice${steps.length > SHOWN_STEPS ? ` · the first ${SHOWN_STEPS} steps` : ""}`);
  }
  function stepsOf(state, request) {
    const steps = [];
    request.output.forEach((token, i) => {
      const position = request.prompt.length + i, text = textOfTokens(state.vocabulary, [token.token]);
      const last = steps.at(-1);
      if (token.kind === "jumped" && last?.jump === token.jump) last.text += text;
      else steps.push({ request: request.id, position, text, jump: token.jump ?? null, mask: token.mask, state: token.jump ? token.jump.after : (token.mask?.after ?? null) });
    });
    return steps;
  }
  function newStep() {
    const step = el("span", "sgnb-step");
    step.append(el("span", "sgnb-step-text"), el("span", "sgnb-step-bar"), el("span", "sgnb-step-note"));
    return step;
  }
  function paintStep(step, { request, position, text, jump, mask, state }) {
    Object.assign(step.dataset, { request, position });
    step.className = `sgnb-step ${jump ? "sgnb-step-jump" : mask ? "" : "sgnb-step-free"}`;
    setText(step.children[0], inLine(text, 80) || "·");
    step.children[1].style.setProperty("--kept", mask ? `${Math.round(100 * Math.exp(mask.kept))}%` : "100%");
    setText(step.children[2], jump ? `forced${jump.labels.length ? ` · ${inLine(jump.labels.join(" "), 24)}` : ""}` : mask ? `${mask.allowed.toLocaleString("en")} allowed` : "free");
    step.title = state === null || state < 0 ? "" : `to state ${state}`;
  }
  function highlight(selection) {
    for (const step of walk.children) {
      step.classList.toggle("sgnb-lit", Boolean(selection) && step.dataset.request === String(selection.request) && step.dataset.position === String(selection.position));
    }
  }
  return { paint, highlight };
}
