// Canvas helper: sharp on any screen, with colours from CSS variables, hover regions, and a text alternative for screen readers.

// Pixels of a size of the style sheet.
const pixelsOf = (host, name) => parseFloat(getComputedStyle(host).getPropertyValue(`--sgnb-${name}`)) || 0;

// The width of a drawing inside the left and right margins of all views.
const widthInside = (host) => Math.max(260, host.clientWidth - 2 * pixelsOf(host, "space-4"));

function newSurface(host, label) {
  const canvas = el("canvas", "sgnb-canvas", "", { tabindex: "0", role: "img", "aria-label": label });
  const context = canvas.getContext("2d");
  let boxes = [];
  host.append(canvas);

  // Clear the canvas and return the drawing context, in CSS pixels.
  function begin(width, height) {
    const scale = window.devicePixelRatio || 1;
    const [w, h] = [Math.max(1, Math.round(width * scale)), Math.max(1, Math.round(height * scale))];
    if (canvas.width !== w || canvas.height !== h) Object.assign(canvas, { width: w, height: h });
    Object.assign(canvas.style, { width: `${width}px`, height: `${height}px` });
    context.setTransform(scale, 0, 0, scale, 0, 0);
    context.clearRect(0, 0, width, height);
    context.font = getComputedStyle(canvas).font;
    context.textBaseline = "middle";
    boxes = [];
    return context;
  }
  function at(event) {
    const frame = canvas.getBoundingClientRect();
    const x = event.clientX - frame.left,
      y = event.clientY - frame.top;
    return {
      x,
      y,
      box: boxes.findLast((box) => x >= box.x && x < box.x + box.width && y >= box.y && y < box.y + box.height),
    };
  }
  // Register a hover region: {x, y, width, height, ...}.
  const region = (box) => boxes.push(box);
  function say(words) {
    const said = `${label}: ${words}`;
    if (canvas.getAttribute("aria-label") !== said) canvas.setAttribute("aria-label", said);
  }
  return { canvas, begin, at, region, say };
}

const NAMES = [
  "bg",
  "soft",
  "fg",
  "muted",
  "line",
  "cached",
  "computed",
  "sampled",
  "jumped",
  "other",
  "bad",
  "host",
  "disk",
];

function coloursOf(host) {
  const style = getComputedStyle(host);
  return Object.fromEntries(NAMES.map((name) => [name, style.getPropertyValue(`--sgnb-${name}`).trim() || "#888"]));
}

function legendItem(swatch, text) {
  const item = el("span", "sgnb-legend-item");
  item.append(el("span", `sgnb-swatch sgnb-swatch-${swatch}`), text);
  return item;
}

function fillTinted(context, colour, alpha, x, y, width, height) {
  context.globalAlpha = alpha;
  context.fillStyle = colour;
  context.fillRect(x, y, width, height);
  context.globalAlpha = 1;
}
