"""Anthropic, Vertex AI and about a hundred other services, through the package litellm."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import Any

from ...lang.chat import ChatTemplate
from ...lang.executor import ScoreCall
from ...lang.location import Location
from ...sampling import SamplingParams
from .clients import SHORTEST_SECRET
from .collecting import Collected
from .endpoint import Answer, Ask, Scored, Tokens, ignore, refuse
from .executor import ApiExecutor
from .failures import HalfAnswer, missing, translated
from .guard import install
from .limits import Limits
from .openai import LARGEST_BIAS, ROLES_AS_TEXT, bias_of, response_format
from .secrets import Secrets
from .usage import fixed_price, listed_price

_OPENAI_NAMES = {
    "stop": "stop",
    "seed": "seed",
    "top_p": "top_p",
    "frequency_penalty": "frequency_penalty",
    "presence_penalty": "presence_penalty",
    "logit_bias": "logit_bias",
    "return_logprob": "logprobs",
    "top_logprobs_num": "top_logprobs",
}
"""Sampling parameters -> OpenAI's names, translated by litellm for each service."""

_REFUSED = (
    "min_new_tokens",
    "stop_token_ids",
    "stop_regex",
    "ignore_eos",
    "thinking",
    "logprob_start_len",
)
_IGNORED = ("top_k", "min_p", "repetition_penalty", "json_whitespace")
_CONTINUE = ("anthropic/", "claude", "vertex_ai/claude", "bedrock/anthropic")
"""Prefixes of models whose service continues an assistant turn."""


class LiteLLMEndpoint:
    """An `Endpoint` through litellm. `options` are passed to `litellm.acompletion`, such as
    `api_key`."""

    is_chat = True
    samples = scores = False

    def __init__(self, model: str, chat: ChatTemplate, options: dict[str, Any]) -> None:
        self.model, self.chat, self._options = model, chat, options
        self._litellm = package()
        self._takes = frozenset(self._litellm.get_supported_openai_params(model=model) or ())
        binds = self._litellm.supports_response_schema(model=model)
        self.enforces = frozenset({"json_schema"} if binds else ())
        self.continues = model.startswith(_CONTINUE)
        self._service = f"the service of {model!r}"
        self.secrets = secrets_in(options)

    def check(self, params: SamplingParams, location: Location | None) -> None:
        unknown = [name for name, own in _OPENAI_NAMES.items() if own not in self._takes]
        soft = ("seed", "frequency_penalty", "presence_penalty", "top_p")
        hard = [name for name in unknown if name not in soft]
        refuse(self._service, params, (*_REFUSED, *hard), "leave it out for this model")
        soft_unknown = [name for name in unknown if name in soft]
        ignore(self._service, params, (*_IGNORED, *soft_unknown), location)

    async def ask(self, ask: Ask, piece: Callable[[str], None]) -> Answer:
        with translated(self._service, self.secrets):
            answer = await self._litellm.acompletion(**self._body(ask), **self._options)
            if not ask.stream:
                return Collected(answer).answer(ask.params)
            collected = Collected()
            async for chunk in answer:
                piece(collected.add(chunk))
            if answer.received_finish_reason is None:  # litellm invents a missing finish reason
                raise HalfAnswer
            return collected.answer(ask.params)

    def _body(self, ask: Ask) -> dict[str, Any]:
        params = ask.params
        body: dict[str, Any] = {
            "model": self.model,
            "messages": list(ask.messages),
            "max_tokens": params.max_new_tokens,
            "temperature": params.temperature,
            "max_retries": 0,
            "num_retries": 0,
        }
        for name, own in _OPENAI_NAMES.items():
            value = getattr(params, name)
            if value != getattr(_DEFAULT, name) and own in self._takes:
                body[own] = list(value) if name == "stop" else value
        if params.logit_bias:
            body["logit_bias"] = bias_of(params, LARGEST_BIAS)
        if params.json_schema is not None and self.enforces:
            body["response_format"] = response_format(json.loads(params.json_schema))
        if ask.stream:
            body |= {"stream": True, "stream_options": {"include_usage": True}}
        return body

    async def score(self, call: ScoreCall) -> Scored:
        """Return no scores."""
        return (), Tokens()

    async def info(self) -> dict[str, Any]:
        return {"model": self.model, "chat": True}

    async def flush_cache(self) -> None:
        """Do nothing: the service manages its cache."""

    async def close(self) -> None:
        """Do nothing: litellm shares its clients."""


class LiteLLM(ApiExecutor):
    """Any model supported by the package litellm, by its litellm name: "anthropic/claude-...",
    "gemini/...", "mistral/...".

    Args:
        model_name: The litellm name of the model.
        chat_template: Role format of `s.text()`.
        api_key: Default: the environment variable documented by litellm.
        organization: Organization id, if the service has organizations.
        base_url: Address of the service, if configurable.
        prices: See `OpenAI`.
        options: Limits as for `OpenAI`; remaining options are passed to `litellm.acompletion`.
    """

    def __init__(
        self,
        model_name: str,
        chat_template: ChatTemplate | None = None,
        api_key: str | None = None,
        organization: str | None = None,
        base_url: str | None = None,
        *,
        prices: tuple[float, float] | None = None,
        **options: Any,
    ) -> None:
        limits, rest = Limits.split(options)
        headers = rest.pop("default_headers", None)
        own = {
            "api_key": api_key,
            "organization": organization,
            "base_url": base_url,
            "extra_headers": headers,
        }
        given = {name: value for name, value in own.items() if value is not None}
        endpoint = LiteLLMEndpoint(model_name, chat_template or ROLES_AS_TEXT, given | rest)
        super().__init__(endpoint, limits, fixed_price(prices, listed_price(model_name)))


class Anthropic(LiteLLM):
    """A model of Anthropic, by `model_name`. Arguments as for `LiteLLM`; the default key is
    ANTHROPIC_API_KEY."""

    def __init__(self, model_name: str, **options: Any) -> None:
        super().__init__(f"anthropic/{model_name.removeprefix('anthropic/')}", **options)


class VertexAI(LiteLLM):
    """A model on Google's Vertex AI, by `model_name`, in project GCP_PROJECT_ID at GCP_LOCATION of
    the environment. `safety_settings` are Google's. Other arguments as for `LiteLLM`."""

    def __init__(self, model_name: str, safety_settings: Any = None, **options: Any) -> None:
        places = {"vertex_project": "GCP_PROJECT_ID", "vertex_location": "GCP_LOCATION"}
        found = {name: os.environ[env] for name, env in places.items() if env in os.environ}
        if safety_settings is not None:
            found["safety_settings"] = safety_settings
        name = f"vertex_ai/{model_name.removeprefix('vertex_ai/')}"
        super().__init__(name, **{**found, **options})


_DEFAULT = SamplingParams()


def package() -> Any:
    """Import litellm without its download of a price table."""
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    try:
        import litellm
    except ImportError as error:
        missing("litellm", error)
    litellm.suppress_debug_info = True
    install()
    return litellm


def secrets_in(options: dict[str, Any]) -> Secrets:
    """Return the keys among the options and in the environment."""
    named = {**os.environ, **options, **(options.get("extra_headers") or {})}
    return Secrets(
        value
        for name, value in named.items()
        if isinstance(value, str) and len(value) >= SHORTEST_SECRET and _is_secret(name)
    )


def _is_secret(name: str) -> bool:
    return any(word in name.lower() for word in ("key", "token", "secret", "authorization"))
