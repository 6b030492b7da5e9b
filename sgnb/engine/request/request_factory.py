"""Creation of requests from the arguments of `Engine.submit`."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import Future

from ...errors import EngineError, RequestError, SgnbWarning
from ...grammar.compiler import GrammarCompiler, TokenGrammar
from ...grammar.grammar_warnings import seam
from ...sampling import SamplingParams
from .arguments import Submission
from .input_processor import InputProcessor
from .request import Request
from .request_state import RequestState
from .tokenizer import Tokenizer

_SEED_IN_HALVES = (
    "seed repeats the draws, but in {dtype} on a CPU logits are rounded otherwise beside other "
    'requests, and some tokens change with them: load with dtype="float32" to have them repeat'
)

REMEMBERED_SEAMS = 256
"""Maximum number of pairs of grammar and last token of a prompt with stored warnings."""


class RequestFactory:
    """Creates requests of one engine.

    Args:
        input_processor: Checks prompts and limits.
        tokenizer: None for an engine of token ids.
        eos: Tokens that end a generation.
        grammars: None without a tokenizer.
        rounds_by_batch: Dtype whose rounding depends on the batch: the first seed causes a warning.
            None otherwise.
        check_open: Raises the error of a closed engine.
    """

    def __init__(
        self,
        input_processor: InputProcessor,
        tokenizer: Tokenizer | None,
        eos: frozenset[int],
        grammars: GrammarCompiler | None,
        *,
        rounds_by_batch: str | None,
        check_open: Callable[[], None],
    ) -> None:
        self._input_processor, self._tokenizer = input_processor, tokenizer
        self._eos, self._grammars = eos, grammars
        self._rounds_by_batch, self._check_open = rounds_by_batch, check_open
        self._ids = itertools.count(1)
        self._seams: dict[tuple[TokenGrammar, int], tuple[str, ...]] = {}

    def make(self, submission: Submission, stream: bool, stacklevel: int) -> list[RequestState]:
        """Create one request per prompt. Grammars compile on other threads.

        Args:
            submission: Arguments of `Engine.submit`.
            stream: Listeners receive partial outputs.
            stacklevel: Of warnings, from this method on; 2 is the caller.

        Raises:
            RequestError, OptionError: A prompt, or a parameter, is not valid.
            EngineError: The engine is closed.
        """
        if self._rounds_by_batch and any(param.seed is not None for param in submission.params):
            message = _SEED_IN_HALVES.format(dtype=self._rounds_by_batch)
            self._rounds_by_batch = None
            warnings.warn(message, SgnbWarning, stacklevel=stacklevel)

        states = []
        prompts = self._input_processor.tokens(submission.prompts)
        samples = zip(prompts, *submission[1:], strict=True)
        for tokens, params, on_output, origin, cache_scope, output in samples:
            limit = self._input_processor.limit(tokens, params)
            self._input_processor.check_given(output, limit, params)
            request = Request(next(self._ids), tokens, params, limit, cache_scope, output)
            request.items = self._input_processor.place_items(tokens)
            states.append(
                RequestState(
                    request,
                    self._tokenizer,
                    self._eos,
                    on_output,
                    stream=stream,
                    origin=origin,
                    grammar=self._grammar(params),
                )
            )
        return states

    def _grammar(self, params: SamplingParams) -> Future[TokenGrammar] | None:
        """Return the request's grammar, compiling on another thread."""
        if params.grammar is None:
            return None
        if self._grammars is None:
            raise RequestError(
                f"{params.grammar.kind} needs a tokenizer", "use Engine(..., tokenizer=...)"
            )
        self._check_open()
        return self._grammars.compile(params.grammar)

    def seam_warnings(self, params: SamplingParams, last_token: int) -> tuple[str, ...]:
        """See `Engine.seam_warnings`. A closed engine has no warnings."""
        try:
            future = self._grammar(params)
        except EngineError:
            return ()
        if self._tokenizer is None or future is None or not future.done() or future.exception():
            return ()

        key = future.result(), last_token
        if key not in self._seams:
            compiled, pieces = future.result().compiled, self._tokenizer.vocabulary.pieces
            lines: Sequence[str] = ()
            is_text = last_token < len(pieces)  # otherwise the prompt ends with an image
            if compiled.automaton is not None and is_text and pieces[last_token].strip():
                lines = seam(compiled.automaton, compiled.spec.kind, pieces[last_token], pieces)
            while len(self._seams) >= REMEMBERED_SEAMS:
                del self._seams[next(iter(self._seams))]
            self._seams[key] = tuple(lines)
        return self._seams[key]
