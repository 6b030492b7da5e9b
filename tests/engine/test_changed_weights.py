"""Weights that change in place under an engine: the next request gets the tokens of a fresh
engine."""

from __future__ import annotations

import copy
import gc
import queue
import threading
import time
import warnings
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from transformers import AutoModelForCausalLM, PreTrainedModel

from sgnb import function, models, select
from sgnb.engine.engine import Engine
from sgnb.engine.loop import weight_guard
from sgnb.engine.model.loading import load_tokenizer
from sgnb.engine.request.output import Output
from sgnb.errors import ModelError
from sgnb.events import NodeEvicted, RequestRetracted, WeightsChanged
from sgnb.lang import unconditional_likelihood_normalized
from sgnb.sampling import SamplingParams

from ..hybrid_models import hybrid_model
from ..random_models import continuations, random_model

State = dict[str, Tensor]
PROMPT = [(7 * i + 3) % 97 for i in range(41)]
TOKENS = 11


def other_weights(model: PreTrainedModel) -> State:
    """A state dict of the same shapes with different values, ties kept."""
    twin = copy.deepcopy(model)
    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for parameter in twin.parameters():
            noise = torch.randn(parameter.shape, generator=generator)
            parameter.add_(noise.to(parameter.device) * 0.5 * parameter.std().clamp(min=0.1))
    return twin.state_dict()


def assign(model: PreTrainedModel, state: State) -> None:
    model.load_state_dict({name: weight.clone() for name, weight in state.items()}, assign=True)
    model.tie_weights()


@torch.no_grad()
def copy_values(model: PreTrainedModel, state: State) -> None:
    for name, parameter in model.named_parameters():
        parameter.copy_(state[name])


def copy_data(model: PreTrainedModel, state: State) -> None:
    for name, parameter in model.named_parameters():
        parameter.data.copy_(state[name])


def replace_data(model: PreTrainedModel, state: State) -> None:
    for name, parameter in model.named_parameters():
        parameter.data = state[name].clone()


def step_optimizer(model: PreTrainedModel, state: State) -> None:
    """One step of gradient descent whose gradient is the difference."""
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    for name, parameter in model.named_parameters():
        parameter.grad = parameter.detach() - state[name]
    optimizer.step()
    optimizer.zero_grad()


def merge_deltas(model: PreTrainedModel, state: State) -> None:
    """As a merged LoRA adapter: an update of `.data`."""
    for name, parameter in model.named_parameters():
        parameter.data += state[name] - parameter.data


WAYS: list[Callable[[PreTrainedModel, State], Any]] = [
    PreTrainedModel.load_state_dict,
    copy_values,
    copy_data,
    replace_data,
    assign,
    step_optimizer,
    merge_deltas,
    replace_data,
]


def tokens(engine: Engine, prompt: list[int] = PROMPT) -> list[int]:
    output = engine.generate(prompt, temperature=0, max_new_tokens=TOKENS, ignore_eos=True)
    return list(output.token_ids)


def make(family: str) -> PreTrainedModel:
    if family in ("qwen3_next", "mamba"):
        return hybrid_model(family)
    return random_model(family)


FAMILIES = ["llama", "gpt_oss", "qwen3_next"]
MORE_FAMILIES = ["gpt2", "gemma3_text", "olmo2", "phi3", "deepseek_v3", "mamba"]
WARNING = "change {} under this engine"


@pytest.mark.parametrize(
    "family", [*FAMILIES, *(pytest.param(name, marks=pytest.mark.slow) for name in MORE_FAMILIES)]
)
def test_changed_weights_give_the_tokens_of_a_fresh_engine(family: str) -> None:
    model = make(family)
    states = copy.deepcopy(model.state_dict()), other_weights(model)
    expected = [own_tokens(family, state) for state in states]
    assert expected[0] != expected[1]
    with Engine(model, device="cpu") as engine:
        assert tokens(engine) == expected[0]
        for number, change in enumerate(WAYS, 1):
            change(model, states[number % 2])
            with pytest.warns(UserWarning, match=WARNING.format(number)):
                found = tokens(engine)
            assert found == expected[number % 2], change.__name__


