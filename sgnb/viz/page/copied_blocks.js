// Copies of cached blocks in host memory and on disk. Twin of sgnb/viz/state/copied_blocks.py.

const PLACES = { host: "host memory", disk: "the disk" };
const KEPT_ABSENT = 4096; // latest blocks without copies that are kept, with the reason
const START = 0; // number of the place before the first block of a prompt

const newCopiedBlocks = () => ({ blocks: new Map(), following: new Map(), absent: new Set(), length: 0 });

const copyCopiedBlocks = ({ blocks, following, absent, length }) => ({
  blocks: new Map([...blocks].map(([number, block]) => [number, { ...block, states: { ...block.states } }])),
  following: new Map([...following].map(([number, after]) => [number, [...after]])),
  absent: new Set(absent),
  length,
});

// The stores with a copy of a block.
const storesOf = ({ states }) => Object.keys(PLACES).filter((name) => states[name]?.[0] === "stored");

const followingOf = (copies, number) => copies.following.get(number) ?? [];

function nameBlocks(copies, { first, count, parent, tokens }) {
  const length = Math.floor(tokens.length / count);
  copies.length = Math.max(copies.length, length);
  for (let i = 0; i < count; i += 1) {
    const number = first + i;
    if (copies.blocks.has(number) || !(parent === START || copies.blocks.has(parent))) return;
    copies.blocks.set(number, { parent, tokens: tokens.slice(i * length, (i + 1) * length), states: {} });
    copies.following.set(parent, [...followingOf(copies, parent), number]);
    copies.absent.add(number);
    parent = number;
  }
}

function changeCopies(copies, { store, state, blocks, message = "" }) {
  for (const number of blocks) {
    const block = copies.blocks.get(number);
    if (!block) continue;
    block.states[store] = [state, message];
    copies.absent.delete(number);
    if (!storesOf(block).length) copies.absent.add(number);
  }
  while (copies.absent.size > KEPT_ABSENT) forgetBlock(copies, copies.absent.values().next().value);
}

// Forget an absent block unless blocks follow, and the blocks before that were kept for this block only.
function forgetBlock(copies, oldest) {
  copies.absent.delete(oldest);
  const isUnused = (number) =>
    copies.blocks.has(number) &&
    !followingOf(copies, number).length &&
    !storesOf(copies.blocks.get(number)).length &&
    !copies.absent.has(number);
  for (let number = oldest; isUnused(number);) {
    const { parent } = copies.blocks.get(number),
      rest = followingOf(copies, parent).filter((other) => other !== number);
    copies.blocks.delete(number);
    copies.following.delete(number);
    copies.following.set(parent, rest);
    number = parent;
  }
}

// The block after `parent` with the tokens from `begin` on, or undefined.
const findBlock = (copies, parent, tokens, begin) =>
  followingOf(copies, parent).findLast((number) =>
    copies.blocks.get(number).tokens.every((token, i) => token === tokens[begin + i]),
  );

// The tokens from the start of the prompt to the end of a block.
function pathOfBlock(copies, number) {
  const parts = [];
  for (; number !== START; number = copies.blocks.get(number).parent) parts.push(copies.blocks.get(number).tokens);
  return parts.reverse().flat();
}
