"""The KV cache: the radix tree over it, its free slots, its tensors."""
