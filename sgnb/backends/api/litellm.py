"""Anthropic, Vertex AI and about a hundred other services, through the package litellm."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any

from ...lang.chat import ChatTemplate
from ...lang.executor import ScoreCall
from ...lang.location import Location
from ...sampling import SamplingParams
from .api_executor import ApiExecutor
from .endpoint import (
    CHAT_IGNORED,
    CompletionRequest,
    CompletionResponse,
    ScoreResponse,
    Tokens,
    ignore,
    refuse,
)
from .limits import Limits
from .media_parts import checked_modalities
from .openai import MAX_BIAS, MIN_SECRET, ROLES_AS_TEXT, bias_of, response_format
from .responses import StreamAssembly, assembled
from .tool_calls import refuses_tools, tool_arguments
from .transport import Failure, IncompleteResponse, Secrets, litellm_package, translated
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
_OPTIONAL = ("seed", "frequency_penalty", "presence_penalty", "top_p")
"""Parameters ignored instead of refused by services without support."""

_DEFAULT = SamplingParams()
_CONTINUE = ("anthropic/", "claude", "vertex_ai/claude", "bedrock/anthropic")
"""Prefixes of models whose service continues an assistant turn."""


class LiteLLMEndpoint:
    """An `Endpoint` through litellm. `options` are passed to `litellm.acompletion`, such as
    `api_key`."""

    is_chat = True
    declares_tools = True
    samples = scores = False
    media_tokens: Mapping[str, str] = MappingProxyType({})

    def __init__(self, model: str, chat: ChatTemplate, options: dict[str, Any]) -> None:
        self.model, self.chat, self._options = model, chat, options
        self._litellm = litellm_package()
        self._takes = frozenset(self._litellm.get_supported_openai_params(model=model) or ())
        enforces_schema = self._litellm.supports_response_schema(model=model)
        self.enforces = frozenset({"json_schema"} if enforces_schema else ())
        self.native_tools = "tools" in self._takes
        self.continues = self._is_anthropic = model.startswith(_CONTINUE)
        self._service = f"the service of {model!r}"
        self.secrets = secrets_in(options)

    @property
    def listed_modalities(self) -> frozenset[str]:
        """The kinds of media of the model in litellm's list of models."""
        sees = self._litellm.supports_vision(model=self.model)
        hears = self._litellm.supports_audio_input(model=self.model)
        return frozenset(["image", "video"] * sees + ["audio"] * hears)

    def check(self, params: SamplingParams, location: Location | None) -> None:
        unsupported = [
            name for name, openai_name in _OPENAI_NAMES.items() if openai_name not in self._takes
        ]
        refused = [name for name in unsupported if name not in _OPTIONAL]
        refuse(self._service, params, (*_REFUSED, *refused), "leave it out for this model")
        ignored = [name for name in unsupported if name in _OPTIONAL]
        ignore(self._service, params, (*CHAT_IGNORED, *ignored), location)

    async def complete(
        self, request: CompletionRequest, on_text: Callable[[str], None]
    ) -> CompletionResponse:
        try:
            return await self._complete(request, on_text)
        except Failure as failure:
            if request.tools and not self._is_anthropic and refuses_tools(failure):
                self.native_tools = False  # from now on, the plain format
            raise

    async def _complete(
        self, request: CompletionRequest, on_text: Callable[[str], None]
    ) -> CompletionResponse:
        with translated(self._service, self.secrets):
            response = await self._litellm.acompletion(**self._body(request), **self._options)
            if not request.stream:
                return assembled(response, request.params)
            assembly = StreamAssembly()
            async for chunk in response:
                on_text(assembly.add(chunk))
            if response.received_finish_reason is None:  # litellm invents a missing finish reason
                raise IncompleteResponse
            return assembly.response(request.params)

    def _body(self, request: CompletionRequest) -> dict[str, Any]:
        params = request.params
        body: dict[str, Any] = {
            "model": self.model,
            "messages": list(request.messages),
            "max_tokens": params.max_new_tokens,
            "temperature": params.temperature,
            "max_retries": 0,
            "num_retries": 0,
        }
        for name, openai_name in _OPENAI_NAMES.items():
            value = getattr(params, name)
            if value != getattr(_DEFAULT, name) and openai_name in self._takes:
                body[openai_name] = list(value) if name == "stop" else value

        if params.logit_bias:
            body["logit_bias"] = bias_of(params, MAX_BIAS)
        if params.json_schema is not None and self.enforces:
            body["response_format"] = response_format(json.loads(params.json_schema))
        for name, value in tool_arguments(request).items():
            if name in self._takes:
                body[name] = value
        if request.stream:
            body |= {"stream": True, "stream_options": {"include_usage": True}}
        return body

    async def score(self, call: ScoreCall) -> ScoreResponse:
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
        modalities: Kinds of media that the model takes, as for `OpenAI`. Default: by litellm's list
            of models.
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
        modalities: Iterable[str] | None = None,
        **options: Any,
    ) -> None:
        supported = checked_modalities(modalities)
        limits, options = Limits.split(options)
        arguments = {
            "api_key": api_key,
            "organization": organization,
            "base_url": base_url,
            "extra_headers": options.pop("default_headers", None),
        }
        arguments = {name: value for name, value in arguments.items() if value is not None}
        endpoint = LiteLLMEndpoint(model_name, chat_template or ROLES_AS_TEXT, arguments | options)
        supported = endpoint.listed_modalities if supported is None else supported
        super().__init__(endpoint, limits, fixed_price(prices, listed_price(model_name)), supported)


class Anthropic(LiteLLM):
    """A model of Anthropic, by `model_name`. Arguments as for `LiteLLM`; the default key is
    ANTHROPIC_API_KEY."""

    def __init__(self, model_name: str, **options: Any) -> None:
        super().__init__(f"anthropic/{model_name.removeprefix('anthropic/')}", **options)


class VertexAI(LiteLLM):
    """A model on Google's Vertex AI, by `model_name`, in project GCP_PROJECT_ID at GCP_LOCATION of
    the environment. `safety_settings` are Google's. Other arguments as for `LiteLLM`."""

    def __init__(self, model_name: str, safety_settings: Any = None, **options: Any) -> None:
        variables = {"vertex_project": "GCP_PROJECT_ID", "vertex_location": "GCP_LOCATION"}
        defaults: dict[str, Any] = {
            name: os.environ[variable]
            for name, variable in variables.items()
            if variable in os.environ
        }
        if safety_settings is not None:
            defaults["safety_settings"] = safety_settings
        name = f"vertex_ai/{model_name.removeprefix('vertex_ai/')}"
        super().__init__(name, **defaults | options)


def secrets_in(options: dict[str, Any]) -> Secrets:
    """Return the keys among the options and in the environment."""
    candidates = {**os.environ, **options, **(options.get("extra_headers") or {})}
    return Secrets(
        value
        for name, value in candidates.items()
        if isinstance(value, str) and len(value) >= MIN_SECRET and _is_secret(name)
    )


def _is_secret(name: str) -> bool:
    return any(word in name.lower() for word in ("key", "token", "secret", "authorization"))
