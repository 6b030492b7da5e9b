// Minimap of a large drawing: overview, visible part, and navigation.

const STRIP = 64; // pixels, width of the minimap

// `go(fraction)` scrolls to a fraction of the height.
function newMinimap(go) {
  const canvas = el("canvas", "sgnb-minimap", "", { "aria-hidden": "true" });
  const context = canvas.getContext("2d"),
    picture = document.createElement("canvas");
  const follow = (event) =>
    event.buttons && go((event.clientY - canvas.getBoundingClientRect().top) / canvas.clientHeight);
  canvas.addEventListener("pointerdown", (event) => {
    canvas.setPointerCapture(event.pointerId);
    follow(event);
  });
  canvas.addEventListener("pointermove", follow);

  // `boxes`: [x, width, row, rows, kind] in units of the drawing. At equal positions the larger kind wins; the colour is `colours[kind]`.
  function paint(boxes, { right, rows }, height, colours) {
    Object.assign(canvas, { width: STRIP, height });
    Object.assign(picture, { width: STRIP, height });
    const seen = new Uint8Array(STRIP * height),
      line = height / rows,
      unit = STRIP / right;
    for (const [x, width, row, many, kind] of boxes) {
      const top = Math.floor(row * line),
        bottom = Math.max(top + 1, Math.floor((row + many) * line)),
        left = Math.floor(x * unit),
        end = Math.max(left + 1, Math.floor((x + width) * unit));
      for (let y = top; y < bottom; y += 1)
        for (let at = y * STRIP + left; at < y * STRIP + end; at += 1) if (seen[at] < kind) seen[at] = kind;
    }
    const drawing = picture.getContext("2d");
    for (let y = 0; y < height; y += 1) {
      for (let from = 0, x = 1; x <= STRIP; x += 1) {
        if (x < STRIP && seen[y * STRIP + x] === seen[y * STRIP + from]) continue;
        const kind = seen[y * STRIP + from];
        if (kind) fillTinted(drawing, colours[kind], kind === 1 ? 0.35 : 0.9, from, y, x - from, 1);
        from = x;
      }
    }
  }
  // Mark the visible part, as fractions.
  function frame({ top, bottom, left, right }, colour) {
    const { width, height } = canvas;
    context.clearRect(0, 0, width, height);
    context.drawImage(picture, 0, 0);
    context.strokeStyle = colour;
    context.strokeRect(
      left * width + 0.5,
      top * height + 0.5,
      Math.max(3, (right - left) * width - 1),
      Math.max(3, (bottom - top) * height - 1),
    );
  }
  return { canvas, paint, frame };
}
