// Buttons that pause a run and continue a paused run by a token, a call or to the end.

const STEPS = {
  pause: ["pause", "stop before the next append or call, and after the next token"],
  token: ["token", "continue by one token, or by one append or call"],
  call: ["call", "continue to the end of the call"],
  resume: ["to the end", "continue without stops"],
  cancel: ["stop", "end the run and keep the text"],
};

// `steer(action, report)` asks the kernel, and calls `report(text)` while an answer is overdue; absent for a run that the view cannot steer. `show(selection)` shows a token.
function newStepper(store, steer, { seek, show }) {
  const host = el("div", "sgnb-stepper", "", { role: "group", "aria-label": "steps of the run" });
  const words = el("span", "sgnb-note", "", { role: "status" }),
    buttons = el("span", "sgnb-steps");
  host.append(words, buttons);
  // An element per button: a click that comes late must not reach another action at the same place.
  const all = { back: button("back", "show the previous stop", () => {}) };
  for (const [name, [label, title]] of Object.entries(STEPS)) all[name] = button(label, title, () => act(name));
  buttons.append(...Object.values(all));
  let shown = "",
    stops = "",
    failure = "";

  function say(text) {
    failure = visible(text);
    setText(words, failure || stops);
  }
  async function act(action) {
    const before = shown;
    const sayInTime = (words) => shown === before && say(words); // later, the run has moved
    const { text, failed } = await steer(action, sayInTime);
    sayInTime(failed ? text : "");
  }
  // Show the moment of the stop before the shown stop.
  function back(state, run) {
    const before = (end) => store.records.findLastIndex((record, i) => i < end && stopsRun(state, run, record));
    const previous = before(before(store.position ?? store.records.length));
    if (previous >= 0) seek(previous + 1);
  }
  function paint(state, run) {
    const isLive = store.live && store.position === null && run?.status === "running";
    const isPaused = Boolean(run?.stops.size);
    const names = !isLive || !steer ? [] : isPaused ? ["token", "call", "resume", "cancel"] : ["pause", "cancel"];
    const visibleOnes = isPaused ? ["back", ...names] : names;
    for (const [name, one] of Object.entries(all)) one.hidden = !visibleOnes.includes(name);
    all.back.onclick = () => back(state, run);
    host.hidden = !isPaused && !names.length;
    stops = isPaused ? wordsOfStops(run).join("\n") : "";
    const request = isPaused && state.requests.get([...run.stops.values()].at(-1)[1]);
    const key = `${stops} ${request ? `${request.id} ${request.output.length}` : ""}`;
    if (key !== shown) {
      [shown, failure] = [key, ""]; // the answer was late: the run has moved
      if (request) show({ request: request.id, position: request.prompt.length + request.output.length - 1 });
    }
    setText(words, failure || stops);
  }
  return { host, paint };
}
