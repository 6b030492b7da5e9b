"""Python API of the engine: load, generate, inspect the cache, close. Knows no programs."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from transformers import PreTrainedModel

from .. import models
from ..errors import EngineError
from ..events import WaitingRequest
from ..grammar.compiler import CompiledGrammar, GrammarCompiler
from ..sampling import SamplingParams
from ..segment import Segment
from .assembly import assemble, check_options, cleaned_up_load, torch_process
from .loop import CacheMethods, EngineLoop, TokenStepper, WeightGuard
from .options import EngineOptions
from .request import arguments
from .request.fair_share import FairShare
from .request.generate_methods import GenerateMethods
from .request.input_processor import Prompt
from .request.request_state import OnOutput, Origin
from .request.waiting_queue import SchedulePolicy

SWITCH_INTERVAL = 1e-4
"""GIL switch interval of an open engine, in seconds. At 5 ms the GPU idles behind busy threads."""


class Engine(GenerateMethods, CacheMethods):
    """Model, KV cache and engine thread in this process. Use in a `with` block, or call `close`.

    Args:
        model: Local folder, hub id, "tiny" (the bundled model), or a loaded transformers model. A
            loaded model is moved to the device and cast to `dtype` in place. Engines on the same
            model share the model; the last engine to close restores the original attention. Until
            then a direct call of the model raises EngineError.
        model_path: SGLang's name of `model`.
        tokenizer: Transformers tokenizer; by default the model's. Without a tokenizer, prompts are
            token ids.
        processor: Transformers processor of a multimodal model; by default the model's.
        options: See `EngineOptions`.

    Raises:
        ModelError, OptionError: Loading failed, or an option is invalid.
        EngineError: The process was forked from a process with engines.
    """

    options: EngineOptions  # with the device's defaults
    _grammars: GrammarCompiler | None
    executor: Any = None  # program executor of this engine, owned by `sgnb.backends`

    def __init__(
        self,
        model: str | Path | PreTrainedModel = "tiny",
        *,
        model_path: str | Path | PreTrainedModel | None = None,
        tokenizer: Any = None,
        processor: Any = None,
        **options: Any,
    ) -> None:
        model = model if model_path is None else model_path
        settings = EngineOptions.make(options)
        self.model_name = type(model).__name__ if isinstance(model, PreTrainedModel) else str(model)
        self._model = weakref.ref(model) if isinstance(model, PreTrainedModel) else None
        source = models.path(model) if isinstance(model, str) and model in models.names() else model
        check_options(settings, tokenizer)
        torch_process().check()
        with cleaned_up_load(self.model_name):
            try:
                self._assemble(source, tokenizer, processor, settings)
                weakref.finalize(self, _close, self._loop, self._grammars)
                self.token_stepper = TokenStepper(self._loop.call, self._loop.token_gate)
                self._weight_guard = WeightGuard(self.model_name, self._loop)
                sys.setswitchinterval(min(SWITCH_INTERVAL, sys.getswitchinterval()))
                self._loop.start()  # last: an interrupt finds everything else initialized
            except BaseException:
                if "_loop" in vars(self):
                    self.close()
                raise

    def _check_may_wait(self) -> None:
        self._loop.check_may_wait()

    def submit(
        self,
        prompts: Sequence[Prompt],
        params: Sequence[SamplingParams],
        on_outputs: Sequence[OnOutput],
        *,
        stream: bool = False,
        origins: Sequence[Origin] | None = None,
        cache_scopes: arguments.CacheScopes = None,
        given_outputs: Sequence[Sequence[int]] | None = None,
    ) -> list[int]:
        """Queue one sample per prompt and return the request ids immediately.

        Args:
            on_outputs: Callbacks, one per prompt; see `RequestState`.
            origins: Source of each request, for events.
            cache_scopes: Prefix sharing of each request; shared with all by default.
            given_outputs: First output tokens of each request; generation continues after them.

        Raises:
            RequestError, OptionError, EngineError, ModelError: Before any sample is queued.
            ModelError as in `check_weights`; EngineError if the engine is closed.
        """
        self.log.home.check()
        stream = arguments.switch("stream", stream)
        values = params, on_outputs, origins, cache_scopes, given_outputs
        asked = arguments.submission(prompts, *values)
        states = self._factory.make(asked, stream, stacklevel=3)
        self._weight_guard.check(stacklevel=5)  # the caller of `generate`
        if any(state.request.params.approximate for state in states):
            self._loop.call(self._loop.tiers.splices.check)
        self._loop.submit(states)
        return [state.request.id for state in states]

    def encode(self, prompts: Sequence[str | Sequence[Segment]]) -> list[list[int]]:
        """Return the token ids of each of `prompts`, texts or lists of segments, as `generate`
        would. Raises OptionError if `prompts` is a single text."""
        self.log.home.check()
        return self._input_processor.encode(arguments.items("prompts", prompts))

    def abort(self, request: int | Sequence[int]) -> None:
        """End requests at the next token. Their outputs keep the tokens so far.

        Args:
            request: an id from `submit`, events or `Output.id`, or a list of ids. Unknown ids are
                ignored.

        Raises:
            OptionError: `request` is no id and no list of ids.
        """
        self._loop.abort(arguments.ids(request))

    def before_next_step(self, function: Callable[[], object]) -> None:
        """Run `function` on the engine's thread between two steps, or at once after `close`."""
        self._loop.run_soon(function)

    def check_weights(self, changed: bool = False) -> int:
        """Find changes of the model's weights since the last call.

        After a change, empty the cache including pins, recompute the tokens of running requests,
        and warn. `submit` makes the same check for each batch of requests.

        Args:
            changed: Assume a change. Use True after a write through `.data` to a few numbers, which
                the comparison can miss.

        Returns:
            The number of changes so far. 0 for a model that the engine read from a folder.

        Raises:
            ModelError: A module was replaced, or a weight has another shape, dtype or device.
            EngineError: The engine is closed.
        """
        changed = arguments.switch("changed", changed)
        return self._weight_guard.check(changed, always=True, stacklevel=3)

    def switch(
        self, *, schedule_policy: SchedulePolicy | None = None, overlap: bool | None = None
    ) -> None:
        """Change options from the next step on; None keeps the present value. Raises OptionError.

        Args:
            schedule_policy: Order of waiting requests.
            overlap: Launch a step before the last step is read.
        """
        options = self.options.switched(schedule_policy, overlap)

        def change() -> None:
            self._scheduler.waiting.policy = options.schedule_policy
            self._loop.overlap = bool(options.overlap)

        self._loop.call(change)
        self.options = options

    def share_fairly(self) -> None:
        """Start waiting requests in a fair order of the clients (`CacheScope.client`) by tokens,
        from the next step on."""

        def share() -> None:
            if self._scheduler.waiting.fair_share is None:
                self._scheduler.waiting.fair_share = FairShare()

        self._loop.call(share)

    def stats(self) -> dict[str, Any]:
        """Return counters since the start and the state of the pool in tokens; free + cached +
        in_flight = pool_tokens.

        - prompt_tokens, cached_tokens: of started requests, at the first admission; cached tokens
          include tokens loaded during the prefill.
        - recomputed_tokens: tokens with cached KV that no recurrent checkpoint covered.
        - computed_tokens: tokens through the model, i.e. uncached prompt tokens and decoded
          outputs.
        - jumped_tokens: output tokens forced by grammars without a step, in `jumps` jumps.
        - pinned: pinned part of `cached`.
        - cascade_steps: steps with attention over a prefix shared by several requests.
        - states: pool size for recurrent layers, `state_bytes` each; free_states are unused,
          kept_states are cache checkpoints, the remaining states belong to running requests.
        - encoded_items, encoder_hits: images and other items that were encoded, that were found.
        - loaded_tokens: from `host_cache` or `disk_cache`, in `loads` loads; also in cached_tokens.
          stored_blocks, dropped_blocks: blocks of 64 tokens that were copied there, that were not
          because other copies were waiting.
        - attention: see `attention`; compiling: faster kernels are compiling or will compile.
        """
        statistics = self._loop.call(self._loop.statistics)
        return statistics | {"attention": self.attention, "compiling": self._attention.compiling}

    def why_waiting(self, run: str, branch: str = "") -> list[WaitingRequest]:
        """Return the requests of a program that are not running, with the reasons.

        Args:
            run: Id of the run, as in `Origin`; "" for requests outside programs.
            branch: Branch of the program; forks of the branch are included.

        Returns:
            The requests in the order of submission.
        """
        run, branch = arguments.string("run", run), arguments.string("branch", branch)
        return self._loop.call(lambda: self._loop.why_waiting(run, branch))

    @property
    def attention(self) -> str:
        """Active attention kernels: "torch", "triton" or, once compiled, "flashinfer"."""
        return self._attention.name

    @property
    def model(self) -> PreTrainedModel | None:
        """Transformers model passed by the user, held by a weak reference."""
        return None if self._model is None else self._model()

    @property
    def closed(self) -> bool:
        """True after `close` or a fatal error."""
        return not self._loop.alive

    @property
    def failure(self) -> EngineError | None:
        """Error of calls after the end of the engine, with the reason of the end; None while
        open."""
        return self._loop.end_error

    def close(self) -> None:
        """End all requests and threads, and release the model. Idempotent."""
        _close(self._loop, self._grammars)

    def shutdown(self) -> None:
        """Call `close`; SGLang's name."""
        self.close()

    @property
    def modalities(self) -> frozenset[str]:
        """Supported kinds of media: image, video, audio."""
        return frozenset() if self.items is None else self.items.encoder.modalities

    @property
    def refused_modalities(self) -> dict[str, str]:
        """Refused kinds of media, with the reasons, although the model's processor reads these
        kinds."""
        return {} if self.items is None else self.items.encoder.refused

    @property
    def eos_token_ids(self) -> frozenset[int]:
        """End tokens of generations without `ignore_eos`."""
        return self._eos

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __repr__(self) -> str:
        closed = ", closed" if self.closed else ""
        return f"<Engine {self.model_name} on {self.device}, {self.dtype}{closed}>"

    @torch.inference_mode(False)  # tensors derived from weights are written in place later
    def _assemble(
        self, source: Any, tokenizer: Any, processor: Any, settings: EngineOptions
    ) -> None:
        """Load the model and create the loop. On failure `forget_frames` clears this frame: the
        runner in the parts holds device memory."""
        parts = assemble(self.model_name, source, tokenizer, processor, settings)
        self.options, self.log, self.tokenizer = parts.options, parts.log, parts.tokenizer
        self.device, self.dtype, self.vocab_size = parts.device, parts.dtype, parts.vocab_size
        self.context_length = parts.context_length
        self.shared_prefix = parts.scheduler.shared_prefix
        self.items = parts.input_processor.items  # of prompts; None for a model of text
        self._eos, self._input_processor = parts.eos, parts.input_processor
        self._scheduler, self._grammars = parts.scheduler, parts.grammars
        self._cache, self._fingerprint = parts.scheduler.cache, parts.runner.fingerprint
        slots, checkpoints = self._cache.slots, self._cache.checkpoints
        self.pool_tokens, self.token_bytes = slots.total, slots.unit_bytes
        self.state_bytes = checkpoints.pool.unit_bytes if checkpoints else 0
        self._attention = parts.attention
        self._loop = EngineLoop(
            parts.scheduler,
            parts.runner,
            parts.tokenizer,
            parts.log,
            parts.encoder,
            parts.tiers,
            jump_forward=parts.options.jump_forward,
            overlap=bool(parts.options.overlap),
            grammar_budget=parts.options.grammar_budget_ms / 1000,
        )
        self._factory = parts.request_factory(self._loop.check_open)
        splices = self._loop.tiers.splices
        splices.verifier.make = self._factory.make
        self._scheduler.begin_splice = splices.begin
        splices.min_seconds = parts.options.approximate_seconds
        if parts.team is not None:
            parts.team.watch(self._loop.fail)

    def compiled_grammar(self, number: int) -> CompiledGrammar | None:
        """Return the grammar numbered by a `GrammarReady` event, or None if forgotten."""
        number = arguments.number("number", number)
        return None if self._grammars is None else self._grammars.find(number)

    def seam_warnings(self, params: SamplingParams, last_token: int) -> tuple[str, ...]:
        """Return a warning if a prompt ends with punctuation, `last_token`, and the text of the
        compiled grammar of `params` cannot begin with a blank."""
        return self._factory.seam_warnings(params, last_token)


def _close(loop: EngineLoop, grammars: GrammarCompiler | None) -> None:
    loop.close()
    if grammars is not None and not loop.home.left:
        grammars.close()
