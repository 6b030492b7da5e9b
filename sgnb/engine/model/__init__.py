"""A transformers decoder: its files, its modules, and how it reads and writes the KV cache."""

DTYPES = {
    "auto": "auto",
    "float32": "float32",
    "fp32": "float32",
    "bfloat16": "bfloat16",
    "bf16": "bfloat16",
    "float16": "float16",
    "fp16": "float16",
}
"""What may be written for a dtype -> torch's name of it."""
