"""Attention backends over the KV pool: one plan per step, one kernel launch per layer. A new
backend is a class and a line in this module."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import TYPE_CHECKING, Literal, get_args

from ...errors import OptionError
from .protocol import AttentionBackend, LayerOptions

if TYPE_CHECKING:
    from torch import device

    from ..cache.kv_cache import KVCache
    from ..cache.kv_dtype import KVDtype

__all__ = [
    "BACKENDS",
    "AttentionBackend",
    "BackendName",
    "LayerOptions",
    "check_backend",
    "make_backend",
]


BackendName = Literal["auto", "torch", "triton", "flashinfer"]
BACKENDS: tuple[BackendName, ...] = get_args(BackendName)

_PACKAGES = {"triton": ("triton",), "flashinfer": ("triton", "flashinfer")}
"""Packages of the GPU backends, in addition to torch."""


FP8_CAPABILITY = (8, 9)
"""Oldest GPUs that convert FP8 numbers: Ada and Hopper."""


def check_backend(
    name: str, device: device, batch_invariant: bool, kv_dtype: KVDtype = "auto"
) -> None:
    """Raise OptionError if the backend `name` cannot be used on `device`, or not with
    `batch_invariant` or `kv_dtype`."""
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

    if kv_dtype == "fp8" and device.type == "cuda":
        _check_fp8(device)


def _check_fp8(device: device) -> None:
    from torch import cuda, version

    capability = cuda.get_device_capability(device)
    if version.cuda is None or capability < FP8_CAPABILITY:
        least, found = (".".join(map(str, pair)) for pair in (FP8_CAPABILITY, capability))
        raise OptionError(
            f"kv_dtype='fp8' needs an NVIDIA GPU of compute capability {least} (Ada, Hopper) or "
            f"later; {device} has {found}",
            "load with kv_dtype='auto'",
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
        OptionError: A required package does not work, or there are no keys for `kv_dtype`.
    """
    if not heads:
        if kv.kv_dtype != "auto":
            raise OptionError(
                f"kv_dtype={kv.kv_dtype!r} has no effect: the model has no attention layers",
                "load with kv_dtype='auto'",
            )
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
