// Comparison of a program with ablations, or of two runs: metrics per variant, findings, and all lanes on a common time axis from 0.

const COMPARED_LANE = 16; // pixels of a lane
const COMPARED_LANES = 12; // maximum lanes per variant
const GUTTER = 132; // pixels of the labels

const NOT_YET = { variants: [], lines: [], left: 0 };

// The shown run of a variant: the run with the median time; the faster run of two.
function shownRun(state, variant) {
  const runs = variant.runs.map((id) => state.runs.get(id)).sort((a, b) => a.seconds - b.seconds);
  return runs[(runs.length - 1) >> 1] ?? null;
}

// A row per variant, equal to `Comparison.rows` in Python.
function comparedRows(state) {
  const { variants } = state.comparison ?? NOT_YET,
    base = variants.length ? shownRun(state, variants[0]) : null;
  return variants.map((variant) => {
    const run = shownRun(state, variant);
    if (!run) return { variant: variant.name, note: variant.note };
    const f = run.metrics,
      seconds = variant.runs.map((id) => state.runs.get(id).seconds);
    return {
      variant: variant.name,
      seconds: run.seconds,
      fastest: Math.min(...seconds),
      slowest: Math.max(...seconds),
      times: base ? run.seconds / base.seconds : 1,
      prompt_tokens: f.prompt_tokens,
      cached_tokens: f.cached_tokens,
      computed_tokens: f.prompt_tokens - f.cached_tokens - f.reused_tokens,
      recomputed_tokens: f.recomputed_tokens,
      passes: f.passes,
      sampled_tokens: f.output_tokens - f.jumped_tokens,
      jumped_tokens: f.jumped_tokens,
      same_text: !variant.note,
      run: run.run,
      note: variant.note,
    };
  });
}

const COMPARED = [
  ["", "the unmodified program and variants without a technique, or two runs", (row) => row.variant],
  ["time", "of the run with the median time", (row) => duration(row.seconds)],
  [
    "all runs",
    "fastest and slowest run",
    (row) => (row.fastest < row.slowest ? `${duration(row.fastest)} – ${duration(row.slowest)}` : ""),
  ],
  [
    "computed",
    "computed prompt tokens; again: cached tokens recomputed for lack of a checkpoint",
    (row) =>
      `${grouped(row.computed_tokens)}${row.recomputed_tokens ? ` (${grouped(row.recomputed_tokens)} again)` : ""}`,
  ],
  ["found", "prompt tokens found in the cache", (row) => grouped(row.cached_tokens)],
  ["passes", "forward passes", (row) => grouped(row.passes)],
  ["sampled", "tokens chosen by the model", (row) => grouped(row.sampled_tokens)],
  ["forced", "tokens forced by the grammar", (row) => grouped(row.jumped_tokens)],
  [
    "text",
    "comparison with the text of the first row",
    (row, isBase) => (!row.same_text ? "differs" : isBase ? "" : "the same"),
  ],
];

