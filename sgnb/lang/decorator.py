"""`@function`: a program to run, run over a batch, bind, await, and call from another program."""

from __future__ import annotations

import functools
import inspect
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from inspect import BoundArguments
from typing import Any, Literal

from ..errors import OptionError, ProgramError, nearest
from ..sampling import SamplingParams, scalar
from .executor import Executor
from .location import caller
from .pool import WorkerPool
from .run import Run
from .state import ProgramState

_OF_ONE_CALL = ("regex", "json_schema", "ebnf", "json_whitespace", "thinking")
_DEFAULTS = tuple(name for name in SamplingParams.names() if name not in _OF_ONE_CALL)
"""What a run may set for all of its generations."""

MAX_WORKERS = 64
"""num_threads="auto": programs of a batch that may wait for a value, or run a tool, at once."""

_default_executor: Executor | None = None


def set_default_executor(executor: Executor | None) -> None:
    """What runs programs that name no backend."""
    global _default_executor
    _default_executor = executor


def _executor(backend: Executor | None) -> Executor:
    executor = backend or _default_executor
    if executor is None:
        hint = "load a model, or call sgnb.set_default_backend(...)"
        raise OptionError("there is nothing to run programs on", hint)
    if not hasattr(executor, "score"):
        hint = "give an executor; for an engine: sgnb.set_default_backend(engine)"
        raise OptionError(f"{executor!r} cannot run programs", hint)
    return executor


def function(func: Callable[..., Any] | None = None, *, marks: bool = False) -> Any:
    """Make a program of a Python function whose first argument is the state, `s`.

    With `marks`, special tokens written in the contents of its roles and in its arguments are read
    as such, and not as plain text, in every run of it.
    """
    make = functools.partial(SglFunction, marks=marks)
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
    ) -> None:
        self.func = func
        self.bound = dict(bound or {})
        self.marks = marks
        self._signature = _without_state(func)
        self._names = tuple(self._signature.parameters)
        functools.update_wrapper(self, func)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """With a state first: run inside that program; what the function returns. Else `run`."""
        if args and isinstance(args[0], ProgramState):
            return self._call(args[0], self._arguments(args[1:], kwargs))
        return self.run(*args, **kwargs)

    def run(
        self, *args: Any, stream: bool = False, backend: Executor | None = None, **kwargs: Any
    ) -> ProgramState:
        """Run the program; its finished state, or its error. With `stream` the state at once."""
        arguments, defaults = self._split(args, kwargs)
        if stream:
            return self._start(arguments, _executor(backend), defaults, stream=True)
        with self._run(_executor(backend), defaults) as run:
            state = run.state()
            state.program.value = self._call(state, arguments)
        return state

    async def arun(
        self, *args: Any, backend: Executor | None = None, **kwargs: Any
    ) -> ProgramState:
        """As `run`, on an event loop. Cancelling the task stops the program's calls."""
        arguments, defaults = self._split(args, kwargs)
        state = self._start(arguments, _executor(backend), defaults, stream=False)
        program = state.program
        try:
            await program.wait_async(lambda: program.finished)
        except BaseException:
            state.cancel()
            raise
        state.raise_error()
        return state

    def run_batch(
        self,
        batch: Any,
        *,
        backend: Executor | None = None,
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
        limit = MAX_WORKERS if num_threads == "auto" else scalar(num_threads)
        if not isinstance(limit, int) or isinstance(limit, bool) or limit < 1:
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
        return SglFunction(self.func, {**self.bound, **kwargs}, self.marks)

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
        return Run(executor, title, self.source, total, defaults, stream, self.marks)

    def _start(
        self, arguments: BoundArguments, executor: Executor, defaults: dict[str, Any], stream: bool
    ) -> ProgramState:
        """Run the program in a thread of its own; its errors are raised by reading the state."""
        run = self._run(executor, defaults, stream=stream)
        state = run.state(start=False)

        def work() -> None:
            self._work(state, arguments)
            run.wait()
            run.finish()

        threading.Thread(target=work, name=f"sgnb-{self.func.__name__}", daemon=True).start()
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
                pairs = zip(states, rows, strict=True)
                pool.add(functools.partial(self._work, state, row) for state, row in pairs)
                for state in states:
                    state.program.wait_finished(meanwhile)
                    yield state
            finally:
                pool.stop()
                show("\n")

    def _work(self, state: ProgramState, arguments: BoundArguments) -> None:
        """Run the program's code on this thread, and close the program with what it raises."""
        program = state.program
        try:
            program.start()
            program.value = self._call(state, arguments)
        except BaseException as error:
            program.cancel()
            program.close(error)
        else:
            program.close()

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
    if not callable(func) or inspect.iscoroutinefunction(func) or inspect.isgeneratorfunction(func):
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
