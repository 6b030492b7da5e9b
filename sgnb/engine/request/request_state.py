"""Text, grammar and end of a running request, with its listener. Knows no scheduler."""

from __future__ import annotations

import codecs
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from ...errors import GrammarError
from ...events import Jumped
from ...grammar.automaton.automaton import Automaton
from ...grammar.compiler import TokenGrammar
from .approximation import ALTERNATIVES as COMPARED
from .approximation import Approximation, KeySample, Row
from .constraint import Constraint
from .detokenizer import Detokenizer
from .output import Output
from .request import Request
from .stop_regex import StopRegex
from .stop_strings import StopStrings
from .tokenizer import Tokenizer

OnOutput = Callable[[Output], None]

ALTERNATIVES = 8
"""Recorded alternatives per token of a request with stops at tokens."""

_Utf8 = codecs.getincrementaldecoder("utf-8")


class Finish(NamedTuple):
    """Reason for the end of a request."""

    reason: str | None  # `Output.finish_reason`
    by: str | int | None = None  # `Output.stopped_by`; a token is not text, a string cuts the text
    error: Exception | None = None  # `Output.error`


class Origin(NamedTuple):
    """Source of a request for events: run, branch, variable and line; see `RequestQueued`."""

    run: str = ""
    branch: str = ""
    name: str = ""
    purpose: str = "generate"
    file: str = ""
    line: int = 0


NO_ORIGIN = Origin()


