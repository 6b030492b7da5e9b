// Text of a run's branches: pieces coloured by origin, and an element per generated token. Forks appear at the fork position.

const KINDS = {
  cached: ["cached", "found in the radix tree and reused"],
  reused: ["reused", "approximate: keys and values of a similar cached text, at other positions"],
  computed: ["computed", "computed by the model as prompt"],
  again: ["recomputed", "in the radix tree, but without a recurrent checkpoint to resume from"],
  jumped: ["jumped", "forced by the grammar"],
  sampled: ["sampled", "chosen by the model"],
  text: ["not sent", "constant text, not sent to the engine yet"],
};
const COUNTS = {
  cached: (metrics) => metrics.cached_tokens,
  reused: (metrics) => metrics.reused_tokens,
  computed: (metrics) => metrics.prompt_tokens - metrics.cached_tokens - metrics.reused_tokens,
  again: (metrics) => metrics.recomputed_tokens,
  sampled: (metrics) => metrics.output_tokens - metrics.jumped_tokens,
  jumped: (metrics) => metrics.jumped_tokens,
};
const SPLIT_AT_MOST = 2000; // maximum tokens of a prompt piece with an element per token; a longer piece selects its first token

const tokenAt = (request, position) =>
  position < request.prompt.length
    ? { token: request.prompt[position], kind: promptKind(request, position) }
    : request.output[position - request.prompt.length];

// The tokens of a piece, each with the added text: {text, position}.
function splitPiece(state, piece, split = newSplit(piece)) {
  if (!state.requests.has(piece.request)) return [{ text: piece.text, position: null }];
  const parts = splitMore(state, piece, split);
  // If tokens and text disagree, trust the text.
  return fits(piece, split) ? parts : [{ text: piece.text, position: piece.from }];
}

// Progress of splitting a piece: next position, last token, and characters read and shown.
const newSplit = (piece) => ({ position: piece.from, last: null, pending: NO_BYTES, read: 0, shown: 0 });
const fits = (piece, split) => split.shown === piece.text.length;

// The new tokens of a grown piece with a known start (`split`). Returns null for other changes, or if tokens and text disagree.
function splitGrown(state, piece, split) {
  const whole = split.last && split.read === (piece.skip ?? 0) + split.shown;
  if (!whole || tokenAt(state.requests.get(piece.request), split.position - 1) !== split.last) return null;
  const parts = splitMore(state, piece, split);
  return fits(piece, split) ? parts : null;
}

// The tokens after the progress of `split`.
function splitMore(state, piece, split) {
  const request = state.requests.get(piece.request),
    begin = piece.skip ?? 0,
    end = begin + piece.text.length,
    parts = [];
  for (; split.position < piece.to; split.position += 1) {
    const token = tokenAt(request, split.position);
    if (!token) break;
    const [added, pending] = decodeMore(split.pending, bytesOf(state.tokenTable, [token.token]));
    const text = added.slice(Math.max(0, begin - split.read), Math.max(0, end - split.read));
    if (text) parts.push({ text, position: split.position });
    split.last = token;
    split.pending = pending;
    split.read += added.length;
    split.shown += text.length;
  }
  return parts;
}

// Shades for tokens in addition to the origin, from 0 to 1, or null.
const SHADES = {
  origin: () => null,
  lines: () => null, // origin with a line style per kind
  probability: (token) => (token.logprob === null || token.logprob === undefined ? null : 1 - Math.exp(token.logprob)),
  time: (token, before) => (token.t && before?.t ? Math.min(1, (token.t - before.t) / 0.2) : null), // prompt tokens have no time
};

const SHADE_NAMES = { time: "milliseconds", lines: "origin, with lines" };

