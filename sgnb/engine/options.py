"""What an engine can be told when it is made, checked before anything is loaded."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

from ..errors import OptionError, nearest, shown
from ..sampling import scalar
from .attention import BACKENDS, BackendName
from .cache.radix import EVICTION_POLICIES, EvictionPolicy
from .model import DTYPES
from .request.waiting import SCHEDULE_POLICIES, SchedulePolicy

_SWITCHES = (
    "prefix_cache",
    "fork_attention",
    "jump_forward",
    "precompile",
    "fuse",
    "compile",
    "deterministic",
    "reserve",
)


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """The switches of an engine; each technique can be turned off, to see what it is worth."""

    device: str = "auto"  # "auto", "cpu", "cuda"
    dtype: str = "auto"  # "auto", "float32", "bfloat16", "float16"
    attention: BackendName = "auto"  # "auto", "torch", "triton", "flashinfer"
    context_length: int | None = None  # positions a request may use; None: as the model was made
    # GiB of the GPU's memory for weights, KV pool and work; None for most of what is free.
    memory_limit: float | None = None
    max_total_tokens: int | None = None  # size of the KV pool in tokens; None to fit the memory
    # Of a model with recurrent layers: states in the pool, those of running requests and the
    # checkpoints of the cache; None to fit the memory.
    max_states: int | None = None
    # Tokens between the checkpoints of a long prompt, beside those at forks and at its end. None:
    # 1,024, on a GPU 4,096, where fewer are computed in the time of the kernels' launches alone.
    checkpoint_every: int | None = None
    # Tokens of one forward pass; longer prompts are computed in chunks. None: 2,048, on a GPU
    # 8,192.
    max_step_tokens: int | None = None
    max_running_requests: int | None = None  # in one forward pass; None: 256, on a GPU 1,024
    prefix_cache: bool = True  # keep computed prefixes in the radix tree
    fork_attention: bool = True  # read a prefix that requests of one step share once
    jump_forward: bool = True  # append what a grammar forces without asking the model
    # Launch a step before the last one's tokens are read. None: on a GPU.
    overlap: bool | None = None
    # Replay decode steps instead of launching their kernels one by one. None: on a GPU.
    cuda_graphs: bool | None = None
    # Compile the kernels of decode steps while loading, not when they are needed first; with
    # cuda_graphs, and without compile.
    precompile: bool = True
    fuse: bool = True  # use faster twins of the model's modules where they agree
    compile: bool = False  # run the model's layers through torch.compile; loading takes longer
    # The same tokens whatever is cached and whoever runs beside; slower, and on a GPU only.
    deterministic: bool = False
    # Compiled programs that do not all fit into the KV cache reserve what they hold at most: none
    # is retracted, and fewer run at once.
    reserve: bool = False
    schedule_policy: SchedulePolicy = "lpm"  # longest cached prefix first, aged; or first come
    # A waiting request is overtaken only by those that arrive at most this many steps after it.
    max_overtaking: int = 1024
    eviction_policy: EvictionPolicy = "lru"  # what the cache forgets first

    def __post_init__(self) -> None:
        for name in (
            "context_length",
            "max_total_tokens",
            "max_states",
            "checkpoint_every",
            "max_step_tokens",
            "max_running_requests",
        ):
            self._check_number(name, int, "None or an int from 1 to 2**53", optional=True)
        self._check_number("max_overtaking", int, "an int from 1 to 2**53")
        limits = "None or a number of GiB above 0, at most 2**53"
        self._check_number("memory_limit", (int, float), limits, optional=True)
        for name in _SWITCHES:
            if not isinstance(getattr(self, name), bool):
                raise OptionError(
                    f"{name}={getattr(self, name)!r} is not allowed",
                    f"{name} must be True or False",
                )
        for name in ("overlap", "cuda_graphs"):
            if not isinstance(getattr(self, name), (bool, type(None))):
                raise OptionError(
                    f"{name}={getattr(self, name)!r} is not allowed",
                    f"{name} must be None, True or False",
                )
        for name, known in (
            ("dtype", DTYPES),
            ("attention", BACKENDS),
            ("schedule_policy", SCHEDULE_POLICIES),
            ("eviction_policy", EVICTION_POLICIES),
        ):
            if not isinstance(getattr(self, name), str) or getattr(self, name) not in known:
                raise OptionError(
                    f"unknown {name} {getattr(self, name)!r}",
                    nearest(str(getattr(self, name)), known),
                )

        if self.compile and self.deterministic:
            raise OptionError(
                "compile=True and deterministic=True exclude each other",
                "torch.compile may add in another order for another number of rows: leave one of "
                "them out",
            )
        if (
            self.max_step_tokens
            and self.max_running_requests
            and self.max_step_tokens < self.max_running_requests
        ):
            raise OptionError(
                f"max_step_tokens={self.max_step_tokens} is less than "
                f"max_running_requests={self.max_running_requests}",
                "every running request needs a token in each step: "
                "raise the one or lower the other",
            )

    def _check_number(self, name: str, kind: Any, rule: str, optional: bool = False) -> None:
        value = scalar(getattr(self, name))
        if optional and value is None:
            return
        if not isinstance(value, kind) or isinstance(value, bool) or not 0 < value <= 2**53:
            raise OptionError(f"{name}={shown(value)} is not allowed", f"{name} must be {rule}")
        object.__setattr__(self, name, value)

    def on(self, device: str) -> EngineOptions:
        """With the values for a kind of device, "cpu" or "cuda", in place of None."""
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

    @property
    def precompiles(self) -> bool:
        """Whether the kernels of decode steps are compiled at load; of options `on` a device."""
        return self.precompile and bool(self.cuda_graphs) and not self.compile

    @classmethod
    def make(cls, options: dict[str, Any]) -> EngineOptions:
        """An unknown name is an OptionError that gives the nearest."""
        known = [f.name for f in fields(cls)]
        for name in options:
            if name not in known:
                raise OptionError(f"unknown engine option {name!r}", nearest(name, known))
        return cls(**options)
