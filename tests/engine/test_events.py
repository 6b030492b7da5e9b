"""The log of a run, through a file, says what the engine did: the same tree, the same tokens, the
same accounts."""

from __future__ import annotations

import random
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sgnb.engine.engine import Engine
from sgnb.engine.request.output import Output
from sgnb.engine.request.request_state import Origin
from sgnb.events import (
    Alternatives,
    CheckpointDropped,
    CheckpointKept,
    EngineStarted,
    EngineStopped,
    NodeEvicted,
    NodeSplit,
    Recorder,
    RequestAdmitted,
    RequestFinished,
    RequestQueued,
    RequestRetracted,
    StepRan,
    TokensNamed,
    load,
)
from sgnb.sampling import SamplingParams
from sgnb.viz.state.log_state import TreeState

from ..byte_tokenizers import byte_level
from ..hybrid_models import hybrid_model
from .replay import Replay, tree_rows

MakeEngine = Callable[..., Engine]


def run(engine: Engine, watch: Callable[[], None] = lambda: None) -> list[Output]:
    """A mixed load in three waves; `watch` is called again and again meanwhile."""
    rng = random.Random(2)
    outputs: list[Output] = []
    stems = [[rng.randrange(3, 90) for _ in range(20)] for _ in range(4)]
    for wave in range(1, 4):
        prompts = [
            [*rng.choice(stems)[: rng.randrange(1, 20)], rng.randrange(3, 90)] for _ in range(8)
        ]
        params = [
            SamplingParams(max_new_tokens=rng.randrange(16), temperature=0, ignore_eos=True)
            for _ in prompts
        ]
        engine.submit(prompts, params, [outputs.append] * 8)
        while len(outputs) < 8 * wave:
            watch()
            time.sleep(0.001)
    return outputs


def state_rows(state: TreeState) -> list[dict[str, Any]]:
    return [{"id": n.id, "parent": n.parent, "tokens": n.tokens, "locks": n.locks, "tick": n.tick,
             "checkpoint": n.checkpoint}
            for _, n in sorted(state.nodes.items()) if n.id]  # fmt: skip


SMALL = {"max_total_tokens": 64, "max_step_tokens": 16, "max_running_requests": 8}
STATES = 16


@pytest.fixture(params=["llama", "lfm2"])
def small(request: pytest.FixtureRequest, make_engine: MakeEngine) -> Iterator[Engine]:
    """An engine with a small pool; the second one's model has recurrent layers."""
    if request.param == "llama":
        yield make_engine(**SMALL)
    else:
        with Engine(hybrid_model("lfm2"), max_states=STATES, checkpoint_every=16, **SMALL) as made:
            yield made


@pytest.fixture
def recorded(small: Engine, tmp_path: Path) -> tuple[Path, list[dict[str, Any]], list[Output]]:
    """A run in a small pool: the file, the engine's own tree at the end, and its requests'
    outputs."""
    path = tmp_path / "run.jsonl"
    with Recorder(small.log, path) as recorder:
        outputs = run(small)
        tree = sorted(small.tree(), key=lambda node: node["id"])
        small.close()
    assert recorder.lost == 0
    return path, tree, outputs


def test_the_log_replays_to_the_engines_tree(
    recorded: tuple[Path, list[dict[str, Any]], list[Output]],
) -> None:
    path, tree, _ = recorded
    records = list(load(path))
    kinds = {type(record.event) for record in records}
    assert kinds >= {
        EngineStarted,
        EngineStopped,
        NodeEvicted,
        NodeSplit,
        RequestRetracted,
        StepRan,
        TokensNamed,
    }
    assert [record.seq for record in records] == list(range(1, len(records) + 1))
    replay, state = Replay(), TreeState()
    for record in records:
        replay.apply(record.event)
        state.apply(record)
    assert tree and replay.rows() == state_rows(state) == tree
    assert state.tokens == sum(len(node["tokens"]) for node in tree) and state.missing == 0
    assert state.engine.pool_tokens == 64 and state.evicted == sum(
        type(r.event) is NodeEvicted for r in records
    )


def test_in_the_middle_of_a_run(small: Engine) -> None:
    """Locks, ages and checkpoints included, at any place of the log between two steps."""
    state, read, locked = TreeState(), 0, 0

    def watch() -> None:
        nonlocal read, locked
        last, tree = small._loop.call(lambda: (small.log.last, tree_rows(small._cache.tree)))
        for record in small.log.read(read).records:
            if record.seq <= last:
                state.apply(record)
        read = last
        locked += any(node["locks"] for node in tree)
        assert state_rows(state) == tree

    run(small, watch)
    assert locked


@pytest.mark.parametrize("small", ["lfm2"], indirect=True)
def test_states_add_up_at_every_step(
    recorded: tuple[Path, list[dict[str, Any]], list[Output]],
) -> None:
    """A request goes on from a checkpoint, and all that the tree has of its prompt behind that one
    is told as computed again."""
    state, again = TreeState(), 0
    prompts: dict[int, tuple[int, ...]] = {}
    for record in load(recorded[0]):
        match record.event:
            case RequestQueued() as queued:
                prompts[queued.request] = queued.prompt
            case RequestAdmitted() as admitted if prompt := prompts.pop(admitted.request, ()):
                ends = {0: True} | dict(matched(state, prompt))
                assert ends[admitted.cached]
                # What had to make room for it at once is told as evicted before.
                assert admitted.cached <= max(ends) <= admitted.cached + admitted.again
                assert not any(end > admitted.cached for end in ends if ends[end])
                again += admitted.again
            case StepRan() as step:
                assert step.kept_states == state.checkpoints
                assert step.free_states + step.kept_states <= STATES
        state.apply(record)
    kinds = {type(record.event) for record in load(recorded[0])}
    assert again and kinds >= {CheckpointKept, CheckpointDropped}


