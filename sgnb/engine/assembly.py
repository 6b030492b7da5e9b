"""Construction of an engine's parts for options and device."""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import cache, partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from transformers import PreTrainedModel

from ..errors import ModelError, OptionError, first_line, shown
from ..events import EngineStarted, EventLog
from ..grammar.compiler import GrammarCompiler
from ..home_process import HomeProcess
from .attention import AttentionBackend, BackendName, check_backend, make_backend
from .attention.status import AttentionStatus
from .cache.kv_cache import KVCache
from .cache.manager import CacheManager
from .cache.slot_allocator import SlotAllocator
from .cache.state_pool import StatePool
from .cache.tiers.payloads import token_transfer
from .cache.tiers.rank_copies import RankCopies
from .cache.tiers.setup import make_tiers
from .cache.tiers.tiers import CacheTiers
from .device.failed_load import cleaned_up_load as cleaned_up_load
from .device.faults import LARGE_MODEL_HINT, is_out_of_memory
from .device.load_stages import announce
from .device.memory import GIB, free_host_bytes, freeze_heap, weight_bytes
from .device.precompile import cancel_unclaimed
from .items import EncoderQueue, ItemTable
from .model.decoder import UNLIMITED, Decoder, load_decoder
from .model.layer_probe import LayerProbe
from .model.loading import check_division, load_tokenizer, pick_device
from .model.recurrent import StepStates
from .model.weight_monitor import WeightMonitor
from .options import EngineOptions
from .parallel import CommandPort, FollowerParts, RankGroup, Team, follow
from .request.input_processor import InputProcessor
from .request.request_factory import RequestFactory
from .request.tokenizer import Tokenizer
from .runner import ModelRunner
from .sampling.sampler import Sampler, make_sampler
from .scheduler import Scheduler
from .sizing import encoder_cache_bytes, graph_bytes, make_pools, warn_of_cuts

SHARED_PREFIX = 16
"""Tokens in common for which requests wait a step, on a GPU; that fewer pay there is not shown."""

SMALL_MODEL_BYTES = 4 * GIB
"""Of weights. The steps of a smaller model are so short that the host's work for FlashInfer shows:
prompts beside decodes are 12 % slower with it at 0.6B, and 5 % faster at 8B."""


@dataclass(frozen=True)
class Parts:
    """Parts of an engine; only `runner` holds device memory."""

    options: EngineOptions  # with the defaults of the device
    device: str
    dtype: str
    vocab_size: int
    context_length: int
    eos: frozenset[int]
    tokenizer: Tokenizer | None
    grammars: GrammarCompiler | None
    input_processor: InputProcessor
    log: EventLog
    attention: AttentionStatus
    scheduler: Scheduler
    runner: ModelRunner
    encoder: EncoderQueue | None
    tiers: CacheTiers | None
    team: Team | None

    def request_factory(self, check_open: Callable[[], None]) -> RequestFactory:
        """Return the factory of requests. check_open: raises the error of a closed engine."""
        rounds_by_batch = self.device == "cpu" and self.dtype != "float32"
        return RequestFactory(
            self.input_processor,
            self.tokenizer,
            self.eos,
            self.grammars,
            rounds_by_batch=self.dtype if rounds_by_batch else None,
            check_open=check_open,
        )


@cache
def torch_process() -> HomeProcess:
    """Return the process of the first engine. Torch hangs or crashes in a forked child: the threads
    of its pools run in the parent."""
    return HomeProcess("torch")


def assemble(
    name: str,
    source: str | Path | PreTrainedModel,
    tokenizer: Any,
    processor: Any,
    options: EngineOptions,
) -> Parts:
    """Load the model and build all parts. On error, a preloaded model is restored. name: for
    messages. tokenizer, processor: of transformers, or None for the model's."""
    if tokenizer is None and processor is not None:
        tokenizer = getattr(processor, "tokenizer", None)
    team = _start_team(name, source, options) if options.tensor_parallel > 1 else None
    try:
        decoder = _load(name, source, processor, options, None if team is None else team.group)
        return _build(name, source, tokenizer, options, decoder, team)
    except BaseException as error:
        if team is not None:
            team.close_after(error)
        raise
    finally:
        cancel_unclaimed()


