"""The functions of torchvision that transformers' image and video processors call, on plain torch:
resize, pad, crop, convert and normalize tensors. Pixels may differ slightly from torchvision's.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor


class InterpolationMode(Enum):
    """Interpolations, by torchvision's names."""

    NEAREST = "nearest"
    NEAREST_EXACT = "nearest-exact"
    BILINEAR = "bilinear"
    BICUBIC = "bicubic"
    BOX = "box"
    HAMMING = "hamming"
    LANCZOS = "lanczos"


MODES = {
    InterpolationMode.NEAREST: "nearest",
    InterpolationMode.NEAREST_EXACT: "nearest-exact",
    InterpolationMode.BILINEAR: "bilinear",
    InterpolationMode.BICUBIC: "bicubic",
}
GRAY = torch.tensor([0.2989, 0.587, 0.114])


def resize(
    image: Tensor,
    size: Sequence[int],
    interpolation: InterpolationMode = InterpolationMode.BILINEAR,
    max_size: int | None = None,
    antialias: bool | None = True,
) -> Tensor:
    """Return [..., C, H, W] in the size (height, width)."""
    height, width = size
    frames = image.reshape(-1, *image.shape[-3:]).float()
    smooth = interpolation not in (InterpolationMode.NEAREST, InterpolationMode.NEAREST_EXACT)
    options = {"align_corners": False, "antialias": bool(antialias)} if smooth else {}
    resized = torch.nn.functional.interpolate(
        frames, (height, width), mode=MODES.get(interpolation, "bicubic"), **options
    )
    resized = resized.reshape(*image.shape[:-2], height, width)
    if image.is_floating_point():
        return resized.to(image.dtype)
    return resized.round().clamp(0, 255).to(image.dtype)


def pad(
    image: Tensor,
    padding: int | Sequence[int],
    fill: float | Sequence[float] | None = 0,
    padding_mode: str = "constant",
) -> Tensor:
    """Pad the last two dimensions by [left, top, right, bottom], or [x, y], or one width."""
    widths = [padding] if isinstance(padding, int) else list(padding)
    left, top, right, bottom = {1: widths * 4, 2: widths * 2, 4: widths}[len(widths)]
    around = (left, right, top, bottom)
    if padding_mode != "constant":
        return torch.nn.functional.pad(image, around, mode=padding_mode)
    if not isinstance(fill, Sequence):
        return torch.nn.functional.pad(image, around, value=fill or 0)
    channels = [
        torch.nn.functional.pad(image[..., index, :, :], around, value=value)
        for index, value in enumerate(fill)
    ]
    return torch.stack(channels, dim=-3)


def crop(image: Tensor, top: int, left: int, height: int, width: int) -> Tensor:
    return image[..., top : top + height, left : left + width]


def normalize(
    image: Tensor, mean: Sequence[float], std: Sequence[float], inplace: bool = False
) -> Tensor:
    shift, scale = (
        torch.as_tensor(values, dtype=image.dtype, device=image.device).reshape(-1, 1, 1)
        for values in (mean, std)
    )
    return (image - shift) / scale


def to_dtype(image: Tensor, dtype: torch.dtype = torch.float32, scale: bool = False) -> Tensor:
    """Convert a tensor; `scale` maps 0..255 of uint8 to 0..1 of floating point, and back."""
    if not scale or image.dtype == dtype:
        return image.to(dtype)
    if dtype.is_floating_point:
        return image.to(dtype) / (1 if image.is_floating_point() else 255)
    return (image * 255).round().clamp(0, 255).to(dtype)


def rgb_to_grayscale(image: Tensor, num_output_channels: int = 1) -> Tensor:
    if image.shape[-3] == 3:
        weights = GRAY.reshape(3, 1, 1)
        image = (image.float() * weights).sum(-3, keepdim=True).to(image.dtype)
    return image.expand(*image.shape[:-3], num_output_channels, *image.shape[-2:])


def grayscale_to_rgb(image: Tensor) -> Tensor:
    if image.shape[-3] > 1:
        return image
    return image.expand(*image.shape[:-3], 3, *image.shape[-2:])


def pil_to_tensor(image: Image.Image) -> Tensor:
    """Return a picture as uint8 [C, H, W]."""
    array = np.asarray(image)
    return torch.from_numpy(array[..., None] if array.ndim == 2 else array.copy()).movedim(-1, 0)


def to_pil_image(image: Tensor | np.ndarray[Any, Any]) -> Image.Image:
    """Return uint8 [C, H, W] as a picture."""
    array = image.movedim(0, -1).numpy() if isinstance(image, Tensor) else image
    return Image.fromarray(array.squeeze(-1) if array.shape[-1] == 1 else array)


FUNCTIONS: dict[str, Any] = {
    "InterpolationMode": InterpolationMode, "resize": resize, "pad": pad, "crop": crop,
    "normalize": normalize, "to_dtype": to_dtype, "to_dtype_image": to_dtype,
    "rgb_to_grayscale": rgb_to_grayscale, "grayscale_to_rgb": grayscale_to_rgb,
    "pil_to_tensor": pil_to_tensor, "to_image": pil_to_tensor, "to_pil_image": to_pil_image,
}  # fmt: skip
"""By torchvision's names."""
