"""SGLang's path of `OpenAI`."""

from ... import OpenAI

__all__ = ["OpenAI"]
