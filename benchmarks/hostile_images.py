"""Hostile images, made byte by byte or by a change of a valid file."""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import PIL.Image

Case = tuple[str, bytes, bool]
"""Name, content, and whether the content is valid."""

SIDE = 8000  # the largest allowed square: 64 megapixels


def image_cases() -> Iterator[Case]:
    yield from _png_cases()
    yield from _jpeg_cases()
    yield from _gif_cases()
    yield from _bitmap_cases()
    yield from _tiff_cases()
    yield from _other_formats()
    for name, data in _photos().items():
        for percent in (30, 60, 95):
            cut = len(data) * percent // 100
            yield f"{name} cut at {percent} percent", data[:cut], False


def encoded(image: PIL.Image.Image, form: str, **options: Any) -> bytes:
    file = io.BytesIO()
    image.save(file, form, **options)
    return file.getvalue()


def photo(width: int = 97, height: int = 61) -> PIL.Image.Image:
    """An image that no format compresses to a few bytes."""
    pixels = np.random.default_rng(5).integers(0, 256, (height, width, 3), np.uint8)
    return PIL.Image.fromarray(pixels)


def _photos() -> dict[str, bytes]:
    return {form: encoded(photo(), form) for form in ("PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF")}


def chunk(tag: bytes, data: bytes) -> bytes:
    """A chunk of a PNG."""
    return struct.pack(">I", len(data)) + tag + data + struct.pack(">I", zlib.crc32(tag + data))


def png(width: int, height: int, rows: bytes, extra: bytes = b"", interlaced: int = 0) -> bytes:
    """A gray PNG. rows: content of IDAT, compressed here. extra: chunks before IDAT."""
    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, interlaced)
    body = chunk(b"IHDR", head) + extra + chunk(b"IDAT", zlib.compress(rows, 9))
    return b"\x89PNG\r\n\x1a\n" + body + chunk(b"IEND", b"")


def _png_cases() -> Iterator[Case]:
    small = png(2, 1, b"\0\1\2")
    bomb = zlib.compress(bytes(300_000_000), 9)
    yield "png of 4 gigapixels", png(65_535, 65_535, b"\0" * 10), False
    yield "png one row above 64 megapixels", png(SIDE, SIDE + 1, b"\0"), False
    yield "png of 64 megapixels", png(SIDE, SIDE, bytes((SIDE + 1) * SIDE)), True
    yield "png interlaced of 64 megapixels cut", png(SIDE, SIDE, bytes(10), b"", 1), False
    yield "png of width 0", png(0, 10, b"\0"), False
    yield "png of 2 to the 31 columns", png(2**31 - 1, 1, b"\0"), False
    yield "png with rows for another size", png(500, 500, b"\0\1\2"), False
    yield "png without header", small[:8] + small[33:], False
    yield "png signature only", small[:8], False
    yield "png with a wrong checksum", small.replace(small[29:33], b"\0\0\0\0"), False
    yield "png text bomb", png(2, 1, b"\0\1\2", chunk(b"zTXt", b"x\0\0" + bomb)), False
    yield "png profile bomb", png(2, 1, b"\0\1\2", chunk(b"iCCP", b"x\0\0" + bomb)), False
    yield "png pixel bomb", png(2, 1, b"\0\1\2" + bytes(300_000_000)), True
    animation = chunk(b"acTL", struct.pack(">II", 100_000, 0))
    yield "png animation of 100,000 frames", png(2, 1, b"\0\1\2", animation), False
    yield "png with a chunk of 4 GB", small[:33] + b"\xff\xff\xff\xffIDAT" + small[41:], True
    exif = chunk(b"eXIf", b"II*\0\x08\0\0\0" + b"\xff" * 40)
    yield "png with damaged metadata", png(2, 1, b"\0\1\2", exif), True


def _jpeg_cases() -> Iterator[Case]:
    data = encoded(photo(), "JPEG")
    size = data.index(b"\xff\xc0") + 5  # height and width in the frame header
    huge = data[:size] + b"\xff\xff\xff\xff" + data[size + 4 :]
    yield "jpeg of 4 gigapixels", huge, False
    yield "jpeg of height 0", data[:size] + b"\0\0" + data[size + 2 :], False
    yield "jpeg without frame", data[: size - 5] + b"\xff\xd9", False
    yield "jpeg start only", data[:2], False

    gray = PIL.Image.new("L", (SIDE, SIDE - 1), 128)
    progressive = encoded(gray, "JPEG", progressive=True, quality=10)
    scan = progressive[progressive.rindex(b"\xff\xda") : -2]
    yield "jpeg of 10,000 scans", progressive[:-2] + scan * 10_000 + b"\xff\xd9", False
    yield "jpeg with a loop in its metadata", encoded(photo(), "JPEG", exif=_exif_loop()), True
    yield "jpeg named as its size", b"\xff\xd8\xff\xe0" + b"\0\x10JFIF" + bytes(50), False


def _exif_loop() -> bytes:
    """Metadata whose directory names itself as the next and as the inner directory."""
    entry = struct.pack("<HHII", 0x8769, 4, 1, 8)
    return b"Exif\0\0II*\0" + struct.pack("<IH", 8, 1) + entry + struct.pack("<I", 8)


