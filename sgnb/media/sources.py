"""Bytes of a path, of bytes, of a data URL, and of a URL. Knows no format."""

from __future__ import annotations

import base64
import binascii
import errno
import os
import stat
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote_to_bytes

from ..errors import MediaError, shown
from .download import download, shown_url
from .file_limits import MAX_BYTES, check_bytes, with_article


class EncodedMedia(NamedTuple):
    """Encoded media, with a name for errors."""

    name: str
    data: bytes


def read_source(x: Any, kind: str, fetch: bool) -> EncodedMedia | None:
    """Return the bytes of `x`; None if `x` is neither a path, nor bytes, nor a URL.

    Args:
        x: Path, bytes, data URL, or URL of http or https.
        kind: "image", "video" or "audio", which selects the size limit.
        fetch: Allow downloads.

    Raises:
        MediaError: `x` cannot be read, is too large, or is a URL without `fetch`.
    """
    if isinstance(x, bytes | bytearray | memoryview):
        name = f"the {kind} in bytes"
        check_bytes(name, kind, memoryview(x).nbytes)
        return EncodedMedia(name, bytes(x))
    if isinstance(x, str) and x[:5].lower() == "data:":
        return _data_url(x, kind)
    if isinstance(x, str) and x[:8].lower().startswith(("http://", "https://")):
        if not fetch:
            hint = f"pass {kind}(x, fetch=True) to download it, or give the path of a file"
            raise MediaError(f"{shown_url(x)} is a URL, and downloads are off", hint)
        return EncodedMedia(f"the download {shown_url(x)}", download(x))

    if isinstance(x, str | os.PathLike):
        return read_file(x, kind)
    return None


def _data_url(url: str, kind: str) -> EncodedMedia:
    name = f"the data URL {shown(url[:48])}"
    header, comma, content = url.partition(",")
    hint = f"write data:{kind}/...;base64, and the encoded bytes"
    if not comma:
        raise MediaError(f"{name} has no comma before its content", hint)
    if len(content) > 4 * MAX_BYTES[kind]:  # base64 and percent encoding: at most 3 times
        check_bytes(name, kind, len(content))

    data = unquote_to_bytes(content)
    if header.lower().endswith(";base64"):
        try:
            data = base64.b64decode(b"".join(data.split()), validate=True)
        except binascii.Error as error:
            raise MediaError(f"{name} is not valid base64: {error}", hint) from None
    check_bytes(name, kind, len(data))
    return EncodedMedia(name, data)


def read_file(path: str | os.PathLike[Any], kind: str) -> EncodedMedia:
    """Read a regular file. Links to files are followed; devices and pipes are never opened.

    Raises:
        MediaError: There is no such file, no permission, or the file is empty or too large.
    """
    name = f"the file {shown(os.fspath(path))}"
    try:
        _check_regular(name, kind, os.stat(path))
        flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
        with open(os.open(path, flags), "rb") as file:
            _check_regular(name, kind, os.fstat(file.fileno()))  # the path may have changed
            data = file.read(MAX_BYTES[kind] + 1)
    except MediaError:
        raise
    except OSError as error:
        reason = error.strerror or str(error)
        raise MediaError(f"{name} cannot be read: {reason}", _hint(error)) from None
    except ValueError as error:  # a null character in the path
        raise MediaError(f"{name} is not a path: {error}", "give the path of a file") from None

    check_bytes(name, kind, len(data))
    return EncodedMedia(name, data)


def _check_regular(name: str, kind: str, status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        is_folder = stat.S_ISDIR(status.st_mode)
        reason = "is a folder" if is_folder else "is a device, pipe or socket, not a regular file"
        raise MediaError(f"{name} {reason}", f"give the path of {with_article(kind)} file")
    check_bytes(name, kind, status.st_size)


def _hint(error: OSError) -> str:
    if error.errno == errno.ENAMETOOLONG:
        return "encoded content is a data URL: data:image/png;base64,..."
    if error.errno in (errno.ENOENT, errno.ENOTDIR):
        return f"check the path; the working folder is {Path.cwd()}"
    return "check the path and its permissions"
