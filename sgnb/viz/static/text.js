// The streamed text of a run, every piece coloured by where it came from, with a line of figures.

const KINDS = {
  cached: ["cached", "found in the radix tree, not computed again"],
  computed: ["computed", "went through the model as prompt"],
  jumped: ["jumped", "forced by the grammar"],
  sampled: ["sampled", "chosen by the model"],
  text: ["not sent yet", "constant text that has not reached the engine"],
};
const COUNTS = { cached: "cached_tokens", computed: "computed_tokens", sampled: "sampled_tokens", jumped: "jumped_tokens" };
const STATUS = { waiting: "waiting", running: "running", done: "done", error: "error", interrupted: "interrupted" };

function sliceSegments(segments, from, to) {
  const slice = [];
  let at = 0;
  for (const [kind, text] of segments) {
    const part = text.slice(Math.max(0, from - at), Math.max(0, to - at));
    if (part) slice.push([kind, part]);
    at += text.length;
  }
  return slice;
}

function newTextModel() {
  const branches = new Map();
  const model = { branches, totals: null };

  // `at` cuts the branch's text (in UTF-16 units) before the segments are appended.
  function setSegments(branch, at, segments) {
    const kept = sliceSegments(branch.segments, 0, at);
    for (const [kind, text] of segments) {
      const last = kept[kept.length - 1];
      if (last && last[0] === kind) last[1] += text;
      else kept.push([kind, text]);
    }
    branch.segments = kept;
  }
  const handlers = {
    branch(name, parent, forkedAt, status, error, variables) {
      const segments = branches.get(name)?.segments ?? [];
      branches.set(name, { name, parent, forkedAt, status, error, variables, segments });
    },
    text(name, at, segments) {
      setSegments(branches.get(name), at, segments);
    },
    totals(totals) {
      model.totals = totals;
    },
  };
  model.apply = (ops) => {
    for (const [kind, ...rest] of ops) handlers[kind]?.(...rest);
  };
  model.load = (ops) => {
    branches.clear();
    model.apply(ops);
  };
  model.stats = () => ({
    branches: branches.size,
    characters: [...branches.values()].reduce((n, b) => n + b.segments.reduce((m, s) => m + s[1].length, 0), 0),
    ...model.totals,
  });
  return model;
}

// One stretch of a branch's text, up to a fork or to the end.
function newPassage(caret) {
  const body = el("div", "sgnb-text", "", { tabindex: "0", dir: "auto" });
  const spans = [];

  function paint(segments, writing) {
    const atEnd = body.scrollTop + body.clientHeight >= body.scrollHeight - 4;
    while (spans.length > segments.length) spans.pop().remove();
    segments.forEach(([kind, text], i) => {
      spans[i] ??= body.appendChild(el("span"));
      if (spans[i].dataset.kind !== kind) {
        spans[i].dataset.kind = kind;
        spans[i].className = `sgnb-k-${kind}`;
        spans[i].title = KINDS[kind].join(": ");
      }
      setText(spans[i], text);
    });
    if (writing) body.append(caret);
    body.hidden = segments.length === 0;
    if (atEnd) body.scrollTop = body.scrollHeight;
  }
  return { body, paint };
}

// Forks stand in the text where they happened: passages and rows of forks take turns.
function newBranchPainter(name) {
  const root = el("div", "sgnb-branch", "", { role: "group", "aria-label": `branch ${name}` });
  const head = el("div", "sgnb-branch-head");
  const mark = el("span", "sgnb-mark");
  const flow = el("div");
  const caret = el("span", "sgnb-caret", "", { "aria-hidden": "true" });
  const variables = el("div", "sgnb-vars");
  const error = el("div", "sgnb-error");
  const chips = new Map();
  const passages = [newPassage(caret)];
  const forks = [];
  head.append(mark, el("span", "sgnb-name", name));
  flow.append(passages[0].body);
  root.append(head, flow, variables, error);

  function forksAt(at) {
    const last = forks.at(-1);
    if (last && last.at >= at) return last.row;
    const row = el("div", "sgnb-forks");
    const passage = newPassage(caret);
    forks.push({ at, row });
    passages.push(passage);
    flow.append(row, passage.body);
    return row;
  }
  function paintVariables(values) {
    for (const [key, value] of Object.entries(values)) {
      if (!chips.has(key)) {
        const chip = el("span", "sgnb-chip");
        chip.append(el("b", "", key), " ", el("span"));
        chips.set(key, chip);
        variables.append(chip);
      }
      setText(chips.get(key).lastChild, value.length > 60 ? value.slice(0, 60) + "…" : value);
      chips.get(key).title = value.slice(0, 2000);
    }
  }
  function paint(branch, running, labelled) {
    const open = branch.status === "running" || branch.status === "writing";
    const status = !open ? branch.status : running ? "running" : "stopped";
    head.hidden = !labelled;
    mark.className = `sgnb-mark sgnb-is-${status}`;
    mark.title = status;
    const writing = running && branch.status === "writing" && ["sampled", "jumped"].includes(branch.segments.at(-1)?.[0]);
    if (!writing) caret.remove();
    passages.forEach((passage, i) => {
      const from = i ? forks[i - 1].at : 0;
      const to = forks[i]?.at ?? Infinity;
      passage.paint(sliceSegments(branch.segments, from, to), writing && i === passages.length - 1);
    });
    paintVariables(branch.variables);
    setText(error, branch.error);
  }
  return { root, forksAt, paint };
}

