// Edits of a run: the runs that continue an edit, and the form that requests an edit of the selected token.

// The runs that continue edits of `run`, and edits of these runs.
function editsOf(state, run) {
  const edited = [run];
  for (const other of state.runs.values())
    if (other.edit && edited.some((one) => one.run === other.edit.edited)) edited.push(other);
  return edited.slice(1);
}

function wordsOfEdit({ edited, name, text }) {
  const change = text ? `“${inLine(text, 30)}”` : "chosen again";
  return `edit of ${visible(edited)}: ${change} in ${visible(name)}`;
}

// The request and token of a selection that an edit may replace, or null.
function editableToken(state, selection) {
  const request = state.requests.get(selection?.request),
    run = request && state.runs.get(request.run);
  if (!run || request.purpose !== "generate" || request.model) return null;
  if (selection.position < request.prompt.length - request.given) return null;
  const isStopped = [...run.stops.values()].some(([, id]) => id === request.id);
  if (run.status === "running" && !isStopped && (!run.stops.size || request.finished === null)) return null;
  const token = tokenAt(request, selection.position);
  return token ? { request, token } : null;
}

// `edit(fields)` asks the kernel; absent for a view without a kernel. `leave()` ends the selection.
function newEditor(edit, leave) {
  const host = el("form", "sgnb-editor", "", { "aria-label": "edit of the selected token" });
  const words = el("label", "sgnb-note"),
    others = el("span", "sgnb-steps");
  const field = el("input", "sgnb-search", "", { type: "text", "aria-label": "other text", autocomplete: "off" });
  const send = button("continue", "generate the rest again after this text (Enter)", () => {});
  const answer = el("span", "sgnb-note", "", { role: "status" });
  send.type = "submit";
  words.append(el("span"), field);
  host.append(others, words, send, answer);
  host.hidden = true;
  let shown = "",
    place = null,
    asked = null; // place of the edit without an answer

  async function ask(fields) {
    if (asked === place) return;
    const own = (asked = place);
    if (document.activeElement === send) field.focus();
    send.disabled = true;
    setText(answer, "asked the kernel; a running cell may finish first");
    const { text, failed } = await edit({ ...own, text: null, token: null, ...fields });
    if (asked === own) {
      asked = null;
      send.disabled = false;
    }
    host.classList.toggle("sgnb-failed", failed);
    setText(answer, visible(text));
  }
  host.addEventListener("submit", (event) => {
    event.preventDefault();
    if (place) ask({ text: field.value });
  });
  // JupyterLab has shortcuts for single keys.
  host.addEventListener("keydown", (event) => {
    event.stopPropagation();
    if (event.key !== "Escape") return;
    event.preventDefault();
    const texts = [".sgnb-text:has(.sgnb-lit)", ".sgnb-text"].map((path) => host.parentElement.querySelector(path));
    texts.find(Boolean)?.focus();
    leave();
  });

  function paint(state, selection) {
    const found = edit && editableToken(state, selection);
    host.hidden = !found;
    if (!found) {
      [shown, place] = ["", null];
      return;
    }
    const { request, token } = found,
      alternatives = (token.alternatives ?? []).filter((one) => one.allowed && one.token !== token.token);
    const key = `${request.id} ${selection.position} ${alternatives.length}`;
    if (key === shown) return;
    shown = key;
    place = { run: request.run, branch: request.branch, position: selection.position };
    field.value = "";
    send.disabled = false;
    setText(answer, "");
    host.classList.remove("sgnb-failed");
    setText(words.firstChild, `instead of “${inLine(textOfTokens(state.tokenTable, [token.token]), 20)}” write `);
    list(
      others,
      alternatives,
      () => button("", "", () => {}),
      (one, other) => {
        const text = inLine(textOfTokens(state.tokenTable, [other.token]), 20);
        setText(one, `${text} ${(100 * Math.exp(other.logprob)).toFixed(1)} %`);
        Object.assign(one, { title: "continue with this token", onclick: () => ask({ token: other.token }) });
      },
    );
    others.hidden = !alternatives.length;
  }
  return { host, paint, focus: () => !host.hidden && field.focus() };
}

// A row with the branch of a run and the same branch of its edits.
function rowOfEdits(root) {
  if (!root.parentElement.classList.contains("sgnb-edits")) {
    const row = el("div", "sgnb-forks sgnb-edits");
    root.replaceWith(row);
    row.append(root);
  }
  return root.parentElement;
}
