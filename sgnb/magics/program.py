"""A program written in a cell: how it runs there, with views, over a batch, in the background."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sized
from typing import Any

from ..errors import OptionError
from ..lang import ProgramState, Run, SglFunction
from ..lang.batches.rows import is_frame
from ..lang.executor import Executor
from ..viz import Display
from ..viz.live.display import in_kernel
from .compare import ROUNDS, CompareReport, compare
from .dry import DryReport, dry_run
from .engines import Loaded, Remote
from .options import CellLine
from .runs import Background, BackgroundState, first_run
from .session import Session
from .traces import Traces


class CellProgram:
    """`program` with its line's engine, sampling and views. Calling it shows the views."""

    def __init__(self, program: SglFunction, line: CellLine, session: Session) -> None:
        self._program, self._line, self._session = program, line, session
        self.__name__: str = program.func.__name__

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Inside another program (a state first): run there. Else run it and show the views."""
        if args and isinstance(args[0], ProgramState):
            return self._program(*args, **kwargs)
        return self.in_cell(lambda: self.run(*args, **kwargs), [])

    def run(self, *args: Any, **kwargs: Any) -> ProgramState:
        """Run the program without views, as `sgnb.function(...).run` does."""
        return self._program.run(*args, **self._defaults(kwargs))

    def run_batch(self, batch: Any, **kwargs: Any) -> Any:
        """Run the program over a batch without views, as `sgnb.function(...).run_batch` does."""
        return self._program.run_batch(batch, **self._defaults(kwargs))

    async def arun(self, *args: Any, **kwargs: Any) -> ProgramState:
        """Run the program without holding up the event loop."""
        return await self._program.arun(*args, **self._defaults(kwargs))

    def dry(self, *args: Any, **kwargs: Any) -> DryReport:
        """What a run would ask of the engine: tokens, grammars, warnings. Generates nothing."""
        kwargs = {**dict(self._line.sampling), **kwargs}
        return dry_run(self._program, self._engine().engine, args, kwargs)

    def bind(self, **kwargs: Any) -> CellProgram:
        """The same program with these arguments fixed."""
        return CellProgram(self._program.bind(**kwargs), self._line, self._session)

    def in_cell(self, work: Callable[[], Any], runs: list[Run]) -> Any:
        """Do `work`, which starts a run, with views and time limit. The run is put into `runs`,
        even if `work` fails."""
        views = Views(self._backend(), self._line, self._session.traces)

        def begun(run: Run) -> None:
            runs.append(run)
            views.open(run)

        try:
            with first_run(begun, self._line.timeout):
                result = work()
                for run in runs:
                    run.join()
                return result
        except BaseException as error:
            for run in runs:  # interrupted while the views open, its program has not begun
                run.finish(error)
            raise
        finally:
            views.close()

    def compared(self, work: Callable[[Executor], Any]) -> CompareReport:
        """Do `work`, which starts a run on an executor, as often as the line's comparison wants,
        with views."""
        line, loaded = self._line, self._engine()
        display = Display(loaded.emitter, () if line.quiet else line.show, static=line.static)
        rounds = ROUNDS if line.rounds is None else line.rounds
        report = compare(loaded, work, line.vs, rounds, line.timeout, display)
        self._session.traces.keep(report.rows[0]["run"], report.feed)
        return report

    def in_background(self, work: Callable[[], Any]) -> Background:
        """As `in_cell`, on a thread of its own; in a terminal without views."""
        backend = self._backend()
        views = Views(backend, self._line, self._session.traces) if in_kernel() else None
        close = views.closer() if views else lambda: None
        kind = Background if self._line.over else BackgroundState
        background = kind(work, self._line.timeout, close)
        if views:
            views.open(background.run)
        return background

    def _engine(self) -> Loaded:
        """The engine it runs on now; loads or reloads it if need be."""
        return self._session.engines.get(self._line.model)

    def _backend(self) -> Loaded | Remote:
        """What it runs on now."""
        return self._session.engines.backend(self._line.model)

    def _defaults(self, kwargs: dict[str, Any]) -> dict[str, Any]:
        backend = {} if "backend" in kwargs else {"backend": self._backend().executor}
        return {**dict(self._line.sampling), **backend, **kwargs}

    def __repr__(self) -> str:
        return repr(self._program)


class Views:
    """The views of one run, as the cell's line wants them. Make it before the run begins."""

    def __init__(self, loaded: Loaded | Remote, line: CellLine, traces: Traces) -> None:
        self._traces = traces
        views = () if line.quiet else line.show
        self._display = Display(loaded.emitter, views, static=line.static, act=loaded.act)

    def open(self, run: Run) -> None:
        """Main thread only, as all that displays."""
        self._display.open(run.id)
        run.meanwhile = self._display.tick

    def close(self) -> None:
        display = self._display
        display.close()
        if display.run is not None and display.feed is not None:
            self._traces.keep(display.run.run, display.feed)

    def closer(self) -> Callable[[], None]:
        """A function for any thread that has the kernel's event loop close the views."""
        loop = asyncio.get_running_loop()

        def close() -> None:
            loop.call_soon_threadsafe(self.close)

        return close


def rows(expression: str, value: Any) -> Any:
    """What `--over` gave as a batch: scalars are rows of one argument."""
    if is_frame(value) or isinstance(value, Mapping):
        return value
    if isinstance(value, (str, bytes)) or not isinstance(value, Iterable):
        message = f"--over {expression} is of type {type(value).__name__}, which is no batch"
        hint = "give a list of dicts, tuples or scalars, a dict of lists, or a data frame"
        raise OptionError(message, hint)
    read = (row if isinstance(row, (Mapping, tuple, list)) else (row,) for row in value)
    return list(read) if isinstance(value, Sized) else read
