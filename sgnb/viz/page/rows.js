// Table of a batch: a row per program, sorted and filtered in the header. An opened row shows all variables and the text.

const SHOWN_ROWS = 200;
const ROW_THUMBNAILS = 3; // maximum thumbnails of a row
const COLUMNS = {
  "#": (row) => row.number,
  arguments: (row) => row.arguments,
  answer: (row) => row.error || row.answer,
  prompt: (row) => row.prompt,
  cached: (row) => (row.prompt ? row.cached / row.prompt : 0),
  again: (row) => (row.prompt ? row.again / row.prompt : 0),
  new: (row) => row.output,
  time: (row, now) => (row.ended ?? now) - row.began,
  status: (row) => row.status,
};
const AGAIN = Object.keys(COLUMNS).indexOf("again"); // visible if cached tokens were recomputed

const hasFailed = (row) => row.status === "error" || row.status === "stopped";

// The rows of a batch: rows of the run, and rows that keep the state of an earlier run.
function rowsOf(state, run) {
  const earlier = state.runs.get(run.earlier);
  if (!earlier) return [...run.rows.values()];
  const rows = new Map(rowsOf(state, earlier).map((row) => [row.number, row]));
  for (const row of run.rows.values()) rows.set(row.number, row);
  return [...rows.values()];
}

// The full text of a row: the kept branch or, without kept text, the last request or the answer.
function textOfRow(state, run, row) {
  const branch = run.branches.get(row.branch);
  if (branch) return { ...branch, variables: {}, error: "" };
  const pieces = piecesOf(state, run, row.branch);
  const answer = [{ kind: "sampled", text: row.answer }];
  return { ...newBranch(row.branch, ""), status: row.status, error: "", pieces: pieces.length ? pieces : answer };
}

// Offer `text` as a file of the browser.
function saveFile(text, name) {
  const address = URL.createObjectURL(new Blob([text], { type: "text/csv" }));
  const link = el("a", "", "", { href: address, download: name });
  link.click();
  URL.revokeObjectURL(address);
}

// Buttons of a batch. `batch.ask(action)` asks the kernel for "rerun" or "csv"; `batch.possible()` is true if the kernel has the states. Absent without a kernel.
function newRowTools(batch) {
  const host = el("span", "sgnb-row-tools");
  const note = el("span", "sgnb-label", "", { role: "status" });
  async function act(action, then) {
    setText(note, "requested; a running cell may finish first");
    const { text, failed, buffers } = await batch.ask(action);
    setText(note, failed ? visible(text) : ((await then?.(new TextDecoder().decode(buffers[0]))) ?? ""));
  }
  const rerun = button(
    "run failed rows again",
    "run the failed and stopped rows again; other rows keep the states",
    () => act("rerun"),
  );
  const save = button("save CSV", "arguments, variables, errors, tokens and seconds of all rows as a file", () =>
    act("csv", (text) => saveFile(text, "rows.csv")),
  );
  const copy = button("copy CSV", "copy arguments, variables, errors, tokens and seconds of all rows", () =>
    act("csv", (text) =>
      navigator.clipboard.writeText(text).then(
        () => "copied",
        () => "the browser does not allow a copy: use save CSV",
      ),
    ),
  );
  host.append(rerun, save, copy, note);
  function paint(rows, running) {
    const failed = rows.filter(hasFailed).length;
    host.hidden = !batch?.possible() || running;
    rerun.hidden = !failed;
    setText(rerun, `run ${plural(failed, "failed row")} again`);
  }
  return { host, paint };
}

// Arguments, variables and error of the opened row.
function paintValues(host, row) {
  const values = [
    ["arguments", row.arguments],
    ...Object.entries(row.variables),
    ["error", row.error],
    ["status", row.status === "stopped" ? "stopped: the last variable has partial text" : ""],
  ].filter(([, text]) => text);
  const newValue = () => {
    const line = el("div", "sgnb-row-value");
    line.append(el("span", "sgnb-label"), el("span", "sgnb-diff"));
    return line;
  };
  list(host, values, newValue, ({ children: [name, value] }, [key, text]) => {
    setText(name, visible(key));
    setText(value, visible(text));
  });
}

