// The radix tree: bars whose length is tokens, fill is recency, ring is locks; a ghost for what was just evicted.

const BAR = 20;
const ROW = 26;
const STEP = 30;
const PAD = 14;
const MAX_HEIGHT = 460;
const MAX_ROWS = 16; // shown by default: of a larger tree the most recently used nodes,
const MAX_CHILDREN = 8; // and so many of each
const SVG_LIMIT = 3000; // above, one canvas is faster than so many elements
const GHOST_MS = 1600;
const FLASH_MS = 1200;
const LEGEND = { recent: "recently used", old: "long ago", lock: "in use (locked)", fresh: "new", gone: "just evicted" };

function newTreeModel() {
  const nodes = new Map();
  const model = { nodes, totals: { evicted: 0, lost: 0, pool: [0, 0, 0] }, version: 0, evicted: new Map() };
  let loading = false;

  function gone(id) {
    if (nodes.delete(id)) model.evicted.set(id, performance.now());
  }
  const handlers = {
    gone,
    node(id, parent, order, tokens, locks, tick, namespace, text) {
      const born = nodes.get(id)?.born ?? (loading ? -Infinity : performance.now());
      nodes.set(id, { id, parent, order, tokens, locks, tick, namespace, text, born });
    },
    use(id, locks, tick) {
      const node = nodes.get(id);
      node.locks = locks;
      node.tick = tick;
    },
    totals(totals) {
      model.totals = totals;
    },
  };
  model.apply = (ops) => {
    for (const [id, since] of model.evicted) if (performance.now() - since > GHOST_MS) model.evicted.delete(id);
    for (const [kind, ...rest] of ops) handlers[kind]?.(...rest);
    model.version += 1;
  };
  model.load = (ops) => {
    loading = nodes.size === 0;
    const present = new Set(ops.filter((op) => op[0] === "node").map((op) => op[1]));
    for (const id of [...nodes.keys()]) if (!present.has(id)) gone(id);
    model.apply(ops);
    loading = false;
  };
  model.stats = () => {
    let tokens = 0, locked = 0, edges = 0;
    for (const node of nodes.values()) {
      tokens += node.tokens;
      locked += node.locks > 0;
      edges += node.parent !== 0;
    }
    return { nodes: nodes.size, edges, tokens, locked, evicted: model.totals.evicted };
  };
  return model;
}

// Which nodes to show, and where. `opened` are nodes whose children are all shown, `whole` shows everything.
function layoutTree(nodes, whole, opened) {
  const children = new Map();
  for (const node of nodes.values()) {
    if (!children.has(node.parent)) children.set(node.parent, []);
    children.get(node.parent).push(node);
  }
  for (const list of children.values()) list.sort((a, b) => a.order - b.order);
  const all = [];
  const depth = new Map([[0, 0]]);
  for (const stack = [...(children.get(0) ?? [])].reverse(); stack.length; ) {
    const node = stack.pop();
    depth.set(node.id, depth.get(node.parent) + 1);
    all.push(node);
    stack.push(...[...(children.get(node.id) ?? [])].reverse());
  }
  const leaves = all.filter((node) => !children.has(node.id)).length;
  const everything = whole || leaves <= MAX_ROWS;
  const shown = new Set(everything ? all.map((node) => node.id) : recentNodes(all, depth));
  for (const node of all) {
    if (opened.has(node.parent) && (node.parent === 0 || shown.has(node.parent))) shown.add(node.id);
  }
  const hidden = new Map();
  for (let i = all.length - 1; i >= 0; i--) {
    const node = all[i];
    const below = hidden.get(node.id) ?? 0;
    if (!shown.has(node.id)) hidden.set(node.parent, (hidden.get(node.parent) ?? 0) + below + 1);
  }
  return { ...place(children, shown, hidden), folded: !whole && shown.size < nodes.size };
}

// A parent is at least as recent as its children, so it is met, and taken, before them.
function recentNodes(all, depth) {
  const shown = new Set();
  const taken = new Map();
  let rows = 0;
  for (const node of [...all].sort((a, b) => b.tick - a.tick || depth.get(a.id) - depth.get(b.id))) {
    const siblings = taken.get(node.parent) ?? 0;
    if ((node.parent !== 0 && !shown.has(node.parent)) || siblings === MAX_CHILDREN) continue;
    const row = siblings > 0 || node.parent === 0 ? 1 : 0;
    if (rows + row > MAX_ROWS) continue;
    rows += row;
    taken.set(node.parent, siblings + 1);
    shown.add(node.id);
  }
  return shown;
}

