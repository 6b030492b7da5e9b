"""Logs as an engine would emit them, built by hand: a radix tree of words and a program that calls
on it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import count

from sgnb import events
from sgnb.events import EventLog, Extended, Sampled


class WordEngine:
    """Emits what an engine emits. A token is a word with the space before it, or one byte of a
    rarer character."""

    def __init__(self, log: EventLog, pool: int = 4096, states: int = 0) -> None:
        """states: how many states of recurrent layers there is room for; 0 for a model of attention
        alone."""
        self.states = states
        self.checkpoints: list[int] = []  # nodes, the oldest first
        self.log, self.pool, self.latest = log, pool, 0
        self.ids: dict[bytes, int] = {}
        self.items: dict[str, events.MediaNamed] = {}  # by text
        self.rows: set[int] = set()  # first ids of encoded items
        self.children: dict[int, list[int]] = {0: []}
        self.parent: dict[int, int] = {0: -1}
        self.tokens: dict[int, tuple[int, ...]] = {0: ()}
        self.locks: dict[int, int] = {0: 0}
        self.ticks: dict[int, int] = {0: 0}
        self._node, self._request, self._tick, self._step = count(1), count(1), count(1), count(1)
        size = (8, states, 1 << 20) if states else ()
        log.emit(events.EngineStarted("words", "cpu", "float32", "none", pool, 2048, *size))

    def encode(self, text: str) -> tuple[int, ...]:
        """Words; a character outside Latin-1 becomes one token for each byte. Names new tokens
        first."""
        if self.items:
            labels = "|".join(map(re.escape, self.items))
            parts = re.split(f"({labels})", text)
            return tuple(
                token
                for part in parts
                for token in (self._ids_of(part) if part in self.items else self._words(part))
            )
        return self._words(text)

    def _ids_of(self, text: str) -> range:
        item = self.items[text]
        return range(item.first_id, item.first_id + item.count)

    def item(self, label: str, count: int, content: str = "", thumbnail: str = "") -> str:
        """Name an image, video or sound; returns its text for prompts."""
        kind = label.partition(" ")[0]
        number = 1 + sum(item.media == kind for item in self.items.values())
        first_id = max([100_000, *(item.first_id + item.count for item in self.items.values())])
        named = events.MediaNamed(
            first_id, count, kind, number, label, content or label, thumbnail, 0.01
        )
        self.log.emit(named)
        self.items[f"[{label}]"] = named
        return f"[{label}]"

    def _encode_items(self, tokens: tuple[int, ...]) -> None:
        """Run the encoder for the new items of a prompt."""
        items = [item for item in self.items.values() if item.first_id in {*tokens} - self.rows]
        if items:
            first_ids = tuple(item.first_id for item in items)
            self.rows |= set(first_ids)
            total = sum(item.count for item in items)
            self.log.emit(events.ItemsEncoded(first_ids, total, 0.002))

    def _words(self, text: str) -> tuple[int, ...]:
        pieces: list[bytes] = []
        for word in re.findall(r" ?\w+| ?[^\w\s]+|\s", text):
            raw = word.encode("utf-8", "replace")
            pieces += [raw] if word.isascii() else [bytes([b]) for b in raw]
        unknown = dict.fromkeys(piece for piece in pieces if piece not in self.ids)
        new = {piece: len(self.ids) + i for i, piece in enumerate(unknown)}
        if new:
            self.ids |= new
            self.log.emit(
                events.TokensNamed(
                    tuple(new.values()), tuple(piece.decode("latin-1") for piece in new)
                )
            )
        return tuple(self.ids[piece] for piece in pieces)

    def match(self, tokens: tuple[int, ...]) -> tuple[int, int]:
        """The deepest node that holds a prefix of `tokens`, split if it must be, and the prefix's
        length."""
        node, length = 0, 0
        while child := next(
            (c for c in self.children[node] if self.tokens[c][0] in tokens[length : length + 1]), 0
        ):
            key, rest = self.tokens[child], tokens[length:]
            pairs = enumerate(zip(key, rest, strict=False))
            same = next((i for i, (a, b) in pairs if a != b), min(len(key), len(rest)))
            length += same
            if same < len(key):
                return self._split(child, same), length
            node = child
        return node, length

    def _split(self, node: int, length: int) -> int:
        upper, parent = next(self._node), self.parent[node]
        self.children[parent][self.children[parent].index(node)] = upper
        self.children[upper], self.parent[upper], self.parent[node] = [node], parent, upper
        self.tokens[upper], self.tokens[node] = (
            self.tokens[node][:length],
            self.tokens[node][length:],
        )
        self.locks[upper], self.ticks[upper] = self.locks[node], self.ticks[node]
        self.log.emit(events.NodeSplit(node, upper, length))
        return upper

    def insert(self, tokens: tuple[int, ...], request: int = 0) -> int:
        node, length = self.match(tokens)
        if length < len(tokens):
            leaf = next(self._node)
            self.tokens[leaf], self.parent[leaf], self.children[leaf] = tokens[length:], node, []
            self.locks[leaf], self.ticks[leaf] = 0, 0
            self.children[node].append(leaf)
            self.log.emit(events.NodeAdded(leaf, node, tokens[length:], "", request))
            node = leaf
        self.touch(node)
        return node

    def touch(self, node: int) -> None:
        if node:
            tick = next(self._tick)
            self.log.emit(events.NodeTouched(node, tick))
            self._up(node, lambda n: self.ticks.__setitem__(n, tick))

    def lock(self, node: int, delta: int) -> None:
        if node:
            self.log.emit(events.NodeLocked(node, delta))
            self._up(node, lambda n: self.locks.__setitem__(n, self.locks[n] + delta))

    def pin(self, node: int, owner: str, delta: int) -> None:
        if node:
            self.lock(node, delta)
            self.log.emit(events.NodePinned(node, owner, delta))

    def _up(self, node: int, action: Callable[[int], None]) -> None:
        while node:
            action(node)
            node = self.parent[node]

    def keep(self, node: int) -> None:
        """A checkpoint at the node's end, in the place of the oldest if there is no room."""
        if not node or not self.states or node in self.checkpoints:
            return
        if len(self.checkpoints) == self.states:
            self.drop(self.checkpoints[0])
        self.checkpoints.append(node)
        self.log.emit(events.CheckpointKept(node))

    def drop(self, node: int) -> None:
        self.checkpoints.remove(node)
        self.log.emit(events.CheckpointDropped(node))

    def _usable(self, node: int, length: int) -> int:
        """Of a prefix of `length` tokens, which ends with the node, those up to the last
        checkpoint."""
        while node and self.states and node not in self.checkpoints:
            length -= len(self.tokens[node])
            node = self.parent[node]
        return length

    def evict(self, node: int, reason: str = "memory") -> None:
        if node in self.checkpoints:
            self.checkpoints.remove(node)
        self.children[self.parent[node]].remove(node)
        for table in (self.children, self.parent, self.tokens, self.locks, self.ticks):
            del table[node]
        self.log.emit(events.NodeEvicted(node, reason))

    def leaves(self) -> list[int]:
        return [n for n in self.tokens if n and not self.children[n] and not self.locks[n]]

    def generate(
        self,
        prompt: str,
        output: str,
        *,
        run: str = "",
        branch: str = "",
        name: str = "",
        purpose: str = "generate",
        given: str = "",
    ) -> Iterator[None]:
        """A generator that yields after every event, so that a caller can sleep or interleave.
        `given` is the begin of the output."""
        before = self.encode(given)
        tokens, request = self.encode(prompt) + before, next(self._request)
        self.latest = request
        queued = events.RequestQueued(request, run, branch, name, purpose, tokens)
        self.log.emit(replace(queued, num_given=len(before)))
        yield
        self._encode_items(tokens)
        node, found = self.match(tokens[:-1])
        cached = self._usable(node, found)
        self.touch(node)
        self.lock(node, 1)
        self.log.emit(events.RequestAdmitted(request, cached, found - cached))
        yield
        made: tuple[int, ...] = ()
        for i, token in enumerate(self.encode(output)):
            start = len(tokens) + i - 1 if i else cached
            self.step(
                (Extended(request, start, len(tokens) + i - start),),
                (Sampled(request, token, -0.5),),
            )
            made += (token,)
            yield
        self.lock(node, -1)
        self.keep(self.insert(tokens + made, request))
        self.log.emit(events.RequestFinished(request, "stop", len(tokens), cached, len(made)))
        yield

    def step(self, extended: tuple[Extended, ...], sampled: tuple[Sampled, ...]) -> None:
        held, kept = sum(map(len, self.tokens.values())), len(self.checkpoints)
        pool = self.pool - held, held, 0
        states = {"free_states": self.states - kept, "kept_states": kept} if self.states else {}
        step = next(self._step), 0.001, extended, sampled, 0, 1
        self.log.emit(events.StepRan(*step, *pool, **states))