function newRowsPanel(host, page, batch = null) {
  const tools = el("div", "sgnb-tools");
  const filter = el("input", "sgnb-search", "", {
    type: "search",
    placeholder: "filter rows",
    "aria-label": "filter rows",
  });
  filter.addEventListener("input", () => page.repaint());
  const count = el("span", "sgnb-label"),
    rowTools = newRowTools(batch);
  tools.append(count, filter, rowTools.host);
  const frame = el("div", "sgnb-rows", "", { tabindex: "0", role: "group", "aria-label": "rows of the batch" });
  const table = el("table"),
    head = el("tr"),
    body = el("tbody"),
    thead = el("thead");
  thead.append(head);
  table.append(thead, body);
  frame.append(table);
  const detail = el("div", "sgnb-branches"),
    values = el("div", "sgnb-row-values", "", { tabindex: "0", role: "group", "aria-label": "values of the row" });
  host.append(tools, frame, values, detail);
  let by = "#",
    down = false,
    opened = null, // number of the expanded row
    painter = null,
    milliseconds = 0; // of the last paint
  const numberOf = (line) => (line ? Number(line.dataset.row) : null);
  body.addEventListener("click", ({ target }) => {
    const number = numberOf(target.closest("tr"));
    opened = number === opened ? null : number;
    page.repaint();
  });
  linkTokens(detail, page);
  walkByKeys(
    frame,
    () => body.children,
    (line) => numberOf(line) === opened,
    (line) => {
      opened = numberOf(line);
      page.repaint();
    },
  );
  for (const name of Object.keys(COLUMNS)) {
    const cell = el("th", "", "", { scope: "col" });
    cell.append(
      button(name, `sort by ${name}`, () => {
        [by, down] = [name, by === name ? !down : false];
        page.repaint();
      }),
    );
    head.append(cell);
  }
  function newLine() {
    const line = el("tr");
    for (const name of Object.keys(COLUMNS))
      line.append(el("td", name === "answer" || name === "arguments" ? "sgnb-answer" : ""));
    line.children[1].append(el("span", "sgnb-row-items"), el("span"));
    return line;
  }
  function paintLine(line, row, state, now) {
    const cells = [
      row.number,
      null,
      inLine(row.error || row.answer, 160),
      row.prompt,
      percent(row.cached, row.prompt),
      percent(row.again, row.prompt),
      row.output,
      duration((row.ended ?? now) - row.began),
      row.status,
    ];
    cells.forEach((text, i) => text !== null && setText(line.children[i], String(text)));
    const [, { children: texts }] = line.children;
    setText(texts[1], inLine(row.arguments, 80));
    const items = row.items.slice(0, ROW_THUMBNAILS),
      key = items.join();
    if (texts[0].dataset.items !== key) {
      texts[0].dataset.items = key;
      texts[0].replaceChildren(...items.map((id) => thumbnailOf(itemAt(state.media, id))));
    }
    line.className = row.error ? "sgnb-failed" : "";
    line.classList.toggle("sgnb-lit", row.number === opened);
    line.dataset.row = row.number;
    line.children[1].title = visible(row.arguments);
    line.children[2].title = visible((row.error || row.answer).slice(0, 2000));
  }
  function paint(state, run) {
    const begin = performance.now();
    const now = run.began + run.seconds,
      wanted = filter.value.toLowerCase(),
      all = rowsOf(state, run);
    const rows = wanted
      ? all.filter((row) => `${row.arguments} ${row.answer} ${row.error}`.toLowerCase().includes(wanted))
      : all;
    const value = COLUMNS[by];
    rows.sort((a, b) => (value(a, now) < value(b, now) ? -1 : value(a, now) > value(b, now) ? 1 : 0) * (down ? -1 : 1));
    setText(
      count,
      rows.length > SHOWN_ROWS
        ? `the first ${SHOWN_ROWS} of ${plural(rows.length, "row")}`
        : plural(rows.length, "row"),
    );
    rowTools.paint(all, run.status === "running");
    const again = all.some((row) => row.again);
    list(body, rows.slice(0, SHOWN_ROWS), newLine, (line, row) => {
      paintLine(line, row, state, now);
      line.children[AGAIN].hidden = !again;
    });
    head.children[AGAIN].hidden = !again;
    Object.keys(COLUMNS).forEach((name, i) =>
      head.children[i].setAttribute("aria-sort", name !== by ? "none" : down ? "descending" : "ascending"),
    );
    paintDetail(state, opened === null ? null : all.find((row) => row.number === opened));
    milliseconds = performance.now() - begin;
  }
  // The values and the coloured text of the expanded row.
  function paintDetail(state, row) {
    values.hidden = !row;
    const key = row && `${row.run} ${row.branch}`;
    if (painter?.key !== key) painter = row ? { key, ...newBranchPainter(row.branch) } : null;
    if (!row) {
      detail.replaceChildren();
      return;
    }
    paintValues(values, row);
    if (detail.firstChild !== painter.root) detail.replaceChildren(painter.root);
    const run = state.runs.get(row.run);
    painter.paint(state, run, textOfRow(state, run, row), row.status === "running", false, "origin");
  }
  return {
    host,
    paint,
    highlight: (selection) => lightTokens(detail, selection),
    stats: () => ({ rows_ms: milliseconds }),
  };
}
