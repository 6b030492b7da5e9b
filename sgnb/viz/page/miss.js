// The end of a prompt's cached prefix: the most similar earlier prompt, the first different token, and the tokens that a reorder would save. Equal to sgnb/viz/state/cache_miss.py.

const REORDERED_AT_MOST = 2048; // compared tokens of each prompt after the first difference
const REORDER_FROM = 8; // smallest number of saved tokens worth a reorder

const missedAt = (request) => request.cached + request.again;

// Whether only the last token of the prompt is computed, as for a prompt that is found whole.
const isFoundWhole = ({ prompt, leaves: { others } }, missed) =>
  missed >= prompt.length - 1 && (!others.length || others.includes(prompt.at(-1)));

// Whether the tokens from .. to of a request contain the token at which the prompt leaves the cache.
function isBorder(request, from, to) {
  const missed = missedAt(request);
  return Boolean(request.leaves) && missed >= from && missed < to && !isFoundWhole(request, missed);
}

function commonTokens(here, there) {
  let length = 0;
  while (length < here.length && length < there.length && here[length] === there[length]) length += 1;
  return length;
}

// A suffix automaton of `tokens`: states {next, link, length}; the first state is the start.
function suffixAutomaton(tokens) {
  const states = [{ next: new Map(), link: -1, length: 0 }];
  let last = 0;
  for (const token of tokens) {
    const state = states.push({ next: new Map(), link: 0, length: states[last].length + 1 }) - 1;
    let at = last;
    for (; at >= 0 && !states[at].next.has(token); at = states[at].link) states[at].next.set(token, state);
    if (at >= 0) {
      const target = states[at].next.get(token);
      if (states[at].length + 1 === states[target].length) states[state].link = target;
      else {
        const { next, link } = states[target];
        const copy = states.push({ next: new Map(next), link, length: states[at].length + 1 }) - 1;
        for (; at >= 0 && states[at].next.get(token) === target; at = states[at].link) states[at].next.set(token, copy);
        states[target].link = states[state].link = copy;
      }
    }
    last = state;
  }
  return states;
}

// The longest run of tokens in both sequences, the first in `here` of equal length: [start in `here`, length].
function longestCommonBlock(here, there) {
  const states = suffixAutomaton(there);
  let [at, length, start, longest] = [0, 0, 0, 0];
  here.forEach((token, i) => {
    while (at && !states[at].next.has(token)) {
      at = states[at].link;
      length = states[at].length;
    }
    if (!states[at].next.has(token)) return;
    at = states[at].next.get(token);
    length += 1;
    if (length > longest) [start, longest] = [i + 1 - length, length];
  });
  return [start, longest];
}

// The earlier prompt with the longest common prefix, and the block that a reorder moves in front of the difference. Null without an earlier prompt.
function compareNearest(state, request) {
  let nearest = null,
    common = -1;
  const earlier = [...state.requests.values()].filter(
    (other) =>
      other !== request &&
      other.engine === request.engine &&
      other.namespace === request.namespace &&
      other.admitted !== null &&
      (other.admitted < request.admitted || (other.admitted === request.admitted && other.id < request.id)),
  );
  for (const other of earlier.sort((a, b) => a.admitted - b.admitted)) {
    const length = commonTokens(request.prompt, other.prompt);
    if (length > common) [nearest, common] = [other, length];
  }
  if (!nearest) return null;
  const [here, there] = [request, nearest].map(({ prompt }) => prompt.slice(common, common + REORDERED_AT_MOST));
  const [start, length] = longestCommonBlock(here, there),
    saved = Math.min(length, Math.max(0, request.prompt.length - 1 - common));
  return { nearest, common, block: saved < REORDER_FROM ? [] : here.slice(start, start + saved) };
}

const comparedRequests = new WeakMap(); // by request: the comparison is constant after the admission

function nearestOf(state, request) {
  if (!comparedRequests.has(request)) comparedRequests.set(request, compareNearest(state, request));
  return comparedRequests.get(request);
}

// Details of the token at which a prompt leaves the cache.
function missFacts(state, request) {
  const facts = [["not found", whyNot(state, request)]],
    missed = missedAt(request);
  if (isFoundWhole(request, missed)) return facts;
  if (request.notUsed) facts.push(["copies", visible(request.notUsed)]);
  const compared = nearestOf(state, request);
  if (!compared) return [...facts, ["other prompt", "no earlier prompt"]];
  const { nearest, common, block } = compared;
  const run = nearest.run ? `run ${visible(nearest.run)}, branch ${nearest.branch}` : "a request outside of programs";
  facts.push([
    "other prompt",
    `${run}${nearest.name ? `, ${visible(nearest.name)}` : ""}: ${plural(common, "token")} in common`,
  ]);
  if (common > missed) facts.push(["cause", causeOf(request, nearest)]);
  facts.push(["first difference", differenceOf(state, request, nearest, common)]);
  if (block.length)
    facts.push([
      "reorder",
      `“${inLine(labelOfTokens(state, block, 60), 60)}” follows the difference in both prompts; in front of the difference, up to ${plural(block.length, "more token")} would be found`,
    ]);
  return facts;
}

// The reason for a prefix that another prompt shares beyond the cached tokens.
const causeOf = (request, nearest) =>
  nearest.finished !== null && nearest.finished <= request.admitted
    ? "the common tokens were evicted or not kept"
    : "the other prompt was not computed yet";

function differenceOf(state, { prompt }, { prompt: other }, common) {
  const here = itemAt(state.media, prompt[common]);
  const [own, there] = [prompt, other].map((tokens) =>
    common < tokens.length ? continuationOf(state, tokens[common], here) : "the end",
  );
  return own === there && own === "the end" ? "none" : `token ${grouped(common)}: ${own} here, ${there} there`;
}

// The reason for the end of the prompt's cached prefix.
function whyNot(state, request) {
  const missed = missedAt(request),
    { prompt, leaves } = request;
  if (isFoundWhole(request, missed))
    return "the last token of a prompt is always computed: the logits give the next token";
  const here = itemAt(state.media, prompt[missed]),
    texts = leaves.others.map((token) => continuationOf(state, token, here));
  return texts.length
    ? `from here on, the tree continued with ${texts.join(", ")}`
    : "from here on, the tree had no continuation";
}