function newTextPanel(host, page) {
  const tools = el("div", "sgnb-tools");
  const shade = el("select", "sgnb-select", "", { "aria-label": "colour tokens by" });
  for (const name of Object.keys(SHADES)) shade.append(el("option", "", SHADE_NAMES[name] ?? name, { value: name }));
  shade.addEventListener("change", () => page.repaint());
  const why = button("why not found", "go to the next token at which a prompt left the cache (key n)", nextBorder);
  tools.append(el("span", "sgnb-label", "colour by"), shade, why);
  const flow = el("div", "sgnb-branches");
  const note = el("div", "sgnb-note");
  host.append(tools, flow, note);
  let painters = new Map();

  const tokens = linkTokens(flow, page);
  flow.addEventListener("keydown", (event) => {
    if (!["n", "Enter"].includes(event.key) || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "n") nextBorder();
    else page.edit();
    event.preventDefault();
    event.stopPropagation();
  });
  const borders = () => [...flow.querySelectorAll(".sgnb-border")];
  // Select the next border after the selected border, or the first border.
  function nextBorder() {
    const all = borders(),
      next = all[(all.indexOf(tokens.kept()) + 1) % all.length];
    if (!next) return;
    tokens.keep(next);
    next.scrollIntoView({ block: "nearest" });
  }

  function paint(state, run, live) {
    const edits = editsOf(state, run),
      keyOf = (one, name) => (one === run ? name : `${one.run} ${name}`);
    const all = [run, ...edits].flatMap((one) => [...one.branches.values()].map((branch) => [one, branch]));
    const keys = new Set(all.map(([one, branch]) => keyOf(one, branch.name)));
    for (const [key, painter] of painters) if (!keys.has(key)) painter.root.remove();
    painters = new Map([...painters].filter(([key]) => keys.has(key)));
    flow.classList.toggle("sgnb-lined", shade.value === "lines");
    flow.classList.toggle("sgnb-by-value", !["origin", "lines"].includes(shade.value));
    keepEnds(flow, () => {
      for (const [one, branch] of all) {
        const key = keyOf(one, branch.name);
        let painter = painters.get(key);
        if (!painter) {
          const words = one.edit && !branch.parent ? wordsOfEdit(one.edit) : branch.name;
          painter = newBranchPainter(words);
          painters.set(key, painter);
          hostOf(run, one, branch, keyOf).append(painter.root);
        }
        const labelled = run.branches.size > 1 || edits.length > 0;
        painter.paint(state, one, branch, live && one.status === "running", labelled, shade.value);
      }
    });
    why.hidden = !flow.querySelector(".sgnb-border");
    const more = plural(run.hidden, "more branch", "more branches");
    setText(note, run.hidden ? `and ${more}: see ${run.metrics.total > 1 ? "rows" : "branches"}` : "");
  }
  // The element for a new branch: at the fork of the parent, next to the edited branch, or below all.
  function hostOf(run, one, branch, keyOf) {
    const parent = painters.get(keyOf(one, branch.parent));
    if (parent) return parent.forksAt(branch.forkedAt);
    const first = one === run ? undefined : painters.get(run.branches.keys().next().value);
    return first ? rowOfEdits(first.root) : flow;
  }
  return { host, paint, highlight: (selection) => lightTokens(flow, selection) };
}

// Report hovered and selected tokens below `host` to the page, by pointer and keys. Returns access to the token selected by keys.
function linkTokens(host, page) {
  const selectionOf = ({ dataset: { request, position } }) =>
    position === undefined ? null : { request: Number(request), position: Number(position) };
  host.addEventListener("mouseover", ({ target }) => page.hover(selectionOf(target)));
  host.addEventListener("mouseleave", () => page.hover(null));
  host.addEventListener("click", ({ target }) => page.pin(selectionOf(target)));
  let kept = null;
  walkByKeys(
    host,
    () => host.querySelectorAll(".sgnb-token"),
    (token) => token === kept,
    keep,
  );
  function keep(token) {
    kept = token;
    page.keep(token && selectionOf(token));
  }
  return { kept: () => kept, keep };
}

// Keep texts scrolled to the end. Reads come first, then writes, then scrolls, because reading after a change forces a layout.
function keepEnds(host, write) {
  const away = new Set(
    [...host.querySelectorAll(".sgnb-text")].filter(
      (text) => text.scrollTop + text.clientHeight < text.scrollHeight - 4,
    ),
  );
  write();
  for (const text of host.querySelectorAll(".sgnb-text")) if (!away.has(text)) text.scrollTop = text.scrollHeight;
}

function lightTokens(host, selection) {
  for (const old of host.querySelectorAll(".sgnb-lit")) old.classList.remove("sgnb-lit");
  if (!selection || selection.position === undefined) return;
  for (const token of host.querySelectorAll(
    `[data-request="${selection.request}"][data-position="${selection.position}"]`,
  ))
    token.classList.add("sgnb-lit");
}

// The error of a branch, unless the head or the cell shows the error. The head of an edit shows no error.
const ownError = (run, branch) => (branch.error === run.message && !run.edit ? "" : branch.error);

