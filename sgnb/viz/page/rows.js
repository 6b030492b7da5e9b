// Table of a batch: a row per program, sorted and filtered in the header, expanded by a click.

const SHOWN_ROWS = 200;
const COLUMNS = {
  "#": (row) => Number(row.branch),
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

function newRowsPanel(host, page) {
  const tools = el("div", "sgnb-tools");
  const filter = el("input", "sgnb-search", "", {
    type: "search",
    placeholder: "filter rows",
    "aria-label": "filter rows",
  });
  filter.addEventListener("input", () => page.repaint());
  const count = el("span", "sgnb-label");
  tools.append(count, filter);
  const frame = el("div", "sgnb-rows", "", { tabindex: "0" });
  const table = el("table"),
    head = el("tr"),
    body = el("tbody"),
    thead = el("thead");
  thead.append(head);
  table.append(thead, body);
  frame.append(table);
  const detail = el("div", "sgnb-branches");
  host.append(tools, frame, detail);
  let by = "#",
    down = false,
    opened = null,
    painter = null;
  body.addEventListener("click", ({ target }) => {
    const branch = target.closest("tr")?.dataset.branch;
    opened = branch === opened ? null : branch;
    page.repaint();
  });
  walkByKeys(
    frame,
    () => body.children,
    (line) => line.dataset.branch === opened,
    (line) => {
      opened = line?.dataset.branch ?? null;
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
  function paint(state, run) {
    const now = run.began + run.seconds,
      wanted = filter.value.toLowerCase();
    const rows = [...run.rows.values()].filter(
      (row) => !wanted || `${row.arguments} ${row.answer} ${row.error}`.toLowerCase().includes(wanted),
    );
    const value = COLUMNS[by];
    rows.sort((a, b) => (value(a, now) < value(b, now) ? -1 : value(a, now) > value(b, now) ? 1 : 0) * (down ? -1 : 1));
    setText(
      count,
      rows.length > SHOWN_ROWS
        ? `the first ${SHOWN_ROWS} of ${plural(rows.length, "row")}`
        : plural(rows.length, "row"),
    );
    const newRow = () => {
      const line = el("tr");
      for (const name of Object.keys(COLUMNS))
        line.append(el("td", name === "answer" || name === "arguments" ? "sgnb-answer" : ""));
      return line;
    };
    list(body, rows.slice(0, SHOWN_ROWS), newRow, (line, row) => {
      const cells = [
        row.branch,
        inLine(row.arguments, 80),
        inLine(row.error || row.answer, 160),
        row.prompt,
        percent(row.cached, row.prompt),
        percent(row.again, row.prompt),
        row.output,
        duration((row.ended ?? now) - row.began),
        row.status,
      ];
      cells.forEach((text, i) => setText(line.children[i], String(text)));
      line.className = row.error ? "sgnb-failed" : "";
      line.classList.toggle("sgnb-lit", row.branch === opened);
      line.children[AGAIN].hidden = !run.metrics.recomputed_tokens;
      line.dataset.branch = row.branch;
      line.children[1].title = visible(row.arguments);
      line.children[2].title = visible((row.error || row.answer).slice(0, 2000));
    });
    head.children[AGAIN].hidden = !run.metrics.recomputed_tokens;
    Object.keys(COLUMNS).forEach((name, i) =>
      head.children[i].setAttribute("aria-sort", name !== by ? "none" : down ? "descending" : "ascending"),
    );
    paintDetail(state, run);
  }
  // The coloured text of the expanded row or, for a row without kept text, the answer.
  function paintDetail(state, run) {
    const row = run.rows.get(opened);
    if (!row || painter?.of !== opened) painter = row ? { of: opened, ...newBranchPainter(opened) } : null;
    if (!row) {
      detail.replaceChildren();
      return;
    }
    if (detail.firstChild !== painter.root) detail.replaceChildren(painter.root);
    const branch = run.branches.get(opened) ?? {
      ...newBranch(opened, ""),
      ...row,
      pieces: [{ kind: "sampled", text: row.answer }],
      variables: {},
    };
    painter.paint(state, run, branch, row.status === "running", true, "origin");
  }
  return { host, paint, highlight() {} };
}