def own_tokens(family: str, state: State, prompt: list[int] = PROMPT) -> list[int]:
    """The greedy continuation by transformers, with these weights."""
    twin = make(family)
    twin.load_state_dict(state)
    return continuations(twin, [prompt], TOKENS)[0]


@pytest.fixture
def model() -> PreTrainedModel:
    return random_model()


@pytest.fixture
def changed(model: PreTrainedModel) -> State:
    return other_weights(model)


def test_a_change_empties_the_cache_and_warns_once(model: PreTrainedModel, changed: State) -> None:
    with Engine(model, device="cpu") as engine:
        first = engine.generate(PROMPT, temperature=0, max_new_tokens=TOKENS, ignore_eos=True)
        engine.pin(PROMPT)
        cached = engine.stats()["cached"]
        assert cached == len(PROMPT) + len(first.token_ids) - 1
        assert engine.check_weights() == 0

        model.load_state_dict(changed)
        dropped = rf"{cached} cached tokens were dropped, 1 pins undone"
        with pytest.warns(UserWarning, match=rf"first in model\.embed_tokens.weight; .*{dropped}"):
            assert engine.check_weights() == 1
        stats = engine.stats()
        assert (stats["cached"], stats["pinned"], stats["free"]) == (0, 0, stats["pool_tokens"])
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert engine.generate(PROMPT, max_new_tokens=1).cached_tokens == 0
            assert engine.check_weights() == 1
        events = [record.event for record in engine.log.read().records]
        assert [event for event in events if isinstance(event, WeightsChanged)] == [
            WeightsChanged("model.embed_tokens.weight", cached, 0, 1)
        ]
        reasons = {event.reason for event in events if isinstance(event, NodeEvicted)}
        assert reasons == {"weights"}


@pytest.mark.parametrize(("family", "overlap"), [("llama", False), ("qwen3_next", True)])
def test_running_requests_go_on_with_the_new_weights(family: str, overlap: bool) -> None:
    """Tokens before the change stay; later tokens are those of the new model for the same text."""
    model = make(family)
    old, new = copy.deepcopy(model.state_dict()), other_weights(model)
    reached, resume = threading.Event(), threading.Event()
    outputs: queue.SimpleQueue[Output] = queue.SimpleQueue()

    def pause_engine(output: Output) -> None:
        reached.set()
        assert resume.wait(60)

    with Engine(model, device="cpu", overlap=overlap) as engine:
        params = [
            SamplingParams(temperature=0, max_new_tokens=count, ignore_eos=True)
            for count in (4, TOKENS)
        ]
        engine.submit([PROMPT[::-1], PROMPT], params, [pause_engine, outputs.put])
        assert reached.wait(60)
        model.load_state_dict(new)
        other = threading.Thread(target=tokens, args=(engine, PROMPT[1:]))
        with pytest.warns(UserWarning, match="1 running requests recompute their tokens"):
            other.start()
            while not engine._loop._commands.qsize():
                time.sleep(0.001)
            resume.set()
            other.join()
        tokens(engine, [5])
        stats = engine.stats()
        assert stats["free"] + stats["cached"] == stats["pool_tokens"]
        events = [record.event for record in engine.log.read().records]

    found = list(outputs.get(timeout=60).token_ids)
    assert len(found) == TOKENS
    assert sum(isinstance(event, RequestRetracted) for event in events) == 1
    before = 5 if overlap else 4  # with overlap, a step was in flight
    assert found[:before] == own_tokens(family, old)[:before]
    assert found[before:] == own_tokens(family, new, PROMPT + found[:before])[: TOKENS - before]


