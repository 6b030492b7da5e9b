// The radix tree as an icicle: a prefix once, its length in tokens to the right, what goes on from it below one another.

const LOWEST = 22, HIGHEST = 44; // pixels of a row
const NARROWEST = 6, WIDEST = 24; // pixels of a token
const SCROLLBAR = 16;
const LINE = 15, LETTER = 6.65;
const SHOWN_LEAVES = 24; // of a larger tree those of this run and the latest used,
const OTHER_LEAVES = 6; // and beside this run's so many
const SHORTEST = 26; // pixels of a node
const SHORT = 12; // tokens that a node may have without being drawn broken

// Which nodes are shown, and where. `whole`: all. `opened`: nodes whose children are all shown.
function layoutTree(state, { mine, whole, opened, width }) {
  const { nodes } = state;
  const leaves = [...nodes.values()].filter((node) => node.id !== ROOT && node.children.size === 0);
  const rank = (node) => (mine(node) ? 1e12 : 0) + node.used;
  const own = leaves.filter(mine).length;
  const most = own ? Math.min(SHOWN_LEAVES, own + OTHER_LEAVES) : SHOWN_LEAVES;
  const chosen = whole ? leaves : leaves.sort((a, b) => rank(b) - rank(a)).slice(0, most);
  const shown = new Set();
  for (const leaf of chosen) for (let node = leaf; node && node.id !== ROOT && !shown.has(node.id); node = nodes.get(node.parent)) shown.add(node.id);
  for (const id of opened) if (nodes.has(id)) for (const child of nodes.get(id).children.values()) shown.add(child);

  const lengths = [...shown].map((id) => nodes.get(id).tokens.length);
  const longest = lengths.reduce((most, length) => Math.max(most, length), 1);
  let cap = longest, items = [], rows = 0, right = 1;
  // Lengths are linear up to `cap`; a longer node is drawn broken.
  for (; ; cap = Math.max(SHORT, Math.floor(cap / 2))) {
    [items, rows, right] = place(cap, 1);
    const fits = right <= width / NARROWEST || cap <= SHORT;
    if (fits) break;
  }
  const scale = Math.max(NARROWEST, Math.min(WIDEST, (width - 6) / right));
  [items, rows, right] = place(cap, scale);
  return { items, rows, right, scale, hidden: nodes.size - 1 - shown.size };

  function place(limit, unit) {
    const placed = [];
    let row = 0, end = 1;
    function visit(node, x) {
      const children = [...node.children.values()].map((id) => nodes.get(id)).sort((a, b) => mine(b) - mine(a) || a.order - b.order);
      const open = children.filter((child) => shown.has(child.id));
      const folded = children.length - open.length;
      const first = row;
      let length = 0, item = null;
      if (node.id !== ROOT) {
        const drawn = Math.min(node.tokens.length, limit);
        length = unit === 1 ? drawn : Math.max(SHORTEST, drawn * unit);
        item = { node, x, width: length, row: first, rows: 1, after: 0, broken: node.tokens.length > limit };
        placed.push(item);
        end = Math.max(end, x + length);
      }
      for (const child of open) visit(child, x + length);
      if (folded) {
        placed.push({ node: null, of: node.id, folded, x: x + length, width: unit === 1 ? 1 : 64, row, rows: 1 });
        row += 1;
      }
      if (row === first) row += 1;
      if (item) Object.assign(item, { rows: row - first, after: placed.length });
    }
    visit(nodes.get(ROOT), 0);
    return [placed, row, end];
  }
}

// The nodes in which the text ends, on the way from the root.
function findText(state, wanted) {
  const found = new Set(), open = [[state.nodes.get(ROOT), ""]];
  while (open.length) {
    const [node, before] = open.pop();
    const text = before + textOfTokens(state.vocabulary, node.tokens).toLowerCase();
    if (text.includes(wanted)) found.add(node.id);
    const tail = wanted.length > 1 ? text.slice(1 - wanted.length) : "";
    for (const child of node.children.values()) open.push([state.nodes.get(child), tail]);
  }
  return found;
}

