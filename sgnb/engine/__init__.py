"""The engine: runs a decoder in this process with a radix-tree KV cache. Knows no programs, no notebooks, no views."""
