"""Loading of transformers models from a local folder or hub id. Knows no attention and no KV pool.

transformers builds the model without weights, renames and merges tensors, ties weights and fills in
missing tensors. sgnb supplies lazy weights instead of open safetensors files: several threads read
each weight on demand directly to the device, and cast there.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import EllipsisType
from typing import Any

import torch
from huggingface_hub.errors import LocalEntryNotFoundError
from torch import Tensor
from transformers import (
    AutoModelForCausalLM,
    AutoModelForMultimodalLM,
    AutoTokenizer,
    GenerationConfig,
    PreTrainedModel,
)
from transformers.utils import logging

from ... import models
from ...errors import ModelError, OptionError, first_line, nearest
from ..device.background import WorkerThread
from ..device.faults import (
    DEVICE_LOST_HINT,
    LARGE_MODEL_HINT,
    is_device_lost,
    is_out_of_memory,
)
from ..device.load_stages import announce
from ..device.memory import check_weights_fit
from ..fusion.reduction import Ranks
from ..quantization.quantizer import AHEAD, PlanConfig, lazy_parts
from . import DTYPES
from .checkpoint import Checkpoint, Entry, find_folder, hub_is_away, read_checkpoint
from .config_file import read_config
from .load_check import Report, check_report
from .processor_folder import is_multimodal
from .safetensors_reader import REDRAW_SECONDS, Progress, TensorReader
from .tensor_part import TensorPart
from .tensor_plan import TensorPlan, divided, indivisible
from .weight_packing import WeightPacking, stored_parameters

_one_at_a_time = threading.Lock()
"""transformers patches functions and the default dtype of the whole process during a load."""

MAX_MISSING_RATIO = 2
"""Described parameters per stored parameter. Tied weights and position tables may be absent."""

TOKENIZER_FILES = (
    "tokenizer.json", "tokenizer.model", "vocab.json", "vocab.txt", "tokenizer_config.json"
)  # fmt: skip


def pick_device(device: str) -> torch.device:
    """Return the torch device; "auto" prefers a GPU, and a GPU gets an index. Raises ModelError for
    an unusable device."""
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    hint = "use 'auto', 'cpu' or 'cuda'; `%sglang doctor` shows the devices"
    unusable = f"device {device!r} is not usable"
    try:
        target = torch.device(("cuda" if count else "cpu") if device == "auto" else device)
        if target == torch.device("cuda") and count:
            target = torch.device("cuda", torch.cuda.current_device())
    except (RuntimeError, TypeError) as error:
        hint = DEVICE_LOST_HINT if is_device_lost(error) else hint
        raise ModelError(f"{unusable}: {first_line(error)}", hint) from error

    if target.type not in ("cpu", "cuda"):
        raise ModelError(f"{unusable}: sgnb runs on CPUs and NVIDIA's GPUs", hint)
    if target.type == "cuda" and (target.index or 0) >= count:
        raise ModelError(f"{unusable}: torch finds {count} GPU{'s' * (count != 1)}", hint)
    return target


def pick_dtype(dtype: str, device: torch.device) -> torch.dtype | None:
    """Return the dtype to run in, or None for the checkpoint's dtype ("auto" on a GPU).

    "auto" on a CPU is float32: half precision is slower. Raises ModelError for an unknown name.
    """
    if dtype not in DTYPES:
        raise ModelError(f"unknown dtype {dtype!r}", nearest(str(dtype), DTYPES))
    if dtype == "auto":
        return torch.float32 if device.type == "cpu" else None
    torch_dtype: torch.dtype = getattr(torch, DTYPES[dtype])
    return torch_dtype


def load_module(
    path: str,
    device: torch.device,
    dtype: torch.dtype | None = None,
    memory_limit: float | None = None,
    quantize: str | None = None,
    ranks: Ranks | None = None,
) -> PreTrainedModel:
    """Load a causal language model from a local folder or hub id. Reads only safetensors.

    Large loads draw a progress line on stderr; an interrupt stops the load. A load to a GPU needs
    only a few buffers of host memory.

    Args:
        dtype: None for the checkpoint's dtype.
        memory_limit: GPU memory available to the engine, in GiB.
        quantize: "fp8" or "int4" to quantize a dense checkpoint, matrix by matrix.
        ranks: Load this rank's part of the model; see `tensor_plan`.

    Raises:
        ModelError: The model is missing or unreadable, the tensors do not match the config, or the
            weights exceed the memory (checked before reading).
    """
    with _explained_errors(path):
        announce("finding the model")
        folder = find_folder(path)
        announce("reading weights")
        config = read_config(folder)

        checkpoint = read_checkpoint(folder)
        dtype = dtype or getattr(config, "dtype", None) or checkpoint.dtype
        packing = WeightPacking(path, checkpoint, config, quantize)

        def check_fit(needed: int) -> None:
            part = needed // (1 if ranks is None else ranks.size)
            check_weights_fit(path, part, dtype, device, memory_limit)

        module, report = _read(path, checkpoint, config, device, dtype, packing, check_fit, ranks)
        packing.finish(module)

        check_report(path, checkpoint, module, report)
        module.config.name_or_path = module.name_or_path = path
        return module.to(device)  # type: ignore[arg-type]


def check_division(source: str | Path | PreTrainedModel, size: int) -> None:
    """Check that a model can be divided among `size` ranks. Reads no weights.

    Raises:
        OptionError: The model is loaded already.
        ModelError: The model cannot be divided, or is unreadable.
    """
    if isinstance(source, PreTrainedModel):
        raise OptionError(
            f"tensor_parallel={size} does not support a loaded model",
            "give the folder or hub id of the model: each process reads its part",
        )

    path = str(source)
    with _explained_errors(path):
        announce("finding the model")
        folder = find_folder(path)
        config = read_config(folder)
        if WeightPacking(path, read_checkpoint(folder), config, None).scheme is not None:
            raise indivisible(path, "its weights are quantized")
        if is_multimodal(folder, config):
            raise indivisible(path, "it reads images, videos or sounds")
        with _one_at_a_time, torch.device("meta"):
            TensorPlan(path, AutoModelForCausalLM.from_config(config), 0, size)


@contextmanager
def _explained_errors(path: str) -> Iterator[None]:
    """Raise ModelError for an error of a load."""
    try:
        yield
    except ModelError:
        raise
    except LocalEntryNotFoundError as error:
        message = f"no model folder at {path!r}, and the hub cannot be reached"
        raise ModelError(message, _hint(path, error)) from error
    except PermissionError as error:
        message = f"{str(error.filename or path)!r} cannot be read: permission denied"
        hint = f"allow this user to read the folder: chmod -R u+rX {path}"
        raise ModelError(message, hint) from error
    except Exception as error:  # damaged files can raise any error
        message = f"{path!r} cannot be loaded as a decoder: {first_line(error)}"
        raise ModelError(message, _hint(path, error)) from error


def _hint(path: str, error: Exception) -> str:
    if is_out_of_memory(error):
        return LARGE_MODEL_HINT
    if isinstance(error, ImportError):
        return "install the library that the message names, or load a model without quantization"
    return (
        "give a folder with config.json and safetensors of a causal language model, a hub id, or a "
        f"bundled one; {nearest(path, models.names())}"
    )


def place_module(
    module: PreTrainedModel, device: torch.device, dtype: torch.dtype | None
) -> PreTrainedModel:
    """Move a loaded model in place. Casts parameters only: rotary frequencies and all buffers keep
    their precision."""
    if dtype is not None:
        for parameter in module.parameters():
            if parameter.is_floating_point():
                parameter.data = parameter.data.to(device, dtype)
    module.to(device)  # type: ignore[arg-type]
    return module


class _LazyWeight:
    """Lazy stand-in for a safetensors slice. transformers takes `weight[...]`, then calls `to`.
    `[...]` reads the tensor to the reader's device, because transformers requests the CPU unless
    `accelerate` is installed."""

    __slots__ = ("_entry", "_part", "_reader")

    def __init__(self, reader: TensorReader, entry: Entry, part: TensorPart | None) -> None:
        self._reader, self._entry, self._part = reader, entry, part

    def __getitem__(self, index: EllipsisType) -> _LazyWeight:
        if index is not ...:
            raise TypeError(f"weights are read whole, not {index!r}")
        return self

    def to(self, device: Any = None, dtype: torch.dtype | None = None) -> Tensor:
        stored = self._entry.dtype
        scaled = stored.itemsize == 1 or not stored.is_floating_point  # includes float8
        if dtype is not None and dtype.is_floating_point and scaled:
            raise _no_scales(self._entry)
        entry, part, reader = self._entry, self._part, self._reader
        tensor = reader.read(entry) if part is None else reader.read_part(entry, part)
        return tensor if dtype is None else tensor.to(dtype)


def _no_scales(entry: Entry) -> ModelError:
    return ModelError(
        f"{str(entry.file)!r} has weights in {str(entry.dtype).removeprefix('torch.')}, which "
        "need scales",
        "give a checkpoint in bfloat16, float16 or float32, or one with a quantization_config",
    )


def _read(
    path: str,
    checkpoint: Checkpoint,
    config: Any,
    device: torch.device,
    dtype: torch.dtype,
    packing: WeightPacking,
    check_fit: Callable[[int], None],
    ranks: Ranks | None,
) -> tuple[PreTrainedModel, Report]:
    """Read the weights. check_fit: raises ModelError for a size in bytes above the memory."""
    progress = Progress(path, checkpoint.size, sys.stderr)
    reader = TensorReader(device, progress)

    def work() -> tuple[PreTrainedModel, Report]:
        while not _one_at_a_time.acquire(timeout=REDRAW_SECONDS):
            reader.check()
        with ExitStack() as stack:
            stack.callback(_one_at_a_time.release)
            stack.enter_context(no_bars())
            pool = stack.enter_context(ThreadPoolExecutor(AHEAD + 1, "sgnb-pack"))
            reader.check()
            progress.begin()

            factory: Any = AutoModelForCausalLM
            if is_multimodal(checkpoint.folder, config):
                factory = AutoModelForMultimodalLM
            with torch.device("meta"):
                blank = factory.from_config(config)
            plan = packing.plan(blank)
            dense = packing.dense(plan)
            _check_parameters(path, stored_parameters(dense, plan), blank)
            check_fit(dense.size_in(dtype) + plan.size + packing.scratch_bytes(plan))
            # Multimodal configuration of a family with a standalone decoder.
            decodes = isinstance(config, type(blank).config_class)
            decoder_config = config if decodes else config.get_text_config(decoder=True)
            folder, entries = checkpoint.folder, checkpoint.entries
            family, ranges = divided(path, blank, entries, ranks)
            tensors = {
                name: _LazyWeight(reader, e, ranges.get(name)) for name, e in dense.entries.items()
            }
            parts = lazy_parts(plan, lambda name: reader.read(entries[name]), pool)
            own = (folder / "generation_config.json").is_file()
            result: tuple[PreTrainedModel, Report] = family.from_pretrained(
                None,
                config=decoder_config,
                state_dict=tensors | parts,
                quantization_config=PlanConfig(plan) if plan.targets else None,
                dtype=dtype,
                generation_config=GenerationConfig.from_pretrained(folder) if own else None,
                output_loading_info=True,
                ignore_mismatched_sizes=True,  # reported by `check_report`
            )
        return result

    try:
        module, report = _wait(work, reader, progress)
    finally:
        reader.close()
    progress.finish()
    return module, report


def _check_parameters(path: str, stored: int, blank: PreTrainedModel) -> None:
    """Raise ModelError if the config describes far more parameters than the `stored` ones:
    transformers allocates and draws missing weights before the report. blank: on the meta device.
    """
    described = sum(parameter.numel() for parameter in blank.parameters())
    if described > MAX_MISSING_RATIO * stored:
        raise ModelError(
            f"{path!r} cannot be loaded: its checkpoint has {stored:,} parameters, and its "
            f"config.json describes {described:,}",
            "give the whole checkpoint, with the config.json that was saved with the weights",
        )


def _wait(work: Any, reader: TensorReader, progress: Progress) -> Any:
    """Run `work` on a separate thread; draw progress on this thread, the receiver of interrupts."""
    background = WorkerThread(work, "sgnb-load")
    try:
        while not background.wait(REDRAW_SECONDS):
            progress.draw()
        progress.draw()
    except BaseException:
        reader.cancel()
        background.stop()
        raise
    return background.result()


@contextmanager
def no_bars() -> Any:
    """Disable transformers' bars: sgnb's progress counts bytes, not tensors."""
    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()


def load_tokenizer(path: str) -> Any:
    """Return the tokenizer in the folder of a model, or None."""
    folder = Path(path).expanduser()
    local = folder.is_dir()
    if local and not any((folder / name).exists() for name in TOKENIZER_FILES):
        return None
    source, offline = str(folder) if local else path, local or hub_is_away()
    try:
        return AutoTokenizer.from_pretrained(
            source, trust_remote_code=False, local_files_only=offline
        )
    except Exception as error:  # the tokenizers library raises plain exceptions
        message = f"the tokenizer of {path!r} cannot be read: {first_line(error)}"
        raise ModelError(message, "use Engine(..., tokenizer=...)") from error
