// Shared by every view; put in front of its module. Text reaches the page by textContent only.

const SVG = "http://www.w3.org/2000/svg";

function el(tag, className = "", text = "", attributes = {}) {
  const node = document.createElement(tag);
  if (className) node.className = className;
  if (text) node.textContent = text;
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  return node;
}

function svg(tag, attributes = {}) {
  const node = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  return node;
}

function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

// The static twin of a live view stays hidden for as long as the view is on the page.
function hideTwin(uid) {
  const rule = `.sgnb-twin-${uid}`;
  const style = el("style", "", `${rule}, .jp-OutputArea-child:has(> .jp-OutputArea-output ${rule}) { display: none !important; }`);
  document.head.append(style);
  return () => style.remove();
}

// A view is a model (`load(ops)`, `apply(ops)`, `stats()`) and a painter `(el, model) => draw(live)`.
// The protocol with Python is in widget.py: snapshots are a trait, batches are custom messages numbered by `seq`.
function defineView(kind, newModel, newPainter) {
  return () => {
    const model = newModel();
    const painters = new Set();
    const stats = { seq: -1, batches: 0, snapshots: 0, resyncs: 0, frames: 0, live: true };
    let frame = 0;
    let waiting = false;

    function draw() {
      frame = 0;
      stats.frames += 1;
      for (const paint of painters) paint(stats.live);
      Object.assign(stats, model.stats());
    }
    function schedule() {
      if (!frame) frame = requestAnimationFrame(draw);
    }
    function takeSnapshot(snapshot) {
      stats.snapshots += 1;
      stats.live = snapshot.live;
      if (snapshot.seq > stats.seq) {
        model.load(snapshot.ops);
        stats.seq = snapshot.seq;
      }
      waiting = false;
      schedule();
    }
    function takeBatch(batch, link) {
      if (!batch.ops || batch.seq <= stats.seq) return;
      if (batch.seq > stats.seq + 1) {
        if (!waiting) link.send({ kind: "resync" });
        waiting = true;
        stats.resyncs += 1;
        return;
      }
      model.apply(batch.ops);
      stats.seq = batch.seq;
      stats.batches += 1;
      schedule();
    }

    return {
      initialize({ model: link }) {
        const onSnapshot = () => takeSnapshot(link.get("snapshot"));
        const onMessage = (message) => takeBatch(message, link);
        link.on("change:snapshot", onSnapshot);
        link.on("msg:custom", onMessage);
        onSnapshot();
        window.__sgnb = window.__sgnb || {};
        window.__sgnb[`${link.get("uid")}-${kind}`] = { stats };
        return () => {
          link.off("change:snapshot", onSnapshot);
          link.off("msg:custom", onMessage);
        };
      },
      render({ model: link, el: host }) {
        const showTwin = hideTwin(link.get("uid"));
        const paint = newPainter(host, model);
        painters.add(paint);
        draw();
        return () => {
          painters.delete(paint);
          showTwin();
        };
      },
    };
  };
}