def test_numbers_are_compared_less_often_while_requests_run(
    model: PreTrainedModel, changed: State, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(weight_guard, "INTERVAL", 3600.0)
    old = copy.deepcopy(model.state_dict())
    reached, resume = threading.Event(), threading.Event()
    ended: queue.SimpleQueue[Output] = queue.SimpleQueue()

    def pause_engine(output: Output) -> None:
        reached.set()
        assert resume.wait(60)
        ended.put(output)

    params = [SamplingParams(temperature=0, max_new_tokens=2, ignore_eos=True)]
    with Engine(model, device="cpu") as engine:
        tokens(engine)
        copy_data(model, changed)
        with pytest.warns(UserWarning, match=WARNING.format(1)):  # no request runs
            assert tokens(engine) == own_tokens("llama", changed)

        engine.submit([PROMPT] * 2, params * 2, [pause_engine, ended.put])
        assert reached.wait(60)
        copy_data(model, old)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            engine.submit([PROMPT], params, [ended.put])
        resume.set()
        for _ in range(3):
            ended.get(timeout=60)
        with pytest.warns(UserWarning, match=WARNING.format(2)):
            assert tokens(engine) == own_tokens("llama", old)


def test_engines_that_share_a_model_both_notice(model: PreTrainedModel, changed: State) -> None:
    expected = own_tokens("llama", changed)
    with Engine(model, device="cpu") as first, Engine(model, device="cpu") as second:
        assert tokens(first) == tokens(second) != expected
        replace_data(model, changed)
        for engine in (first, second):
            with pytest.warns(UserWarning, match=WARNING.format(1)):
                assert tokens(engine) == expected


def test_an_engine_that_joins_after_a_change_has_the_new_weights(
    model: PreTrainedModel, changed: State
) -> None:
    with Engine(model, device="cpu") as first:
        tokens(first)
        copy_data(model, changed)
        with Engine(model, device="cpu") as second:
            assert tokens(second) == own_tokens("llama", changed)
        with pytest.warns(UserWarning, match=WARNING.format(1)) as warned:
            assert tokens(first) == own_tokens("llama", changed)
        assert warned[0].filename == __file__


def test_a_write_that_the_samples_miss_can_be_told(model: PreTrainedModel) -> None:
    with Engine(model, device="cpu") as engine:
        before = tokens(engine)
        model.model.embed_tokens.weight.data[PROMPT[0], 7] = 90.0
        assert engine.check_weights() == 0
        with pytest.warns(UserWarning, match=r"changed \(change 1 under") as warned:
            assert engine.check_weights(changed=True) == 1
        assert warned[0].filename == __file__
        found = tokens(engine)
    assert found == continuations(model, [PROMPT], TOKENS)[0] != before


class Wrapped(nn.Module):
    """As an adapter around a linear module."""

    def __init__(self, base: nn.Module) -> None:
        super().__init__()
        self.base = base

    def forward(self, x: Tensor) -> Tensor:
        return 3 * self.base(x)  # type: ignore[no-any-return]


def test_replaced_modules_are_refused_until_restored(model: PreTrainedModel) -> None:
    attention = model.model.layers[1].self_attn
    base = attention.q_proj
    with Engine(model, device="cpu") as engine:
        before = tokens(engine)
        attention.q_proj = Wrapped(base)
        said = r"layers\.1\.self_attn\.q_proj is Wrapped, and was Linear .*\n.*restore the module"
        with pytest.raises(ModelError, match=said):
            tokens(engine)
        with pytest.raises(ModelError, match="has other modules than an engine"):
            Engine(model, device="cpu")
        attention.q_proj = base
        assert tokens(engine) == before


def half(model: PreTrainedModel) -> None:
    model.half()


def widen(model: PreTrainedModel) -> None:
    model.resize_token_embeddings(101)


def remove(model: PreTrainedModel) -> None:
    del model.model.norm.weight


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (half, r"is float16\[97, \d+\] on cpu, and was float32\[97, \d+\] on cpu"),
        (widen, "lm_head is another Linear"),
        (remove, r"model\.norm\.weight is missing"),
    ],
)
def test_weights_of_another_layout_are_refused(
    change: Callable[[PreTrainedModel], None], said: str, model: PreTrainedModel
) -> None:
    with Engine(model, device="cpu") as engine:
        tokens(engine)
        change(model)
        with pytest.raises(ModelError, match=rf"(?s)cannot run: .*{said}.*load the model again"):
            tokens(engine)


