"""Safetensors index of a local folder or hub id: the files and the location of each tensor.

Reads no weights. Knows the file format and the hub; knows no device and no model.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import huggingface_hub
import torch
from huggingface_hub.errors import EntryNotFoundError

from ...errors import ModelError

SINGLE = "model.safetensors"
INDEX = "model.safetensors.index.json"
HUB_SECONDS = 5.0
MAX_HEADER_BYTES = 100_000_000
LFS_START = b"version "
"""First bytes of a Git LFS pointer file."""

DTYPES = {
    "BOOL": torch.bool, "U8": torch.uint8, "I8": torch.int8, "U16": torch.uint16,
    "I16": torch.int16, "U32": torch.uint32, "I32": torch.int32, "U64": torch.uint64,
    "I64": torch.int64, "F8_E4M3": torch.float8_e4m3fn, "F8_E5M2": torch.float8_e5m2,
    "F8_E8M0": torch.float8_e8m0fnu,
    "F16": torch.float16, "BF16": torch.bfloat16, "F32": torch.float32, "F64": torch.float64,
}  # fmt: skip
"""Safetensors dtype name -> torch dtype."""

_FOLDER_HINT = "give a folder with config.json and safetensors, a hub id, or 'tiny'"
_FILE_HINT = "download or copy the file again"


class Entry(NamedTuple):
    """Location of one tensor in a file: `size` bytes from byte `start`."""

    file: Path
    start: int
    size: int
    dtype: torch.dtype
    shape: tuple[int, ...]


@dataclass(frozen=True)
class Checkpoint:
    """Tensors of a folder by name."""

    folder: Path
    entries: dict[str, Entry]

    @property
    def size(self) -> int:
        """Total size of the tensors in bytes."""
        return sum(entry.size for entry in self.entries.values())

    @property
    def dtype(self) -> torch.dtype:
        """Dtype of the first floating-point tensor, a guess at the intended dtype of the model."""
        dtypes = (entry.dtype for entry in self.entries.values())
        floats = (dtype for dtype in dtypes if dtype.is_floating_point and dtype.itemsize > 1)
        return next(floats, torch.float32)

    def size_in(self, dtype: torch.dtype) -> int:
        """Return the size in bytes on a device, with floating-point tensors cast to `dtype`."""

        def size(entry: Entry) -> int:
            cast = dtype if entry.dtype.is_floating_point else entry.dtype
            return math.prod(entry.shape) * cast.itemsize

        return sum(map(size, self.entries.values()))


def find_folder(path: str) -> Path:
    """Return the folder of a model: `path` itself, or the hub cache after downloading missing
    files.

    Raises:
        ModelError: A local path is not a folder. For a hub id, errors of huggingface_hub pass
            through.
    """
    folder = Path(path).expanduser()
    if folder.is_dir():
        return folder
    if folder.is_file():
        raise ModelError(f"{path!r} is a file", f"give its folder: {str(folder.parent)!r}")
    if folder.is_absolute() or path.startswith((".", "~")) or path.count("/") > 1:
        raise ModelError(f"no model folder at {path!r}", _FOLDER_HINT)
    return _download(path)


def _download(repository: str) -> Path:
    """Download only the required files: many repositories contain duplicate weights."""
    offline = hub_is_away()

    def fetch(name: str) -> Path:
        return Path(huggingface_hub.hf_hub_download(repository, name, local_files_only=offline))

    folder = fetch("config.json").parent
    _try(fetch, "generation_config.json")
    weights = next((name for name in _weight_files(folder) if _try(fetch, name)), "")
    for shard in _shards(folder / weights) if weights.endswith(".json") else ():
        fetch(shard)
    return folder


def _try(fetch: Callable[[str], Path], name: str) -> bool:
    try:
        return fetch(name).is_file()
    except EntryNotFoundError:
        return False


def hub_is_away() -> bool:
    """True if the hub is unreachable. Avoids half a minute of retries by huggingface_hub."""
    try:
        huggingface_hub.get_session().head(huggingface_hub.constants.ENDPOINT, timeout=HUB_SECONDS)
    except Exception:  # of an HTTP library that depends on the version of huggingface_hub
        return True
    return False


def read_checkpoint(folder: Path) -> Checkpoint:
    """Read the headers of a folder's safetensors files and check the file sizes.

    Raises:
        ModelError: No file exists, a shard of the index is missing, or a file is truncated or
            damaged.
    """
    entries: dict[str, Entry] = {}
    for file in _files(folder):
        entries.update(read_header(file))
    return Checkpoint(folder, entries)


def _files(folder: Path) -> list[Path]:
    names = _weight_files(folder)
    for file in (folder / name for name in names):
        if file.is_file():
            shards = _shards(file) if file.suffix == ".json" else [file.name]
            return [folder / shard for shard in shards]
        _check_link(file)

    where = f"{str(folder)!r} has no file named {' or '.join(names)}"
    if any(folder.glob("*.bin")):
        raise ModelError(
            f"{where}, only .bin files, which can hold code and are not read",
            "give a folder with safetensors: transformers' from_pretrained and save_pretrained "
            "convert the files",
        )
    raise ModelError(where, _FOLDER_HINT)


def _weight_files(folder: Path) -> list[str]:
    """Return candidate file names in order. A config may name the weights file; names outside the
    folder are ignored."""
    try:
        name = json.loads((folder / "config.json").read_text()).get("transformers_weights") or ""
    except (OSError, ValueError, AttributeError):  # `read_config` reports the error in detail
        name = ""
    return [Path(name).name] if Path(name).name else [SINGLE, INDEX]


def _shards(index: Path) -> list[str]:
    try:
        names = sorted(set(json.loads(index.read_text())["weight_map"].values()))
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        message = f"{str(index)!r} cannot be loaded: not an index of safetensors files"
        raise ModelError(message, _FILE_HINT) from error
    return [Path(name).name for name in names]


def read_header(file: Path) -> dict[str, Entry]:
    """Read the tensor table of a safetensors file: an 8-byte header length, a JSON header, the
    data."""
    if not file.is_file():
        _check_link(file)
        message = f"{str(file)!r} is missing, though the folder's index names it"
        raise ModelError(message, _FILE_HINT)

    size = file.stat().st_size
    try:
        with file.open("rb") as stream:
            start = stream.read(8)
            if start == LFS_START:
                message = f"{str(file)!r} is a pointer of Git LFS and holds no weights"
                raise ModelError(message, "run `git lfs pull` in the model's folder")
            length = int.from_bytes(start, "little")
            if not 0 < length <= min(MAX_HEADER_BYTES, size - 8):
                raise ValueError(f"a header of {length} bytes")
            header: dict[str, Any] = json.loads(stream.read(length))
        header.pop("__metadata__", None)
        entries = {name: _entry(file, 8 + length, fields) for name, fields in header.items()}
    except PermissionError:
        raise
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        message = f"{str(file)!r} cannot be loaded as safetensors: {error}"
        raise ModelError(message, _FILE_HINT) from error

    end = 8 + length
    for name, entry in sorted(entries.items(), key=lambda item: item[1].start):
        if entry.size and entry.start < end:
            message = f"{str(file)!r} cannot be loaded: {name!r} overlaps the previous tensor"
            raise ModelError(message, _FILE_HINT)
        end = max(end, entry.start + entry.size)

    if size < end:
        message = f"{str(file)!r} cannot be loaded: it ends after {size:,} of {end:,} bytes"
        raise ModelError(message, _FILE_HINT)
    return entries


def _check_link(file: Path) -> None:
    """Raise ModelError for a symbolic link to a missing file, as in an incomplete hub cache."""
    if file.is_symlink():
        message = f"{str(file)!r} is a link to {str(file.readlink())!r}, which is missing"
        raise ModelError(message, _FILE_HINT)


def _entry(file: Path, base: int, fields: dict[str, Any]) -> Entry:
    begin, end = fields["data_offsets"]
    if fields["dtype"] not in DTYPES:
        raise ValueError(f"numbers of dtype {fields['dtype']} are not known here")
    dtype, shape = DTYPES[fields["dtype"]], tuple(fields["shape"])
    if begin < 0 or end - begin != math.prod(shape) * dtype.itemsize:
        raise ValueError(f"{end - begin} bytes for {list(shape)} of {dtype}")
    return Entry(file, base + begin, end - begin, dtype, shape)
