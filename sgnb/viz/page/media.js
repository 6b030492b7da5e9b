// Images, videos and sounds among the tokens of a log: spans, names, and counts of a run. Twin of sgnb/viz/state/media.py and run_items.py.

const newMedia = () => ({ items: [] }); // named items by first token id; the array and the items are replaced instead of changed

const JPEG = /^[A-Za-z0-9+/]{1,8192}={0,2}$/;
const NOUNS = { image: "image", video: "video", audio: "sound" };

function placeOf(items, token) {
  let low = 0,
    high = items.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (items[middle].first_id <= token) low = middle + 1;
    else high = middle;
  }
  return low;
}

function nameItem(media, event) {
  const at = placeOf(media.items, event.first_id);
  if (media.items[at - 1]?.first_id === event.first_id) return;
  media.items = [...media.items.slice(0, at), { ...event, user: null, encoded: null }, ...media.items.slice(at)];
}

function changeItem(media, firstId, change) {
  media.items = media.items.map((item) => (item.first_id === firstId ? { ...item, ...change } : item));
}

// The item with this token, or null for a token of text.
function itemAt({ items }, token) {
  const item = items[placeOf(items, token) - 1];
  return item && token < item.first_id + item.count ? item : null;
}

// Cut tokens into spans of text and of items, in order: {begin, end, item, offset}.
function spansOf(media, tokens) {
  const spans = [],
    lowest = media.items[0]?.first_id ?? Infinity;
  let at = media.items.length ? 0 : tokens.length, // text needs no search
    text = 0;
  while (at < tokens.length) {
    const item = tokens[at] >= lowest ? itemAt(media, tokens[at]) : null;
    if (!item) {
      at += 1;
      continue;
    }
    if (text < at) spans.push({ begin: text, end: at, item: null, offset: 0 });
    const begin = at,
      offset = tokens[at] - item.first_id;
    while (at < tokens.length && at - begin < item.count - offset && tokens[at] === tokens[begin] + at - begin) at += 1;
    spans.push({ begin, end: at, item, offset });
    text = at;
  }
  if (text < tokens.length) spans.push({ begin: text, end: tokens.length, item: null, offset: 0 });
  return spans;
}

const titleOfItem = ({ media, number }) => `${media} ${number}`;
const sizeOfItem = ({ media, label }) => (label.startsWith(`${media} `) ? label.slice(media.length + 1) : label);

function labelOfSpan({ begin, end, item, offset }) {
  if (end - begin === item.count) return `[${titleOfItem(item)}: ${sizeOfItem(item)}]`;
  return `[${partOf({ begin, end, offset })} of ${titleOfItem(item)}]`;
}

const partOf = ({ begin, end, offset }) =>
  end - begin === 1 ? `token ${offset}` : `tokens ${offset}–${offset + end - begin - 1}`;

// At least the first `limit` characters of the text of tokens, with names of items.
function labelOfTokens(state, tokens, limit) {
  let text = "";
  for (const span of spansOf(state.media, tokens)) {
    if (text.length > limit) break;
    text += span.item
      ? labelOfSpan(span)
      : textOfTokens(state.tokenTable, tokens.slice(span.begin, Math.min(span.end, span.begin + limit + 1)));
  }
  return text;
}

// The text of an item: name, size, tokens and cache result. kind: of the first token.
function chipText(item, kind, found) {
  const computed = { again: "recomputed", text: "not sent" }[kind] ?? "computed";
  const result = !found ? computed : found >= item.count ? "found" : `${found} found`;
  return `${titleOfItem(item)}: ${sizeOfItem(item)}, ${plural(item.count, "token")}, ${result}`;
}

// The reason for different tokens of two items.
function differenceCause(here, there) {
  if (here.content === there.content) return "the same content with other processor options";
  if (here.media !== there.media) return `${sizeOfItem(here)} here, ${there.label} there`;
  if (here.label !== there.label) return `another size, ${sizeOfItem(here)} here and ${sizeOfItem(there)} there`;
  return `other ${here.media === "audio" ? "samples" : "pixels"} of the same size, ${sizeOfItem(here)}`;
}

const foundIn = (request, { begin, item }) => Math.max(0, Math.min(request.cached - begin, item.count));

// Counts of the items in the prompts of a run, an item of two prompts twice.
const newRunItems = () => ({ used: 0, processed: 0, encoded: 0, prefilled: 0, kinds: [] });

// The items of a queued request; marks the first use of an item after the processor ran.
function itemsOfPrompt(media, request, prompt) {
  const spans = spansOf(media, prompt).filter(({ item }) => item);
  for (const { item } of spans)
    if (item.processor_seconds && itemAt(media, item.first_id).user === null)
      changeItem(media, item.first_id, { user: request });
  return spans;
}

// Attribute the encoder's work to the first waiting request of each run with the item.
function encoderRan(state, engine, { items, seconds, tokens }, t) {
  for (const id of items) {
    changeItem(state.media, id, { encoded: { t, seconds, tokens, count: items.length } });
    const runs = new Set();
    for (const number of state.live) {
      const request = state.requests.get(number);
      const waits = request.engine === engine && request.admitted === null && request.finished === null;
      if (!waits || runs.has(request.run) || !request.items.some(({ item }) => item.first_id === id)) continue;
      runs.add(request.run);
      if (!request.encoded.includes(id)) request.encoded = [...request.encoded, id];
    }
  }
}

const isProcessedFor = (state, request, { item }) => itemAt(state.media, item.first_id)?.user === request.id;

function countItems(state, run, request) {
  const { items } = request;
  if (!items.length) return;
  const f = run.items;
  const processed = new Set(items.filter((span) => isProcessedFor(state, request, span)).map((s) => s.item.first_id));
  f.used += items.length;
  f.processed += processed.size;
  f.encoded += request.encoded.length;
  f.prefilled += items.filter(({ end }) => end > request.cached).length;
  f.kinds = [...new Set([...f.kinds, ...items.map(({ item }) => item.media)])].sort();
}

function wordsOfItems(run) {
  const { used, processed, encoded, prefilled, kinds } = run?.items ?? newRunItems();
  if (!used) return "";
  const noun = kinds.length === 1 ? NOUNS[kinds[0]] : "item";
  return `encoder skipped for ${grouped(used - encoded)} of ${plural(used, noun)} (processor ${grouped(used - processed)}, prefill ${grouped(used - prefilled)})`;
}
