// Element helpers and safe text. Model text enters the page only through textContent or a canvas.

function el(tag, className = "", text = "", attributes = {}) {
  const node = document.createElement(tag);
  if (className) node.className = className;
  if (text) node.textContent = text;
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  return node;
}

function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

function button(label, title, act) {
  const node = el("button", "sgnb-button", label, { type: "button", title });
  node.addEventListener("click", act);
  return node;
}

// Move with the arrow keys along `items()`, elements below `host`. `choose` gets the new item, or null after Escape.
function walkByKeys(host, items, current, choose) {
  host.addEventListener("keydown", (event) => {
    const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!by && event.key !== "Escape") return;
    const all = by ? [...items()] : [],
      at = all.findIndex(current);
    const next = all[at < 0 ? (by > 0 ? 0 : all.length - 1) : Math.max(0, Math.min(all.length - 1, at + by))];
    choose(next ?? null);
    next?.scrollIntoView({ block: "nearest" });
    event.preventDefault();
    event.stopPropagation();
  });
}

// Create elements with `make` for new `items` in `host`, and update existing elements.
function list(host, items, make, update) {
  while (host.childElementCount > items.length) host.lastChild.remove();
  items.forEach((item, i) => update(host.children[i] ?? host.appendChild(make(item)), item, i));
}

// Equal to sgnb/viz/state/tokens.py: replace unsafe characters by U+FFFD.
const ACTS_OR_HIDES =
  // eslint-disable-next-line no-control-regex, no-misleading-character-class -- matched one by one
  /[\0-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0d\ufeff\uffa0\ufffe\uffff\p{Cs}\u{e0000}-\u{e007f}\u{e0100}-\u{e01ef}]/gu;
const EMOJI = "[\\u2190-\\u21ff\\u2300-\\u23ff\\u2600-\\u27bf\\u2b00-\\u2bff\\u{1f000}-\\u{1faff}]";
const JOINED = new RegExp(`(?<=${EMOJI}\\ufe0f?)\\u200d(?=${EMOJI})`, "u");

function visible(text) {
  return text.replace(ACTS_OR_HIDES, (sign, at) =>
    sign === "\u200d" && JOINED.test(text.slice(Math.max(0, at - 3), at + 3)) ? sign : "\ufffd",
  );
}

// Text for one line of a drawing, with visible white space.
function inLine(text, limit) {
  const cut = text.length > limit ? `${text.slice(0, limit)}…` : text;
  return visible(cut)
    .replace(/\r?\n/g, "⏎")
    .replace(/\t/g, "⇥")
    .replace(/^ +| +$/g, (blanks) => "␣".repeat(blanks.length));
}

// `toLocaleString` would create a formatter on every call.
const NUMBERS = new Intl.NumberFormat("en");
const grouped = (count) => NUMBERS.format(count);

const plural = (count, name, many = `${name}s`) => `${grouped(count)} ${count === 1 ? name : many}`;
const percent = (part, whole) => (whole ? `${Math.round((100 * part) / whole)} %` : "0 %");

const share = (part, whole) => (part && part < whole / 100 ? "< 1 %" : percent(part, whole));

const bytesIn = (count) =>
  count >= 2 ** 20
    ? `${(count / 2 ** 20).toFixed(1)} MiB`
    : count >= 1024
      ? `${(count / 1024).toFixed(1)} KiB`
      : plural(count, "byte");

function duration(seconds) {
  if (seconds >= 100) return `${Math.round(seconds)} s`;
  if (seconds >= 1) return `${seconds.toFixed(1)} s`;
  return seconds >= 0.01 ? `${Math.round(1000 * seconds)} ms` : `${(1000 * seconds).toFixed(1)} ms`;
}
