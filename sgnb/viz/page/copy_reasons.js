// Why stored copies of a prompt were not used. The texts and the search are equal to sgnb/viz/state/copy_reasons.py; the rules about evicted prefixes are in Python only.

// Texts by state of a copy, the most specific first.
const TEXTS_OF_STATES = {
  damaged: "had a damaged copy {where}, which is deleted; the next copy replaces it",
  full: "was not copied to {place}: {message}; free some space, or name another folder in {option}",
  room: "was copied to {place} and dropped for lack of room; a larger {option} keeps more",
  memory: "was dropped from {place}, because the machine had too little free memory; disk_cache keeps files",
  gone: "was copied to {place} and deleted by another process; a folder of its own keeps the files",
  flush: "was dropped from {place} by flush_cache(); disk_cache keeps files",
  bound:
    "was not copied to {place}: no room (bound {bound}, or too little free space); a larger {option} or more free space keeps more",
  busy: "was not copied to {place}: earlier copies were still waiting; pin the prompt to copy it in idle time",
  "not finite":
    "was not copied to {place}: keys or values are not finite; load the model in a dtype with a larger range",
  weights: "was computed by earlier weights; load these weights again",
};

// Texts by reason of `PrefixNotLoaded`.
const TEXTS_OF_LOADS = {
  compute: "{tokens:,} tokens are {where}, but computing was faster: about {compute} instead of about {load}{hint}",
  head: "{tokens:,} tokens are {where}, but were computed while the tokens behind were loaded",
  memory: "{tokens:,} tokens are {where}, but had no free slots; a larger max_total_tokens has room",
  pool: "{tokens:,} tokens are {where}, but a load takes at most half of the pool; a larger max_total_tokens loads more",
  cancelled:
    "the load of {tokens:,} tokens was cancelled, because running requests needed the memory; a larger max_total_tokens has room",
  flush: "the load of {tokens:,} tokens was cancelled by flush_cache(); run the prompt again",
  weights: "the load of {tokens:,} tokens was cancelled, because the weights changed; load the earlier weights again",
  "other weights":
    "{tokens:,} tokens are {where} for other weights, model {fingerprint}; load these weights, or delete the files with %sglang cache forget {fingerprint}",
};

const CACHE_OPTIONS = { host: "host_cache", disk: "disk_cache" };

const filledIn = (text, values) => text.replace(/\{(\w+)(?::,)?\}/g, (_, name) => values[name]);

// GiB with three digits.
const gibibytes = (count) => `${Number((count / 2 ** 30).toPrecision(3))} GiB`;

// The reason as a sentence, or "": why a request did not use the copies of the prompt. Call at the admission.
function whyNotLoaded({ tiers, copies }, request) {
  if (!tiers || request.cached >= request.prompt.length - 1) return "";
  const event = request.notLoaded.find(({ reason }) => reason in TEXTS_OF_LOADS);
  if (event)
    return filledIn(TEXTS_OF_LOADS[event.reason], {
      tokens: grouped(event.tokens),
      where: WHERE[event.store] ?? "stored",
      compute: duration(event.compute_seconds ?? 0),
      load: duration(event.seconds ?? 0),
      hint: event.store === "disk" ? "; host_cache loads faster" : "",
      fingerprint: event.fingerprint ?? "",
    });
  const block = request.namespace ? null : firstWithoutCopy(copies, request.prompt, request.cached);
  for (const state of block ? Object.keys(TEXTS_OF_STATES) : [])
    for (const [store, [present, message]] of Object.entries(block.states))
      if (present === state && store in PLACES)
        return filledIn(TEXTS_OF_STATES[state], {
          place: PLACES[store],
          where: WHERE[store],
          option: CACHE_OPTIONS[store],
          bound: gibibytes(tiers[`${store}_bytes`]),
          message,
        });
  return "";
}

// The first known block without a copy and with tokens from `cached` on, or null.
function firstWithoutCopy(copies, prompt, cached) {
  let number = START,
    at = 0;
  while ((number = findBlock(copies, number, prompt, at)) !== undefined) {
    const block = copies.blocks.get(number);
    at += block.tokens.length;
    if (at > cached && !storesOf(block).length) return block;
  }
  return null;
}
