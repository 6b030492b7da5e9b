// Two branches of a run in comparison: the common text once, then both texts from the first different token.

// The text of a branch or, for a branch without kept text, the last request.
function piecesOf(state, run, name) {
  const branch = run.branches.get(name);
  if (branch) return branch.pieces;
  const request = [...state.requests.values()].findLast(
    (one) => one.run === run.run && one.branch === name && one.admitted !== null,
  );
  if (!request) return [];
  const ends = [0, request.cached, request.cached + request.again, request.prompt.length],
    pieces = [];
  const tokens = [...request.prompt, ...request.output.map(({ token }) => token)];
  for (let i = 0; i < tokens.length; i += 1)
    if (
      i > request.prompt.length &&
      request.output[i - request.prompt.length].kind !== request.output[i - 1 - request.prompt.length].kind
    )
      ends.push(i);
  ends.push(tokens.length);
  for (let i = 1; i < ends.length; i += 1) {
    const [from, to] = [ends[i - 1], ends[i]];
    if (from < to)
      pieces.push({
        kind: tokenAt(request, from).kind,
        text: textOfTokens(state.tokenTable, tokens.slice(from, to)),
        request: request.id,
        from,
        to,
      });
  }
  return pieces;
}

function tokensOfPieces(state, pieces) {
  return pieces.flatMap((piece) =>
    splitPiece(state, piece).map(({ text, position }) => ({
      text,
      id: position === null ? null : tokenIdAt(state.requests.get(piece.request), position),
    })),
  );
}

// The first difference of two branches: common tokens and characters, texts of the next tokens, and further equal characters with a different tokenization.
function partingOf(state, one, other) {
  const here = tokensOfPieces(state, one),
    there = tokensOfPieces(state, other);
  let tokens = 0,
    characters = 0;
  while (
    tokens < here.length &&
    tokens < there.length &&
    here[tokens].id === there[tokens].id &&
    here[tokens].text === there[tokens].text
  ) {
    characters += here[tokens].text.length;
    tokens += 1;
  }
  const more = commonPrefix(textOf(one).slice(characters), textOf(other).slice(characters));
  return { tokens, characters, more, here: here[tokens]?.text ?? null, there: there[tokens]?.text ?? null };
}

function metricsOf(state, requests) {
  const sum = (of) => requests.reduce((all, request) => all + of(request), 0);
  const begin = Math.min(...requests.map(({ queued }) => queued)),
    end = Math.max(...requests.map(({ finished }) => finished ?? state.t));
  const forced = sum(({ output }) => output.filter(({ kind }) => kind === "jumped").length);
  const parts = [
    `${foundOf(requests)} prompt tokens found${againOf(requests)}`,
    plural(
      sum(({ output }) => output.length),
      "new token",
    ),
    forced && `${forced} forced`,
    duration(end - begin),
  ];
  return parts.filter(Boolean).join(" · ");
}

function newPair(page) {
  const root = el("div", "sgnb-pair", "", {
    role: "group",
    "aria-label": "two branches side by side; the arrow keys move between tokens",
  });
  const parted = el("div", "sgnb-note", "", { role: "status" });
  const common = newPassage(el("span"), "text in common");
  const columns = el("div", "sgnb-pair-columns");
  const sides = ["", ""].map(() => {
    const column = el("div", "sgnb-branch"),
      head = el("div", "sgnb-branch-head"),
      metrics = el("div", "sgnb-label");
    const passage = newPassage(el("span"), "text from the first difference on");
    column.append(head, metrics, passage.body);
    columns.append(column);
    return { head, metrics, passage };
  });
  let commonTokens = 0; // scroll to the end of the common text after changes, and after the view was hidden
  root.append(parted, common.body, columns);
  linkTokens(root, page);

  // lanes: two lanes from `timelineOf`.
  function paint(state, run, lanes) {
    const pieces = lanes.map(({ name }) => piecesOf(state, run, name));
    const { tokens, characters, more, here, there } = partingOf(state, ...pieces);
    const named = (text) => (text === null ? "nothing more" : `“${inLine(text, 24)}”`);
    const alike =
      more && more >= Math.max(here?.length ?? 0, there?.length ?? 0)
        ? ` The next ${plural(more, "character")} are equal, but the tokens differ.`
        : "";
    const parts =
      here === null && there === null
        ? "and no more"
        : `then ${named(here)} in ${lanes[0].name}, ${named(there)} in ${lanes[1].name}`;
    setText(parted, `${plural(tokens, "token")} in common, ${parts}.${alike}`);
    common.paint(state, take(pieces[0], characters), false, "origin");
    if (commonTokens !== tokens || !common.body.scrollTop) common.body.scrollTop = common.body.scrollHeight;
    commonTokens = tokens;
    keepEnds(columns, () =>
      sides.forEach(({ head, metrics, passage }, i) => {
        const { name, requests } = lanes[i];
        setText(head, `${name} ${visible(requests.at(-1).name)}`);
        setText(metrics, metricsOf(state, requests));
        passage.paint(state, drop(pieces[i], characters), false, "origin");
        for (const old of passage.body.querySelectorAll(".sgnb-differs")) old.classList.remove("sgnb-differs");
        const first = passage.body.querySelector(".sgnb-text > span");
        (first?.querySelector(".sgnb-token") ?? first)?.classList.add("sgnb-differs");
      }),
    );
  }
  return { root, paint, highlight: (selection) => lightTokens(root, selection) };
}