def _start_team(name: str, source: str | Path | PreTrainedModel, options: EngineOptions) -> Team:
    """Start the processes of the other ranks. Raises an error if the model cannot be divided."""
    size, device = options.tensor_parallel, pick_device(options.device)
    check_division(source, size)
    announce("starting the processes of the other ranks")
    return Team(size, device, {"name": name, "source": str(source), "options": asdict(options)})


def serve_rank() -> None:
    """Run the process of a follower."""
    follow(_make_follower)


def _make_follower(
    group: RankGroup, device: str, model: dict[str, Any], port: CommandPort
) -> FollowerParts:
    """Load the part of a follower: no tokenizer, cache, scheduler or grammar."""
    settings = EngineOptions(**model["options"] | {"device": device})
    decoder = _load(model["name"], model["source"], None, settings, group)
    settings = settings.on(decoder.device.type)
    settings = replace(settings, attention=_pick_attention(settings, decoder))
    kv, states = make_pools(decoder, settings)
    forks = settings.fork_attention
    attention = make_backend(settings.attention, kv, decoder.heads, fork_attention=forks)
    rows = settings.max_running_requests or 1
    sampler = make_sampler(decoder, rows, None, frozenset())
    runner = _make_runner(model["source"], settings, decoder, attention, sampler, states, rows)
    if settings.precompiles:
        runner.precompile()
    transfer = token_transfer(SlotAllocator(kv.slots, weakref.proxy(kv)), kv)
    copies = RankCopies(transfer, runner.fingerprint.get, group.rank, group.size, *port)
    return FollowerParts(runner, copies)


def _load(
    name: str,
    source: str | Path | PreTrainedModel,
    processor: Any,
    options: EngineOptions,
    ranks: RankGroup | None,
) -> Decoder:
    try:
        return load_decoder(
            source, options.device, options.dtype, options.fuse, options.memory_limit,
            options.deterministic, options.compile, partial(precompile_attention, options),
            options.context_length, processor, options.quantize, ranks,
        )  # fmt: skip
    except Exception as error:
        if not is_out_of_memory(error):
            raise
        said = f"{name!r} cannot be loaded: no memory is left next to its weights"
        raise ModelError(f"{said}: {first_line(error)}", LARGE_MODEL_HINT) from error


def _build(
    name: str,
    source: str | Path | PreTrainedModel,
    tokenizer: Any,
    options: EngineOptions,
    decoder: Decoder,
    team: Team | None,
) -> Parts:
    """Build the parts of a loaded model; see `assemble`."""
    with contextlib.ExitStack() as undo:
        undo.callback(decoder.release)
        options = options.on(decoder.device.type)
        options = replace(options, attention=_pick_attention(options, decoder))
        text = _read_tokenizer(source, tokenizer)
        eos = _eos_token_ids(decoder, text)

        announce("sizing the KV cache")
        kv, states = make_pools(decoder, options)
        context = min(options.context_length or decoder.context_length, decoder.context_length)
        warn_of_cuts(name, options, decoder.context_length, kv.slots, UNLIMITED)
        log = EventLog()
        scheduler = _make_scheduler(options, kv, states, context, log)
        status = AttentionStatus(log)
        attention = _make_attention(options, kv, decoder, status)
        device, dtype = str(decoder.device), str(decoder.dtype).removeprefix("torch.")
        sizes = (states.states, states.unit_bytes) if states else (0, 0)
        facts = attention.name, kv.slots, context, kv.unit_bytes, *sizes
        log.emit(EngineStarted(name, device, dtype, *facts))

        rows = scheduler.max_running
        sampler = make_sampler(decoder, rows, text, eos)
        encoder = _make_encoder(options, decoder, scheduler)
        items = None if encoder is None else encoder.table
        runner = _make_runner(source, options, decoder, attention, sampler, states, rows, team)
        if options.precompiles:  # with all ranks, before the first command about blocks
            announce("compiling kernels")
            runner.precompile()
        pools = kv, states, team
        tiers = _make_tiers(name, options, decoder, pools, scheduler, runner, items, log)
        if items is not None and tiers is not None:
            items.read_facts = tiers.prefixes.read_facts
        freeze_heap()
        undo.pop_all()
    return Parts(
        options=options,
        device=device,
        dtype=dtype,
        vocab_size=decoder.vocab_size,
        context_length=context,
        eos=eos,
        tokenizer=text,
        grammars=None if text is None else GrammarCompiler(lambda: text.vocabulary),
        input_processor=InputProcessor(name, text, decoder.vocab_size, context, kv.slots, items),
        log=log,
        attention=status,
        scheduler=scheduler,
        runner=runner,
        encoder=encoder,
        tiers=tiers,
        team=team,
    )