class Program:
    """The language's own events for one run on a `WordEngine`."""

    def __init__(
        self, engine: WordEngine, run: str = "r1", title: str = "demo", total: int = 1
    ) -> None:
        self.engine, self.log, self.run = engine, engine.log, run
        self.texts: dict[str, str] = {}
        self.log.emit(events.RunStarted(run, title, "", total))

    def branch(self, name: str, parent: str = "") -> None:
        self.texts[name] = self.texts.get(parent, "")
        self.log.emit(events.BranchStarted(self.run, name, parent, self.texts[name]))

    def add(self, branch: str, text: str) -> None:
        self.texts[branch] += text
        self.log.emit(events.TextAppended(self.run, branch, text))

    def gen(
        self, branch: str, name: str, text: str, cut: str = "", given: str = ""
    ) -> Iterator[None]:
        """`cut` is a stop string that the engine puts out and the program does not see. `given`
        is the begin of the output of an edited call."""
        yield from self.engine.generate(
            self.texts[branch], text + cut, run=self.run, branch=branch, name=name, given=given
        )
        self.texts[branch] += given + text
        self.log.emit(events.GenerationDone(self.run, branch, name, given + text))
        yield

    def recorded(self, branch: str, name: str, text: str) -> None:
        """A call before the edited call."""
        self.texts[branch] += text
        self.log.emit(events.GenerationDone(self.run, branch, name, text, recorded=True))

    def select(
        self, branch: str, name: str, choices: tuple[str, ...], chosen: str
    ) -> Iterator[None]:
        for choice in choices:
            yield from self.engine.generate(
                self.texts[branch] + choice,
                "",
                run=self.run,
                branch=branch,
                name=name,
                purpose="score",
            )
        self.texts[branch] += chosen
        scores = tuple(-1.0 - (choice != chosen) for choice in choices)
        self.log.emit(events.ChoiceMade(self.run, branch, name, choices, scores, chosen))
        yield

    def gen_by(
        self, other: WordEngine, number: int, branch: str, name: str, text: str, before: str = ""
    ) -> Iterator[None]:
        """By another engine, that reads the text so far after a mark of its own."""
        asked = self.run, branch, name, number, f"words-{number}", self.log.join(other.log)
        self.log.emit(events.ModelAsked(*asked))
        prompt = before + self.texts[branch]
        yield from other.generate(prompt, text, run=self.run, branch=branch, name=name)
        yield from self._answered(branch, name, text, 0)

    def gen_far(
        self, log: EventLog, number: int, branch: str, name: str, text: str, tokens: int
    ) -> Iterator[None]:
        """By a model that is no engine here, which counts so many tokens in its answer."""
        asked = self.run, branch, name, number, "far away", self.log.join(log)
        self.log.emit(events.ModelAsked(*asked))
        yield
        yield from self._answered(branch, name, text, tokens)

    def _answered(self, branch: str, name: str, text: str, tokens: int) -> Iterator[None]:
        counts = 3 * tokens, tokens, tokens
        self.log.emit(events.ModelAnswered(self.run, branch, *counts))
        yield
        self.texts[branch] += text
        self.log.emit(events.GenerationDone(self.run, branch, name, text))
        yield

    def end(self, branch: str, error: str = "") -> None:
        self.log.emit(events.BranchFinished(self.run, branch, error))

    def finish(self, status: str = "done", message: str = "") -> None:
        self.log.emit(events.RunFinished(self.run, status, message))