def matched(state: TreeState, prompt: tuple[int, ...]) -> Iterator[tuple[int, bool]]:
    """Where the nodes end that hold the prompt's beginning, its last token excepted, and whether
    each has a checkpoint."""
    node, end = state.root, 0
    while child := node.children.get(("", prompt[end])):
        node, end = state.nodes[child], end + len(state.nodes[child].tokens)
        if end >= len(prompt) or prompt[end - len(node.tokens) : end] != tuple(node.tokens):
            return
        yield end, node.checkpoint


def test_steps_tell_every_token(recorded: tuple[Path, list[dict[str, Any]], list[Output]]) -> None:
    """What was extended and sampled, request by request, adds up to prompts and outputs."""
    path, _, outputs = recorded
    prompts: dict[int, tuple[int, ...]] = {}
    sampled: dict[int, list[int]] = defaultdict(list)
    place: dict[int, int] = {}
    cached: dict[int, int] = {}
    finished: dict[int, RequestFinished] = {}
    named: set[int] = set()
    steps = 0
    for record in load(path):
        match record.event:
            case TokensNamed(ids, pieces):
                assert not named & set(ids) and len(ids) == len(pieces)
                named |= set(ids)
            case RequestQueued(request, "", "", "", "generate", prompt):
                prompts[request] = prompt
                assert set(prompt) <= named
            case RequestAdmitted(request, hit):
                cached.setdefault(request, hit)
                place[request] = hit
            case RequestFinished(request):
                finished[request] = record.event
            case StepRan() as step:
                steps += 1
                assert step.step == steps and step.free + step.cached + step.in_flight == 64
                for request, start, length in step.extended:
                    assert start == place[request] and length > 0
                    place[request] += length
                for request, token, logprob in step.sampled:
                    assert (
                        token in named
                        and logprob <= 0
                        and place[request] == len(prompts[request]) + len(sampled[request])
                    )
                    sampled[request].append(token)
    assert finished.keys() == prompts.keys() and len(finished) == 24
    for request, end in finished.items():
        assert (end.prompt_tokens, end.output_tokens) == (
            len(prompts[request]),
            len(sampled[request]),
        )
        assert (end.reason, end.cached_tokens) == ("length", cached[request])
    assert sorted(o.token_ids for o in outputs) == sorted(sampled[r] for r in finished)


def test_names_are_the_bytes(make_engine: MakeEngine) -> None:
    engine = make_engine(config={"vocab_size": 400}, tokenizer=byte_level())
    engine.generate("Größe 🦊", max_new_tokens=4)
    names: dict[int, bytes] = {}
    for record in engine.log.read().records:
        if isinstance(record.event, TokensNamed):
            names |= {
                t: p.encode("latin-1")
                for t, p in zip(record.event.ids, record.event.pieces, strict=True)
            }
    [tokens] = engine.encode(["Größe 🦊"])
    assert b"".join(names[t] for t in tokens).decode() == "Größe 🦊"


def test_requests_say_where_they_come_from(make_engine: MakeEngine) -> None:
    engine = make_engine()
    engine.submit(
        [[5]],
        [SamplingParams(max_new_tokens=1)],
        [lambda output: None],
        origins=[Origin("run", "0.1", "answer", "score", "cell.py", 7)],
    )
    engine.close()
    [queued] = [r.event for r in engine.log.read().records if isinstance(r.event, RequestQueued)]
    assert queued == RequestQueued(1, "run", "0.1", "answer", "score", (5,), "cell.py", 7)


def test_alternatives_are_told_with_what_the_grammar_allows() -> None:
    with Engine("tiny") as engine:
        out = engine.generate(
            "Q: What is the capital of France?\nA:",
            regex=r" [PL][a-z]+",
            max_new_tokens=6,
            temperature=0,
            return_logprob=True,
            top_logprobs_num=4,
        )
        records = engine.log.read().records
    told = [r.event for r in records if isinstance(r.event, Alternatives)]
    assert [
        [list(pair) for pair in zip(a.tokens, a.logprobs, strict=True)] for a in told
    ] == [[[token, round(p, 4)] for token, p in row] for row in out.top_logprobs]  # fmt: skip
    sampled = [s.token for r in records if isinstance(r.event, StepRan) for s in r.event.sampled]
    for token, alternatives in zip(sampled, told, strict=True):
        allowed = dict(zip(alternatives.tokens, alternatives.allowed, strict=True))
        assert allowed.get(token, True)
        texts = {t: engine.tokenizer.text(t) for t in alternatives.tokens}
        if alternatives is told[0]:
            assert allowed == {t: texts[t][:2] in (" ", " P", " L") for t in texts}
