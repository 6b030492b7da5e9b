"""`@function`: a program to run, run over a batch, bind, await, and call from another program."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import inspect
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from inspect import BoundArguments
from typing import Any, Literal

from ..errors import OptionError, ProgramError, nearest
from ..sampling import SamplingParams
from .config import global_config
from .executor import Executor, executor_of
from .location import caller
from .pool import WorkerPool
from .run import Run
from .state import AsyncProgramState, ProgramState

_OF_ONE_CALL = ("regex", "json_schema", "ebnf", "json_whitespace", "thinking")
_DEFAULTS = tuple(name for name in SamplingParams.names() if name not in _OF_ONE_CALL)
"""What a run may set for all of its generations."""

MAX_WORKERS = 64
"""num_threads="auto": programs of a batch that may wait for a value, or run a tool, at once."""


def set_default_executor(executor: Any) -> None:
    """What runs programs that name no backend: an executor, or an engine."""
    global_config.default_backend = executor


def _executor(backend: Any) -> Executor:
    chosen = global_config.default_backend if backend is None else backend
    if chosen is None:
        hint = "load a model, or call sgnb.set_default_backend(...)"
        raise OptionError("there is nothing to run programs on", hint)
    return executor_of(chosen)


def function(
    func: Callable[..., Any] | None = None,
    num_api_spec_tokens: int | None = None,
    *,
    marks: bool = False,
    keep_tokens: bool = True,
) -> Any:
    """Make a program of a Python function whose first argument is the state, `s`.

    With `marks`, special tokens written in the contents of its roles and in its arguments are read
    as such, and not as plain text, in every run of it. Without `keep_tokens`, what the model wrote
    is tokenized anew with the text around it, as a server would that is sent text.
    `num_api_spec_tokens` is for models behind an API, of which there are none yet, and changes
    nothing for an engine.
    """
    make = functools.partial(SglFunction, marks=marks, keep_tokens=keep_tokens)
    return make if func is None else make(func)


class SglFunction:
    """`func` with some of its arguments bound.

    Arguments of `func` and sampling defaults are given together, by name; a name that is both is
    the function's.
    """

    def __init__(
        self,
        func: Callable[..., Any],
        bound: Mapping[str, Any] | None = None,
        marks: bool = False,  # see `function`
        keep_tokens: bool = True,
    ) -> None:
        self.func = func
        self.bound = dict(bound or {})
        self.marks, self.keep_tokens = marks, keep_tokens
        self.is_async = inspect.iscoroutinefunction(func)
        self._signature = _without_state(func)
        self._names = tuple(self._signature.parameters)
        functools.update_wrapper(self, func)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """With a state first: run inside that program; what the function returns. Else `run`, or
        for an `async def` `arun`."""
        if args and isinstance(args[0], ProgramState):
            return self._call(args[0], self._arguments(args[1:], kwargs))
        return self.arun(*args, **kwargs) if self.is_async else self.run(*args, **kwargs)

    def run(
        self, *args: Any, stream: bool = False, backend: Any = None, **kwargs: Any
    ) -> ProgramState:
        """Run the program's code, and return its state as soon as that has run: what it appended
        goes on beside what comes next, and reading a value waits for it. An error of the code is
        raised here, one of what it appended by the first read; an error that nobody reads is logged
        once. With `stream` the code runs on a thread of its own, and the state comes at once.
        """
        arguments, defaults = self._split(args, kwargs)
        run = self._run(_executor(backend), defaults, stream=stream)
        if stream:
            return self._on_a_thread(run, arguments)
        try:
            if not self.is_async:
                state = run.state(start=False)
                self._work(state, arguments)
                return state
            state = self._on_a_thread(run, arguments)
            program = state.program
            program.wait(lambda: program.closed)
            program.raise_failure()
        except BaseException as error:
            run.finish(error)
            raise
        return state

    async def arun(self, *args: Any, backend: Any = None, **kwargs: Any) -> ProgramState:
        """As `run`, on an event loop, to the end of all that the program appended. Cancelling the
        task stops the program's calls.

        The code of an `async def` runs as part of the calling task; that of a `def` on a thread of
        its own.
        """
        arguments, defaults = self._split(args, kwargs)
        run = self._run(_executor(backend), defaults)
        try:
            if self.is_async:
                state = run.state(start=False)
                await self._awork(state, arguments)
            else:
                state = self._on_a_thread(run, arguments)
            program = state.program
            await program.wait_async(lambda: program.finished)
        except BaseException:
            run.mark_read()
            run.cancel()
            raise
        state.raise_error()
        return state

    def run_batch(
        self,
        batch: Any,
        *,
        backend: Any = None,
        num_threads: int | Literal["auto"] = "auto",
        progress_bar: bool = False,
        generator_style: bool = False,
        **defaults: Any,
    ) -> list[ProgramState] | Iterator[ProgramState]:
        """Run the program once for each dict or tuple of arguments, or row of a data frame; states
        in the same order.

        Programs share `num_threads` worker threads, of which only those that wait for a value need
        one of their own. With `generator_style` the states come as they finish, in order. A program
        that failed raises its error when its state is read; this call does if all have failed.
        """
        limit = MAX_WORKERS if num_threads == "auto" else num_threads
        if not isinstance(limit, int) or limit < 1:
            message = f"num_threads={num_threads!r} is not allowed"
            raise OptionError(message, 'give "auto" or an integer of 1 or more')
        self._refuse_unknown(defaults, _DEFAULTS)
        rows = [self._arguments(*_row(row)) for row in _rows(batch)]
        if not rows:
            return iter(()) if generator_style else []
        params = SamplingParams.make(defaults)
        start = functools.partial(self._run, _executor(backend), params, total=len(rows))
        states = self._batch(start, rows, WorkerPool(limit), progress_bar)
        return states if generator_style else list(states)

    def bind(self, **kwargs: Any) -> SglFunction:
        """The same program with these arguments fixed."""
        self._refuse_unknown(kwargs, self._names)
        return SglFunction(self.func, {**self.bound, **kwargs}, self.marks, self.keep_tokens)

    @property
    def arg_names(self) -> list[str]:
        """Of the function, without `s`."""
        return list(self._names)

    @property
    def bind_arguments(self) -> dict[str, Any]:
        """Those that `bind` has fixed."""
        return dict(self.bound)

    def __repr__(self) -> str:
        return f"<sgnb program {self.__name__}{self._signature}>"  # type: ignore[attr-defined]

    @functools.cached_property
    def source(self) -> str:
        """The function's text, "" where it is not known."""
        try:
            return inspect.getsource(self.func)
        except (OSError, TypeError):
            return ""

    def _run(self, executor: Executor, defaults: Any, total: int = 1, stream: bool = False) -> Run:
        title = self.func.__name__
        return Run(
            executor, title, self.source, total, defaults, stream, self.marks, self.keep_tokens
        )

    def _on_a_thread(self, run: Run, arguments: BoundArguments) -> ProgramState:
        """Run the program's code on a thread of its own; its errors are raised by reading the
        state."""
        state = run.state(start=False)
        [task] = self._tasks([state], [arguments])
        name = f"sgnb-{self.func.__name__}"
        threading.Thread(target=task, name=name, daemon=True).start()
        return state

    def _batch(
        self,
        start: Callable[[], Run],
        rows: list[BoundArguments],
        pool: WorkerPool,
        progress_bar: bool,
    ) -> Iterator[ProgramState]:
        with start() as run:
            states = [run.state(start=False) for _ in rows]

            def show(end: str = "") -> None:
                if progress_bar:
                    line = f"\r{run.finished}/{len(rows)} programs"
                    print(line, end=end, file=sys.stderr, flush=True)

            def meanwhile() -> None:
                pool.nudge()
                show()

            try:
                pool.add(self._tasks(states, rows))
                for state in states:
                    state.program.wait_finished(meanwhile)
                    yield state
            finally:
                pool.stop()
                show("\n")

    def _tasks(
        self, states: Sequence[ProgramState], rows: Sequence[BoundArguments]
    ) -> list[Callable[[], None]]:
        """What runs the programs' code on other threads: one task for each, or one event loop for
        all. Their states have their errors."""
        pairs = list(zip(states, rows, strict=True))

        def work(state: ProgramState, arguments: BoundArguments) -> None:
            with contextlib.suppress(BaseException):
                self._work(state, arguments)

        async def work_all() -> None:
            await asyncio.gather(*(self._awork(*pair) for pair in pairs), return_exceptions=True)

        if self.is_async:
            return [lambda: asyncio.run(work_all())]
        return [functools.partial(work, *pair) for pair in pairs]

    def _work(self, state: ProgramState, arguments: BoundArguments) -> None:
        """Run the program's code here."""
        with state.program.code():
            state.program.value = self._call(state, arguments)

    async def _awork(self, state: ProgramState, arguments: BoundArguments) -> None:
        """The same for an `async def`."""
        with state.program.code():
            awaiting = AsyncProgramState(state.program.root)
            state.program.value = await self._call(awaiting, arguments)

    def _call(self, state: ProgramState, arguments: BoundArguments) -> Any:
        state.program.know(arguments.arguments)
        return self.func(state, *arguments.args, **arguments.kwargs)

    def _split(
        self, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[BoundArguments, dict[str, Any]]:
        """The function's arguments, and the sampling defaults among `kwargs`."""
        keys = [key for key in kwargs if key in _DEFAULTS and key not in self._names]
        defaults = {key: kwargs[key] for key in keys}
        own = {key: value for key, value in kwargs.items() if key not in defaults}
        return self._arguments(args, own, _DEFAULTS), defaults

    def _arguments(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], also_known: tuple[str, ...] = ()
    ) -> BoundArguments:
        self._refuse_unknown(kwargs, (*self._names, *also_known))
        try:
            return self._signature.bind(*args, **{**self.bound, **kwargs})
        except TypeError as error:
            message = f"{caller()}: {self.func.__name__}: {error}"
            raise OptionError(message, f"its arguments are {self._signature}") from None

    def _refuse_unknown(self, given: Mapping[str, Any], known: tuple[str, ...]) -> None:
        open_ended = any(p.kind is p.VAR_KEYWORD for p in self._signature.parameters.values())
        for name in given:
            if name not in known and not open_ended:
                one = f"it belongs to one generation: gen(..., {name}=...)"
                hint = one if name in _OF_ONE_CALL else nearest(name, known)
                message = f"{caller()}: {self.func.__name__} has no argument {name!r}"
                raise OptionError(message, hint)


