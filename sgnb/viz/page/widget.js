// Transport of record lines to a page: from a kernel (protocol in sgnb/viz/live/widget.py), or from the page.

const PATIENCE = 5000; // milliseconds

// Hide the static twin while the live view is on the page.
function hideTwin(uid) {
  const rule = `img[src*="sgnb-static-${uid}"]`; // the image address of the twin contains the uid
  const style = el(
    "style",
    "",
    `${rule}, svg.sgnb-static-${uid}, .jp-OutputArea-child:has(> .jp-OutputArea-output > ${rule}) { display: none !important; }`,
  );
  document.head.append(style);
  return () => style.remove();
}

// Repaint on new records, with a limited share of the page's time; at the next frame if `urgent`.
function newClock(dashboards, stats, viewCost) {
  let timer = null,
    frame = null,
    cost = 0,
    last = 0;
  function tick() {
    clearTimeout(timer);
    timer = frame = null;
    const begin = performance.now();
    for (const dashboard of dashboards) {
      dashboard.paint();
      Object.assign(stats, dashboard.stats());
    }
    viewCost.drawn();
    last = performance.now();
    cost = last - begin;
    stats.frames += 1;
    stats.slowest = Math.max(stats.slowest, cost);
  }
  function draw() {
    frame ??= requestAnimationFrame(tick);
  }
  return (urgent = false) => {
    const due = last + Math.min(SLOWEST, Math.max(FASTEST, SHARE * cost));
    if (urgent) draw();
    else timer ??= setTimeout(draw, Math.max(0, due - performance.now()));
  };
}

// The comparison of two runs, with a button that removes it.
function newComparedRuns(dashboards) {
  const host = el("div", "sgnb sgnb-compared-runs");
  let dashboard = null;
  function close() {
    if (dashboard) {
      dashboards.delete(dashboard);
      dashboard.close();
      dashboard = null;
    }
    host.replaceChildren();
  }
  function show(text) {
    close();
    const store = newStore(),
      place = el("div");
    store.add(parseLines(text));
    store.live = false;
    host.append(button("close the comparison", "remove the comparison", close), place);
    dashboard = newDashboard(place, store, { run: "", views: ["text", ...Object.keys(PANELS)] });
    dashboards.add(dashboard);
    dashboard.paint();
  }
  return { host, show, close };
}

// A sentence below the views with a button that removes the sentence. `text()`: the sentence, or "".
function newHint(text, dismiss) {
  const host = el("div", "sgnb sgnb-hint-line", "", { role: "note" }),
    words = el("span");
  host.append(words, button("dismiss", "remove this hint; it does not come back", dismiss));
  function paint() {
    host.hidden = !text();
    setText(words, visible(text()));
  }
  paint();
  return { host, paint };
}

