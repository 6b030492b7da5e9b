"""SGLang's path of `LiteLLM`."""

from ... import LiteLLM

__all__ = ["LiteLLM"]