def _eos_token_ids(decoder: Decoder, tokenizer: Tokenizer | None) -> frozenset[int]:
    """Return the tokens of the vocabulary that end a generation, by model and tokenizer."""
    eos = decoder.eos_token_ids | (tokenizer.eos_token_ids if tokenizer else frozenset())
    return frozenset(token for token in eos if 0 <= token < decoder.vocab_size)


def _make_encoder(
    options: EngineOptions, decoder: Decoder, scheduler: Scheduler
) -> EncoderQueue | None:
    if decoder.items is None or options.max_step_tokens is None:
        return None
    encoder = EncoderQueue(
        ItemTable(decoder.items, decoder.vocab_size),
        encoder_cache_bytes(decoder, options),
        options.max_step_tokens,
        lambda: (placed for request in scheduler.running for placed in request.items_in_use),
        lambda: not scheduler.running,
    )
    scheduler.items_ready = encoder.ready
    return encoder


def _make_tiers(
    name: str,
    options: EngineOptions,
    decoder: Decoder,
    pools: tuple[KVCache, StatePool | None, Team | None],
    scheduler: Scheduler,
    runner: ModelRunner,
    items: ItemTable | None,
    log: EventLog,
) -> CacheTiers | None:
    """Return the copies of the cache in host memory and on disk."""
    return make_tiers(
        name,
        options.host_cache,
        options.disk_cache,
        scheduler.cache,
        weakref.proxy(pools[0]),
        None if pools[1] is None else weakref.proxy(pools[1]),
        decoder.model,
        runner.weights,
        runner.fingerprint.get,
        free_host_bytes,
        pools[2],
        find_items=(lambda tokens: ()) if items is None else items.find_spans,
        emit=log.emit,
    )


def _read_tokenizer(source: str | Path | PreTrainedModel, tokenizer: Any) -> Tokenizer | None:
    announce("reading the tokenizer")
    if tokenizer is None and not isinstance(source, PreTrainedModel):
        tokenizer = load_tokenizer(str(source))
    return None if tokenizer is None else Tokenizer(tokenizer)


def _make_runner(
    source: str | Path | PreTrainedModel,
    options: EngineOptions,
    decoder: Decoder,
    attention: AttentionBackend,
    sampler: Sampler,
    states: StatePool | None,
    rows: int,
    team: Team | None = None,
) -> ModelRunner:
    """Return the runner of steps with at most `rows` requests. A model of the caller is watched for
    changed weights."""
    graphs = bool(options.cuda_graphs) and attention.name != "torch"
    weights = None
    if isinstance(source, PreTrainedModel):
        refreshers = [swap.refresh for swap in decoder.fused if swap.refresh is not None]
        weights = WeightMonitor(decoder.model, refreshers)
    return ModelRunner(
        decoder,
        attention,
        sampler,
        None if states is None else StepStates(states, decoder.pads_prompts),
        max_rows=rows,
        graph_bytes=graph_bytes(decoder, rows) if graphs else None,
        weights=weights,
        leader=team,
    )


