// Source of the program, with the requests of each line.

function newSourcePanel(host, page) {
  const frame = el("div", "sgnb-rows", "", { tabindex: "0" });
  const table = el("table", "sgnb-source"),
    head = el("tr"),
    thead = el("thead"),
    body = el("tbody");
  for (const [name, title] of [
    ["#", "line of the cell"],
    ["program", "the cell's text"],
    ["calls", "generations and choices"],
    ["found", "prompt tokens found in the cache"],
    ["computed", "computed prompt tokens; again: cached tokens recomputed for lack of a checkpoint"],
    ["new", "tokens sampled or forced"],
    ["time", "from the start of the first call to the end of the last call"],
  ]) {
    head.append(el("th", "", name, { scope: "col", title }));
  }
  thead.append(head);
  table.append(thead, body);
  frame.append(table);
  host.append(frame);
  let shown = null;

  const requestsOf = (line) =>
    [...shown.state.requests.values()].filter(
      (request) => request.run === shown.run.run && request.file === shown.run.file && request.line === line,
    );
  const selected = ({ target }) => {
    const line = Number(target.closest("tr")?.dataset.line),
      request = line && requestsOf(line).at(-1);
    return request ? { request: request.id, position: request.prompt.length } : null;
  };
  body.addEventListener("mouseover", (event) => page.hover(selected(event)));
  body.addEventListener("mouseleave", () => page.hover(null));
  body.addEventListener("click", (event) => page.pin(selected(event)));
  let kept = null;
  walkByKeys(
    frame,
    () => body.querySelectorAll(".sgnb-asks"),
    (row) => row === kept,
    (row) => {
      kept = row;
      page.keep(row && selected({ target: row }));
    },
  );

  function paint(state, run) {
    shown = { state, run };
    const asked = new Map();
    for (const request of state.requests.values()) {
      if (request.run !== run.run || request.file !== run.file) continue;
      const sum = asked.get(request.line) ?? {
        calls: 0,
        found: 0,
        again: 0,
        prompt: 0,
        output: 0,
        begin: Infinity,
        end: 0,
      };
      sum.calls += 1;
      sum.begin = Math.min(sum.begin, request.queued);
      sum.end = Math.max(sum.end, request.finished ?? state.t);
      sum.output += request.output.length;
      if (request.admitted !== null) {
        sum.found += request.cached;
        sum.again += request.again;
        sum.prompt += request.prompt.length;
      }
      asked.set(request.line, sum);
    }
    const longest = Math.max(1e-9, ...[...asked.values()].map((sum) => sum.end - sum.begin));
    const newLine = () => {
      const row = el("tr");
      for (let i = 0; i < 7; i += 1) row.append(el("td", i === 1 ? "sgnb-code" : i ? "" : "sgnb-number"));
      return row;
    };
    list(body, run.source.replace(/\n+$/, "").split("\n"), newLine, (row, text, i) => {
      const line = run.firstLine + i,
        sum = asked.get(line);
      row.dataset.line = line;
      row.className = sum ? "sgnb-asks" : "";
      row.style.setProperty("--share", sum ? `${Math.round((100 * (sum.end - sum.begin)) / longest)}%` : "0%");
      const cells = sum
        ? [
            sum.calls,
            `${sum.found} (${percent(sum.found, sum.prompt)})`,
            `${sum.prompt - sum.found}${sum.again ? ` (${sum.again} again)` : ""}`,
            sum.output,
            duration(sum.end - sum.begin),
          ]
        : ["", "", "", "", ""];
      [i + 1, visible(text) || " ", ...cells].forEach((cell, j) => setText(row.children[j], String(cell)));
    });
  }
  function highlight(selection) {
    const request =
      selection &&
      shown?.state.requests.get(
        selection.request ?? stateOf(shown.state, page.engine).nodes.get(selection.node)?.request,
      );
    for (const row of body.children)
      row.classList.toggle(
        "sgnb-lit",
        Boolean(request) && request.file === shown.run.file && Number(row.dataset.line) === request.line,
      );
  }
  return { paint, highlight };
}
