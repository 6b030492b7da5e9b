"""Models behind an API. Each service is an `Endpoint`; one executor runs programs on any."""

from .executor import ApiExecutor
from .litellm import Anthropic, LiteLLM, VertexAI
from .openai import OpenAI
from .sglang import RuntimeEndpoint

__all__ = ["Anthropic", "ApiExecutor", "LiteLLM", "OpenAI", "RuntimeEndpoint", "VertexAI"]