def _without_state(func: Callable[..., Any]) -> inspect.Signature:
    """The signature of `func` less its first argument, which must be `s`."""
    if not callable(func) or inspect.isgeneratorfunction(func) or inspect.isasyncgenfunction(func):
        hint = "a program is a function: def name(s, ...)"
        raise ProgramError(f"{caller()}: {func!r} cannot be a program", hint)
    signature = inspect.signature(func)
    parameters = list(signature.parameters.values())
    if not parameters or parameters[0].name != "s":
        first = f"is {parameters[0].name!r}" if parameters else "is missing"
        message = f"{caller()}: the first argument of {func.__name__} {first}"
        raise ProgramError(message, "name it s, for the state")
    return signature.replace(parameters=parameters[1:])


def _rows(batch: Any) -> Iterable[Any]:
    """The rows of a data frame as dicts; anything else as it is."""
    if hasattr(batch, "to_dict") and hasattr(batch, "columns"):
        return batch.to_dict("records")
    if not isinstance(batch, Iterable):
        hint = "give a list of dicts or tuples, or a data frame"
        raise OptionError(f"{caller()}: {batch!r} is no batch", hint)
    return batch


def _row(row: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    if isinstance(row, Mapping):
        return (), dict(row)
    if isinstance(row, (tuple, list)):
        return tuple(row), {}
    hint = "a batch holds dicts or tuples of arguments"
    raise OptionError(f"{caller()}: {row!r} is no set of arguments", hint)
