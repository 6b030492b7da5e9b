"""Execution of programs: once, over a batch, on an event loop, or inside another program."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import inspect
import os
from collections.abc import Callable, Iterable, Mapping
from inspect import BoundArguments
from pathlib import Path
from typing import Any, Literal

from ..errors import OptionError, ProgramError, TraceError, shown
from ..event_loops import on_close
from ..events import ProgramCalled
from ..sampling import SamplingParams, with_long_names
from .batches.batch_run import BatchRun, thread_limit
from .batches.rows import Rows
from .batches.saved import SavedRows
from .batches.states import BatchRecord, State, States, initial_content, without_rows
from .code import DEFAULTS, BoundFunction, Code, arguments_of
from .core.async_state import AsyncProgramState
from .core.editing import Edit
from .core.program import inside
from .core.run import Run
from .core.snapshot import Snapshot
from .core.state import ProgramState
from .executor import Executor, executor_of
from .graph.nodes import CallNode, RunSettings
from .graph.placeholders import plain, plain_items
from .graph.replay import shown_arguments
from .graph.tracer import Tracer, TracingState
from .location import caller
from .pool import BatchTasks, LoopTasks, start_thread
from .primitives.config import executor_for
from .primitives.program_method import ProgramMethod


class Runnable(BoundFunction):
    """Base class of programs and compiled programs: a function with some arguments bound.

    Arguments of the function and sampling defaults are passed together by name. A name that is both
    belongs to the function.

    Args:
        func: Function with the state `s` as the first parameter.
        bound: Values of bound arguments.
        special_tokens, keep_tokens, num_api_spec_tokens: See `function`.
        code: Source and location of the program; by default of `func`.
    """

    def __init__(
        self,
        func: Callable[..., Any],
        bound: Mapping[str, Any] | None = None,
        special_tokens: bool = False,
        keep_tokens: bool = True,
        num_api_spec_tokens: int | None = None,
        code: Code | None = None,
    ) -> None:
        super().__init__(func, bound, _OF_RUN)
        functools.update_wrapper(self, func)
        self.special_tokens, self.keep_tokens = special_tokens, keep_tokens
        self.num_api_spec_tokens = num_api_spec_tokens
        self.is_async = inspect.iscoroutinefunction(func)
        self._code = code or Code(func)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the function inside another program if the first argument is that program's state,
        and return the function's value. Otherwise call `run` (`arun` for an `async def` function).

        Raises:
            ProgramError: An `async def` function was called by a program that is not `async def`.
        """
        if args and isinstance(args[0], ProgramState):
            if self.is_async and not isinstance(args[0], AsyncProgramState):
                name = self.func.__name__
                message = f"{caller()}: {name} is an async def, and the calling program is not"
                raise ProgramError(message, f"make the caller an async def, and await {name}(s)")
            self._code.check()
            arguments = self._arguments(args[1:], kwargs)
            if isinstance(args[0], TracingState):
                return self._trace_inside(args[0], arguments)
            return self._call(args[0], arguments)
        return self.arun(*args, **kwargs) if self.is_async else self.run(*args, **kwargs)

    @ProgramMethod
    def run(
        self,
        *args: Any,
        stream: bool = False,
        backend: Any = None,
        use_thread: bool = True,
        continue_from: ProgramState | Snapshot | None = None,
        **kwargs: Any,
    ) -> ProgramState:
        """Run the program's code and return the state when the code has returned.

        Generations continue in the background; reading a value waits for the value. An error of the
        code is raised here. An error of a generation is raised by the first read that needs the
        generation, and logged if nothing reads the error.

        Args:
            *args: Arguments of the function.
            stream: Run the code on a separate thread, return immediately, and stream generated text
                to `ProgramState.text_iter`.
            backend: Engine or executor; the default backend if None. In a list of backends, the
                next backend answers a call if the previous backend ends with a ServiceError.
            use_thread: Ignored, for compatibility with SGLang. Generations always run in the
                background.
            continue_from: State or snapshot whose text, messages and variables the program starts
                with.
            **kwargs: Arguments of the function and sampling defaults for all generations.

        Returns:
            The state. `state["name"]` reads a variable, `state.text()` the text.

        Raises:
            OptionError: An argument is unknown, missing or invalid.

        Example:
            state = capital.run(country="France", temperature=0)
            state["answer"]
        """
        arguments, defaults = self._split(args, kwargs)
        if isinstance(tracer := inside.get(), Tracer):
            self._refuse_in_trace(continue_from is not None, "run(continue_from=...)")
            return self._trace_call(tracer, arguments, defaults, backend, stream)

        run = self._run(
            executor_for(backend), defaults, stream=stream, initial=initial_content(continue_from)
        )
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

    @ProgramMethod
    async def arun(
        self,
        *args: Any,
        backend: Any = None,
        continue_from: ProgramState | Snapshot | None = None,
        **kwargs: Any,
    ) -> ProgramState:
        """Run the program on an event loop until all generations have ended.

        The code of an `async def` function runs in the calling task, other code on a separate
        thread. Cancelling the task or closing the event loop stops the program's calls.

        Args:
            *args: Arguments of the function.
            backend, continue_from, **kwargs: As in `run`.

        Returns:
            The state. Reads of the state do not wait.

        Raises:
            SgnbError: The error of the program, including errors of generations.
        """
        self._refuse_in_trace(True, "arun(...)")
        arguments, defaults = self._split(args, kwargs)
        run = self._run(executor_for(backend), defaults, initial=initial_content(continue_from))
        stop_watching = on_close(run.cancel_on_a_thread)
        try:
            if self.is_async:
                state = run.state(start=False)
                await self._awork(state, arguments)
            else:
                state = self._on_a_thread(run, arguments)
            program = state.program
            await program.waits.wait_async(lambda: program.finished)
        except BaseException:
            run.mark_read()
            run.cancel()
            raise
        finally:
            stop_watching()
        state.raise_error()
        return state

    @ProgramMethod
    def run_batch(
        self,
        batch: Any,
        *,
        backend: Any = None,
        num_threads: int | Literal["auto"] = "auto",
        progress_bar: bool = False,
        generator_style: bool = False,
        continue_from: ProgramState | Snapshot | None = None,
        save: str | os.PathLike[str] | None = None,
        as_frame: bool = False,
        types: Mapping[str, Any] | None = None,
        **defaults: Any,
    ) -> Any:
        """Run the program for each row of arguments. Programs run concurrently.

        Args:
            batch: Rows of arguments: a list, tuple or iterator of dicts or tuples, a dict with a
                list per argument, or a data frame. An iterator is read in a bounded window. Columns
                of a data frame that are no arguments are ignored.
            backend, continue_from: As in `run`.
            num_threads: Maximum number of programs whose code runs at the same time; "auto" is 64.
                Only programs that wait for values need a thread each. A batch inside a program uses
                the threads of the outer batch.
            progress_bar: Show a progress bar of tqdm.
            generator_style: Return an iterator over the states in the order of the rows.
            save: File for finished rows, a JSON line per row. Rows without an error in the file do
                not run again: the result is a `SavedState`.
            as_frame: Return a data frame of rows, variables, errors, tokens and seconds.
            types: Types of variables in the data frame, for example `{"city": City}`; see `frame`.
            **defaults: Sampling defaults of all generations.

        Returns:
            A list of states in the order of the rows (`States`: `rerun`, `frame`, `csv`), an
            iterator (`generator_style`), or a data frame (`as_frame`). Reading the state of a
            failed program raises the error.

        Raises:
            OptionError: The batch or an option is invalid.
            Exception: The first error if every program failed. An error of the call itself, for
                example an interrupt, has the states so far as the attribute `states`.

        Example:
            states = capital.run_batch([{"country": "France"}, {"country": "Peru"}], temperature=0)
            [state["answer"] for state in states]
        """
        self._refuse_in_trace(True, "run_batch(...)")
        limit = thread_limit(num_threads)
        if as_frame and generator_style:
            hint = "a data frame needs all rows: omit one of the two options"
            raise OptionError("as_frame and generator_style exclude each other", hint)
        if types and not as_frame:
            hint = "pass as_frame=True, or read states.get(name, type)"
            raise OptionError(f"types={shown(types)} has no effect", hint)
        self._refuse_unknown(defaults := with_long_names(defaults), DEFAULTS)
        rows = Rows(batch, None if self._open_ended else self._names)
        params, initial = SamplingParams.make(defaults), initial_content(continue_from)
        if rows.total == 0:
            return without_rows(rows, generator_style, as_frame)
        executor = executor_for(backend)

        def run_rows(arguments: list[BoundArguments], earlier: Mapping[int, State]) -> States:
            return prepared(arguments, len(arguments), earlier).all()

        def prepared(
            arguments: Iterable[BoundArguments], total: int | None, earlier: Mapping[int, State]
        ) -> BatchRun:
            saved = None
            if save is not None:
                saved = SavedRows(Path(save), self._identity(executor, params, initial))
            return BatchRun(
                rows=arguments,
                total=total,
                start=lambda total: self._run(executor, params, total=total, initial=initial),
                task=self._task,
                workers=LoopTasks() if self.is_async else BatchTasks(limit),
                saved=saved,
                progress_bar=progress_bar,
                earlier=earlier,
                record=BatchRecord(rows, run_rows),
                arranged=None if generator_style else self._arranged,
            )

        programs = prepared((self._arguments(*row) for row in rows), rows.total, {})
        if generator_style:
            return programs.stream()
        return programs.all().frame(types or {}) if as_frame else programs.all()

    _arranged: Callable[[list[BoundArguments]], list[int]] | None = None
    """Returns the order in which the rows of a batch begin, see `BatchRun`; None: the order of the
    rows."""

    def _run(self, executor: Executor, defaults: Any, **options: Any) -> Run:
        """Begin a run of the program. `options`: further arguments of `Run`."""
        self._code.check()
        return Run(
            executor,
            self.func.__name__,
            self._code.source,
            location=self._code.location,
            defaults=defaults,
            special_tokens=self.special_tokens,
            keep_tokens=self.keep_tokens,
            num_api_spec_tokens=self.num_api_spec_tokens,
            **options,
        )

    def _run_settings(
        self, caller: int, backend: Any = None, stream: bool = False, **defaults: Any
    ) -> RunSettings:
        """Return the settings that a graph needs to run the program."""
        options = tuple((k, tuple(v) if isinstance(v, list) else v) for k, v in defaults.items())
        executor = None if backend is None else executor_of(backend)
        return RunSettings(
            caller=caller,
            source=self._code.source,
            location=self._code.location,
            special_tokens=self.special_tokens,
            keep_tokens=self.keep_tokens,
            num_api_spec_tokens=self.num_api_spec_tokens,
            defaults=options,
            backend=executor,
            stream=stream,
        )

    def _trace_call(
        self,
        tracer: Tracer,
        arguments: BoundArguments,
        defaults: dict[str, Any],
        backend: Any,
        stream: bool,
    ) -> ProgramState:
        """Trace a call of `run` inside a traced program."""
        self._refuse_in_trace(self.is_async, "an async def")
        self._code.check()
        recorder, defaults = tracer.recorder, plain(defaults)
        settings = self._run_settings(recorder.stream(tracer.root), backend, stream, **defaults)
        call = CallNode(self.func.__name__, plain_items(arguments.arguments), settings)
        run = Run(tracer.executor, call.title, defaults=defaults, traced=True)
        return recorder.call(call, self.func, arguments.args, arguments.kwargs, run)

    def _trace_inside(self, state: TracingState, arguments: BoundArguments) -> Any:
        """Trace a call inside a traced program with the program's own state."""
        call = CallNode(self.func.__name__, plain_items(arguments.arguments))
        values = arguments.args, arguments.kwargs
        return state.tracer.recorder.call_inside(state, call, self.func, *values)

    def _refuse_in_trace(self, refused: bool, feature: str) -> None:
        if refused and isinstance(inside.get(), Tracer):
            message = f"{caller()}: {feature} in a program that is traced"
            raise TraceError(message, f"write {self.func.__name__}.run(...)")

    def _on_a_thread(self, run: Run, arguments: BoundArguments) -> ProgramState:
        """Run the program's code on a separate thread. Reads of the state raise its errors."""
        state = run.state(start=False)
        task = self._task(state, arguments)
        target = (lambda: asyncio.run(task())) if self.is_async else task
        start_thread(target, f"sgnb-{self.func.__name__}")
        return state

    def _task(self, state: ProgramState, arguments: BoundArguments) -> Callable[[], Any]:
        """Return a function that runs the program's code, a coroutine function for `async def`.
        Does not raise: the state holds the error."""

        def work() -> None:
            with contextlib.suppress(BaseException):
                if state.program.cancelled:
                    state.program.close()
                else:
                    self._work(state, arguments)

        async def awork() -> None:
            with contextlib.suppress(BaseException):
                await self._awork(state, arguments)

        return awork if self.is_async else work

    def _identity(
        self, executor: Executor, params: SamplingParams, initial: Snapshot | None
    ) -> list[Any]:
        """Return everything that determines the result of a run besides the arguments."""
        if not self._code.body:
            hint = "write the program into a file or a cell"
            raise OptionError(f"save= cannot identify the version of {self!r}: no source", hint)
        model = executor.server_info().get("model", "")
        settings = f"{params} special_tokens={self.special_tokens} keep_tokens={self.keep_tokens}"
        content = "" if initial is None else f"{initial.segments} {initial.variables}"
        constants = self._code.constants()
        return [self._code.body, str(self._signature), settings, str(model), content, constants]

    def _work(self, state: ProgramState, arguments: BoundArguments) -> None:
        """Run the program's code on this thread."""
        with state.program.code():
            self._tell(state, arguments)
            inner = ProgramState(state.program.root, inside=True)
            state.program.value = self._call(inner, arguments)

    async def _awork(self, state: ProgramState, arguments: BoundArguments) -> None:
        """Run the code of an `async def` function."""
        with state.program.code():
            self._tell(state, arguments)
            inner = AsyncProgramState(state.program.root, inside=True)
            state.program.value = await self._call(inner, arguments)

    def _tell(self, state: ProgramState, arguments: BoundArguments) -> None:
        run, program = state.program.run, state.program
        program.begin_again = functools.partial(self._begin_again, run, arguments)
        run.emit(ProgramCalled(run.id, program.root.id, shown_arguments(arguments.arguments)))

    def _begin_again(self, run: Run, arguments: BoundArguments, edit: Edit) -> ProgramState:
        """Run the program with the settings of an earlier run and an edit."""
        settings = {"stream": run.stream, "initial": run.initial, "edit": edit}
        return self._on_a_thread(self._run(run.executor, run.defaults, **settings), arguments)

    def _call(self, state: ProgramState, arguments: BoundArguments) -> Any:
        state.program.taint(arguments.arguments)
        return self.func(state, *arguments.args, **arguments.kwargs)


_OF_RUN = arguments_of(Runnable.run)
"""Reserved names: `run` would take arguments with these names."""
