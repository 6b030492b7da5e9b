"""Models behind an API. Each service implements `Endpoint`; `ApiExecutor` runs programs on any
endpoint."""

from .api_executor import ApiExecutor
from .litellm import Anthropic, LiteLLM, VertexAI
from .openai import OpenAI
from .sglang import RuntimeEndpoint

__all__ = ["Anthropic", "ApiExecutor", "LiteLLM", "OpenAI", "RuntimeEndpoint", "VertexAI"]
