// Frame of a run's views: heading, savings, text, a second view, and the common time slider.

const SILENT_AFTER = 6000; // milliseconds without a message from the kernel
const FASTEST = 33; // minimum milliseconds between repaints
const SHARE = 3; // repaints take at most 1/SHARE of the time,
const SLOWEST = 150; // but never wait longer than this number of milliseconds
const TRIVIAL = 64; // tokens of a program without forks; below this limit only the text opens

const HINT =
  "Point at a token, a node or a lane for details; a click keeps the selection, Escape clears the selection.";

const STATE_HINT =
  "Point at a state to see the outgoing edges; a click keeps the selection, the arrow keys move between states, Escape clears the selection.";

const PANELS = {
  compare: ["comparison", newComparePanel],
  tree: ["radix tree", newTreePanel],
  source: ["program", newSourcePanel],
  branches: ["branches", newBranchesPanel],
  workers: ["workers", newWorkersPanel],
  time: ["cache and batch", newTimePanel],
  grammar: ["grammar", newGrammarPanel],
};

const OF_ONE_ENGINE = new Set(["tree", "time"]);

// `steer`: see newStepper. `edit`: see newEditor. `compare`, `reruns`: see newRerunChooser. `batch`: see newRowTools. `ask`: executes an action on a tree node in the kernel and resolves to the message, and reports an overdue answer; absent without an engine.
function newDashboard(host, store, options) {
  const { run: wanted, views, ask = null, steer = null, edit = null } = options;
  const { compare = null, reruns = null, batch = null, wordsOfCost = () => "" } = options;
  const card = el("div", "sgnb sgnb-card", "", { role: "group", "aria-label": "engine activity" });
  const head = el("div", "sgnb-head");
  const title = el("span", "sgnb-title"),
    status = el("span", "sgnb-status", "", { role: "status" });
  const gain = el("span", "sgnb-gain"),
    metrics = el("span", "sgnb-metrics");
  const progress = el("div", "sgnb-progress", "", {
    role: "progressbar",
    "aria-valuemin": "0",
    "aria-label": "programs done",
  });
  progress.hidden = true;
  const bar = el("div");
  const note = el("div", "sgnb-note"),
    models = el("div", "sgnb-note sgnb-models");
  const body = el("div", "sgnb-body"),
    main = el("div", "sgnb-main"),
    side = el("div", "sgnb-side");
  const tabs = el("div", "sgnb-tabs", "", { role: "tablist", "aria-label": "views" });
  const stage = el("div", "sgnb-panel", "", { role: "tabpanel", tabindex: "-1" });
  const engines = el("select", "sgnb-select sgnb-engines", "", { "aria-label": "engine of the shown cache" });
  const inspector = el("div", "sgnb-inspector", "", { "aria-live": "polite" });
  const actions = el("div", "sgnb-actions", "", { role: "group", "aria-label": "actions on this node" });
  const foot = el("div", "sgnb-foot");
  const legend = el("span", "sgnb-legend", "", {
    role: "group",
    "aria-label": "tokens of the text by origin",
  });
  const slider = el("input", "sgnb-slider", "", { type: "range", min: "0", max: "0", step: "1", "aria-label": "time" });
  const clock = el("span", "sgnb-label"),
    costs = el("span", "sgnb-label");
  const now = button("now", "follow the latest record", () => seek(null));
  const chosenRange = button("", "clear the time range", () => brush(null));
  progress.append(bar);
  head.append(title, status, gain, metrics);
  side.append(tabs, engines, stage, inspector, actions);
  body.append(main, side);
  foot.append(legend, el("span", "sgnb-space"), costs, chosenRange, slider, clock, now);
  const stepper = newStepper(store, steer, {
    seek: (position) => seek(position),
    show: (selection) => keep(selection),
  });
  const editor = newEditor(edit, () => keep(null)),
    chooser = newRerunChooser(compare, reruns);
  card.append(head, stepper.host, chooser.host, progress, models, note, body, editor.host, foot);
  host.append(card);

  // `range`: selected times in all views, or null. `within`: nodes created or used in the range. `engine`: engine of the shown cache.
  const page = {
    hover,
    pin,
    keep,
    brush,
    showRun,
    edit: () => editor.focus(),
    range: null,
    within: null,
    engine: 0,
    repaint: () => paint(true),
    seekTime: (t) => seek(store.placeAt(t)),
  };
  const textPanel = newTextPanel(el("div", "sgnb-panel"), page),
    rowsPanel = newRowsPanel(el("div", "sgnb-panel"), page, batch);
  let picked = null; // selected run of a comparison for the other views
  let panel = null,
    chosen = null,
    pinned = null,
    hovered = null,
    painted = -1,
    wasSilent = false,
    mainPanel = null;
  const hosts = new Map();

  slider.addEventListener("input", () => seek(Number(slider.value)));
  function seek(position) {
    store.seek(position);
    paint(true);
  }
  engines.addEventListener("change", () => {
    page.engine = Number(engines.value);
    keep(null);
    paint(true);
  });
  let due = false;
  function brush(range) {
    page.range = range && range.to > range.from ? range : null;
    if (due) return;
    due = true;
    requestAnimationFrame(() => {
      due = false;
      paint(true);
    });
  }
  card.addEventListener("keydown", ({ key }) => {
    if (key !== "Escape") return;
    if (page.range) brush(null);
    else keep(null);
  });
  function hover(selection) {
    if (JSON.stringify(selection) === JSON.stringify(hovered)) return;
    hovered = selection;
    select();
  }
  function pin(selection) {
    pinned = JSON.stringify(selection) === JSON.stringify(pinned) ? null : selection;
    select();
  }
  function keep(selection) {
    [pinned, hovered] = [selection, null];
    select();
  }
  let said = "";
  function select() {
    const selection = hovered ?? pinned;
    mainPanel?.highlight(selection);
    panel?.highlight(selection);
    const state = store.shown(),
      own = stateOf(state, page.engine);
    if (selection?.node !== undefined) lightNode(own, selection.node);
    paintActions(own);
    editor.paint(state, pinned);
    const found = describe(selection?.node === undefined ? state : own, selection);
    if (found && answers.has(selection.node)) found.facts.push(["kernel", answers.get(selection.node).text]);
    if (JSON.stringify(found) === said) return;
    said = JSON.stringify(found);
    if (!found) inspector.replaceChildren(el("span", "sgnb-label sgnb-hint", isBare(store.state) ? STATE_HINT : HINT));
    else {
      inspector.classList.add("sgnb-used");
      inspector.replaceChildren(
        ...inspectedThumbnail(found),
        ...(found.text
          ? [
              el("pre", "sgnb-inspected", visible(found.text), {
                tabindex: "0",
                role: "group",
                "aria-label": "its text",
              }),
            ]
          : []),
        ...found.facts.flatMap(([name, value]) => [el("span", "sgnb-label", name), el("span", "", value)]),
      );
    }
  }
  // The tokens of the text in a tree node.
  function lightNode(state, id) {
    const spans = new Map();
    for (const token of main.querySelectorAll(".sgnb-token[data-position]")) {
      const { request, position } = token.dataset;
      if (!spans.has(request)) spans.set(request, positionsIn(state, state.requests.get(Number(request)), id));
      const [from, to] = spans.get(request);
      if (position >= from && position < to) token.classList.add("sgnb-lit");
    }
  }
  // Reuse button elements while records arrive, because a replaced button would lose clicks.
  function paintActions(state) {
    const can = actionsOf(state, pinned?.node);
    list(
      actions,
      can,
      () => button("", "", () => {}),
      (one, [name, title, act]) => {
        setText(one, name);
        Object.assign(one, { title, onclick: act });
      },
    );
    actions.hidden = !can.length;
    actions.style.visibility = hovered && hovered.node !== pinned?.node ? "hidden" : "";
  }
  // Actions on the selected node: [name, title, function].
  const answers = new Map(); // by node: words about the last request; an earlier request has no place any more
  const pinnedSince = new Map(); // by node: pinned state after the last record
  function actionsOf(state, id) {
    if (id === undefined || !state.nodes.has(id)) return [];
    const held = pinnedSince.get(id) ?? state.pins.has(id);
    const asked = (action, title) => [action, title, () => askKernel(action, id)];
    const cache =
      !ask || page.engine || store.position !== null || state.stopped
        ? []
        : [
            held
              ? asked("unpin", "allow the cache to evict this node")
              : asked("pin", "protect this node and its ancestors from eviction"),
            asked("evict", "free the unused part of this node and its descendants"),
          ];
    return [...cache, ...(panel?.actions?.(id) ?? [])]; // folding comes last, because the action depends on children
  }
  async function askKernel(action, node) {
    const own = {};
    answers.set(node, own);
    const say = (text) => {
      own.text = visible(text);
      select();
    };
    say(`${action} requested; a running cell may finish first`);
    const { text, failed } = await ask(action, node, say);
    const later = !failed && !store.live;
    if (later && action !== "evict") pinnedSince.set(node, action === "pin");
    say(text + (later ? ". This view shows the tree at the end of the run" : ""));
  }
  function open(name) {
    chosen = name;
    if (name !== null && !hosts.has(name)) {
      const own = el("div");
      hosts.set(name, { own, panel: PANELS[name][1](own, page) });
    }
    panel = name === null ? null : hosts.get(name).panel;
    stage.replaceChildren(...(name === null ? [] : [hosts.get(name).own]));
    stage.hidden = name === null;
    paint(true);
  }

  // A finished comparison shows the unmodified program, unless the user picked another variant.
  function runOf(state) {
    const named = state.runs.get(picked ?? wanted);
    if (named || wanted) return named ?? null;
    const last = [...state.runs.values()].at(-1) ?? null,
      compared = state.comparison;
    const over = last && compared?.lines.length && compared.variants.some(({ runs }) => runs.includes(last.run));
    return over ? shownRun(state, compared.variants.at(compared.rerun ? -1 : 0)) : last;
  }
  function showRun(run) {
    picked = run;
    paint(true);
  }
  function chooseMain(run) {
    const next = !run || !views.includes("text") ? null : isBatch(run) ? rowsPanel : textPanel;
    if (next === mainPanel) return;
    mainPanel = next;
    main.replaceChildren(...(next ? [next.host] : []));
  }
  function paintTabs(run, state) {
    const bound = boundBy(state, run).length > 0;
    const names = isBare(state)
      ? ["grammar"]
      : Object.keys(PANELS).filter(
          (name) =>
            views.includes(name) &&
            (name !== "compare" || store.state.comparison) &&
            (name !== "grammar" || bound) &&
            (name !== "branches" || run) &&
            (name !== "workers" || usedLanes(run).length) &&
            (name !== "source" || run?.source),
        );
    const newTab = () => el("button", "sgnb-tab", "", { type: "button", role: "tab" });
    list(tabs, names, newTab, (tab, name) => {
      setText(tab, PANELS[name][0]);
      tab.dataset.view = name;
      tab.setAttribute("aria-selected", String(name === chosen));
      tab.tabIndex = name === chosen || (chosen === null && name === names[0]) ? 0 : -1;
    });
    if (names.includes("compare") && !compared) {
      compared = decided = true;
      open("compare");
    }
    if (!decided && (!run || run.status !== "running" || run.branches.size > 1 || run.seconds > 1)) decide(run, names);
  }
  let decided = false,
    compared = false;
  // A trivial program shows the text only, and further views open with a click. Views requested by name are open.
  function decide(run, names) {
    decided = true;
    const named = views.length <= Object.keys(PANELS).length;
    const trivial =
      !named &&
      run &&
      run.branches.size === 1 &&
      run.metrics.total <= 1 &&
      run.metrics.prompt_tokens + run.metrics.output_tokens < TRIVIAL;
    if (!trivial && names.length) open(names[0]);
  }
  tabs.addEventListener("click", ({ target }) => {
    const name = target.dataset?.view;
    if (!name) return;
    decided = true;
    open(name === chosen ? null : name);
  });
  tabs.addEventListener("keydown", (event) => {
    const all = [...tabs.children],
      at = all.indexOf(document.activeElement),
      by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (at < 0 || !by) return;
    all[(at + by + all.length) % all.length].focus();
    event.preventDefault();
    event.stopPropagation();
  });

  // The engines with visible caches: the run's default engine, absent in a fleet, and other engines called by the run.
  function paintEngines(state, run) {
    const asked = enginesOf(state, run).filter(({ engine }) => engine && state.others.get(engine)?.engine);
    if (!asked.some(({ engine }) => engine === page.engine)) page.engine = state.engine ? 0 : (asked[0]?.engine ?? 0);
    engines.hidden = !asked.length || !OF_ONE_ENGINE.has(chosen);
    const all = asked.length && state.engine ? [{ engine: 0, title: titleOf(run.models.get(0)) }, ...asked] : asked;
    list(
      engines,
      all,
      () => el("option"),
      (option, { engine, title }) => {
        setText(option, `cache of ${title}`);
        option.value = String(engine);
      },
    );
    engines.value = String(page.engine);
  }

  const isSilent = () => store.live && performance.now() - store.heard > SILENT_AFTER;
  function paintHead(run, state, silent) {
    const said = statusOf(store, run, silent);
    if (isBare(state)) {
      const [{ grammar, source }] = state.automata.values();
      setText(title, `${grammar} ${inLine(source, 200)}`);
      status.hidden = tabs.hidden = foot.hidden = true;
      return;
    }
    setText(title, headingOf(state, run));
    setText(status, said[1]);
    status.className = `sgnb-status sgnb-is-${said[0]}`;
    if (!run) return;
    const f = run.metrics;
    gain.classList.toggle("sgnb-nothing", !f.cached_tokens);
    setText(gain, savingsOf(run));
    setText(metrics, wordsOfMetrics(state, run));
    progress.hidden = f.total <= 1;
    progress.setAttribute("aria-valuemax", Math.max(1, f.total));
    progress.setAttribute("aria-valuenow", f.finished);
    bar.style.width = percent(f.finished, f.total).replace(" ", "");
    setText(note, notesOf(state, run, store.reported));
    const lines = [wordsOfTime(run), ...wordsOfModels(run), ...wordsOfCache(run)];
    setText(models, lines.filter(Boolean).join("\n"));
    list(
      legend,
      Object.keys(KINDS).filter((kind) => COUNTS[kind]?.(f)),
      () => {
        const item = el("span", "sgnb-legend-item");
        item.append(el("span"), el("b"));
        return item;
      },
      (item, kind) => {
        item.title = KINDS[kind][1];
        item.firstChild.className = `sgnb-k-${kind}`;
        setText(item.firstChild, kind === "again" ? "recomputed" : KINDS[kind][0]);
        setText(item.lastChild, ` ${COUNTS[kind](f).toLocaleString("en")}`);
      },
    );
  }
  function paintFoot(state, run) {
    slider.max = String(store.records.length);
    slider.value = String(store.position ?? store.records.length);
    setText(costs, wordsOfCost());
    setText(clock, store.position === null ? "" : duration(Math.max(0, state.t - (run?.t ?? 0))));
    now.hidden = store.position === null;
    chosenRange.hidden = !page.range;
    if (page.range)
      setText(
        chosenRange,
        `${[page.range.from, page.range.to].map((t) => duration(Math.max(0, t - (run?.t ?? store.steps.t[0] ?? 0)))).join(" to ")} ×`,
      );
  }
  function paint(force) {
    const state = store.shown(),
      run = runOf(state);
    const silent = isSilent();
    paintHead(run, state, silent);
    stepper.paint(state, run);
    chooser.paint();
    if (!force && painted === store.version && wasSilent === silent) return;
    [painted, wasSilent] = [store.version, silent];
    chooseMain(run);
    paintTabs(run, state);
    paintEngines(state, run);
    page.within = page.range && nodesWithin(store, state, page.range, page.engine);
    mainPanel?.paint(state, run, store.live && !silent && store.position === null, store);
    markRange(main, state, page.range);
    const engine = OF_ONE_ENGINE.has(chosen) ? page.engine : 0;
    if (panel && (run || chosen !== "branches")) panel.paint(stateOf(state, engine), run, store.live, store.of(engine));
    side.hidden = !tabs.childElementCount;
    body.classList.toggle("sgnb-alone", panel === null || mainPanel === null);
    paintFoot(state, run);
    if (hovered ?? pinned) select();
  }
  const resized = new ResizeObserver(() => paint(true));
  resized.observe(card);
  // Canvases do not follow theme changes. The card's outline does, and its transition ends even if a theme's style sheet loads late.
  // JupyterLab may remove and insert a cell during the change, which cancels the transition.
  for (const event of ["transitionend", "transitioncancel"])
    card.addEventListener(event, () => requestAnimationFrame(() => paint(true)));
  stage.hidden = true;
  select();
  const stats = () => ({ ...statsOf(store, runOf(store.state), chosen), ...rowsPanel.stats() });
  return { paint: () => paint(false), stats, showRun, close: () => resized.disconnect() };
}
