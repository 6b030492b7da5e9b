"""Attention backends over the KV pool: one plan per step, one kernel launch per layer. A new
backend is a class and a line in this module."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from importlib.util import find_spec
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol, get_args

from ...errors import OptionError

if TYPE_CHECKING:
    from torch import Tensor, device

    from ..cache.kv_cache import KVCache
    from ..step_input import AttentionInput


class LayerOptions(NamedTuple):
    """Attention options of a layer, besides q, k and v."""

    scaling: float  # factor of the scores
    window: int | None = None  # a token sees itself and the `window` - 1 before it
    softcap: float | None = None  # scores become softcap * tanh(score / softcap)
    sinks: Tensor | None = None  # float[heads], a score in the softmax that has no value


class AttentionBackend(Protocol):
    """Interface of the attention backends.

    `plan` fixes the new tokens of a step and their KV slots; each layer then calls `store` and
    `attend`. Rows are the T new tokens of the step.
    """

    name: str  # display name
    kv: KVCache
    # int64[T], KV slots of the new rows, for callers that write to the pool directly
    new_slots: Tensor

    @property
    def has_cascade(self) -> bool:
        """True if the last step read a shared prefix once for several sequences."""
        ...

    def plan(self, step: AttentionInput, padded: int | None = None) -> None:
        """Prepare a step.

        Args:
            step: The new tokens and the KV of their sequences.
            padded: Number of rows after padding, only for short chunks. The launches of `store` and
                `attend` then depend only on `padded` and `graph_key`, so a CUDA graph of them can
                be replayed after later plans.
        """
        ...

    def precompile(self, rows: int) -> None:
        """Plan `rows` padding rows and every kernel that a step may need. Call instead of `plan`
        within a `precompiling` block."""
        ...

    @property
    def graph_key(self) -> Hashable:
        """Key of the kernels that the planned step launches, besides the number of rows."""
        ...

    def store(self, layer: int, k: Tensor, v: Tensor) -> None:
        """Write k and v, [T, kv heads, dim] with a contiguous last dimension, to the pool of
        `layer`."""
        ...

    def attend(self, layer: int, q: Tensor, options: LayerOptions) -> Tensor:
        """Return the attention of q, [T, heads, dim] with a contiguous last dimension, to the
        visible tokens: [T, heads, v's dim]."""
        ...


BackendName = Literal["auto", "torch", "triton", "flashinfer"]
BACKENDS: tuple[BackendName, ...] = get_args(BackendName)

_PACKAGES = {"triton": ("triton",), "flashinfer": ("triton", "flashinfer")}
"""Packages of the GPU backends, in addition to torch."""


def check_backend(name: str, device: device, batch_invariant: bool) -> None:
    """Raise OptionError if the backend `name` cannot be used on `device`, or not with
    `batch_invariant`."""
    if batch_invariant and name not in ("auto", "triton"):
        raise OptionError(f"attention={name!r} cannot be deterministic", "use attention='auto'")
    if name in _PACKAGES and device.type != "cuda":
        raise OptionError(f"attention={name!r} needs a GPU", "use attention='auto'")
    missing = [package for package in _PACKAGES.get(name, ()) if find_spec(package) is None]
    if missing:
        raise OptionError(
            f"attention={name!r} needs {' and '.join(missing)}, which are not installed",
            "pip install 'sgnb[cuda]', or use attention='auto'",
        )


def make_backend(
    name: str,
    kv: KVCache,
    heads: dict[int, int],
    *,
    fork_attention: bool,
    batch_invariant: bool = False,
    on_switch: Callable[[str, str, float], None] | None = None,
) -> AttentionBackend:
    """Create the backend `name`, already accepted by `check_backend`.

    Args:
        name: Backend name; "auto" selects the best backend for the pool's device.
        kv: The KV pool.
        heads: Query heads of each layer.
        fork_attention: Read shared prefixes once.
        batch_invariant: Results of a token do not depend on other requests in the step.
        on_switch: Called with (previous kernels, new kernels, seconds of background compilation).

    Raises:
        OptionError: A required package does not work.
    """
    if not heads:
        from .no_attention import NoAttention

        return NoAttention(kv)
    if name == "torch" or (name == "auto" and kv.device.type != "cuda"):
        from .torch_backend import TorchAttention

        return TorchAttention(kv, fork_attention=fork_attention)
    try:
        from .split import with_flashinfer
        from .triton_backend import TritonAttention
    except ImportError as error:
        if name == "auto":
            return make_backend("torch", kv, heads, fork_attention=fork_attention)
        raise OptionError(
            f"attention={name!r} cannot be used: {error}", "pip install triton"
        ) from error
    triton = TritonAttention(
        kv, heads, fork_attention=fork_attention, batch_invariant=batch_invariant
    )
    if name == "triton":
        return triton
    backend = with_flashinfer(triton, kv, batch_invariant=batch_invariant, on_switch=on_switch)
    if name == "flashinfer" and backend.without_flashinfer is not None:
        raise OptionError(
            f"attention='flashinfer' cannot be used: {backend.without_flashinfer}",
            "use attention='auto'",
        )
    return backend
