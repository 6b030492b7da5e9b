// Images, videos and sounds on the page: chips in text, thumbnails on canvases, and details.

const NODE_THUMBNAIL = 40; // maximum pixels of a thumbnail in a tree node

// Only JPEG data in base64 becomes an address.
const addressOf = ({ thumbnail }) => (JPEG.test(thumbnail) ? `data:image/jpeg;base64,${thumbnail}` : "");

function thumbnailOf(item) {
  const address = addressOf(item);
  return address ? el("img", "", "", { src: address, alt: "" }) : el("span", "sgnb-hatched");
}

// The inspected thumbnail as a list of elements, empty for text.
const inspectedThumbnail = ({ item }) => {
  if (!item) return [];
  const frame = el("span", "sgnb-inspected-item");
  frame.append(thumbnailOf(item));
  return [frame];
};

// A chip instead of an item's text. The arrow keys reach a chip as a token.
function paintChip(state, span, piece) {
  const request = state.requests.get(piece.request),
    item = itemAt(state.media, piece.item);
  const found = foundIn(request, { begin: piece.from, item }),
    text = chipText(item, piece.kind, found);
  const key = `item ${piece.kind} ${piece.request} ${piece.from} ${text}`;
  if (span.sgnbKey === key) return;
  Object.assign(span, { sgnbKey: key, sgnbText: piece.text, sgnbSplit: null, className: "", title: "" });
  const border = isBorder(request, piece.from, piece.from + item.count) ? " sgnb-border" : "";
  const chip = el("span", `sgnb-k-${piece.kind} sgnb-token sgnb-item${border}`, "", {
    role: "img",
    "aria-label": visible(text),
    "data-request": piece.request,
    "data-position": piece.from,
  });
  chip.append(thumbnailOf(item), el("span", "", visible(text)));
  span.replaceChildren(chip);
}

const loadedImages = new Map(); // by address

// Draw an item in a square, or a hatched box without a picture. redraw: called after the picture is loaded.
function drawThumbnail(context, colours, item, { x, y, side }, redraw) {
  const address = addressOf(item);
  if (address && !loadedImages.has(address)) loadedImages.set(address, Object.assign(new Image(), { src: address }));
  const image = loadedImages.get(address);
  if (image?.complete && image.naturalWidth) {
    const scale = side / Math.max(image.naturalWidth, image.naturalHeight),
      [width, height] = [image.naturalWidth * scale, image.naturalHeight * scale];
    const [left, top] = [x + (side - width) / 2, y + (side - height) / 2];
    context.drawImage(image, left, top, width, height);
    context.strokeStyle = colours.muted;
    context.lineWidth = 1;
    context.strokeRect(left - 0.5, top - 0.5, width + 1, height + 1);
    return;
  }
  if (image && !image.complete) image.addEventListener("load", redraw, { once: true });
  context.strokeStyle = colours.muted;
  context.lineWidth = 1;
  context.strokeRect(x + 0.5, y + 0.5, side - 1, side - 1);
  context.beginPath();
  for (let at = 6; at < 2 * side; at += 6) {
    context.moveTo(x + Math.max(0, at - side), y + Math.min(at, side));
    context.lineTo(x + Math.min(at, side), y + Math.max(0, at - side));
  }
  context.stroke();
}

// The first item with tokens in a tree node, or null.
const firstItemOf = (state, node) => spansOf(state.media, node.tokens).find(({ item }) => item)?.item ?? null;

// Draw the first item of a tree node in a box; returns the width in use.
function drawNodeItem(context, colours, state, node, { x, y, width, tall }, redraw) {
  const item = firstItemOf(state, node),
    side = Math.floor(Math.min(tall - 4, NODE_THUMBNAIL, width / 3));
  if (!item || side < 12) return 0;
  drawThumbnail(context, colours, item, { x, y: y + (tall - side) / 2, side }, redraw);
  return side + 4;
}

const nameOfItem = (item) => `${titleOfItem(item)}: ${visible(sizeOfItem(item))}`;

// Details of an item in the prompt of a request.
function describeItem(state, request, span) {
  const item = itemAt(state.media, span.item.first_id),
    found = foundIn(request, span),
    ran = request.encoded.includes(item.first_id) ? item.encoded : null;
  const others = ran && ran.count > 1 ? ` together with ${plural(ran.count - 1, "more item")}` : "";
  const facts = [
    [titleOfItem(item), visible(sizeOfItem(item))],
    ["tokens", `${grouped(item.count)}, positions ${span.begin} to ${span.end}`],
    ["of", `branch ${request.branch}${request.name ? `, ${visible(request.name)}` : ""}`],
    ["prefill", found ? `skipped for ${grouped(found)} of ${plural(item.count, "token")}` : "of all tokens"],
    ["encoder", ran ? `${duration(ran.seconds)}${others}` : "skipped"],
    ["processor", isProcessedFor(state, request, span) ? duration(item.processor_seconds) : "skipped"],
  ];
  if (request.line) facts.push(["line", locationOf(state, request)]);
  const missed = missedAt(request);
  if (request.leaves && missed >= span.begin && missed < span.end) facts.push(...missFacts(state, request));
  return { text: "", item, facts };
}

// The items with tokens in a tree node, as [name, value] pairs.
function itemsOfNode(state, node) {
  const spans = spansOf(state.media, node.tokens).filter(({ item }) => item);
  const facts = spans.slice(0, 6).map((span) => {
    const { begin, end, item } = span,
      part = end - begin === item.count ? plural(item.count, "token") : `${partOf(span)} of ${item.count}`;
    return [titleOfItem(item), `${visible(sizeOfItem(item))}, ${part}`];
  });
  if (spans.length > 6) facts.push(["items", `and ${spans.length - 6} more`]);
  return { item: spans[0] && itemAt(state.media, spans[0].item.first_id), facts };
}

// A token of the tree at the position of `here`, the item of the prompt or null.
function continuationOf(state, token, here) {
  const there = itemAt(state.media, token);
  if (!there) return `“${inLine(textOfTokens(state.tokenTable, [token]), 20)}”`;
  return here && here.first_id !== there.first_id
    ? `${titleOfItem(there)} (${visible(differenceCause(here, there))})`
    : nameOfItem(there);
}
