"""Methods of an engine that wait for outputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...events import EventLog
from . import arguments
from .collect import arun_samples, run_samples
from .input_processor import Prompt, Sampling, read_samples


class GenerateMethods:
    """`generate` and `agenerate` over `submit` and `abort`, for engines in this process and in a
    host process."""

    log: EventLog
    submit: Any
    abort: Any

    def _check_may_wait(self) -> None:
        """Raise EngineError if a wait on this thread would never end."""
        self.log.home.check()

    def generate(
        self,
        prompt: Prompt | Sequence[Prompt],
        sampling_params: Sampling | Sequence[Sampling] = None,
        *,
        stream: bool = False,
        **sampling: Any,
    ) -> Any:
        """Continue a prompt (str or token ids) or each of a list of prompts.

        Args:
            prompt: Prompt or list of prompts.
            sampling_params: Parameters for all prompts, or a list with one entry per prompt.
            stream: Return an iterator of growing Outputs. Requires a single prompt and n = 1.
            sampling: Keyword arguments that override sampling_params.

        Returns:
            An Output, or a list for several prompts or n > 1 (grouped by prompt).

        Raises:
            RequestError, OptionError: Before any request runs. The error of a failed request is
            raised afterwards. An interrupt aborts the requests and keeps the cache.
        """
        self._check_may_wait()
        stream = arguments.switch("stream", stream)
        asked = read_samples(prompt, sampling_params, sampling, stream)
        return run_samples(self.submit, self.abort, asked, stream)

    async def agenerate(
        self,
        prompt: Prompt | Sequence[Prompt],
        sampling_params: Sampling | Sequence[Sampling] = None,
        *,
        stream: bool = False,
        **sampling: Any,
    ) -> Any:
        """Run `generate` without blocking the event loop. stream=True returns an async iterator."""
        self.log.home.check()
        stream = arguments.switch("stream", stream)
        asked = read_samples(prompt, sampling_params, sampling, stream)
        return await arun_samples(self.submit, self.abort, asked, stream)