function newBranchPainter(name) {
  const root = el("div", "sgnb-branch", "", { role: "group", "aria-label": `branch ${name}` });
  const head = el("div", "sgnb-branch-head");
  const mark = el("span", "sgnb-mark");
  const flow = el("div");
  const caret = el("span", "sgnb-caret", "", { "aria-hidden": "true" });
  const variables = el("div", "sgnb-vars", "", { role: "group", "aria-label": "variables", tabindex: "0" });
  const error = el("div", "sgnb-error", "", { tabindex: "0", role: "group", "aria-label": "error" });
  const passages = [newPassage(caret)];
  const forks = [];
  head.append(mark, el("span", "", name));
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
  function paint(state, run, branch, running, labelled, shade) {
    const status = branch.status === "running" && !running ? "stopped" : branch.status;
    head.hidden = !labelled;
    mark.className = `sgnb-mark sgnb-is-${status}`;
    mark.title = status;
    const writing = running && branch.status === "running" && branch.generatedFrom !== null;
    if (!writing) caret.remove();
    passages.forEach((passage, i) => {
      const from = Math.max(branch.shared, forks[i - 1]?.at ?? 0),
        to = forks[i]?.at ?? Infinity;
      passage.paint(state, take(drop(branch.pieces, from), to - from), writing && i === passages.length - 1, shade);
    });
    const made = () => {
      const chip = el("span", "sgnb-chip");
      chip.append(el("b"), el("span"));
      return chip;
    };
    list(variables, Object.entries(branch.variables), made, (chip, [key, value]) => {
      setText(chip.firstChild, `${visible(key)} = `);
      chip.dataset.by = branch.makers[key] ?? "";
      chip.classList.toggle("sgnb-by", Boolean(branch.makers[key]));
      setText(chip.lastChild, inLine(String(value), 240));
      chip.title = visible(String(value).slice(0, 2000));
    });
    setText(error, visible(ownError(run, branch)));
  }
  return { root, forksAt, paint };
}

// A passage of a branch's text, up to a fork or the end.
function newPassage(caret, label = "text") {
  const body = el("div", "sgnb-text", "", {
    tabindex: "0",
    dir: "auto",
    role: "group",
    "aria-label": `${label}; the arrow keys go from token to token`,
  });

  function paint(state, pieces, writing, shade) {
    if (writing) caret.remove();
    list(
      body,
      pieces,
      () => el("span"),
      (span, piece) => paintPiece(state, span, piece, shade),
    );
    if (writing) body.append(caret);
    body.hidden = pieces.length === 0;
  }
  return { body, paint };
}

function paintPiece(state, span, piece, shade) {
  if (piece.item !== undefined) {
    paintChip(state, span, piece);
    return;
  }
  const known = state.requests.has(piece.request);
  const split = known && (piece.kind === "sampled" || piece.kind === "jumped" || piece.to - piece.from < SPLIT_AT_MOST);
  const key = `${piece.kind} ${piece.by} ${piece.request} ${piece.from} ${piece.skip} ${split} ${shade}`;
  if (span.sgnbKey === key && span.sgnbText === piece.text) return;
  if (span.sgnbKey !== key) {
    span.sgnbKey = key;
    span.className = `sgnb-k-${piece.kind}${piece.by ? " sgnb-by" : ""}${known && !split ? " sgnb-token" : ""}`;
    span.dataset.by = piece.by ?? "";
    span.classList.toggle(
      "sgnb-border",
      known && !split && isBorder(state.requests.get(piece.request), piece.from, piece.to),
    );
    if (known && !split) span.dataset.position = piece.from;
    else delete span.dataset.position;
    span.title = split ? "" : KINDS[piece.kind].join(": ");
    span.sgnbSplit = null;
    span.replaceChildren();
  }
  const grown =
    span.sgnbSplit && piece.text.startsWith(span.sgnbText) ? splitGrown(state, piece, span.sgnbSplit) : null;
  span.sgnbText = piece.text;
  if (piece.request !== undefined) span.dataset.request = piece.request;
  if (!split) {
    setText(span, visible(piece.text));
    return;
  }
  const request = state.requests.get(piece.request);
  const paintToken = (one, { text, position }) => {
    setText(one, visible(text));
    if (one.dataset.position === String(position)) return;
    Object.assign(one.dataset, { request: piece.request, position });
    const degree = SHADES[shade](tokenAt(request, position) ?? {}, tokenAt(request, position - 1));
    one.className = degree === null ? "sgnb-token" : "sgnb-token sgnb-shaded";
    one.classList.toggle("sgnb-border", isBorder(request, position, position + 1));
    if (degree !== null) one.style.setProperty("--degree", `${Math.round(85 * degree)}%`);
  };
  if (grown) {
    for (const part of grown) paintToken(span.appendChild(el("span")), part);
  } else {
    const begun = newSplit(piece);
    list(span, splitPiece(state, piece, begun), () => el("span"), paintToken);
    span.sgnbSplit = fits(piece, begun) ? begun : null;
  }
}

// Mark text sent or generated within a range of time, or none.
function markRange(main, state, range) {
  main.classList.toggle("sgnb-ranged", range !== null);
  if (!range) return;
  for (const part of main.querySelectorAll("[data-request]")) {
    const request = state.requests.get(Number(part.dataset.request)),
      { position } = part.dataset;
    const t = (position && request && tokenAt(request, Number(position))?.t) ?? request?.admitted;
    part.classList.toggle("sgnb-within", !part.querySelector("[data-request]") && t > range.from && t <= range.to);
  }
}
