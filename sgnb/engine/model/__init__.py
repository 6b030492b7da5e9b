"""A transformers decoder: its files, its modules, and how it reads and writes the KV cache."""
