"""SGLang's path of `VertexAI`."""

from ... import VertexAI

__all__ = ["VertexAI"]
