"""The KV cache: manager, radix tree, payloads and their tensors."""
