"""Models behind an API. Each service is an `Endpoint`; one executor runs programs on any."""

from .executor import ApiExecutor
from .openai import OpenAI

__all__ = ["ApiExecutor", "OpenAI"]