function newTreePanel(host, page) {
  const tools = el("div", "sgnb-tools");
  const figures = el("span", "sgnb-label");
  const search = el("input", "sgnb-search", "", { type: "search", placeholder: "find text", "aria-label": "find text in the tree" });
  let whole = false, opened = new Set(), layout = null, selected = null, lit = null, found = new Set(), row = LOWEST;
  const all = button("all", "show every node, or only those of this run and the latest", () => {
    whole = !whole;
    opened = new Set();
    page.repaint();
  });
  tools.append(figures, search, all);
  const stage = el("div", "sgnb-stage");
  const spacer = el("div");
  const surface = newSurface(stage, "radix tree: prefixes in the cache");
  stage.append(spacer);
  const ghosts = el("div", "sgnb-note");
  const legend = el("div", "sgnb-legend");
  for (const [name, text] of [["found", "found since"], ["made", "made by this run"], ["other", "neither"], ["lock", "in use"]]) {
    const item = el("span", "sgnb-legend-item");
    item.append(el("span", `sgnb-swatch sgnb-swatch-${name}`), text);
    legend.append(item);
  }
  const scale = el("span", "sgnb-legend-item");
  legend.append(scale);
  host.append(tools, stage, ghosts, legend);

  search.addEventListener("input", () => page.repaint());
  stage.addEventListener("scroll", () => draw());
  surface.canvas.addEventListener("mousemove", (event) => {
    const { box } = surface.at(event);
    page.hover(box?.node ? { node: box.node.id } : null);
    surface.canvas.style.cursor = box ? "pointer" : "";
  });
  surface.canvas.addEventListener("mouseleave", () => page.hover(null));
  surface.canvas.addEventListener("click", (event) => activate(surface.at(event).box));
  surface.canvas.addEventListener("keydown", (event) => {
    const items = layout?.items.filter((item) => item.node) ?? [];
    const at = items.findIndex((item) => item.node.id === selected);
    const moves = {
      ArrowDown: () => items[Math.min(items.length - 1, at + 1)],
      ArrowUp: () => items[Math.max(0, at - 1)],
      ArrowLeft: () => items.find((item) => item.node.id === items[at]?.node.parent),
      ArrowRight: () => items.find((item) => item.node.parent === selected),
    };
    if (event.key === "Enter" && at >= 0) activate(items[at]);
    else if (moves[event.key]) select(moves[event.key]());
    else return;
    event.preventDefault();
    event.stopPropagation();
  });
  function activate(item) {
    if (!item) return;
    if (!item.node) opened.add(item.of);
    else select(item);
    page.repaint();
  }
  function select(item) {
    if (!item) return;
    selected = item.node.id;
    const top = item.row * row;
    if (item.x < stage.scrollLeft || item.x + item.width > stage.scrollLeft + stage.clientWidth) stage.scrollLeft = item.x - 40;
    if (top < stage.scrollTop || top + row > stage.scrollTop + stage.clientHeight) stage.scrollTop = top - 40;
    page.keep({ node: selected });
    draw();
  }

  let shownState = null, shownRun = null;
  const isMine = (node) => shownRun !== null && (node.used >= shownRun.t || ofRun(node));
  const ofRun = (node) => node.request !== null && shownState.requests.get(node.request)?.run === shownRun?.run;

  function paint(state, run) {
    [shownState, shownRun] = [state, run];
    const wanted = search.value.toLowerCase();
    found = wanted ? findText(state, wanted) : new Set();
    if (wanted && !whole) for (const id of found) for (let node = state.nodes.get(id); node && node.id !== ROOT; node = state.nodes.get(node.parent)) opened.add(node.parent);
    const width = Math.max(200, stage.clientWidth - 2);
    layout = layoutTree(state, { mine: isMine, whole, opened, width });
    row = Math.max(LOWEST, Math.min(HIGHEST, 300 / layout.rows));
    const height = layout.rows * row + 6, beyond = layout.right > width;
    stage.style.height = `${Math.min(height, 340) + (beyond ? SCROLLBAR : 0)}px`;
    Object.assign(spacer.style, { height: `${height}px`, width: beyond ? `${layout.right + 6}px` : "" });
    all.hidden = !whole && !layout.hidden;
    setText(all, whole ? "fewer" : `all ${(state.nodes.size - 1).toLocaleString("en")}`);
    setText(figures, `${plural(state.nodes.size - 1, "node")} · ${plural(state.cachedTokens, "token")}${state.engine ? ` · ${share(state.cachedTokens, state.engine.pool_tokens)} of the pool` : ""}${wanted ? ` · ${found.size} found` : ""}`);
    setText(scale, layout.scale ? `${Math.max(1, Math.round(60 / layout.scale))} tokens are as long as this line` : "");
    setText(ghosts, state.ghosts.length ? `last evicted: ${state.ghosts.slice(-3).reverse().map((ghost) => `“${inLine(textOfTokens(state.vocabulary, ghost.tokens), 30)}” (${plural(ghost.tokens.length, "token")}, ${ghost.reason})`).join(", ")}` : "");
    const ids = [...state.nodes.values()], used = ids.filter((node) => node.hits > 0).length;
    surface.say(`${plural(ids.length - 1, "node")} with ${plural(state.cachedTokens, "token")}, ${used} of them found since this view began. Arrow keys go from node to node.`);
    draw();
  }
  function draw() {
    if (!layout) return;
    const colours = coloursOf(host), width = Math.max(200, stage.clientWidth - 2), height = stage.clientHeight, top = stage.scrollTop, left = stage.scrollLeft;
    const context = surface.begin(width, height);
    // Items come from top to bottom, each before those below it: what is not seen is passed over.
    for (let i = 0; i < layout.items.length; i += 1) {
      const item = layout.items[i], x = item.x - left, y = item.row * row + 2 - top, tall = item.rows * row - 3;
      if (y > height) break;
      if (y + tall < 0 && item.node) i = item.after - 1;
      if (y + tall < 0 || x > width || x + item.width < 0) continue;
      surface.region({ ...item, x, y, height: tall });
      if (item.node) drawNode(context, colours, { ...item, x }, y, tall, height);
      else {
        context.fillStyle = colours.muted;
        context.fillText(`… ${item.folded.toLocaleString("en")} more`, x + 5, y + 9);
      }
    }
    spacer.style.marginTop = `${-height}px`;
  }
  function drawNode(context, colours, { node, x, width, broken }, y, tall, height) {
    const made = ofRun(node), hit = shownRun !== null && node.hits > 0;
    const colour = hit ? colours.cached : made ? colours.computed : colours.muted;
    const marked = node.id === selected || lit?.has(node.id) || found.has(node.id);
    fillTinted(context, colour, hit || made ? 0.2 : 0.08, x + 0.5, y, width - 1.5, tall);
    context.strokeStyle = marked ? colours.sampled : node.locks > 0 ? colours.fg : colour;
    context.lineWidth = marked || node.locks > 0 ? 2 : 1;
    context.strokeRect(x + 1, y + 0.5, width - 2, tall - 1);
    if (made) fillTinted(context, colours.computed, 1, x + 1, y, 3, tall);
    const above = Math.max(0, -y);
    drawLabel(context, colours, node, x + 7, y + above + 1, width - 11, Math.min(tall - above, height) - 2, hit);
    if (!broken) return;
    fillTinted(context, colours.bg, 1, x + width * 0.8, y - 1, 5, tall + 2);
    for (const edge of [0, 5]) fillTinted(context, colours.muted, 1, x + width * 0.8 + edge, y, 1, tall);
  }
  // The text in as many lines as there is room for, and below it how long the node is and how often it was found.
  function drawLabel(context, colours, node, x, y, width, tall, hit) {
    const letters = Math.floor(width / LETTER), count = `${node.tokens.length}${hit ? ` · found ${node.hits}×` : ""}`;
    const own = tall >= 2 * LINE, lines = Math.max(1, Math.floor(tall / LINE) - (own ? 1 : 0));
    const aside = own || letters < count.length + 8 ? 0 : count.length + 2;
    const text = inLine(textOfTokens(shownState.vocabulary, node.tokens.slice(0, 40 * lines)), 4000);
    const room = letters - aside;
    context.fillStyle = colours.fg;
    for (let i = 0; i < lines && room > 1; i += 1) {
      const last = i === lines - 1, part = text.slice(i * room, (i + 1) * room);
      const more = last && text.length > (i + 1) * room;
      context.fillText(more ? `${part.slice(0, -1)}…` : part, x, y + LINE * (i + 0.5) + (own ? 0 : (tall - LINE) / 2));
    }
    if (!aside && !(own && letters >= count.length)) return;
    context.fillStyle = colours.muted;
    context.fillText(count, aside ? x + width - LETTER * count.length : x, own ? y + tall - LINE / 2 : y + tall / 2);
  }
  function highlight(selection) {
    lit = selection ? nodesOf(shownState, selection) : null;
    draw();
  }
  return { paint, highlight };
}

// The nodes of a selection: the one named, or that which holds a token.
function nodesOf(state, selection) {
  if (!state) return null;
  if (selection.node !== undefined) return new Set([selection.node]);
  const request = state.requests.get(selection.request);
  if (!request) return null;
  let node = state.nodes.get(ROOT), at = 0;
  while (node) {
    const next = [...node.children.values()].map((id) => state.nodes.get(id)).find((child) => child.tokens.every((token, i) => (tokenIdAt(request, at + i) ?? token) === token));
    if (!next) return null;
    at += next.tokens.length;
    if (at > selection.position) return new Set([next.id]);
    node = next;
  }
  return null;
}
