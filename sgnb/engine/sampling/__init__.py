"""From logits to tokens, on any device."""