def _gif_cases() -> Iterator[Case]:
    data = encoded(PIL.Image.new("P", (3, 2)), "GIF")
    yield "gif of 4 gigapixels", data[:6] + b"\xff\xff\xff\xff" + data[10:], False
    frame = data.index(b",")
    larger = data[: frame + 5] + b"\xff\xff\xff\xff" + data[frame + 9 :]
    yield "gif with a frame above its screen", larger, False
    yield "gif of size 0", data[:6] + b"\0\0\0\0" + data[10:], True
    yield "gif without frames", data[:frame] + b";", False
    frames = [PIL.Image.new("L", (3, 2), shade) for shade in (0, 90, 255)]
    several = encoded(frames[0], "GIF", save_all=True, append_images=frames[1:])
    yield "gif with several frames as an image", several, False


def _bitmap_cases() -> Iterator[Case]:
    data = encoded(photo(), "BMP")

    def sized(width: int, height: int, bits: int = 24, compression: int = 0) -> bytes:
        return data[:18] + struct.pack("<iiHHI", width, height, 1, bits, compression) + data[34:]

    yield "bmp of 4 exapixels", sized(2**31 - 1, 2**31 - 1), False
    yield "bmp of negative size", sized(-97, -(2**31)), False
    yield "bmp of 7 bits", sized(97, 61, 7), False
    yield "bmp with unknown compression", sized(97, 61, 24, 77), False
    yield "bmp run-length of 60 megapixels", sized(SIDE, 7500, 8, 1), False
    webp = encoded(photo(), "WEBP", lossless=True)
    at = webp.index(b"VP8L") + 9
    yield "webp of 268 megapixels", webp[:at] + b"\xff\xff\xff\x0f" + webp[at + 4 :], False
    yield "webp with a wrong length", webp[:4] + b"\xff\xff\xff\x7f" + webp[8:60], False


def tiff(tags: dict[int, tuple[int, int, int]], after: bytes = b"", following: int = 0) -> bytes:
    """A TIFF with one directory. tags: number -> (type, count, value or offset)."""
    entries = b"".join(struct.pack("<HHII", tag, *tags[tag]) for tag in sorted(tags))
    return (
        b"II*\0" + struct.pack("<IH", 8, len(tags)) + entries + struct.pack("<I", following) + after
    )


def _gray(width: int, height: int, **changes: tuple[int, int, int]) -> dict[int, Any]:
    """The tags of a gray TIFF with one strip. changes: new values by the letter t and the tag."""
    tags = {
        256: (4, 1, width), 257: (4, 1, height), 258: (3, 1, 8), 259: (3, 1, 1),
        262: (3, 1, 1), 273: (4, 1, 200), 277: (3, 1, 1), 278: (4, 1, height),
        279: (4, 1, width * height % 2**32),
    }  # fmt: skip
    return tags | {int(name[1:]): value for name, value in changes.items()}


def _tiff_cases() -> Iterator[Case]:
    yield "tiff of 4 gigapixels", tiff(_gray(65_535, 65_535)), False
    yield "tiff with data after its end", tiff(_gray(50, 50, t273=(4, 1, 2**31))), False
    yield "tiff with a loop of directories", tiff(_gray(4, 4), bytes(200), following=8), True
    yield "tiff with 2 billion strips", tiff(_gray(50, 50, t273=(4, 2**31, 200))), False
    yield "tiff with 200 bits", tiff(_gray(50, 50, t258=(3, 1, 200)), bytes(4000)), False
    yield "tiff of floats", encoded(PIL.Image.new("F", (5, 4), 0.5), "TIFF"), False
    squeezed = encoded(PIL.Image.new("L", (SIDE, SIDE)), "TIFF", compression="tiff_deflate")
    yield "tiff of 64 megapixels in 64 kB", squeezed, True
    pages = [PIL.Image.new("L", (3, 2), shade) for shade in (1, 2)]
    several = encoded(pages[0], "TIFF", save_all=True, append_images=pages[1:])
    yield "tiff with two pages", several, False
    yield "tiff with 300,000 pages", _many_directories(300_000), False


def _many_directories(count: int) -> bytes:
    """A chain of equal directories of 4 by 4 pixels."""
    size = 2 + 12 * len(_gray(4, 4)) + 4
    chain = [tiff(_gray(4, 4), following=8 + size * i)[8:] for i in range(1, count)]
    return b"II*\0" + struct.pack("<I", 8) + b"".join(chain) + tiff(_gray(4, 4), bytes(200))[8:]


def _other_formats() -> Iterator[Case]:
    yield "svg", b'<svg xmlns="http://www.w3.org/2000/svg"><image href="/etc/passwd"/></svg>', False
    yield "svg bomb", b'<!DOCTYPE s [<!ENTITY a "' + b"a" * 100 + b'">]><svg>&a;</svg>', False
    yield "eps", b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n(/etc/passwd) run\n", False
    yield "pdf", b"%PDF-1.7\n1 0 obj << /JS (app.alert) >> endobj\n", False
    yield "ppm", b"P6\n2 1\n255\n" + bytes(6), False
    yield "jpeg 2000", b"\0\0\0\x0cjP  \r\n\x87\n" + bytes(100), False
    yield "icon", b"\0\0\1\0\1\0\x10\x10\0\0\1\0\x20\0" + bytes(100), False
    yield "photoshop", b"8BPS\0\1" + bytes(100), False
    yield "zip", b"PK\3\4" + bytes(100), False
    yield "html", b"<!doctype html><img src=x>", False
    yield "text", b"a picture of a cat", False
    yield "program", b"\x7fELF" + bytes(100), False
    yield "noise", bytes(np.random.default_rng(1).integers(0, 256, 5000, np.uint8)), False
    yield "nothing", b"", False