// O(n): leaves take a row each, a parent stands in the middle of its children.
function place(children, shown, hidden) {
  const items = [];
  let row = 0, right = 0;
  const ticks = [];
  function visit(node, x) {
    const width = 84 + 24 * Math.log2(1 + node.tokens);
    const item = { key: node.id, node, x, y: 0, width, up: null, kids: 0, more: hidden.get(node.id) ?? 0 };
    items.push(item);
    ticks.push(node.tick);
    right = Math.max(right, x + width);
    return item;
  }
  function more(parent, x, count) {
    const of = parent?.key ?? 0;
    const item = { key: `more${of}`, node: null, x, y: row++ * ROW, width: 84, up: parent, count, of };
    items.push(item);
    right = Math.max(right, x + item.width);
    return item;
  }
  const stack = [{ item: null, x: 0, list: shownOf(0), next: 0, ys: [] }];
  function shownOf(id) {
    return (children.get(id) ?? []).filter((node) => shown.has(node.id));
  }
  while (stack.length) {
    const top = stack[stack.length - 1];
    if (top.next < top.list.length) {
      const item = visit(top.list[top.next++], top.x);
      item.up = top.item;
      stack.push({ item, x: item.x + item.width + STEP, list: shownOf(item.key), next: 0, ys: [] });
      continue;
    }
    const count = hidden.get(top.item ? top.item.key : 0) ?? 0;
    if (count) top.ys.push(more(top.item, top.x, count).y);
    stack.pop();
    if (!top.item) break;
    top.item.kids = (children.get(top.item.key) ?? []).length;
    top.item.y = top.ys.length ? (top.ys[0] + top.ys[top.ys.length - 1]) / 2 : row++ * ROW;
    stack[stack.length - 1].ys.push(top.item.y);
  }
  const order = [...new Set(ticks)].sort((a, b) => a - b);
  const ranks = new Map(order.map((tick, i) => [tick, order.length > 1 ? i / (order.length - 1) : 1]));
  for (const item of items) item.heat = item.node ? ranks.get(item.node.tick) : 0;
  return { items, width: right, height: Math.max(1, row) * ROW - (ROW - BAR) };
}

function clip(text, width) {
  const room = Math.max(1, Math.floor(width / 6.9));
  const flat = text.trimStart().slice(0, room + 1).replaceAll("\n", "⏎").replaceAll("\t", " ");
  return flat.length > room ? flat.slice(0, room - 1) + "…" : flat;
}

function counted(n, word) {
  return `${n} ${word}${n === 1 ? "" : "s"}`;
}

function describe(node, kids) {
  const parts = [counted(node.tokens, "token"), kids === 1 ? "1 child" : `${kids} children`, `last used at ${node.tick}`];
  if (node.locks) parts.push(counted(node.locks, "lock"));
  if (node.namespace) parts.push(`namespace ${node.namespace}`);
  return parts.join(" · ");
}

function edgePath(item) {
  const x0 = item.up.x + item.up.width, y0 = item.up.y + BAR / 2, y1 = item.y + BAR / 2, h = STEP / 2;
  return `M${x0} ${y0}C${x0 + h} ${y0} ${item.x - h} ${y1} ${item.x} ${y1}`;
}

