"""Attention over the KV pool: planned once a step, run once a layer. A backend is one class and one
line here."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from importlib.util import find_spec
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol, get_args

from ...errors import OptionError

if TYPE_CHECKING:
    from torch import Tensor, device

    from ..cache.kv_cache import KVCache
    from ..request.batch import Batch


class LayerOptions(NamedTuple):
    """What a layer asks of its attention besides q, k and v."""

    scaling: float  # factor of the scores
    window: int | None = None  # a token sees itself and the `window` - 1 before it
    softcap: float | None = None  # scores become softcap * tanh(score / softcap)
    sinks: Tensor | None = None  # float[heads], a score in the softmax that has no value


class AttentionBackend(Protocol):
    """`plan` fixes which tokens are computed and where their KV lies; then every layer stores, and
    attends. Rows are the tokens of the batch, T of them."""

    name: str  # for people
    kv: KVCache
    new_slots: Tensor  # int64[T], slots of the rows' new KV, for who writes to the pool himself

    def plan(self, batch: Batch, padded: int | None = None) -> None:
        """Prepare a step.

        padded: every chunk is short, and the tensors will be padded to that many rows. What `store`
        and `attend` launch then depends on `padded` and `graph_key` only, so that a CUDA graph of
        it can be replayed after other plans.
        """
        ...

    def precompile(self, rows: int) -> None:
        """In a `precompiling` block, in place of `plan`: padding rows only, with every kernel that
        a step may need."""
        ...

    @property
    def graph_key(self) -> Hashable:
        """What besides the number of rows decides which kernels the planned step launches."""
        ...

    def store(self, layer: int, k: Tensor, v: Tensor) -> None:
        """Write k and v, [T, kv heads, dim], to the pool. The last dimension is contiguous."""
        ...

    def attend(self, layer: int, q: Tensor, options: LayerOptions) -> Tensor:
        """q [T, heads, dim], with the last dimension contiguous, against what its tokens see: [T,
        heads, v's dim]."""
        ...


BackendName = Literal["auto", "torch", "triton", "flashinfer"]
BACKENDS: tuple[BackendName, ...] = get_args(BackendName)

_PACKAGES = {"triton": ("triton",), "flashinfer": ("triton", "flashinfer")}
"""What the backends of a GPU need beside torch."""


def check_backend(name: str, device: device, batch_invariant: bool) -> None:
    """Raise OptionError when the backend called `name` cannot be used there."""
    if batch_invariant and name not in ("auto", "triton"):
        raise OptionError(f"attention={name!r} cannot be deterministic", "use attention='auto'")
    if name in _PACKAGES and device.type != "cuda":
        raise OptionError(f"attention={name!r} needs a GPU", "use attention='auto'")
    missing = [package for package in _PACKAGES.get(name, ()) if find_spec(package) is None]
    if missing:
        raise OptionError(
            f"attention={name!r} needs {' and '.join(missing)}, which cannot be found",
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
    """The backend called `name`, which `check_backend` allows; "auto" is the best that works on the
    pool's device.

    heads: query heads of each layer. batch_invariant: what else is in a step changes no bit of a
    token's result. on_switch: told of (kernels before, kernels now, seconds of compiling in the
    background). Raises OptionError when a package that it needs does not work.
    """
    if not heads:
        from .no_attention import NoAttention

        return NoAttention(kv)
    if name == "torch" or (name == "auto" and kv.device.type != "cuda"):
        from .torch_backend import TorchAttention

        return TorchAttention(kv, fork_attention=fork_attention)
    try:
        from .hybrid import make_gpu_attention
        from .triton_backend import TritonAttention
    except ImportError as error:
        if name == "auto":
            return make_backend("torch", kv, heads, fork_attention=fork_attention)
        raise OptionError(
            f"attention={name!r} cannot be used: {error}", "pip install triton"
        ) from error
    if name == "triton":
        return TritonAttention(
            kv, heads, fork_attention=fork_attention, batch_invariant=batch_invariant
        )
    backend = make_gpu_attention(
        kv,
        heads,
        fork_attention=fork_attention,
        batch_invariant=batch_invariant,
        on_switch=on_switch,
    )
    if name == "flashinfer" and backend.without_flashinfer is not None:
        raise OptionError(
            f"attention='flashinfer' cannot be used: {backend.without_flashinfer}",
            "use attention='auto'",
        )
    return backend