function newComparePanel(host, page) {
  const lines = el("div", "sgnb-found");
  const frame = el("div", "sgnb-rows sgnb-compared", "", {
    tabindex: "0",
    role: "group",
    "aria-label": "metrics of each variant; the arrow keys select the run of the other views",
  });
  const table = el("table"),
    head = el("tr"),
    thead = el("thead"),
    body = el("tbody");
  for (const [name, title] of COMPARED) head.append(el("th", "", name || "variant", { scope: "col", title }));
  thead.append(head);
  table.append(thead, body);
  frame.append(table);
  const rerun = newRerunView(page);
  host.append(lines, frame, rerun.root);
  const surface = newSurface(host, "variants over time");
  host.append(newLaneLegend());
  let shown = null,
    lit = null;

  const runOf = (row) => row?.dataset.run || null;
  body.addEventListener("click", ({ target }) => page.showRun(runOf(target.closest("tr"))));
  walkByKeys(
    frame,
    () => body.querySelectorAll("[data-run]"),
    (row) => runOf(row) === shown?.run?.run,
    (row) => row && page.showRun(runOf(row)),
  );
  surface.canvas.addEventListener("mousemove", (event) => page.hover(selectionAt(event)));
  surface.canvas.addEventListener("mouseleave", () => page.hover(null));
  surface.canvas.addEventListener("click", (event) => {
    const { box } = surface.at(event),
      selection = selectionAt(event);
    if (box) page.showRun(box.of.run);
    if (selection) page.pin(selection);
  });
  surface.canvas.addEventListener("keydown", (event) => {
    const all = shown?.bars ?? [],
      at = lit ? all.findIndex(({ request }) => request.id === lit.request) : -1;
    const up = { ArrowDown: 1, ArrowUp: -1 }[event.key],
      along = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (up && all.length) {
      const { request } = all[Math.max(0, Math.min(all.length - 1, at < 0 ? 0 : at + up))];
      page.keep(tokenBefore(request, Infinity));
    } else if (along && at >= 0) {
      page.keep(tokenBeside(all[at].request, lit.position + along));
    } else if (event.key === "Escape") {
      page.keep(null);
    } else {
      return;
    }
    event.preventDefault();
    event.stopPropagation();
  });
  function selectionAt(event) {
    const { x, box } = surface.at(event);
    return box ? tokenBefore(box.of, box.begin + (x - GUTTER) / shown.scale) : null;
  }

  function paint(state, run) {
    const comparison = state.comparison ?? NOT_YET,
      rows = comparedRows(state);
    list(
      lines,
      comparison.lines,
      () => el("div"),
      (line, text) => {
        setText(line, visible(text));
        line.className = / it takes (?!only ).*the same text$/.test(text) ? "sgnb-gain" : "";
      },
    );
    if (!comparison.lines.length)
      list(
        lines,
        [comparison.left ? `measuring, ${plural(comparison.left, "run")} to come` : "measuring"],
        () => el("div"),
        setText,
      );
    const newRow = () => {
      const line = el("tr");
      for (const [name] of COMPARED) line.append(el("td", name ? "" : "sgnb-code"));
      return line;
    };
    list(body, rows, newRow, (line, row) => {
      COMPARED.forEach(([name, , value], i) =>
        setText(
          line.children[i],
          row.run ? value(row, row === rows[0]) : i === 0 ? row.variant : name === "text" && row.note ? "not run" : "",
        ),
      );
      line.title = visible(row.note);
      if (row.run) line.dataset.run = row.run;
      line.classList.toggle("sgnb-lit", Boolean(row.run) && row.run === run?.run);
      line.setAttribute("aria-current", String(Boolean(row.run) && row.run === run?.run));
    });
    rerun.paint(state);
    const longest = Math.max(1e-4, ...rows.filter((row) => row.run).map((row) => row.seconds));
    const width = widthInside(host);
    const groups = rows
      .filter((row) => row.run)
      .map((row) => {
        const group = state.runs.get(row.run),
          lanes = timelineOf(state, group);
        return { row, run: group, lanes, forks: forkGroups(lanes) };
      });
    shown = { state, run, groups, width, scale: (width - GUTTER - 60) / longest, bars: [] };
    surface.say(
      `${rows.map((row) => (row.run ? `${row.variant} ${duration(row.seconds)}` : `${row.variant} not run`)).join(", ")}. Arrow keys go from request to request and from token to token.`,
    );
    draw();
  }
  function draw() {
    if (!shown) return;
    const { groups } = shown,
      kept = ({ lanes }) => (lanes.length <= COMPARED_LANES + 1 ? lanes.length : COMPARED_LANES);
    const tall = (group) => COMPARED_LANE * (1 + kept(group) + (group.lanes.length > kept(group))) + 6;
    const height = groups.reduce((sum, group) => sum + tall(group), 20);
    const context = surface.begin(shown.width, height),
      colours = coloursOf(host);
    const base = groups.length ? GUTTER + shown.scale * groups[0].row.seconds : 0;
    shown.bars = [];
    let top = 2;
    if (groups.length) drawAxis(context, colours, height);
    for (const group of groups) {
      drawGroup(context, colours, group, kept(group), top, tall(group), group === groups[0] ? null : base);
      top += tall(group);
    }
  }
  function drawAxis(context, colours, height) {
    const room = shown.width - GUTTER - 60;
    drawTicks(context, colours, { from: 0, to: room / shown.scale, left: GUTTER, room, top: 0, height: height - 20 });
  }
  function drawGroup(context, colours, { row, run, lanes, forks }, most, top, tall, base) {
    const end = GUTTER + shown.scale * row.seconds;
    if (base !== null) {
      context.strokeStyle = colours.muted;
      context.setLineDash([2, 3]);
      line(context, base + 0.5, top - 4, tall - 4);
      context.setLineDash([]);
    }
    context.fillStyle = colours.fg;
    const font = context.font;
    context.font = `600 ${font}`;
    context.fillText(row.variant, 0, top + COMPARED_LANE / 2);
    context.font = font;
    context.strokeStyle = colours.fg;
    line(context, end + 0.5, top + 2, tall - 8);
    const took = duration(row.seconds);
    fillTinted(context, colours.bg, 1, end + 3, top + 1, context.measureText(took).width + 4, COMPARED_LANE - 2);
    context.fillStyle = colours.fg;
    context.fillText(took, end + 5, top + COMPARED_LANE / 2);
    const xOf = (t) => GUTTER + shown.scale * (t - run.began),
      bars = { now: Math.min(run.began + run.seconds, shown.state.t), tall: COMPARED_LANE - 4 };
    lanes.slice(0, most).forEach((lane, i) => {
      const { name, requests } = lane;
      const y = top + COMPARED_LANE * (i + 1);
      context.fillStyle = colours.muted;
      context.fillText(namesWithin(`${name} ${variablesOf(lane)}`, 17), 12, y + COMPARED_LANE / 2, GUTTER - 16);
      drawActivities(context, colours, lane, pythonSpans(lane, lanes, bars.now), { ...bars, xOf, y: y + 1 });
      for (const request of requests) {
        drawRequest(context, colours, surface, request, { ...bars, xOf, y: y + 1, begin: run.began });
        shown.bars.push({ request });
        const token = lit && lit.request === request.id ? tokenAt(request, lit.position) : null;
        if (!token?.t) continue;
        context.fillStyle = colours.fg;
        context.fillRect(xOf(token.t) - 1, y - 1, 2, COMPARED_LANE);
      }
    });
    const rows = new Map(lanes.slice(0, most).map(({ name }, i) => [name, top + COMPARED_LANE * (i + 1.5)]));
    const middleOf = ({ name }) => rows.get(name) ?? null;
    for (const fork of forks) drawFork(context, colours, fork, 0, { xOf, middleOf });
    if (lanes.length > most) {
      context.fillStyle = colours.muted;
      context.fillText(`and ${plural(lanes.length - most, "more lane")}`, 10, top + COMPARED_LANE * (most + 1.5));
    }
  }
  function line(context, x, y, height) {
    context.beginPath();
    context.moveTo(x, y);
    context.lineTo(x, y + height);
    context.stroke();
  }
  function highlight(selection) {
    lit = selection?.request === undefined ? null : selection;
    draw();
  }
  return { paint, highlight };
}
