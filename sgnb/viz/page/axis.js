// Time axes: ticks with units, and a window of time shared by the views over time. Wheel, buttons, drags and keys change the window.

const LEAST_WINDOW = 1e-4; // seconds of the narrowest window
const ZOOM = 2; // factor of a button or key
const WHEEL = 0.002; // exponent of the factor per pixel of the wheel
const PAN = 0.2; // share of the window per key
const DRAG = 4; // minimum pixels of a drag
const LABEL_GAP = 8; // minimum pixels between labels of ticks

// The distance of axis ticks: a round number of seconds, at least 10 µs, for at most six ticks.
function tickOf(seconds) {
  const least = Math.max(seconds / 6, 1e-5),
    power = 10 ** Math.floor(Math.log10(least) + 1e-9);
  return [1, 2, 5, 10].map((times) => times * power).find((step) => step >= least * (1 - 1e-9));
}

// The label of a tick; all ticks of an axis have the unit and decimals of the axis. `end` is the last time of the axis.
function tickLabel(t, step, end) {
  if (Math.abs(t) < step / 1000) return "0";
  const [size, unit] = end >= 1 ? [1, "s"] : [1e-3, "ms"];
  return `${(t / size).toFixed(Math.max(0, Math.ceil(-Math.log10(step / size) - 1e-9)))} ${unit}`;
}

// The ticks within [from, to], in seconds: [time, label].
function ticksWithin(from, to) {
  const step = tickOf(to - from),
    ticks = [];
  for (let i = Math.ceil(from / step - 1e-9); i * step <= to + step * 1e-9; i += 1)
    ticks.push([i * step, tickLabel(i * step, step, to)]);
  return ticks;
}

// Draw grid lines of `height` pixels from `top` on, and labels below. `from` and `to` count from the start of the run.
function drawTicks(context, colours, { from, to, left, room, top, height }) {
  const xOf = (t) => left + (room * (t - from)) / (to - from);
  let free = -Infinity; // right end of the last label, with a gap
  for (const [t, label] of ticksWithin(from, to)) {
    const x = Math.round(xOf(t)),
      width = context.measureText(label).width;
    context.fillStyle = colours.line;
    context.fillRect(x, top, 1, height + 4);
    context.fillStyle = colours.muted;
    const begin = Math.max(left, Math.min(x - width / 2, left + room - width));
    if (begin < free) continue;
    context.fillText(label, begin, top + height + 12);
    free = begin + width + LABEL_GAP;
  }
}

const clamped = (value, least, most) => Math.max(least, Math.min(most, value));

// The window `factor` times as long with the same place of the time `at`, inside `whole`.
function zoomed({ from, to }, whole, factor, at) {
  const length = clamped((to - from) * factor, Math.min(LEAST_WINDOW, whole.to - whole.from), whole.to - whole.from);
  const begin = at - (length * (at - from)) / (to - from);
  return panned({ from: begin, to: begin + length }, whole, 0);
}

function panned({ from, to }, whole, by) {
  const begin = clamped(from + by, whole.from, Math.max(whole.from, whole.to - (to - from)));
  return { from: begin, to: begin + to - from };
}

// The shown times: the window, the selected range if `ranged`, or the whole run.
function shownTimes(page, whole, ranged = false) {
  const shown = page.window ?? (ranged && page.range) ?? null;
  if (!shown) return whole;
  const length = Math.min(shown.to - shown.from, whole.to - whole.from);
  return panned({ from: shown.from, to: shown.from + length }, whole, 0);
}

function setWindow(page, window, whole) {
  const isWhole = window && window.to - window.from >= (whole.to - whole.from) * (1 - 1e-9);
  page.window = isWhole ? null : window;
  if (page.isMoving) return;
  page.isMoving = true;
  requestAnimationFrame(() => {
    page.isMoving = false;
    page.repaint();
  });
}

// Buttons, wheel, drag and keys of a view over time. `drawn()`: {from, to, whole, left, room} of the last drawing, or null. `drags(event)`: a drag begun by the event pans. `pans`: shift and arrow keys pan. `ranged`: see shownTimes.
function newTimeTools(surface, page, drawn, { drags, pans, ranged }) {
  const { canvas } = surface,
    range = el("span", "sgnb-label");
  // Several keys can arrive before the next drawing: each key changes the window of the key before.
  const shown = () => {
    const view = drawn();
    return view && { ...view, ...shownTimes(page, view.whole, ranged) };
  };
  const zoom = (factor, at) => {
    const view = shown();
    if (view) setWindow(page, zoomed(view, view.whole, factor, at ?? (view.from + view.to) / 2), view.whole);
  };
  const pan = (by) => {
    const view = shown();
    if (view) setWindow(page, panned(view, view.whole, by * (view.to - view.from)), view.whole);
  };
  const timeAt = (view, x) => view.from + ((x - view.left) / view.room) * (view.to - view.from);
  const buttons = el("span", "sgnb-steps", "", { role: "group", "aria-label": "zoom" });
  const whole = button("whole", "show the whole run (Home)", () => setWindow(page, null));
  buttons.append(
    whole,
    button("−", "zoom out (-)", () => zoom(ZOOM)),
    button("+", "zoom in (+, or the wheel with ctrl)", () => zoom(1 / ZOOM)),
  );

  canvas.addEventListener(
    "wheel",
    (event) => {
      const view = shown();
      if (!view) return;
      const along = event.shiftKey ? event.deltaY || event.deltaX : event.deltaX;
      if (event.ctrlKey || event.metaKey)
        zoom(Math.exp(clamped(event.deltaY, -300, 300) * WHEEL), timeAt(view, surface.at(event).x));
      else if (page.window && Math.abs(along) >= Math.abs(event.shiftKey ? 0 : event.deltaY)) pan(along / view.room);
      else return;
      event.preventDefault();
    },
    { passive: false },
  );
  let grabbed = null;
  canvas.addEventListener("pointerdown", (event) => {
    const view = shown();
    if (!view || event.button || !drags(event)) return;
    grabbed = { x: event.clientX, view, moved: false };
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointermove", (event) => {
    if (!grabbed || !event.buttons) return;
    const by = event.clientX - grabbed.x,
      { view } = grabbed;
    if (Math.abs(by) < DRAG && !grabbed.moved) return;
    grabbed.moved = true;
    setWindow(page, panned(view, view.whole, (-by / view.room) * (view.to - view.from)), view.whole);
  });
  canvas.addEventListener("pointerup", () => setTimeout(() => (grabbed = null)));
  canvas.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const along = pans && event.shiftKey && { ArrowRight: PAN, ArrowLeft: -PAN }[event.key];
    if (event.key === "+" || event.key === "=") zoom(1 / ZOOM);
    else if (event.key === "-") zoom(ZOOM);
    else if (event.key === "Home") setWindow(page, null);
    else if (along) pan(along);
    else return;
    event.preventDefault();
    event.stopImmediatePropagation();
  });
  // `begin`: start of the run, in seconds of the log.
  function paint(view, begin) {
    whole.hidden = !page.window;
    setText(range, page.window ? [view.from, view.to].map((t) => fineTime(t, view, begin)).join(" to ") : "");
  }
  return { buttons, range, paint, isDragged: () => Boolean(grabbed?.moved) };
}

// A time of a window, with a decimal more than the ticks.
const fineTime = (t, { from, to }, begin) => tickLabel(t - begin, tickOf(to - from) / 10, to - begin);
