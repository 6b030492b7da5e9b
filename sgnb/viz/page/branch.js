// Text of a branch in pieces: {kind, text, request, from, to, skip, by, item}. `from` to `to` are the token positions, if any; `skip` is the omitted text before; `item` is the first token id of an image, video or sound; `by` is the letter of another model than the run's default.
// Twin of sgnb/viz/state/branch.py.

const textOf = (pieces) => pieces.map((piece) => piece.text).join("");
const lengthOf = (pieces) => pieces.reduce((sum, piece) => sum + piece.text.length, 0);

function newBranch(name, parent) {
  return {
    name,
    parent,
    pieces: [],
    shared: 0,
    forkedAt: 0,
    variables: {},
    makers: {},
    status: "running",
    error: "",
    generatedFrom: null,
  };
}

function take(pieces, length) {
  const taken = [];
  for (const piece of pieces) {
    if (length <= 0) break;
    taken.push({ ...piece, text: piece.text.slice(0, length) });
    length -= piece.text.length;
  }
  return taken;
}

function drop(pieces, length) {
  const rest = [];
  for (const piece of pieces) {
    if (piece.text.length > length)
      rest.push({ ...piece, text: piece.text.slice(length), skip: (piece.skip ?? 0) + length });
    length = Math.max(0, length - piece.text.length);
  }
  return rest;
}

function commonPrefix(a, b) {
  const shorter = Math.min(a.length, b.length);
  let at = a.slice(0, shorter) === b.slice(0, shorter) ? shorter : 0;
  while (at < shorter && a[at] === b[at]) at += 1;
  // Do not cut between the halves of a surrogate pair.
  return at < Math.max(a.length, b.length) && /[\ud800-\udbff]/.test(a[at - 1] ?? "") && a[at] !== b[at] ? at - 1 : at;
}

// Consecutive tokens form one piece.
function append(pieces, piece) {
  const last = pieces.at(-1);
  const goesOn =
    last &&
    last.kind === piece.kind &&
    last.request === piece.request &&
    last.to === piece.from &&
    !piece.skip &&
    piece.item === undefined &&
    last.item === undefined &&
    (last.by ?? "") === (piece.by ?? "");
  if (goesOn) {
    last.text += piece.text;
    last.to = piece.to;
  } else if (piece.text) {
    pieces.push({ ...piece });
  }
}

function cut(branch, length) {
  if (length < lengthOf(branch.pieces)) branch.pieces = take(branch.pieces, length);
}

// Show a request's prompt. Text coloured earlier keeps the colour, and text of other models keeps the mark. Prompts for scoring show no text beyond the branch. ofOther: the request goes to another model. A different chat template may render roles differently, and such prompts stay hidden.
function showPrompt(branch, pieces, generates, ofOther) {
  const old = textOf(branch.pieces);
  let text = textOf(pieces);
  const at = text.indexOf(old);
  if (at < 0 && (ofOther || !generates)) return;
  const marked = at < 0 ? [] : madeByOthers(branch.pieces);
  if (!generates) {
    text = text.slice(0, at + old.length);
    pieces = take(pieces, text.length);
  }
  const common = commonPrefix(old, text);
  const unsent = branch.pieces.findIndex((piece) => piece.kind === "text");
  const sent = lengthOf(unsent < 0 ? branch.pieces : branch.pieces.slice(0, unsent));
  const kept = Math.min(common, sent);
  branch.shared = Math.min(branch.shared, common);
  cut(branch, kept);
  for (const piece of drop(pieces, kept)) append(branch.pieces, piece);
  for (const { begin, piece } of marked) {
    const end = at + begin + piece.text.length;
    branch.pieces = [...take(branch.pieces, at + begin), piece, ...drop(branch.pieces, end)];
  }
  branch.generatedFrom = generates ? text.length : null;
}

// The segments of other models, each with the start position.
function madeByOthers(pieces) {
  let begin = 0;
  return pieces
    .map((piece) => {
      begin += piece.text.length;
      return { begin: begin - piece.text.length, piece };
    })
    .filter(({ piece }) => piece.by);
}

// Colour constant text from the prompt of a fork's request.
function showSent(branch, pieces) {
  if (!branch.pieces.some((piece) => piece.kind === "text")) return;
  const common = commonPrefix(textOf(branch.pieces), textOf(pieces));
  const coloured = [];
  let at = 0;
  for (const piece of branch.pieces) {
    const end = at + piece.text.length;
    const sent = piece.kind === "text" ? Math.max(at, Math.min(end, common)) : at;
    for (const one of take(drop(pieces, at), sent - at)) append(coloured, one);
    for (const one of drop([piece], sent - at)) append(coloured, one);
    at = end;
  }
  branch.pieces = coloured;
}
