"""Transformers decoders: checkpoint files, modules, and access to the KV cache."""

DTYPES = {
    "auto": "auto",
    "float32": "float32",
    "fp32": "float32",
    "bfloat16": "bfloat16",
    "bf16": "bfloat16",
    "float16": "float16",
    "fp16": "float16",
}
"""Accepted dtype name -> torch's name."""

QUANTIZE = ("fp8", "int4")
"""Formats to which a load quantizes the weights of a dense checkpoint."""
