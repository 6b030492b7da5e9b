"""Load-time check of a model's logits with sgnb's attention against the original attention.

Random tokens run alone, batched and in chunks, at the first and the last positions. Results are
cached on disk by architecture and versions. Knows no model families.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
import transformers
from torch import Tensor
from transformers import PreTrainedModel

from ...cache_file import CacheFile
from ..attention.torch_backend import TorchAttention
from ..cache.checkpoints import StatePlan
from ..cache.kv_cache import KVCache
from ..cache.state_pool import StatePool
from ..fusion.scaled_products import exact_inputs
from ..step_input import NO_KEY, AttentionInput
from .layer_probe import LayerProbe
from .mixer import Mixer, shapes_of, support_padding
from .mixer_probe import own_cache
from .recurrent import StepStates, serving

TOKENS = 48
"""Length of each of the two texts."""

STEPS = (((0, 20), (0, 0)), ((20, 47), (0, 33)), ((47, 48), (33, 48)))
"""Token ranges of both texts per step: a single chunk, two chunks, a decode next to a chunk."""

TOLERANCE = 1e-2
HALF_TOLERANCES = {torch.float16: 0.05, torch.bfloat16: 0.25}
"""Tolerated relative error of the logits per chunk: worst row, or median row in half precision,
because routers near a tie flip. Rounding alone gives 0.08 for 32 random layers in bfloat16."""


MAX_TOLERANCE = 0.7
"""Upper limit of the tolerance for models with a large spread; a wrong text gives 1.4."""


class Texts(NamedTuple):
    tokens: Tensor  # int64[2, TOKENS]
    positions: Tensor  # int64[2, TOKENS]


class ReferenceLogits(NamedTuple):
    texts: list[Tensor]  # logits of each text, [TOKENS, vocab]
    spread: float  # relative error between two ways to compute the logits


def draw_texts(model: PreTrainedModel, context: int) -> Texts:
    """Return fixed random texts; the second text lies at the last positions of the context."""
    generator = torch.Generator().manual_seed(0)
    length = min(TOKENS, context)
    vocab: int = model.get_input_embeddings().weight.shape[0]  # type: ignore[index, assignment]
    tokens = torch.randint(vocab, (2, length), generator=generator)
    positions = torch.arange(length) + torch.tensor([[0], [context - length]])
    return Texts(tokens.to(model.device), positions.to(model.device))


def reference_logits(model: PreTrainedModel, texts: Texts, mixers: list[Mixer]) -> ReferenceLogits:
    """Return the logits of the model's own attention, and their spread.

    With `mixers` the logits come from the model's own cache, in the pieces of `STEPS`. The spread
    then covers one pass against pieces: kernels for one token and for many may differ, and routers
    near a tie turn. In half precision the spread covers rounding: a deep model can turn the
    rounding of its embeddings into other logits.
    """
    whole = _one_pass(model, texts)
    spread = 0.0
    if whole[0].dtype in HALF_TOLERANCES:
        with _rounding(model):
            spread = max(map(relative_error, _one_pass(model, texts), whole))
    if not mixers:
        return ReferenceLogits(whole, spread)
    pieces = [_reference_pieces(model, texts, i, mixers) for i in range(2)]
    return ReferenceLogits(pieces, max(spread, *map(relative_error, pieces, whole)))


def _logits(model: PreTrainedModel, out: Any) -> Tensor:
    """Return the logits [tokens, vocabulary] in the precision of the weights: some models convert
    the logits to float32 afterwards."""
    logits: Tensor = out.logits[0].to(model.dtype)
    return logits


def _one_pass(model: PreTrainedModel, texts: Texts) -> list[Tensor]:
    logits = []
    with torch.inference_mode():
        for ids, positions in zip(*texts, strict=True):
            out = model(input_ids=ids[None], position_ids=positions[None], use_cache=False)
            logits.append(_logits(model, out).clone())
    return logits


@contextmanager
def _rounding(model: PreTrainedModel) -> Iterator[None]:
    """Perturb each embedding by half a unit in the last place, with random sign."""
    generator = torch.Generator().manual_seed(0)

    def change(module: torch.nn.Module, args: Any, embeddings: Tensor) -> Tensor:
        signs = torch.randint(2, embeddings.shape, generator=generator) * 2 - 1
        scale = torch.finfo(embeddings.dtype).eps / 2
        return embeddings * (1 + scale * signs.to(embeddings.device)).to(embeddings.dtype)

    hook = model.get_input_embeddings().register_forward_hook(change)
    try:
        yield
    finally:
        hook.remove()


def _reference_pieces(
    model: PreTrainedModel, texts: Texts, text: int, mixers: list[Mixer]
) -> Tensor:
    length = texts.tokens.shape[1]
    spans = [(min(a, length), min(b, length)) for a, b in (step[text] for step in STEPS)]
    pieces = [piece for a, b in spans for piece in ((a, (a + b) // 2), ((a + b) // 2, b))]
    if not all(mixer.continues for mixer in mixers):
        pieces = [pieces[0], *((i, i + 1) for i in range(pieces[0][1], length))]
    cache = own_cache(model)

    logits = []
    with torch.inference_mode():
        for begin, end in pieces:
            if begin < end:
                ids, positions = (rows[text : text + 1, begin:end] for rows in texts)
                out = model(input_ids=ids, position_ids=positions, use_cache=True, **cache)
                logits.append(_logits(model, out).clone())
    return torch.cat(logits)


def check_logits(
    model: PreTrainedModel,
    probe: LayerProbe,
    mixers: list[Mixer],
    texts: Texts,
    expected: ReferenceLogits,
) -> None:
    """Raise ValueError if the model with sgnb's attention gives different logits. Ignores rows with
    non-finite expected logits."""
    length = texts.tokens.shape[1]
    backend = TorchAttention(KVCache(probe.shapes, 2 * length, probe.dtype, model.device))
    pool = StatePool(shapes_of(mixers), 6, model.device)
    recurrent = StepStates(pool, support_padding(mixers)) if mixers else None
    # Last state of each text: two alternating states per text, and an extra state inside a chunk.
    last = [pool.states, pool.states]
    slots = [np.arange(i, 2 * length, 2, dtype=np.int32) for i in range(2)]

    mask = torch.zeros(1, 1, 1, 1, device=model.device)
    for step in STEPS:
        spans = [(i, min(a, length), min(b, length)) for i, (a, b) in enumerate(step)]
        spans = [(i, begin, end) for i, begin, end in spans if end > begin]
        if not spans:
            continue
        attention = AttentionInput(
            starts=np.array([begin for _, begin, _ in spans]),
            lengths=np.array([end - begin for _, begin, end in spans]),
            new_slots=np.concatenate([slots[i][begin:end] for i, begin, end in spans]),
            kv_slots=[slots[i] for i, _, _ in spans],
            keys=[NO_KEY] * len(spans),
        )
        backend.plan(attention)

        if recurrent is not None:
            plans = []
            for i, begin, end in spans:
                read, last[i] = last[i], 2 * i + (last[i] == 2 * i)
                middle = (begin + end) // 2
                on_the_way = ((middle, 4 + i),) if begin < middle else ()
                plans.append(StatePlan(read, (*on_the_way, (end, last[i]))))
            recurrent.plan(plans, attention)

        ids, positions = (
            torch.cat([rows[i, begin:end] for i, begin, end in spans])[None] for rows in texts
        )
        with torch.inference_mode(), serving(recurrent), exact_inputs():
            out = model(
                input_ids=ids, position_ids=positions, use_cache=False, attention_mask=mask,
                sgnb=backend,
            )  # fmt: skip

        parts = _logits(model, out).split([end - begin for _, begin, end in spans])
        for (i, begin, end), logits in zip(spans, parts, strict=True):
            _compare(logits, expected.texts[i][begin:end], expected.spread, len(spans) > 1)


def _compare(logits: Tensor, expected: Tensor, spread: float, batched: bool) -> None:
    error, bound = relative_error(logits, expected), HALF_TOLERANCES.get(logits.dtype, TOLERANCE)
    bound = max(bound, min(2 * spread, MAX_TOLERANCE))
    if not error <= bound:
        where = "next to another text" if batched else "alone"
        raise ValueError(
            f"its logits differ from those of its own attention, {where}, by {error:.2g} "
            f"(at most {bound:.2g} in {str(logits.dtype).removeprefix('torch.')})"
        )


def relative_error(logits: Tensor, expected: Tensor) -> float:
    """Return the relative error of the worst finite row, of the median row in half precision, or 0
    without finite rows."""
    finite = expected.isfinite().all(-1)
    if not finite.any():
        return 0.0
    size = (expected - expected.mean(-1, keepdim=True))[finite].float().norm(dim=-1).clamp(min=1e-6)
    errors = (logits[finite].float() - expected[finite].float()).norm(dim=-1) / size
    return float(errors.median() if logits.dtype in HALF_TOLERANCES else errors.max())


@cache
def _newest_change() -> int:
    """Return the time of the newest change of the engine's source, in nanoseconds."""
    files = Path(__file__).parent.parent.rglob("*.py")
    return max(file.stat().st_mtime_ns for file in files)


def passed_record(model: PreTrainedModel, *setup: object) -> CacheFile | None:
    """Return the file that records a passed check of this architecture, versions and setup.

    None for a model with code or hooks from outside transformers and torch.
    """
    for module in model.modules():
        foreign = type(module).__module__.split(".")[0] not in ("transformers", "torch")
        if foreign or "forward" in vars(module) or module._forward_hooks:
            return None

    config = {k: v for k, v in model.config.to_dict().items() if k != "_name_or_path"}
    return CacheFile(
        "logit_checks",
        f"{type(model).__module__}.{type(model).__name__}",
        json.dumps(config, sort_keys=True, default=str),
        (transformers.__version__, torch.__version__),
        _newest_change(),
        *setup,
    )