const widget = () => {
  const store = newStore(),
    dashboards = new Set();
  const stats = { messages: 0, snapshots: 0, resyncs: 0, frames: 0, slowest: 0, live: true };
  const viewCost = newViewCost();
  const schedule = newClock(dashboards, stats, viewCost);
  const asked = new Map(); // requests without an answer, by number
  let waiting = false,
    questions = 0;
  let have = 0; // number of received lines

  // Add lines from number `from`; skip lines already received.
  function take(from, lines) {
    const records = from + lines.length > have ? lines.slice(have - from).map(parseLine) : [];
    if (records.length) store.add(records);
    have = Math.max(have, from + lines.length);
    schedule(records.some(isStopRecord));
  }
  function takeNew(from, lines, link) {
    store.heard = performance.now();
    if (from <= have) {
      take(from, lines);
    } else {
      if (!waiting) link.send({ kind: "resync" });
      waiting = true;
      stats.resyncs += 1;
    }
  }
  const ask = (link, content) =>
    new Promise((answered) => {
      const id = (questions += 1);
      asked.set(id, answered);
      try {
        link.send({ ...content, id });
      } catch {
        asked.delete(id);
        answered({ text: "the kernel is gone: run the cell again", failed: true });
      }
    });
  // As `ask`, for short work; `report(text)` says that the kernel does not answer in time.
  const askBriefly = (link, content, report) => {
    const text = "no answer from the kernel: if the kernel is idle, reload the page";
    const late = setTimeout(report, PATIENCE, text);
    return ask(link, content).finally(() => clearTimeout(late));
  };
  function takeAll(link) {
    const { from, lines, live, reported } = link.get("records");
    stats.snapshots += 1;
    stats.live = store.live = live;
    store.reported = reported;
    store.heard = performance.now();
    waiting = false;
    if (from > have) {
      store.add([{ t: 0, kind: "RecordsLost", count: from - have }]);
      have = from;
    }
    take(from, lines ? lines.split("\n") : []);
  }

  return {
    initialize({ model: link }) {
      const onRecords = () => takeAll(link);
      const onMessage = (message, buffers) => {
        asked.get(message.answer)?.({ ...message, buffers });
        asked.delete(message.answer);
        if (message.from === undefined) return;
        stats.messages += 1;
        const text = new TextDecoder().decode(buffers[0]),
          lines = text ? text.split("\n") : [];
        viewCost.receive(message, lines.slice(0, 1).map(parseLine));
        takeNew(message.from, lines, link);
      };
      const repaint = () => schedule(true);
      link.on("change:records", onRecords);
      link.on("change:reruns change:batch", repaint);
      link.on("msg:custom", onMessage);
      onRecords();
      const watch = setInterval(() => store.live && schedule(), 1000);
      window.__sgnb = window.__sgnb || {};
      window.__sgnb[link.get("uid")] = { stats, store };
      return () => {
        clearInterval(watch);
        link.off("change:records", onRecords);
        link.off("change:reruns change:batch", repaint);
        link.off("msg:custom", onMessage);
      };
    },
    render({ model: link, el: host }) {
      const showTwin = hideTwin(link.get("uid"));
      const own = el("div"),
        compared = newComparedRuns(dashboards);
      const hint = newHint(
        () => link.get("hint"),
        () => {
          link.set("hint", "");
          link.send({ kind: "dismiss" });
        },
      );
      host.append(own, hint.host, compared.host);
      link.on("change:hint", hint.paint);
      // Ask the kernel for the records of two runs and show the comparison below the card.
      const compare = async (run) => {
        const { text, failed, buffers } = await ask(link, { kind: "compare", run });
        if (!failed) compared.show(new TextDecoder().decode(buffers[0]));
        return text;
      };
      const dashboard = newDashboard(own, store, {
        run: link.get("run"),
        views: link.get("views"),
        wordsOfCost: viewCost.words,
        ask: link.get("controls")
          ? (action, node, report) => askBriefly(link, { kind: "act", action, node }, report)
          : null,
        steer: link.get("steps") ? (action, report) => askBriefly(link, { kind: "step", action }, report) : null,
        edit: link.get("edits") ? (fields) => ask(link, { kind: "edit", ...fields }) : null,
        compare,
        reruns: () => link.get("reruns"),
        batch: { ask: (action) => ask(link, { kind: "batch", action }), possible: () => link.get("batch") },
      });
      dashboards.add(dashboard);
      dashboard.paint();
      const onRun = () => dashboard.showRun(link.get("run"));
      link.on("change:run", onRun);
      return () => {
        link.off("change:run", onRun);
        link.off("change:hint", hint.paint);
        dashboards.delete(dashboard);
        dashboard.close();
        compared.close();
        showTwin();
      };
    },
  };
};

// A standalone page with all records.
export function show(host, text, options) {
  const store = newStore();
  store.add(parseLines(text));
  store.live = false;
  const dashboard = newDashboard(host, store, options);
  dashboard.paint();
  window.__sgnb = { page: { store, dashboard, stats: dashboard.stats() } };
}

export default widget;