SYSTEM = "You are a careful assistant. Answer in one short sentence.\n"
HOSTILE = (
    '<img onerror="window.__pwned=1" src=x></script><script>window.__pwned=1</script> '
    "\u202eevil\u202c \x00 \u05d0\u05d1"
)
"""Text that would act, or turn around what follows, if it were not shown as it is."""


def demo(log: EventLog, run: str = "r1") -> Iterator[None]:
    """A run with three forks, a choice, and text that tries to act; yields after every event."""
    engine = WordEngine(log)
    questions = {
        "radix tree": " A compact trie of shared prefixes.",
        "cache hit": " Work that was done before.",
    }
    for question, answer in questions.items():
        yield from engine.generate(f"{SYSTEM}Question: What is a {question}?\nAnswer:", answer)
    program = Program(engine, run, "three_tips")
    program.branch("0")
    program.add("0", SYSTEM + "Question: How do I sleep better?\nAnswer:")
    yield from program.gen("0", "plan", " Three habits help: light, food and calm.", cut="\n")
    program.add("0", "\n")
    tips = [
        " Get daylight in the morning, and dim the lamps at night.",
        " Eat early; coffee ends at noon. \N{HOT BEVERAGE}",
        f" Write tomorrow down: {HOSTILE}",
    ]
    for i, _ in enumerate(tips):
        program.branch(f"0.{i}", "0")
        program.add(f"0.{i}", f"Tip {i + 1}:")
    lanes = [program.gen(f"0.{i}", "tip", tip) for i, tip in enumerate(tips)]
    while lanes:
        lanes = [lane for lane in lanes if next(lane, StopIteration) is not StopIteration]
        yield
    for i, _ in enumerate(tips):
        program.end(f"0.{i}")
    program.add("0", "The best of these is tip number")
    yield from program.select("0", "best", (" 1", " 2", " 3"), " 2")
    engine.evict(engine.leaves()[0])
    program.end("0")
    program.finish()
    yield