function newTextPainter(host, model) {
  const card = el("section", "sgnb sgnb-card", "", { "aria-label": "generated text" });
  const head = el("header", "sgnb-head");
  const title = el("span", "sgnb-title");
  const status = el("span", "sgnb-status", "", { role: "status" });
  const figures = el("span", "sgnb-figures");
  const progress = el("div", "sgnb-progress", "", { role: "progressbar", "aria-valuemin": "0" });
  const done = el("div");
  const branches = el("div", "sgnb-branches");
  const note = el("div", "sgnb-note");
  const legend = el("footer", "sgnb-legend", "", { "aria-label": "legend" });
  progress.append(done);
  head.append(title, status, figures);
  card.append(head, progress, branches, note, legend);
  host.append(card);
  const painters = new Map();
  const items = new Map();

  function paintFigures(t) {
    const parts = [];
    const add = (value, name) => parts.push([value, name]);
    if (t.total > 1) add(`${t.finished}/${t.total}`, "runs");
    add(t.prompt_tokens + t.output_tokens, "tokens");
    add(`${Math.round(100 * t.hit_rate)} %`, "hit rate");
    if (t.output_tokens) add(Math.round(t.tokens_per_second), "tok/s");
    add(t.passes, t.passes === 1 ? "pass" : "passes");
    if (t.seconds < 1) add(Math.round(1000 * t.seconds), "ms");
    else add(t.seconds.toFixed(1), "s");
    if (t.status === "running" && t.finished > 0 && t.finished < t.total) {
      add(`${Math.ceil((t.seconds / t.finished) * (t.total - t.finished))} s`, "left");
    }
    while (figures.childElementCount > parts.length) figures.lastChild.remove();
    parts.forEach(([value, name], i) => {
      let item = figures.children[i];
      if (!item) {
        item = el("span", "sgnb-figure");
        item.append(el("b"), " ", el("span"));
        figures.append(item);
      }
      setText(item.firstChild, String(value));
      setText(item.lastChild, name);
    });
  }
  function paintLegend(t) {
    const used = new Set(["cached", "computed", "sampled"]);
    for (const branch of model.branches.values()) for (const [kind, text] of branch.segments) if (text.trim()) used.add(kind);
    for (const [kind, [name, meaning]] of Object.entries(KINDS)) {
      if (!items.has(kind)) {
        const item = el("span", "sgnb-legend-item", "", { title: meaning });
        item.append(el("span", `sgnb-k-${kind}`, name), " ", el("b"));
        items.set(kind, item);
        legend.append(item);
      }
      const item = items.get(kind);
      item.hidden = !used.has(kind);
      setText(item.lastChild, COUNTS[kind] ? String(t[COUNTS[kind]]) : "");
    }
  }
  function paintBranches(running) {
    for (const [name, painter] of painters) {
      if (!model.branches.has(name)) {
        painter.root.remove();
        painters.delete(name);
      }
    }
    const labelled = model.branches.size > 1;
    for (const branch of model.branches.values()) {
      let painter = painters.get(branch.name);
      if (!painter) {
        painter = newBranchPainter(branch.name);
        painters.set(branch.name, painter);
        (painters.get(branch.parent)?.forksAt(branch.forkedAt) ?? branches).append(painter.root);
      }
      painter.paint(branch, running, labelled);
    }
  }
  return () => {
    const t = model.totals;
    if (!t) return;
    setText(title, t.title || "run");
    setText(status, STATUS[t.status] ?? t.status);
    status.className = `sgnb-status sgnb-is-${t.status}`;
    progress.hidden = t.total <= 1;
    progress.setAttribute("aria-valuemax", t.total);
    progress.setAttribute("aria-valuenow", t.finished);
    done.style.width = `${(100 * t.finished) / t.total}%`;
    paintFigures(t);
    paintBranches(t.status === "running");
    const notes = [t.message];
    if (t.failed) notes.push(`${t.failed} failed, the first with: ${t.first_error}`);
    if (t.hidden) notes.push(`and ${t.hidden} more branches, counted but not shown`);
    if (t.lost) notes.push(`incomplete: ${t.lost} records were lost`);
    setText(note, notes.filter(Boolean).join("\n"));
    paintLegend(t);
  };
}

export default defineView("text", newTextModel, newTextPainter);
