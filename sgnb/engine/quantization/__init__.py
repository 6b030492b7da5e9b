"""Packed weights: storage formats of checkpoints, their loading, and quantization during a load.

Knows transformers' module classes and no fusion, no attention and no files: readers hand over
tensors by name.
"""
