// Copies of cached blocks in host memory and on disk. Twin of sgnb/viz/state/copied_blocks.py.

const PLACES = { host: "host memory", disk: "the disk" };
const KEPT_ABSENT = 4096; // latest blocks without copies that are kept, with the reason
const START = 0; // number of the place before the first block of a prompt

const newCopiedBlocks = () => ({ blocks: new Map(), following: new Map(), absent: new Set(), length: 0 });

const copyCopiedBlocks = ({ blocks, following, absent, length }) => ({
  blocks: new Map([...blocks].map(([number, block]) => [number, { ...block, states: { ...block.states } }])),
  following: new Map([...following].map(([key, numbers]) => [key, [...numbers]])),
  absent: new Set(absent),
  length,
});

// The key in `following`: blocks after `parent` with this first token.
const followingKey = (parent, token) => `${parent} ${token}`;

// The stores with a copy of a block.
const storesOf = ({ states }) => Object.keys(PLACES).filter((name) => states[name]?.[0] === "stored");

function nameBlocks(copies, { first, count, parent, tokens }) {
  const length = Math.floor(tokens.length / count);
  copies.length = Math.max(copies.length, length);
  for (let i = 0; i < count; i += 1) {
    const number = first + i,
      above = copies.blocks.get(parent);
    if (copies.blocks.has(number) || !(parent === START || above)) return;
    const own = tokens.slice(i * length, (i + 1) * length),
      key = followingKey(parent, own[0]);
    copies.blocks.set(number, { parent, tokens: own, states: {}, children: 0 });
    if (above) above.children += 1;
    if (!copies.following.has(key)) copies.following.set(key, []);
    copies.following.get(key).push(number);
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
  let number = oldest,
    block = copies.blocks.get(number);
  while (block && !block.children && !storesOf(block).length && !copies.absent.has(number)) {
    const key = followingKey(block.parent, block.tokens[0]),
      rest = copies.following.get(key).filter((other) => other !== number);
    if (rest.length) copies.following.set(key, rest);
    else copies.following.delete(key);
    copies.blocks.delete(number);
    number = block.parent;
    block = copies.blocks.get(number);
    if (block) block.children -= 1;
  }
}

// The block after `parent` with the tokens from `begin` on, or undefined.
function findBlock(copies, parent, tokens, begin) {
  const numbers = copies.following.get(followingKey(parent, tokens[begin])) ?? [];
  return numbers.findLast((number) => hasAt(tokens, begin, copies.blocks.get(number).tokens));
}

function hasAt(tokens, begin, part) {
  for (let i = 0; i < part.length; i += 1) if (tokens[begin + i] !== part[i]) return false;
  return true;
}

// The tokens from the start of the prompt to the end of a block.
function pathOfBlock(copies, number) {
  const parts = [];
  for (; number !== START; number = copies.blocks.get(number).parent) parts.push(copies.blocks.get(number).tokens);
  return parts.reverse().flat();
}
