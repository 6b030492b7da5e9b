// Two runs of a program: changed lines, changed text, and the causes of computed prompt tokens. The choice of an earlier run below a finished run.

const CHANGE_CLASS = { "-": "sgnb-before", "+": "sgnb-after", "=": "" };
const CHANGE_TAG = { "-": "del", "+": "ins", "=": "span" };
const SHOWN_CAUSES = 100;

// Columns of a `RunsCompared` record as rows.
const rowsOfColumns = (columns) => columns[0].map((_, i) => columns.map((column) => column[i]));
const linesOfRerun = (rerun) => rowsOfColumns([rerun.line_marks, rerun.line_numbers, rerun.lines]);
const textsOfRerun = (rerun) => rowsOfColumns([rerun.text_branches, rerun.text_marks, rerun.texts]);
const causesOfRerun = (rerun) =>
  rowsOfColumns([rerun.cause_requests, rerun.cause_begins, rerun.cause_ends, rerun.causes]);

// The cause of a computed prompt token of the later run, as a list of facts.
function rerunFacts(state, request, position) {
  const rerun = state.comparison?.rerun;
  if (rerun?.later !== request.run) return [];
  const found = causesOfRerun(rerun).find(
    ([id, begin, end]) => id === request.id && position >= begin && position < end,
  );
  return found ? [["computed", visible(found[3])]] : [];
}

function newRerunView(page) {
  const root = el("div", "sgnb-rerun");
  const section = (title) => {
    const part = el("div", "sgnb-rerun-part");
    const body = el("div", "sgnb-text", "", { tabindex: "0", role: "group", "aria-label": title });
    part.append(el("div", "sgnb-label", title), body);
    root.append(part);
    return { part, body };
  };
  const lines = section("changed lines"),
    texts = section("text, token by token"),
    causes = section("causes of computed prompt tokens");
  causes.body.className = "sgnb-causes";

  function paintLine(line, [mark, number, text]) {
    line.className = `sgnb-diff ${CHANGE_CLASS[mark]}`;
    setText(line, `${mark === "=" ? " " : mark} ${String(number).padStart(3)}  ${visible(text)}`);
  }
  function paintTexts(rerun) {
    const branches = new Map();
    for (const [branch, mark, text] of textsOfRerun(rerun)) {
      if (!branches.has(branch)) branches.set(branch, []);
      branches.get(branch).push([mark, text]);
    }
    texts.body.replaceChildren();
    for (const [branch, pieces] of branches) {
      const own = el("div", "sgnb-diff");
      if (branches.size > 1) own.append(el("span", "sgnb-label", `${branch} `));
      for (const [mark, text] of pieces) own.append(el(CHANGE_TAG[mark], CHANGE_CLASS[mark], visible(text)));
      texts.body.append(own);
    }
  }
  function paintCause(row, [request, begin, end, cause], state) {
    const asked = state.requests.get(request);
    const call = asked ? `${asked.branch}${asked.name ? ` ${visible(asked.name)}` : ""}` : "";
    setText(row, `${call}: ${plural(end - begin, "token")} from ${begin}: ${visible(cause)}`);
    row.onclick = () => {
      page.showRun(state.comparison.rerun.later);
      page.keep({ request, position: begin });
    };
  }
  let painted = null;
  function paint(state) {
    const rerun = state.comparison?.rerun ?? null;
    root.hidden = !rerun;
    if (rerun === painted) return;
    painted = rerun;
    if (!rerun) return;
    const changed = linesOfRerun(rerun);
    lines.part.hidden = !changed.length;
    list(lines.body, changed, () => el("div"), paintLine);
    paintTexts(rerun);
    const all = causesOfRerun(rerun);
    causes.part.hidden = !all.length;
    const newCause = () => el("button", "sgnb-button", "", { type: "button" });
    list(causes.body, all.slice(0, SHOWN_CAUSES), newCause, (row, cause) => paintCause(row, cause, state));
  }
  return { root, paint };
}

// The choice of an earlier run of the same cell. `compare(run)` asks the kernel, shows the comparison and resolves to a message; absent without a kernel.
function newRerunChooser(compare, runs) {
  const host = el("div", "sgnb-reruns", "", { role: "group", "aria-label": "earlier runs of this cell" });
  const select = el("select", "sgnb-select", "", { "aria-label": "earlier run" });
  const note = el("span", "sgnb-label", "", { role: "status" });
  const go = button("compare", "show the changed lines, the changed text and the figures of both runs", async () => {
    setText(note, "comparison requested; a running cell may finish first");
    setText(note, visible(await compare(select.value)));
  });
  host.append(el("span", "sgnb-label", "compare with"), select, go, note);
  function paint() {
    const earlier = compare ? runs().toReversed() : [];
    host.hidden = !earlier.length;
    list(
      select,
      earlier,
      () => el("option"),
      (option, run) => {
        const before = earlier.indexOf(run) + 1;
        setText(option, `${visible(run)}, ${before === 1 ? "the run before" : `${before} runs before`}`);
        option.value = run;
      },
    );
  }
  paint();
  return { host, paint };
}