class CountedGraphs:
    """Stands for CUDA graphs; serves no step."""

    cleared = 0

    def fits(self, batch: Any) -> bool:
        return False

    def clear(self) -> None:
        self.cleared += 1


def test_graphs_are_dropped_when_weights_moved(model: PreTrainedModel, changed: State) -> None:
    """Of a merged projection only the values change: its matrix stays in place."""
    with Engine(model, device="cpu") as engine, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        engine._loop._runner._graphs = graphs = CountedGraphs()
        model.load_state_dict(changed)
        projection = model.model.layers[0].mlp.up_proj.weight
        projection.data = torch.randn(projection.shape)
        assert engine.check_weights() == 1
        assert graphs.cleared == 0
        model.lm_head.weight.data = model.lm_head.weight.data.clone()
        assert engine.check_weights() == 2
        assert graphs.cleared == 1


@pytest.mark.gpu
def test_changed_weights_on_a_gpu(model: PreTrainedModel) -> None:
    """With CUDA graphs."""
    model.to("cuda")
    states = copy.deepcopy(model.state_dict()), other_weights(model)
    expected = []
    for state in states:
        twin = random_model()
        twin.load_state_dict(state)
        with Engine(twin, device="cuda", dtype="float32") as engine:
            expected.append(tokens(engine))
    with Engine(model, device="cuda", dtype="float32") as engine:
        assert tokens(engine) == tokens(engine) == expected[0] != expected[1]
        for number, change in enumerate(WAYS, 1):
            change(model, states[number % 2])
            with pytest.warns(UserWarning, match=WARNING.format(number)):
                assert tokens(engine) == expected[number % 2], change.__name__


def test_a_closed_engine_keeps_no_weights() -> None:
    model = random_model()
    engine = Engine(model, device="cpu")
    tokens(engine)
    engine.close()
    weight = weakref.ref(model.lm_head.weight)
    del model
    gc.collect()
    assert weight() is None
    assert engine.closed


def test_a_model_read_from_a_folder_is_not_compared() -> None:
    with Engine("tiny", device="cpu") as engine:
        assert engine.check_weights(changed=True) == 0


def test_scores_of_choices_are_those_of_the_new_weights() -> None:
    """Those without a prompt are kept between programs."""
    tokenizer = load_tokenizer(models.path("tiny"))

    @function
    def choose(s: Any) -> None:
        s += "The sky is"
        method = unconditional_likelihood_normalized
        s += select("color", [" blue", " green"], choices_method=method)

    def scores(engine: Engine) -> list[float]:
        return list(choose.run(backend=engine).get_meta_info("color")["normalized_prompt_logprobs"])

    model = AutoModelForCausalLM.from_pretrained(models.path("tiny"))
    changed = other_weights(model)
    with Engine(model, device="cpu", tokenizer=tokenizer) as engine:
        before = scores(engine)
        model.load_state_dict(changed)
        with pytest.warns(UserWarning, match=WARNING.format(1)):
            after = scores(engine)
    with Engine(model, device="cpu", tokenizer=tokenizer) as engine:
        assert after == pytest.approx(scores(engine)) != pytest.approx(before)


def test_an_engine_made_in_inference_mode_notices(changed: State) -> None:
    model = random_model()
    with torch.inference_mode():
        engine = Engine(model, device="cpu")
    with engine:
        engine.generate([[5, 9, 13]], temperature=0, max_new_tokens=3, ignore_eos=True)
        with pytest.warns(UserWarning):
            model.load_state_dict(changed)
            output = engine.generate([[5, 9, 13]], temperature=0, max_new_tokens=6, ignore_eos=True)
    assert output[0].token_ids == continuations(model, [[5, 9, 13]], 6)[0]
