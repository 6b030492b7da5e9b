"""SGLang's path of `Anthropic`."""

from ... import Anthropic

__all__ = ["Anthropic"]