class RequestState:
    """Converts a request's tokens to text, follows the grammar and detects the end. `request.state`
    is this object until `finish`."""

    def __init__(
        self,
        request: Request,
        tokenizer: Tokenizer | None,
        eos: frozenset[int],
        on_output: OnOutput,
        *,
        stream: bool = False,
        origin: Origin = NO_ORIGIN,
        grammar: Future[TokenGrammar] | None = None,
    ) -> None:
        """on_output: called on the engine's thread, without blocking, with the finished `Output`;
        with `stream` also with each partial output."""
        self.request = request
        request.state = self
        params = request.params
        self._begun = time.perf_counter()
        self.origin = origin
        self.stop_tokens = frozenset() if params.ignore_eos else eos
        if params.stop_token_ids:
            self.stop_tokens = self.stop_tokens.union(params.stop_token_ids)
        self.ending: Finish | None = None  # pending end, until the last tokens are scored

        self.grammar = grammar  # may still be compiling; must be done at `begin`
        # Work of a slow grammar, left to another thread by `begin` and `advance`. `resume` follows.
        self.grammar_work: Callable[[], None] | None = None
        self.grammar_seconds = 0.0  # processor time of finished work
        self.constraint: Constraint | None = None  # set by the first `resume`
        self._started: Constraint
        # offset of the automaton's states in the device tables
        self.table_offset: int | None = None
        self.holds_back = params.min_new_tokens > 0 or bool(params.thinking_end)
        self.stops_at_tokens = False  # see `stop_at_tokens`
        self.approximation: Approximation | None = None  # see `approximate`
        self._classify()

        self._on_output = on_output
        self._stream = stream
        # True if the running text is needed. Add new stop conditions on text here and in
        # `_found_end`.
        self._reads_text = bool(stream or params.stop or params.stop_regex)
        # True if a token needs more work than an append.
        self._checks_text = self._reads_text or params.return_logprob
        request.appends_only = grammar is None and not self._checks_text
        self._tokenizer = tokenizer
        self._detokenizer = None
        if grammar is not None:
            self._characters = _Utf8("replace")
        elif tokenizer is not None:
            prompt = request.tokens[: request.num_prompt_tokens]
            self._detokenizer = Detokenizer(tokenizer, prompt, params.skip_special_tokens)
        self._stops: tuple[StopStrings | StopRegex, ...] = ()
        if params.stop:
            self._stops += (StopStrings(params.stop),)
        if params.stop_regex:
            self._stops += (StopRegex(params.stop_regex),)
        self._text = ""
        self._skips_blank = params.leading_blank  # until the first character
        self._shown = 0  # number of characters already shown
        self._pushed = request.num_prompt_tokens if grammar is None else 0

    @property
    def banned(self) -> frozenset[int]:
        """Tokens forbidden at this position."""
        if not self.holds_back:
            return frozenset()
        request = self.request
        output = request.num_tokens_with_placeholders - request.num_prompt_tokens
        thinks = self.constraint is not None and not self.constraint.binds
        early = output < request.params.min_new_tokens
        return self.stop_tokens if early or thinks else frozenset()

    @property
    def automaton(self) -> Automaton | None:
        """Automaton that may mask the logits on a device. None if only the host can follow the
        grammar."""
        params = self.request.params
        if self.grammar is None or self.constraint is None:
            return None
        if params.thinking or params.min_new_tokens:
            return None
        compiled = self.grammar.result().compiled
        return None if compiled.distinct else compiled.automaton

    def put_grammar_on_device(self, table_offset: int | None) -> None:
        """Mask the request's logits on the device from now on; the automaton's states begin at
        `table_offset` in the device tables. None keeps masking on the host."""
        self.table_offset = table_offset
        self._classify()

    def stop_at_tokens(self) -> None:
        """Read each token before the next step is launched, and record alternatives, from now on.
        Only for a request outside of steps, or with `Scheduler.recount_synchronous`."""
        self.stops_at_tokens, request = True, self.request
        if not request.params.recorded_alternatives:
            request.params = replace(request.params, recorded_alternatives=ALTERNATIVES)

        request.appends_only = False
        self._classify()

    def approximate(
        self, approximation: Approximation, ended: Callable[[RequestState, Output], None]
    ) -> None:
        """Mark the answer as approximate, and record alternatives for the comparison.

        Args:
            approximation: Record of the answer.
            ended: Called with this state and the finished output.
        """
        self.approximation, self._ended, request = approximation, ended, self.request
        self.likeliest: dict[int, Row] = {}  # by output position
        self.key_sample: KeySample | None = None
        recorded = max(request.params.recorded_alternatives, COMPARED)
        request.params = replace(request.params, recorded_alternatives=recorded)
        request.appends_only = False

    @property
    def constraint_ready(self) -> bool:
        """True unless the grammar compiles or works."""
        waits = self.grammar is not None and self.constraint is None
        return not waits and self.grammar_work is None

    def _classify(self) -> None:
        params = self.request.params
        on_device = self.grammar is None or self.table_offset is not None
        synchronous = params.penalises or self.stops_at_tokens
        self.request.runs_ahead = on_device and not synchronous
        # True if device kernels can sample the tokens, except for `banned`.
        self.fits_kernels = on_device and params.is_plain

    def begin(self, jump_forward: bool) -> Finish | None:
        """Start the compiled grammar; return the end if the given output or the grammar contains
        the end. Raises the grammar's compile error, an error of the given output, or RequestError
        if no text fits. See `grammar_work`."""
        if self.grammar is None:
            return self._check_given() if self.request.given_output else None
        assert self._tokenizer is not None
        params = self.request.params
        failure = self.grammar.exception()
        if isinstance(failure, GrammarError):
            # Raise a new error per request: a raised error of the shared future would retain this
            # frame.
            raise GrammarError(failure.message, failure.hint) from failure

        grammar = self.grammar.result()
        make = partial(
            Constraint,
            request=self.request,
            tokenizer=self._tokenizer,
            thinking_end=params.thinking_end,
            jump=params.jump_forward and jump_forward,
            # Penalties, stop conditions and log-probabilities need tokens one at a time.
            draft=not (self._stops or params.return_logprob or params.penalises),
            background=grammar.is_slow,
            least=grammar.compiled.least,
        )
        self.request.has_slow_grammar = grammar.is_slow

        def work() -> None:
            self._started = make(grammar.matcher())
            self._started.begin(self.request.given_output, self.stop_tokens)

        return self._do(work)

    def _check_given(self) -> Finish | None:
        """Return the end of the request if the given output contains the end."""
        last = self.request.given_output[-1]
        return self._sealed(Finish("stop", last)) if last in self.stop_tokens else self._check()

    def advance(self, token: int) -> Finish | None:
        """Accept the sampled token; return the end of the request, if reached. See
        `grammar_work`."""
        request = self.request
        request.append(token)
        if token in self.stop_tokens:
            return Finish("stop", token)
        if self.constraint is None:
            if not self._checks_text:
                return Finish("length") if request.num_tokens == request.max_len else None
        elif not self._checks_text and self.constraint.is_idle():
            return None
        else:
            return self._do(self.constraint.jump_forward)
        return self._check()

    def _do(self, work: Callable[[], None]) -> Finish | None:
        """Do work of the grammar, or leave the work of a slow grammar to `grammar_work`."""
        if not self.request.has_slow_grammar:
            work()
            return self.resume()

        def prepared() -> None:
            work()
            self._started.prepare()

        self.grammar_work = prepared
        return None

    def resume(self) -> Finish | None:
        """Apply the results of the grammar's work; return the end of the request, if reached."""
        self.grammar_work = None
        begins, self.constraint = self.constraint is None, self._started
        self.constraint.commit()
        if begins and self.request.given_output:
            return self._check_given()
        return self._check() if self.request.num_output_tokens else None

    def _check(self) -> Finish | None:
        """Return the end if the current text contains an end; otherwise pass the new text to the
        listener."""
        if self._reads_text:
            self._read()
        ending = self._found_end()
        if ending is not None:
            return self._sealed(ending)
        if self._stream:
            self._show()
        return None

    def _sealed(self, ending: Finish) -> Finish | None:
        """Return the end, or None to score the last tokens before."""
        if self.request.score_from < self.request.num_tokens:
            self.request.sealed, self.ending = True, ending
            return None
        return ending

    def _found_end(self) -> Finish | None:
        if self._stops and (stop := self._find_stop()) is not None:
            return Finish("stop", stop)
        if self.constraint is not None and (self.constraint.sealed or self.constraint.finished):
            return Finish("length" if self.constraint.sealed else "stop")
        return Finish("length") if self.request.remaining == 0 else None

    def take_jumps(self) -> list[Jumped]:
        """Return the jumps since the last call."""
        if self.constraint is None:
            return []
        jumps, self.constraint.jumps = self.constraint.jumps, []
        return jumps

    def read_rest(self, ending: Finish) -> None:
        """Decode the text up to the end, without drafted tokens. Call before `finish`."""
        if self.constraint is not None:
            self.constraint.take_back_tail()
        if isinstance(ending.by, str):
            return
        self._read(skip_last=ending.by is not None)
        if self._detokenizer is not None:
            self._text += self._detokenizer.finish()
        if self.constraint is not None:
            self._add_text(self._characters.decode(b"", True))

    def finish(self, ending: Finish) -> None:
        """Call `on_output` a last time with the decoded text. Increments `version` to void samples
        in flight, and deletes `request.state`."""
        try:
            output = self._output(ending)
            if self.approximation is not None:
                self._ended(self, output)
            self._on_output(output)
        finally:
            self.request.version += 1
            del self.request.state  # breaks the reference cycle

    def _read(self, skip_last: bool = False) -> None:
        """Decode new tokens. A stop token is not text."""
        if self.constraint is not None:
            data = bytes(self.constraint.data[self._pushed :])
            self._pushed += len(data)
            self._add_text(self._characters.decode(data))
            return
        request = self.request
        new = request.tokens[self._pushed : request.num_tokens - skip_last].tolist()
        self._pushed += len(new)
        if self._detokenizer is not None and new:
            self._text += self._detokenizer.push(new)

    def _add_text(self, text: str) -> None:
        if self._skips_blank and text:
            self._skips_blank = False
            text = text.removeprefix(" ")
        self._text += text

    def _find_stop(self) -> str | None:
        if self.request.num_output_tokens < self.request.params.min_new_tokens:
            for stops in self._stops:
                stops.ignore(self._text)
            return None
        hits = [hit for stops in self._stops if (hit := stops.find(self._text)) is not None]
        if not hits:
            return None
        place, stop = min(hits)
        self._text = self._text[:place]
        return stop

    def _show(self) -> None:
        lengths = [stops.safe_length(self._text) for stops in self._stops]
        safe = min(lengths, default=len(self._text))
        if safe > self._shown:
            self._on_output(self._output(Finish(None), safe))

    def _output(self, ending: Finish, length: int | None = None) -> Output:
        request = self.request
        params, output = request.params, request.output
        if self.constraint is not None:
            output = output[: len(output) - len(self.constraint.tail)]

        token_ids = [] if params.scores_next else output
        text = "" if params.scores_next else self._text[:length]
        delta, self._shown = text[self._shown :], len(text)
        return Output(
            text,
            token_ids,
            request.num_prompt_tokens,
            min(request.cached_tokens or 0, request.num_prompt_tokens),
            ending.reason,
            ending.by,
            ending.error,
            delta,
            list(request.logprobs),
            list(request.prompt_logprobs),
            list(request.top_logprobs),
            list(request.prompt_top_logprobs),
            self.constraint.reasoning.decode(errors="replace") if self.constraint else "",
            list(self.constraint.records) if self.constraint else [],
            str(request.id),
            time.perf_counter() - self._begun,
            request.scored_ids,
            output[0] if output and params.scores_next else None,
            params,
            self._tokenizer.text if self._tokenizer and params.return_text_in_logprobs else None,
            self.approximation,
        )