// Keyed elements: a node keeps its element for life, so that it moves rather than jumps.
function newSvgLayer(world, events) {
  const edges = world.appendChild(svg("g", { class: "sgnb-edges" }));
  const groups = world.appendChild(svg("g"));
  const parts = new Map();

  function make(item) {
    const group = svg("g", { class: "sgnb-node", role: "treeitem" });
    const rect = svg("rect", { height: BAR, rx: 5 });
    const label = svg("text", { x: 8, y: 14 });
    const count = svg("text", { y: 14, class: "sgnb-count" });
    const edge = svg("path");
    group.append(rect, label, count);
    const part = { group, rect, label, count, edge, item };
    group.addEventListener("pointerenter", () => events.hover(part.item));
    group.addEventListener("pointerleave", () => events.hover(null));
    group.addEventListener("click", () => events.click(part.item));
    groups.append(group);
    edges.append(edge);
    return part;
  }
  function update(part, item, now) {
    const { node } = item;
    part.item = item;
    part.group.style.transform = `translate(${item.x}px, ${item.y}px)`;
    part.rect.setAttribute("width", item.width);
    part.rect.style.setProperty("--heat", `${Math.round(10 + 50 * item.heat)}%`);
    part.edge.setAttribute("d", item.up ? edgePath(item) : "");
    part.group.classList.toggle("sgnb-more", !node);
    part.group.classList.toggle("sgnb-locked", Boolean(node && node.locks > 0));
    part.group.classList.toggle("sgnb-fresh", Boolean(node && now - node.born < FLASH_MS));
    const count = node ? String(node.tokens) : "";
    setText(part.count, count);
    part.count.setAttribute("x", item.width - 8);
    setText(part.label, node ? clip(node.text, item.width - 24 - 7 * count.length) : `+${item.count} more`);
    part.group.setAttribute("aria-label", node ? `${clip(node.text, 400)}: ${describe(node, item.kids)}` : `${item.count} more nodes`);
  }
  function ghost(part) {
    part.group.classList.add("sgnb-ghost");
    part.edge.classList.add("sgnb-ghost");
    setTimeout(() => {
      part.group.remove();
      part.edge.remove();
    }, GHOST_MS);
  }
  return {
    paint(items, evicted, selected) {
      const now = performance.now();
      const present = new Set(items.map((item) => item.key));
      for (const [key, part] of parts) {
        if (present.has(key)) continue;
        parts.delete(key);
        if (evicted.has(key)) ghost(part);
        else {
          part.group.remove();
          part.edge.remove();
        }
      }
      for (const item of items) {
        let part = parts.get(item.key);
        if (!part) parts.set(item.key, (part = make(item)));
        update(part, item, now);
        part.group.classList.toggle("sgnb-selected", item.key === selected);
      }
      return parts.size;
    },
    clear() {
      for (const part of parts.values()) {
        part.group.remove();
        part.edge.remove();
      }
      parts.clear();
    },
  };
}

function paintCanvas(canvas, items, camera, selected) {
  const ratio = window.devicePixelRatio || 1;
  canvas.width = canvas.clientWidth * ratio;
  canvas.height = canvas.clientHeight * ratio;
  const style = getComputedStyle(canvas);
  const [fill, line, ink] = ["--sgnb-cached", "--sgnb-line", "--sgnb-fg"].map((name) => style.getPropertyValue(name));
  const c = canvas.getContext("2d");
  c.setTransform(ratio * camera.k, 0, 0, ratio * camera.k, ratio * camera.x, ratio * camera.y);
  c.font = "11px ui-monospace, monospace";
  const top = -camera.y / camera.k - ROW, bottom = top + canvas.clientHeight / camera.k + 2 * ROW;
  for (const item of items) {
    if (item.up && Math.max(item.y, item.up.y) > top && Math.min(item.y, item.up.y) < bottom) {
      c.strokeStyle = line;
      c.stroke(new Path2D(edgePath(item)));
    }
    if (item.y < top || item.y > bottom) continue;
    c.globalAlpha = 0.1 + 0.5 * item.heat;
    c.fillStyle = fill;
    c.fillRect(item.x, item.y, item.width, BAR);
    c.globalAlpha = 1;
    if (item.key === selected || item.node?.locks > 0) {
      c.strokeStyle = ink;
      c.strokeRect(item.x, item.y, item.width, BAR);
    }
    if (camera.k > 0.5) {
      c.fillStyle = ink;
      c.fillText(item.node ? clip(item.node.text, item.width - 16) : `+${item.count} more`, item.x + 8, item.y + 14);
    }
  }
}

