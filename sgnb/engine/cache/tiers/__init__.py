"""Tiers of the cache below the radix tree: copies of computed blocks in host memory and on disk."""
