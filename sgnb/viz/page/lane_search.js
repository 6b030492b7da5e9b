// Search in lanes: calls with a variable, a text, a tool or a branch name that contains the query.

// The text that a call adds to the lane: prompt tokens after the previous call or after the shared prefix of the fork, and the output.
function addedText(state, lanes, groups, lane, request) {
  const tokens = tokensOfRequest(request),
    previous = lane.requests[lane.requests.indexOf(request) - 1];
  const group = groups.find(({ branches }) => branches.includes(lane));
  const before = previous ? commonTokens(tokensOfRequest(previous), tokens) : group ? sharedTokens(group) : 0;
  return textOfTokens(state.tokenTable, tokens.slice(before));
}

// `onChange`: called after each change of the query. `jump(match)`: go to a match, {lane, request}.
function newLaneSearch(onChange, jump) {
  const input = el("input", "sgnb-search", "", {
    type: "search",
    placeholder: "find call, text",
    "aria-label": "find in variables, texts, tools and branch names",
  });
  const count = el("span", "sgnb-label", "", { role: "status" });
  const next = button("next", "go to the next match (Enter)", () => go(1));
  let matches = [],
    texts = new Map(),
    at = -1;

  input.addEventListener("input", () => {
    at = -1;
    onChange();
  });
  input.addEventListener("keydown", (event) => {
    if (event.key === "Enter") go(event.shiftKey ? -1 : 1);
    else if (event.key === "Escape" && input.value) {
      input.value = "";
      at = -1;
      onChange();
    } else return;
    event.preventDefault();
    event.stopPropagation();
  });
  function go(by) {
    if (!matches.length) return;
    at = at < 0 ? (by > 0 ? 0 : matches.length - 1) : (at + by + matches.length) % matches.length;
    jump(matches[at]);
    say();
  }
  function say() {
    const found = matches.length
      ? at < 0
        ? `${matches.length} found`
        : `${at + 1} of ${matches.length}`
      : "not found";
    setText(count, input.value ? found : "");
    next.hidden = !matches.length;
  }
  const wanted = () => input.value.toLowerCase();

  // Find the matches of the query in lanes.
  function find(state, lanes, groups) {
    const query = wanted();
    matches = [];
    if (query)
      for (const lane of lanes) {
        for (const request of lane.requests) {
          const key = `${request.id} ${request.prompt.length} ${request.output.length}`;
          if (!texts.has(key)) texts.set(key, addedText(state, lanes, groups, lane, request).toLowerCase());
          if (request.name.toLowerCase().includes(query) || texts.get(key).includes(query))
            matches.push({ lane, request });
        }
        const named = lane.name === query || lane.activities.some(({ name }) => name.toLowerCase().includes(query));
        if (named && !matches.some((match) => match.lane === lane)) matches.push({ lane, request: null });
      }
    else texts = new Map();
    at = Math.min(at, matches.length - 1);
    say();
  }
  return {
    parts: [input, next, count],
    find,
    isActive: () => Boolean(wanted()),
    has: (lane, request) => matches.some((one) => one.lane.name === lane.name && (!request || one.request === request)),
    current: () => matches[at] ?? null,
  };
}