def check_options(options: EngineOptions, tokenizer: Any = None) -> None:
    """Check the options that need no model. Raises ModelError for an unavailable device, and
    OptionError for options without support on the device."""
    device = pick_device(options.device)
    if options.deterministic and (device.type != "cuda" or find_spec("triton") is None):
        raise OptionError(
            "deterministic=True needs a GPU and the kernels in Triton",
            "load without it, or on a GPU",
        )
    check_backend(options.attention, device, options.deterministic, options.kv_dtype)
    if tokenizer is not None and not hasattr(tokenizer, "all_special_ids"):
        raise OptionError(
            f"tokenizer={shown(tokenizer)} is not a tokenizer of transformers",
            "give AutoTokenizer.from_pretrained(...), or for the tokenizers library "
            "PreTrainedTokenizerFast(tokenizer_object=...)",
        )


def _make_scheduler(
    options: EngineOptions,
    kv: KVCache,
    states: StatePool | None,
    context_length: int,
    log: EventLog,
) -> Scheduler:
    assert options.max_step_tokens and options.max_running_requests and options.checkpoint_every
    # Proxies, because the runner alone holds the device's memory.
    cache = CacheManager(
        SlotAllocator(kv.slots, weakref.proxy(kv)),
        SlotAllocator(states.states, weakref.proxy(states)) if states else None,
        checkpoint_every=options.checkpoint_every,
        splits_prompts=bool(options.cuda_graphs),
        prefix_cache=options.prefix_cache,
        policy=options.eviction_policy,
        emit=log.emit,
    )
    return Scheduler(
        cache,
        context_length=context_length,
        max_step_tokens=options.max_step_tokens,
        max_running=options.max_running_requests,
        policy=options.schedule_policy,
        max_overtaking=options.max_overtaking,
        shared_prefix=1 if kv.device.type == "cpu" else SHARED_PREFIX,
        emit=log.emit,
    )


def _pick_attention(options: EngineOptions, decoder: Decoder) -> BackendName:
    """Return the attention backend. On a GPU, "auto" becomes "triton" for small models, and for
    several ranks: ranks must not switch kernels at different times."""
    has_triton = decoder.device.type == "cuda" and find_spec("triton") is not None
    if options.attention != "auto" or not has_triton:
        return options.attention
    is_small = weight_bytes(decoder.model) < SMALL_MODEL_BYTES
    return "triton" if is_small or decoder.ranks is not None else "auto"


def _make_attention(
    options: EngineOptions, kv: KVCache, decoder: Decoder, status: AttentionStatus
) -> AttentionBackend:
    attention = make_backend(
        options.attention,
        kv,
        decoder.heads,
        fork_attention=options.fork_attention,
        batch_invariant=options.deterministic,
        on_switch=status.switched,
    )
    status.watch(attention)
    return attention


def precompile_attention(options: EngineOptions, probe: LayerProbe, device: torch.device) -> None:
    """Start to compile the attention kernels, the slowest kernels, before `ModelRunner.precompile`
    needs the kernels.

    Args:
        options: Options of the user.
        probe: Attention shapes and options of the model's layers.
        device: Device of the model.
    """
    if (
        not options.on(device.type).precompiles
        or options.attention == "torch"
        or find_spec("triton") is None
    ):
        return
    from .attention.triton_backend import precompile_layers

    # The later allocation of the KV cache reports a lack of memory with sizes.
    with contextlib.suppress(torch.OutOfMemoryError):
        layers = probe.shapes, probe.heads, probe.options, probe.dtype
        precompile_layers(*layers, device, options.deterministic, options.kv_dtype)
