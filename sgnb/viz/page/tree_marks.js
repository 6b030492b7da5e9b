// Marks and labels of tree nodes on a canvas.

const LINE = 15; // pixels of a line of text
const LETTER = 6.65; // pixels of a letter
const COPY_BAR = 3; // pixels of the height of a bar of copies
const FADE = 16; // pixels of the fade at a cut end of the drawing

function drawPin(context, colours, x, y) {
  context.globalAlpha = 1;
  context.fillStyle = context.strokeStyle = colours.fg;
  context.lineWidth = 1.5;
  context.beginPath();
  context.arc(x, y - 2, 3, 0, 2 * Math.PI);
  context.fill();
  context.beginPath();
  context.moveTo(x, y);
  context.lineTo(x, y + 6);
  context.stroke();
}

function drawCheckpoint(context, colours, x, y, dim) {
  context.globalAlpha = dim ? 0.3 : 1;
  context.fillStyle = colours.fg;
  context.strokeStyle = colours.bg;
  context.lineWidth = 1.5;
  context.beginPath();
  for (const [dx, dy] of [
    [-5, 0],
    [0, -5.5],
    [5, 0],
    [0, 5.5],
  ])
    context.lineTo(x + dx, y + dy);
  context.closePath();
  context.stroke();
  context.fill();
}

// A bar per store with copies, as long as the copied part of [x, x + width]; the bars of the disk are striped. `bottom`: lower end.
function drawCopies(context, colours, { tokens }, copied, { x, bottom, width, dim }) {
  const names = Object.keys(WHERE).filter((name) => copied[name]);
  context.globalAlpha = dim ? 0.3 : 1;
  context.lineWidth = COPY_BAR;
  names.reverse().forEach((name, i) => {
    const y = bottom - COPY_BAR / 2 - i * (COPY_BAR + 1);
    context.strokeStyle = colours[name];
    context.setLineDash(name === "disk" ? [3, 2] : []);
    context.beginPath();
    context.moveTo(x, y);
    context.lineTo(x + (width * copied[name]) / tokens.length, y);
    context.stroke();
  });
  context.setLineDash([]);
}

// Pixels at the bottom of a node that the bars take.
const copyHeight = (copied) => (COPY_BAR + 1) * Object.keys(WHERE).filter((name) => copied[name]).length;

// Legend of copies, shown while a node has a copy. Returns a function that paints the legend.
function newCopyLegend(legend) {
  const items = Object.keys(WHERE).map((name) => [name, legendItem(name, `also ${WHERE[name]}`)]),
    outlines = legendItem("outline", "evicted, with a copy");
  legend.append(...items.map(([, item]) => item), outlines);
  return (state) => {
    const stores = new Set([...state.copies.blocks.values()].flatMap(storesOf));
    for (const [name, item] of items) item.hidden = !stores.has(name);
    outlines.hidden = !state.outlines?.size;
  };
}

// Lines of at most `room` letters, cut after a word if the line keeps half of its length; the last line of a longer text ends with an ellipsis.
function wrappedLines(text, room, lines) {
  const wrapped = [];
  for (let at = 0; at < text.length && wrapped.length < lines && room > 1;) {
    if (at && text[at] === " ") at += 1;
    const rest = text.slice(at),
      isLast = wrapped.length === lines - 1,
      limit = isLast ? room - 1 : room;
    if (rest.length <= room) return [...wrapped, rest];
    const wordEnd = Math.max(rest.lastIndexOf(" ", limit), Math.min(limit, rest.lastIndexOf("⏎", limit - 1) + 1));
    const end = wordEnd >= limit / 2 ? wordEnd : limit;
    wrapped.push(isLast ? `${rest.slice(0, end)}…` : rest.slice(0, end));
    at += end;
  }
  return wrapped;
}

// Text in the available lines, then length and number of hits.
function drawNodeLabel(context, colours, state, node, x, y, width, tall, hit) {
  const own = tall >= 2 * LINE,
    beside = width - (node.checkpoint ? 11 : 0); // position of the checkpoint mark
  const letters = Math.floor((own ? width : beside) / LETTER),
    count = `${node.tokens.length}${hit ? ` · found ${node.hits}×` : ""}`;
  const lines = Math.max(1, Math.floor(tall / LINE) - (own ? 1 : 0));
  const aside = own || letters < count.length + 8 ? 0 : count.length + 2;
  const text = inLine(labelOfTokens(state, node.tokens, 200 * lines), 4000);
  const room = letters - aside;
  context.save();
  context.beginPath();
  context.rect(x, y, width, tall);
  context.clip(); // wide characters stay inside the node
  context.fillStyle = colours.fg;
  wrappedLines(text, room, lines).forEach((part, i) =>
    context.fillText(part, x, y + LINE * (i + 0.5) + (own ? 0 : (tall - LINE) / 2)),
  );
  if (aside || (own && beside >= LETTER * count.length)) {
    context.fillStyle = colours.muted;
    context.fillText(count, aside ? x + beside - LETTER * count.length : x, own ? y + tall - LINE / 2 : y + tall / 2);
  }
  context.restore();
}

// The cut ends of a drawing fade out and have an arrow.
function drawCutEnds(context, colours, ends, width, height) {
  for (const end of ends) {
    for (let i = 0; i < FADE; i += 2) {
      const [x, y] = { left: [i, 0], right: [width - i - 2, 0], top: [0, i], bottom: [0, height - i - 2] }[end];
      fillTinted(
        context,
        colours.bg,
        0.9 * (1 - i / FADE),
        x,
        y,
        x || end === "left" ? 2 : width,
        y || end === "top" ? 2 : height,
      );
    }
    const [x, y, sign] = {
      left: [8, height / 2, "←"],
      right: [width - 8, height / 2, "→"],
      top: [width / 2, 8, "↑"],
      bottom: [width / 2, height - 8, "↓"],
    }[end];
    fillTinted(context, colours.soft, 1, x - 8, y - 8, 16, 16);
    context.fillStyle = colours.fg;
    context.fillText(sign, x - LETTER / 2, y);
  }
}