function newTreePainter(host, model) {
  const card = el("section", "sgnb sgnb-card", "", { "aria-label": "radix tree" });
  const head = el("header", "sgnb-head");
  const status = el("span", "sgnb-status");
  const figures = el("span", "sgnb-figures");
  const tools = el("span", "sgnb-tools");
  const stage = el("div", "sgnb-stage", "", {
    tabindex: "0", role: "tree",
    "aria-label": "radix tree: arrow keys move between nodes, Enter unfolds, plus and minus zoom, 0 fits",
  });
  const picture = svg("svg");
  const world = picture.appendChild(svg("g"));
  const canvas = el("canvas");
  const empty = el("div", "sgnb-empty", "The cache is empty.");
  const tip = el("div", "sgnb-tip");
  const tipText = el("div", "sgnb-tip-text", "", { dir: "auto" });
  const tipMeta = el("div", "sgnb-tip-meta");
  const legend = el("footer", "sgnb-legend", "", { "aria-label": "legend" });
  tip.hidden = true;
  tip.append(tipText, tipMeta);
  stage.append(picture, canvas, empty, tip);
  head.append(el("span", "sgnb-title", "Radix tree"), status, figures, tools);
  card.append(head, stage, legend);
  host.append(card);
  for (const [name, meaning] of Object.entries(LEGEND)) {
    const item = el("span", "sgnb-legend-item");
    item.append(el("i", `sgnb-swatch sgnb-swatch-${name}`), meaning);
    legend.append(item);
  }
  legend.append(el("span", "sgnb-legend-item sgnb-hint", "drag to move, Ctrl + wheel to zoom"));

  const opened = new Set();
  const camera = { x: PAD, y: PAD, k: 1, own: false };
  let layout = { items: [], width: 1, height: 1, folded: false };
  let drawn = -1, whole = false, selected = null, big = false, settle = 0;
  const layer = newSvgLayer(world, { hover: (item) => showTip(item), click: activate });

  function button(name, label, action) {
    const node = el("button", "", name, { type: "button", title: label, "aria-label": label });
    node.addEventListener("click", action);
    tools.append(node);
    return node;
  }
  button("−", "zoom out", () => zoom(1 / 1.3));
  button("+", "zoom in", () => zoom(1.3));
  button("fit", "fit the tree in the view", () => { camera.own = false; paint(true); });
  const all = button("all", "show every node, or only the most recently used", () => {
    whole = !whole;
    opened.clear();
    camera.own = false;
    drawn = -1;
    paint(true);
  });

  function activate(item) {
    selected = item.key;
    if (!item.node) opened.add(item.of);
    else if (opened.has(item.key)) opened.delete(item.key);
    drawn = -1;
    paint(true);
  }
  function showTip(item) {
    tip.hidden = !item?.node;
    if (tip.hidden) return;
    setText(tipText, item.node.text + (item.node.text.length >= 200 ? " …" : ""));
    setText(tipMeta, describe(item.node, item.kids));
    const x = item.x * camera.k + camera.x, y = item.y * camera.k + camera.y;
    tip.style.left = `${Math.max(4, Math.min(x, stage.clientWidth - tip.offsetWidth - 8))}px`;
    const below = y + ROW * camera.k + 4;
    tip.style.top = `${below + tip.offsetHeight > stage.clientHeight + 40 && y > tip.offsetHeight ? y - tip.offsetHeight - 6 : below}px`;
  }
  function zoom(factor, cx = stage.clientWidth / 2, cy = stage.clientHeight / 2) {
    const k = Math.min(3, Math.max(0.05, camera.k * factor));
    camera.x = cx - ((cx - camera.x) * k) / camera.k;
    camera.y = cy - ((cy - camera.y) * k) / camera.k;
    Object.assign(camera, { k, own: true });
    paint(true);
  }
  stage.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    const box = stage.getBoundingClientRect();
    zoom(Math.exp(-event.deltaY / 300), event.clientX - box.left, event.clientY - box.top);
  }, { passive: false });
  let drag = null;
  stage.addEventListener("pointerdown", (event) => {
    drag = { x: event.clientX - camera.x, y: event.clientY - camera.y };
  });
  for (const end of ["pointerup", "pointerleave"]) stage.addEventListener(end, () => { drag = null; });
  stage.addEventListener("pointermove", (event) => {
    if (drag) {
      const x = event.clientX - drag.x, y = event.clientY - drag.y;
      if (Math.abs(x - camera.x) + Math.abs(y - camera.y) < 3) return;
      Object.assign(camera, { x, y, own: true });
      paint(true);
    } else if (big) showTip(itemAt(event));
  });
  stage.addEventListener("click", (event) => {
    const item = big && itemAt(event);
    if (item) activate(item);
  });
  function itemAt(event) {
    const box = stage.getBoundingClientRect();
    const x = (event.clientX - box.left - camera.x) / camera.k, y = (event.clientY - box.top - camera.y) / camera.k;
    return layout.items.find((item) => y >= item.y && y <= item.y + BAR && x >= item.x && x <= item.x + item.width) ?? null;
  }
  stage.addEventListener("keydown", (event) => {
    const { items } = layout;
    const at = items.findIndex((item) => item.key === selected);
    const here = items[at];
    const moves = {
      ArrowDown: () => items[Math.min(items.length - 1, at + 1)],
      ArrowUp: () => items[Math.max(0, at - 1)],
      ArrowLeft: () => here?.up,
      ArrowRight: () => items.find((item) => item.up && item.up === here),
    };
    if (moves[event.key]) {
      selected = (moves[event.key]() ?? here ?? items[0])?.key ?? null;
      paint(true);
      showTip(items.find((item) => item.key === selected));
    } else if (event.key === "Enter" && here) activate(here);
    else if (event.key === "+") zoom(1.3);
    else if (event.key === "-") zoom(1 / 1.3);
    else if (event.key === "0") { camera.own = false; paint(true); }
    else if (event.key === "Escape") showTip(null);
    else return;
    event.preventDefault();
    event.stopPropagation();
  });

  function fit() {
    const width = stage.clientWidth || 800;
    const across = (width - 2 * PAD) / layout.width, down = (MAX_HEIGHT - 2 * PAD) / layout.height;
    camera.k = whole ? Math.max(0.1, Math.min(1, across, down)) : Math.max(0.45, Math.min(1, across));
    camera.x = camera.y = PAD;
  }
  function paintFigures() {
    const { evicted: lost, pool, lost: records } = model.totals;
    const stats = model.stats();
    const used = pool[0] + pool[1] + pool[2];
    const parts = [[stats.nodes, "nodes"], [stats.tokens, "tokens"], [stats.locked, "locked"], [lost, "evicted"]];
    if (used) parts.push([`${Math.round((100 * (pool[1] + pool[2])) / used)} %`, "of the pool"]);
    if (records) parts.push([records, "records lost"]);
    while (figures.childElementCount > parts.length) figures.lastChild.remove();
    parts.forEach(([value, name], i) => {
      if (!figures.children[i]) {
        const item = figures.appendChild(el("span", "sgnb-figure"));
        item.append(el("b"), " ", el("span"));
      }
      setText(figures.children[i].firstChild, String(value));
      setText(figures.children[i].lastChild, name);
    });
    all.hidden = !whole && !layout.folded;
    setText(all, whole ? "fewer" : "all");
  }
  function paint(force, live) {
    if (live !== undefined) {
      setText(status, live ? "live" : "as the run ended");
      status.className = `sgnb-status sgnb-is-${live ? "running" : "done"}`;
    }
    if (!force && drawn === model.version) return;
    if (drawn !== model.version) {
      layout = layoutTree(model.nodes, whole, opened);
      drawn = model.version;
      clearTimeout(settle);
      settle = setTimeout(() => paint(true), FLASH_MS + 50);
    }
    big = layout.items.length > SVG_LIMIT;
    if (!camera.own) fit();
    stage.style.height = `${Math.max(64, Math.min(MAX_HEIGHT, layout.height * camera.k + 2 * PAD))}px`;
    empty.hidden = layout.items.length > 0;
    picture.style.display = big ? "none" : "";
    canvas.style.display = big ? "" : "none";
    if (big) {
      layer.clear();
      paintCanvas(canvas, layout.items, camera, selected);
    } else {
      world.setAttribute("transform", `translate(${camera.x} ${camera.y}) scale(${camera.k})`);
      layer.paint(layout.items, model.evicted, selected);
    }
    paintFigures();
  }
  return (live) => paint(false, live);
}

export default defineView("tree", newTreeModel, newTreePainter);
