"""Names of the storage formats of keys and values. No torch."""

from __future__ import annotations

from typing import Literal, get_args

KVDtype = Literal["auto", "fp8"]
"""auto: the dtype of the model. fp8: e4m3 with a scale per token and KV head, see `fp8.py`."""

KV_DTYPES: tuple[KVDtype, ...] = get_args(KVDtype)
