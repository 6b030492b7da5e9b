// The radix tree, each prefix once: as an icicle with node widths in tokens, or as nodes and links.

const LOWEST = 22;
const HIGHEST = 44; // maximum pixels of a row
const TALLEST = 340; // maximum pixels of the drawing; larger drawings scroll
const MAPPED = 3; // multiple of the height; larger drawings have a minimap
const SCROLLBAR = 16;
const REASONS = {
  memory: "for lack of memory",
  flush: "by a flush",
  hand: "by hand",
  spoilt: "non-finite logits",
  weights: "the weights changed",
};

function newTreePanel(host, page) {
  const tools = el("div", "sgnb-tools");
  const metrics = el("span", "sgnb-label");
  const search = el("input", "sgnb-search", "", {
    type: "search",
    placeholder: "find text",
    "aria-label": "find text in the tree",
  });
  const runs = el("select", "sgnb-select", "", { "aria-label": "show the nodes of" });
  let whole = false,
    links = false,
    opened = new Set(),
    layout = null,
    selected = null,
    lit = null,
    found = new Set(),
    row = LOWEST;
  const folded = new Set();
  const all = button("all", "show every node, or only the nodes of this run and the latest nodes", () => {
    whole = !whole;
    opened = new Set();
    page.repaint();
  });
  const form = button("nodes and links", "draw nodes and links, or an icicle", () => {
    links = !links;
    page.repaint();
  });
  tools.append(metrics, search, runs, all, form);
  const frame = el("div", "sgnb-tree"),
    stage = el("div", "sgnb-stage");
  const spacer = el("div");
  const surface = newSurface(stage, "radix tree: prefixes in the cache");
  stage.append(spacer);
  const map = newMinimap((fraction) => {
    stage.scrollTop = fraction * stage.scrollHeight - stage.clientHeight / 2;
  });
  map.canvas.hidden = true;
  frame.append(stage, map.canvas);
  const ghosts = el("div", "sgnb-note");
  const legend = el("div", "sgnb-legend"),
    pins = legendItem("pin", "pinned"),
    checkpoints = legendItem("checkpoint", "checkpoint: a request can resume here");
  legend.append(
    ...[
      ["found", "found since"],
      ["made", "made by this run"],
      ["other", "neither"],
      ["lock", "in use"],
    ].map(([name, text]) => legendItem(name, text)),
    pins,
    checkpoints,
  );
  const paintCopyLegend = newCopyLegend(legend);
  const scale = el("span", "sgnb-legend-item");
  legend.append(scale);
  host.append(tools, frame, ghosts, legend);

  search.addEventListener("input", () => page.repaint());
  runs.addEventListener("change", () => page.repaint());
  stage.addEventListener("scroll", () => draw());
  surface.canvas.addEventListener("mousemove", (event) => {
    const { box } = surface.at(event);
    page.hover(box?.node ? { node: box.node.id } : null);
    surface.canvas.style.cursor = box ? "pointer" : "";
  });
  surface.canvas.addEventListener("mouseleave", () => page.hover(null));
  surface.canvas.addEventListener("click", (event) => activate(surface.at(event).box));
  surface.canvas.addEventListener("dblclick", (event) => fold(surface.at(event).box?.node?.id));
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
    else if (event.key === " " && at >= 0) fold(selected);
    else if (moves[event.key]) select(moves[event.key]());
    else return;
    event.preventDefault();
    event.stopPropagation();
  });
  function activate(item) {
    if (!item) return;
    if (item.node) select(item);
    else if (!folded.delete(item.of)) opened.add(item.of);
    page.repaint();
  }
  function fold(id) {
    const node = shownState.nodes.get(id);
    if (!node?.children.size) return;
    if (!folded.delete(id)) folded.add(id);
    page.repaint();
  }
  function select(item) {
    if (!item) return;
    selected = item.node.id;
    const top = links ? middle(item) - row / 2 : item.row * row;
    if (item.x < stage.scrollLeft || item.x + item.width > stage.scrollLeft + stage.clientWidth)
      stage.scrollLeft = item.x - 40;
    if (top < stage.scrollTop || top + row > stage.scrollTop + stage.clientHeight) stage.scrollTop = top - 40;
    page.keep({ node: selected });
    draw();
  }
  // Actions on a node in this view: [name, title, function].
  function actions(id) {
    if (!shownState?.nodes.get(id)?.children.size) return [];
    return folded.has(id)
      ? [["unfold", "show the descendants", () => fold(id)]]
      : [["fold", "hide the descendants", () => fold(id)]];
  }

  let shownState = null,
    shownRun = null,
    pinsOf = new Map();
  const isMine = (node) => shownRun !== null && (node.used >= shownRun.t || ofRun(node));
  const ofRun = (node) => node.request !== null && shownState.requests.get(node.request)?.run === shownRun?.run;

  function paint(cached, run) {
    const state = withCopies(cached);
    [shownState, shownRun, pinsOf] = [state, run, pinsAbove(state)];
    paintRuns(state);
    const only = state.runs.has(runs.value) ? nodesOfRun(state, runs.value) : null;
    const count = only ? only.size : state.nodes.size - 1;
    frame.hidden = !count;
    const wanted = search.value.toLowerCase();
    found = wanted ? findText(state, wanted) : new Set();
    if (wanted && !whole)
      for (const id of found)
        for (let node = state.nodes.get(id); node && node.id !== ROOT; node = state.nodes.get(node.parent))
          opened.add(node.parent);
    const isTall = () => layout.rows * row + 6 > MAPPED * TALLEST;
    lay();
    if (isTall() === map.canvas.hidden) {
      map.canvas.hidden = !isTall();
      lay();
    }
    function lay() {
      const room = frame.clientWidth - 2 - (map.canvas.hidden ? 0 : STRIP + 6);
      layout = layoutTree(state, { mine: isMine, only, whole, opened, folded, links, width: Math.max(200, room) });
      row = Math.max(LOWEST, Math.min(HIGHEST, 300 / layout.rows));
    }
    const height = layout.rows * row + 6,
      width = Math.max(200, stage.clientWidth - 2),
      beyond = layout.right > width;
    stage.style.height = `${Math.min(height, TALLEST) + (beyond ? SCROLLBAR : 0)}px`;
    Object.assign(spacer.style, { height: `${height}px`, width: beyond ? `${layout.right + 6}px` : "" });
    all.hidden = !whole && !layout.hidden;
    setText(all, whole ? "fewer" : `all ${grouped(count)}`);
    setText(form, links ? "icicle" : "nodes and links");
    setText(
      metrics,
      cached.nodes.size === 1
        ? `nothing is cached${wordsOfTotals(state, " · ")}`
        : `${plural(cached.nodes.size - 1, "node")} · ${plural(state.cachedTokens, "token")}${state.engine ? ` · ${share(state.cachedTokens, state.engine.pool_tokens)} of the pool` : ""}${keptOf(state)}${wordsOfTotals(state, " · ")}${only ? ` · ${only.size} of this run` : ""}${wanted ? ` · ${found.size} found` : ""}`,
    );
    setText(
      scale,
      links
        ? "the size of a dot is the number of tokens"
        : layout.isLinear
          ? `${Math.max(1, Math.round(60 / layout.scale))} tokens are as long as this line`
          : "widths grow with the logarithm of the tokens",
    );
    pins.hidden = !state.pins.size;
    checkpoints.hidden = !state.engine?.states;
    paintCopyLegend(state);
    setText(
      ghosts,
      state.ghosts.length
        ? `last evicted: ${state.ghosts
            .slice(-3)
            .reverse()
            .map(
              (ghost) =>
                `“${inLine(labelOfTokens(state, ghost.tokens, 30), 30)}” (${plural(ghost.tokens.length, "token")}${state.engine?.token_bytes ? `, ${bytesIn(bytesOfNode(state, ghost))}` : ""}, ${REASONS[ghost.reason] ?? ghost.reason})`,
            )
            .join(", ")}`
        : "",
    );
    const ids = [...cached.nodes.values()],
      used = ids.filter((node) => node.hits > 0).length;
    surface.say(
      `${plural(ids.length - 1, "node")} with ${plural(state.cachedTokens, "token")}, ${used} of them found since this view began${state.pins.size ? `, ${state.pins.size} pinned` : ""}${state.engine?.states ? `, ${state.checkpoints} with a checkpoint` : ""}${wordsOfTotals(state, ", ")}. Arrow keys move between nodes, the space bar folds the descendants of a node.`,
    );
    const colours = coloursOf(host);
    if (!map.canvas.hidden)
      map.paint(
        layout.items.map((item) => [item.x, item.width, item.row, item.rows, item.node ? kindOf(item.node) : 1]),
        layout,
        stage.clientHeight,
        [null, colours.muted, colours.computed, colours.cached, colours.sampled],
      );
    draw();
  }
  function paintRuns(state) {
    runs.hidden = !state.runs.size;
    list(
      runs,
      [null, ...state.runs.values()],
      () => el("option"),
      (option, run) => {
        setText(option, run ? `only ${run.run}${run.title ? `: ${inLine(run.title, 24)}` : ""}` : "every node");
        option.value = run?.run ?? "";
      },
    );
  }
  // For recurrent layers: the number of cached states and the memory.
  function keptOf({ engine, checkpoints: kept }) {
    if (!engine?.states) return "";
    return ` · ${grouped(kept)} of ${plural(engine.states, "state")} kept${kept ? `, ${bytesIn(kept * engine.state_bytes)}` : ""}`;
  }
  const bytesOfNode = ({ engine }, { tokens, checkpoint }) =>
    tokens.length * engine.token_bytes + checkpoint * engine.state_bytes;
  const kindOf = (node) => (found.has(node.id) ? 4 : shownRun !== null && node.hits > 0 ? 3 : ofRun(node) ? 2 : 1);
  // The position of a dot: the middle of the node's rows, of the visible rows if any.
  function middle(item) {
    const first = (item.row + 0.5) * row + 2,
      last = first + (item.rows - 1) * row,
      from = view.top + row / 2;
    return Math.max(first, Math.min(last, Math.max(from, Math.min(from + view.height - row, (first + last) / 2))));
  }
  let view = { top: 0, height: TALLEST };

  function draw() {
    if (!layout) return;
    const colours = coloursOf(host),
      width = Math.max(200, stage.clientWidth - 2),
      height = stage.clientHeight,
      top = stage.scrollTop,
      left = stage.scrollLeft;
    view = { top, height };
    const context = surface.begin(width, height);
    // Items are sorted from top to bottom, parents before descendants; skip invisible items.
    const seen = [];
    for (let i = 0; i < layout.items.length; i += 1) {
      const item = layout.items[i],
        y = item.row * row + 2 - top,
        tall = item.rows * row - 3;
      if (y > height) break;
      if (y + tall < 0 && item.node) i = item.after - 1;
      if (y + tall >= 0 && item.x - left <= width) seen.push({ item, y: links ? middle(item) - top : y, tall });
    }
    if (links) {
      context.strokeStyle = colours.line;
      context.lineWidth = 1.2;
      context.beginPath();
      for (const { item, y } of seen) if (item.up) drawEdge(context, item, y, left, top);
      context.stroke();
    }
    for (const { item, y, tall } of seen) {
      const x = item.x - left;
      if (x + item.width < 0) continue;
      context.globalAlpha = 1;
      surface.region(links ? { ...item, x, y: y - row / 2, height: row } : { ...item, x, y, height: tall });
      if (!item.node) {
        context.fillStyle = colours.muted;
        context.fillText(
          `… ${grouped(item.hidden)} ${folded.has(item.of) ? "folded" : "more"}`,
          x + 5,
          links ? y : y + 9,
        );
      } else if (links) drawDot(context, colours, { ...item, x }, y);
      else drawNode(context, colours, { ...item, x }, y, tall, height);
    }
    drawEnds(context, colours, { left, top, width, height });
    spacer.style.marginTop = `${-height}px`;
    const high = layout.rows * row + 6;
    if (!map.canvas.hidden)
      map.frame(
        {
          top: top / high,
          bottom: Math.min(1, (top + height) / high),
          left: left / layout.right,
          right: Math.min(1, (left + width) / layout.right),
        },
        colours.fg,
      );
  }
  function drawEnds(context, colours, { left, top, width, height }) {
    const ends = {
      left: left > 1,
      right: left + width < layout.right,
      top: top > 1,
      bottom: top + height < layout.rows * row,
    };
    const seen = Object.keys(ends).filter((end) => ends[end]);
    stage.dataset.beyond = seen.join(" ");
    drawCutEnds(context, colours, seen, width, height);
  }
  // Fill and frame of a node, in both forms.
  function styleOf(colours, node) {
    const made = ofRun(node),
      hit = shownRun !== null && node.hits > 0,
      pinned = pinsOf.get(node.id) ?? 0;
    const marked = node.id === selected || lit?.has(node.id) || found.has(node.id),
      used = node.locks > pinned;
    const colour = hit ? colours.cached : made ? colours.computed : colours.muted;
    return {
      made,
      hit,
      colour,
      marked,
      dim: !marked && page.within && !page.within.has(node.id),
      pinned: shownState.pins.has(node.id),
      line: marked ? colours.sampled : used || pinned ? colours.fg : colour,
      thick: marked || used ? 2 : 1,
      dashes: node.outline && !marked ? [1, 3] : !marked && !used && pinned ? [3, 2] : [],
    };
  }
  function drawNode(context, colours, { node, x, width }, y, tall, height) {
    const { made, hit, colour, dim, line, thick, dashes, pinned } = styleOf(colours, node);
    if (!node.outline)
      fillTinted(context, colour, dim ? 0.03 : hit || made ? 0.2 : 0.08, x + 0.5, y, width - 1.5, tall);
    context.globalAlpha = dim ? 0.3 : 1;
    context.strokeStyle = line;
    context.lineWidth = thick;
    context.setLineDash(dashes);
    context.strokeRect(x + 1, y + 0.5, width - 2, tall - 1);
    const copied = copiedOf(shownState, node);
    drawCopies(context, colours, node, copied, { x: x + 2, bottom: y + tall - 2, width: width - 4, dim });
    if (made) fillTinted(context, colours.computed, dim ? 0.3 : 1, x + 1, y, 3, tall);
    const above = Math.max(0, -y);
    const box = { x: x + 6, y: y + above, width, tall: Math.min(tall - above, height) };
    const indent = drawNodeItem(context, colours, shownState, node, box, draw);
    drawNodeLabel(
      context,
      dim || node.outline ? { ...colours, fg: colours.muted } : colours,
      shownState,
      node,
      x + 7 + indent,
      y + above + 1,
      width - indent - (pinned ? 22 : 11),
      Math.min(tall - above, height) - 2 - copyHeight(copied),
      hit,
    );
    if (pinned) drawPin(context, colours, x + width - 9, y + above + 9);
    if (node.checkpoint)
      drawCheckpoint(
        context,
        colours,
        x + width - (pinned && tall < 2 * LINE ? 21 : 9),
        y + above + Math.min(tall - above, height - y - above) - 9,
        dim,
      );
  }
  const radius = (node) => 3 + Math.min(7, Math.sqrt(node.tokens.length) / 2);
  function drawEdge(context, { up, x }, y, left, top) {
    const from = up.x - left + 27 + indentOf(up) + LETTER * labelOf(up).length,
      on = middle(up) - top;
    context.moveTo(from, on);
    context.bezierCurveTo((from + x - left) / 2, on, (from + x - left) / 2, y, x - left + 3, y);
  }
  const thumbnailSide = () => Math.min(row - 4, NODE_THUMBNAIL);
  // The width of the thumbnail between dot and label.
  function indentOf(item) {
    item.picture ??= [firstItemOf(shownState, item.node)];
    return item.picture[0] ? thumbnailSide() + 4 : 0;
  }
  function labelOf(item) {
    const room = Math.floor((layout.column - 34 - indentOf(item)) / LETTER);
    item.label ??= inLine(labelOfTokens(shownState, item.node.tokens, 120), 200);
    return item.label.length > room ? `${item.label.slice(0, room - 1)}…` : item.label;
  }
  function drawDot(context, colours, item, y) {
    const { node, x } = item;
    const { hit, made, colour, dim, line, thick, dashes, pinned } = styleOf(colours, node);
    context.globalAlpha = dim ? 0.3 : 1;
    context.fillStyle = colours.bg;
    context.beginPath();
    context.arc(x + 11, y, radius(node), 0, 2 * Math.PI);
    context.fill();
    context.globalAlpha = dim ? 0.1 : node.outline ? 0 : hit || made ? 0.7 : 0.3;
    context.fillStyle = colour;
    context.fill();
    context.globalAlpha = dim ? 0.3 : 1;
    context.strokeStyle = line;
    context.lineWidth = thick;
    context.setLineDash(dashes);
    context.stroke();
    context.setLineDash([]);
    context.fillStyle = dim ? colours.muted : colours.fg;
    const indent = indentOf(item),
      side = thumbnailSide();
    if (indent) drawThumbnail(context, colours, item.picture[0], { x: x + 24, y: y - side / 2, side }, draw);
    context.fillText(labelOf(item), x + 24 + indent, y);
    const bottom = y + Math.min(row / 2, 15);
    drawCopies(context, colours, node, copiedOf(shownState, node), { x: x + 24, bottom, width: 36, dim });
    if (pinned) drawPin(context, colours, x + 2, y - 6);
    if (node.checkpoint) drawCheckpoint(context, colours, x + 5, y + 8, dim);
  }
  function highlight(selection) {
    lit = selection ? nodesOf(shownState, selection) : null;
    if (!selection) selected = null;
    draw();
  }
  return { paint, highlight, actions };
}
