"""Engine options, validated before loading."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any

from ..errors import OptionError, nearest
from ..sampling import integer, optional, read_option, scalar, switch, text
from .attention import BACKENDS, BackendName
from .cache.kv_dtype import KV_DTYPES, KVDtype
from .cache.radix import EVICTION_POLICIES, EvictionPolicy
from .model import DTYPES, QUANTIZE
from .request.waiting_queue import SCHEDULE_POLICIES, SchedulePolicy

_CHOICES = {
    "dtype": DTYPES,
    "kv_dtype": KV_DTYPES,
    "attention": BACKENDS,
    "schedule_policy": SCHEDULE_POLICIES,
    "eviction_policy": EVICTION_POLICIES,
    "quantize": (None, *QUANTIZE),
}


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """Options of an engine. Each technique can be disabled to measure its effect."""

    device: str = "auto"  # "auto", "cpu", "cuda"
    dtype: str = "auto"  # "auto", "float32", "bfloat16", "float16"
    # Quantize the weights of a dense checkpoint while reading: "fp8" or "int4".
    quantize: str | None = None
    # Keys and values: "auto" in the dtype of the model; "fp8" in half of its memory, rounded.
    kv_dtype: KVDtype = "auto"
    attention: BackendName = "auto"  # "auto", "torch", "triton", "flashinfer"
    context_length: int | None = None  # maximum positions of a request; None: the model's limit
    # GiB of GPU memory for weights, KV pool and workspaces; None for most of the free memory.
    memory_limit: float | None = None
    max_total_tokens: int | None = None  # size of the KV pool in tokens; None to fit the memory
    # State pool of recurrent layers: states of running requests and cache checkpoints; None to fit
    # the memory.
    max_states: int | None = None
    # Tokens between checkpoints of a long prompt, in addition to forks and the end. None: 1,024; on
    # a GPU 4,096, because launch overhead dominates shorter recomputations.
    checkpoint_every: int | None = None
    # Tokens of one forward pass; longer prompts are computed in chunks. None: 2,048, on a GPU
    # 8,192.
    max_step_tokens: int | None = None
    max_running_requests: int | None = None  # in one forward pass; None: 256, on a GPU 1,024
    prefix_cache: bool = True  # keep computed prefixes in the radix tree
    fork_attention: bool = True  # read a shared prefix once per step
    jump_forward: bool = True  # append text forced by a grammar without sampling

    # GiB of rows of images, videos and sounds in the cache of the encoder; None: 1 % of the GPU
    # memory, at most 1, and on a CPU 0.25.
    encoder_cache: float | None = None

    # GiB of host memory for copies of evicted prefixes; None for no copies.
    host_cache: float | None = None
    # Copies of expensive prefixes on the disk, found again after a restart of the process: True, a
    # number of GiB, or a folder. None: SGNB_DISK_CACHE, else no copies. The files hold the text of
    # prompts, not encrypted, readable by the user alone.
    disk_cache: bool | float | str | None = None

    # Estimated seconds of an exact prefill from which a request with approximate=True is
    # approximate.
    approximate_seconds: float = 1.0

    # Processor time of a request for masks and endings of a recursive or large grammar.
    grammar_budget_ms: int = 30_000
    # Launch a step before the tokens of the last step are read. None: on a GPU.
    overlap: bool | None = None
    # Replay decode steps as CUDA graphs. None: on a GPU.
    cuda_graphs: bool | None = None
    # Compile the kernels of decode steps during loading; only with cuda_graphs and without compile.
    precompile: bool = True
    fuse: bool = True  # use faster equivalents of the model's modules
    compile: bool = False  # run the model's layers through torch.compile; loading takes longer
    # Tokens independent of cache and batch; slower, GPU only.
    deterministic: bool = False
    # Number of GPUs, or of processes on a CPU, among which the layers are divided.
    tensor_parallel: int = 1
    schedule_policy: SchedulePolicy = "lpm"  # longest cached prefix first, aged; or "fcfs"
    # A waiting request is overtaken only by requests arriving at most this many steps later.
    max_overtaking: int = 1024
    eviction_policy: EvictionPolicy = "lru"  # eviction order of the cache

    def __post_init__(self) -> None:
        for name, type_ in ((f.name, f.type) for f in fields(self)):
            if type_ in _RULES:
                value = read_option(name, getattr(self, name), *_RULES[type_])
                object.__setattr__(self, name, value)
        for name, known in _CHOICES.items():
            value = getattr(self, name)
            if not isinstance(value, str | None) or value not in known:
                names = [choice for choice in known if choice is not None]
                raise OptionError(f"unknown {name} {value!r}", nearest(str(value), names))

        if self.compile and self.deterministic:
            raise OptionError(
                "compile=True and deterministic=True exclude each other",
                "torch.compile may change the order of sums with the number of rows: use one of "
                "the options",
            )
        if (
            self.max_step_tokens
            and self.max_running_requests
            and self.max_step_tokens < self.max_running_requests
        ):
            raise OptionError(
                f"max_step_tokens={self.max_step_tokens} is less than "
                f"max_running_requests={self.max_running_requests}",
                "each running request needs a token per step: raise max_step_tokens, or lower "
                "max_running_requests",
            )

        if self.tensor_parallel > 1:
            self._check_ranks()

    def _check_ranks(self) -> None:
        """Refuse options unsupported by several ranks."""
        refused = {
            "compile": self.compile,
            "deterministic": self.deterministic,
            "quantize": self.quantize,
            'attention="flashinfer"': self.attention == "flashinfer",
        }
        for option, value in refused.items():
            if value:
                raise OptionError(
                    f"tensor_parallel={self.tensor_parallel} does not support {option}",
                    f"load without {option}, or without tensor_parallel",
                )

    def on(self, device: str) -> EngineOptions:
        """Return the options with None replaced by defaults of a device type, "cpu" or "cuda"."""
        gpu = device == "cuda"
        rows = self.max_running_requests or (1024 if gpu else 256)
        tokens = self.max_step_tokens or max(8192 if gpu else 2048, rows)
        if self.max_running_requests is None:
            rows = min(rows, tokens)

        return replace(
            self,
            max_running_requests=rows,
            max_step_tokens=tokens,
            checkpoint_every=self.checkpoint_every or (4096 if gpu else 1024),
            overlap=gpu if self.overlap is None else self.overlap,
            cuda_graphs=gpu if self.cuda_graphs is None else self.cuda_graphs and gpu,
        )

    def switched(
        self, schedule_policy: SchedulePolicy | None, overlap: bool | None
    ) -> EngineOptions:
        """Return the options after `Engine.switch`. None keeps the present value."""
        changes: dict[str, Any] = {}
        if schedule_policy is not None:
            policy = read_option("schedule_policy", schedule_policy, "a string", text)
            changes["schedule_policy"] = policy
        if overlap is not None:
            changes["overlap"] = read_option("overlap", overlap, "True or False", switch)
        return replace(self, **changes)

    @property
    def precompiles(self) -> bool:
        """True if decode kernels are compiled at load; requires options from `on`."""
        return self.precompile and bool(self.cuda_graphs) and not self.compile

    @classmethod
    def make(cls, options: dict[str, Any]) -> EngineOptions:
        """Create options from a dict. OptionError suggests the nearest name for an unknown name.
        See `with_own_names`."""
        known = [f.name for f in fields(cls)]
        options = with_own_names(options)
        for name in options:
            if name not in known:
                raise OptionError(f"unknown engine option {name!r}", nearest(name, known))
        return cls(**options)


def with_own_names(options: dict[str, Any]) -> dict[str, Any]:
    """Return options by sgnb's names: `tp_size` is SGLang's name of `tensor_parallel`.

    Raises:
        OptionError: Both names of an option are given.
    """
    if "tp_size" not in options:
        return options
    if "tensor_parallel" in options:
        raise OptionError("tensor_parallel is given twice", "omit tp_size")
    return {("tensor_parallel" if name == "tp_size" else name): options[name] for name in options}


def _gibibytes(value: Any) -> float:
    value = scalar(value)
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not 0 < value <= 2**53:
        raise ValueError
    return value


def _seconds(value: Any) -> float:
    value = scalar(value)
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not 0 <= value < 2**53:
        raise ValueError
    return value


def _disk_cache(value: Any) -> bool | float | str | None:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, (str, os.PathLike)) and os.fspath(value):
        return os.fspath(value)
    return _gibibytes(value)


_RULES: dict[Any, tuple[str, Callable[[Any], Any]]] = {
    "bool": ("True or False", switch),
    "bool | None": ("None, True or False", optional(switch)),
    "int": ("an int from 1 to 2**53", integer(1, 2**53)),
    "int | None": ("None or an int from 1 to 2**53", optional(integer(1, 2**53))),
    "float": ("a number of seconds, 0 or more", _seconds),
    "float | None": ("None or a number of GiB above 0, at most 2**53", optional(_gibibytes)),
    "bool | float | str | None": (
        "None, True, False, a number of GiB above 0, or a folder",
        _disk_cache,
    ),
}
"""Type of an option -> (rule for the error message, converter)."""
