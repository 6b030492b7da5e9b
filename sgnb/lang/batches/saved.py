"""File of finished rows: a JSON line per row, which a later call with equal arguments reads.
Independent of batches."""

from __future__ import annotations

import dataclasses
import hashlib
import queue
import threading
import warnings
from collections import Counter
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from inspect import BoundArguments
from pathlib import Path
from typing import Any, TextIO

from ...codec import build, dumps, parse, reading
from ...errors import Aborted, OptionError, SgnbWarning, shown
from ...media import MediaItem
from ..core.program import Program
from ..core.scope import Scope
from ..core.state import ProgramState
from ..core.typed_values import probabilities_of, typed
from ..location import caller

_BEGIN = '{"row": '
"""Begin of every line."""


@dataclass(frozen=True)
class SavedState:
    """State of a finished program, read from a file. Supports the reading methods of
    `ProgramState`; nothing can be appended. Tuples become lists in JSON."""

    variables: dict[str, Any]
    meta: dict[str, Any]
    content: str  # text of `text()`
    roles: list[dict[str, str]]  # messages of `messages()`
    ret_value: Any
    tokens: int
    seconds: float

    @classmethod
    def of(cls, state: ProgramState) -> SavedState:
        """Return the saved form of a finished program's state."""
        root = state.program.root
        return cls(
            variables=root.variables,
            meta=root.meta,
            content=root.text,
            roles=root.messages,
            ret_value=state.program.value,
            tokens=state.tokens,
            seconds=round(state.seconds, 6),
        )

    def __getitem__(self, name: str) -> Any:
        """Return the variable `name`.

        Raises:
            UnknownVariableError: The program did not set the variable.
        """
        if name not in self.variables:
            scope = Scope()
            scope.names = dict.fromkeys(self.variables, 0)
            raise scope.unknown(name)
        return self.variables[name]

    def __contains__(self, name: str) -> bool:
        return name in self.variables

    def get_meta_info(self, name: str) -> Any:
        """Return the meta information of the variable `name`, see `ProgramState.get_meta_info`.
        Keys are strings."""
        self[name]
        return self.meta.get(name, {})

    def get(self, name: str, type_: Any) -> Any:
        """Return a variable as an instance of a type; see `ProgramState.get`.

        Args:
            name: A variable.
            type_: A pydantic model, a dataclass, or a type such as `int`.

        Returns:
            The value; a list of values for several samples.

        Raises:
            AnswerError: The text is not a value of the type.
            UnknownVariableError: The program did not set the variable.
        """
        return typed(name, self[name], type_)

    def probabilities(self, name: str) -> dict[str, float]:
        """Return the probability of each choice of the select `name`.

        Raises:
            ProgramError: The variable is not of a select, or the model reported no scores.
        """
        return probabilities_of(name, self.get_meta_info(name))

    def text(self) -> str:
        """Return the text of the program."""
        return self.content

    def messages(self) -> list[dict[str, str]]:
        """Return the finished turns as {"role", "content"}."""
        return [dict(message) for message in self.roles]

    @property
    def done(self) -> bool:
        """True: a saved row is complete."""
        return True

    def wait(self, timeout: float | None = None) -> bool:
        """Return True at once, for any `timeout`."""
        return True

    def sync(self) -> None:
        """Do nothing: a saved row is complete."""

    def error(self) -> None:
        """Return None: failed rows are not restored."""

    def __repr__(self) -> str:
        return f"<SavedState, {shown(self.content)}>"


@dataclass(frozen=True)
class _RowJson:
    """Keys of a line in addition to the keys of the state."""

    row: str
    error: str | None
    arguments: dict[str, Any]


@dataclass
class SavedRows:
    """File of a batch. A separate thread writes the file because rows arrive on threads that must
    not wait.

    A row's key covers everything that determines the result. Failed rows are written and not
    restored.

    Args:
        path: File.
        program: JSON value of everything that determines a row besides the arguments.
    """

    path: Path
    program: Any
    _states: dict[str, SavedState] = field(default_factory=dict)
    _repeats: Counter[str] = field(default_factory=Counter)
    _rows: dict[Program, tuple[str, BoundArguments]] = field(default_factory=dict)
    _error: Exception | None = None

    def __post_init__(self) -> None:
        self._location = caller()
        self._finished: queue.SimpleQueue[Program | None] = queue.SimpleQueue()
        self._read()

    def __enter__(self) -> None:
        """Open the file and start the writer thread."""
        # A lone surrogate has no UTF-8 encoding and is written as a JSON escape.
        file = self.path.open("a", encoding="utf-8", errors="backslashreplace")
        self._thread = threading.Thread(
            target=self._write_all, args=(file,), name="sgnb-save", daemon=True
        )
        self._thread.start()

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Write the finished rows and close the file."""
        self._finished.put(None)
        self._thread.join()
        if kind is None:
            self.check()

    def key(self, arguments: BoundArguments) -> str:
        """Return the key of the call's next row with these arguments. Equal rows get distinct keys
        by a counter.

        Raises:
            OptionError: The arguments cannot be converted to JSON.
        """
        try:
            content = [self.program, arguments.arguments]
            text = dumps(content, sort_keys=True, default=_plain)
        except (TypeError, ValueError) as error:
            message = f"{self._location}: a row cannot be known again: {error}"
            hint = "save= takes arguments of plain data: text, numbers, lists, dicts"
            raise OptionError(message, hint) from None
        digest = hashlib.sha256(text.encode()).hexdigest()[:16]
        self._repeats[digest] += 1
        return f"{digest}-{self._repeats[digest]}"

    def find(self, key: str) -> SavedState | None:
        return self._states.get(key)

    def expect(self, program: Program, key: str, arguments: BoundArguments) -> None:
        """Register the row of a program; `finished` writes the row."""
        self._rows[program] = key, arguments

    def finished(self, program: Program) -> None:
        """Queue a finished program for writing. Callable from any thread; does not wait."""
        self._finished.put(program)

    def check(self) -> None:
        """Raise the error of the writer thread, if any."""
        if self._error is not None:
            raise self._error

    def _read(self) -> None:
        """Read the rows of the file, and remove an incomplete last line."""
        where = f"{self._location}: save={str(self.path)!r}"
        if not self.path.parent.is_dir():
            hint = f"make it: os.makedirs({str(self.path.parent)!r})"
            raise OptionError(f"{where} lies in a folder that is not there", hint)
        if self.path.is_dir():
            raise OptionError(f"{where} is a folder", "give a file in it")
        if not self.path.exists():
            return
        complete, incomplete = _split_last_line(self.path.read_bytes())
        for number, line in enumerate(complete.splitlines(), 1):
            with self._reading(f"line {number}"):
                document = parse(line)
                row = build(_RowJson, document)
                if row.error is None:
                    self._states[row.row] = build(SavedState, document)

        if incomplete:
            begin = _BEGIN.encode()
            with self._reading("the last line"):
                if not (incomplete.startswith(begin) or begin.startswith(incomplete)):
                    raise ValueError(f"it does not begin with {_BEGIN}")
            with self.path.open("r+b") as file:
                file.truncate(len(complete))

    def _reading(self, line: str) -> AbstractContextManager[None]:
        where = f"{self._location}: {line} of {self.path} is no row of a batch, and"
        return reading(where, "Give save= a file of its own.")

    def _write_all(self, file: TextIO) -> None:
        with file:
            while (program := self._finished.get()) is not None:
                line = self._line(program)
                if line is None or self._error is not None:
                    continue
                try:
                    file.write(line + "\n")
                    file.flush()
                except OSError as error:  # for example a full disk
                    self._error = error

    def _line(self, program: Program) -> str | None:
        """Return the line of a program; None for a stopped program or a value that JSON cannot
        hold."""
        key, arguments = self._rows.pop(program)
        error = program.root.error
        if isinstance(error, Aborted) or not isinstance(error, Exception | None):
            return None

        state = SavedState.of(ProgramState(program.root))
        row = {
            "row": key,
            "arguments": arguments.arguments,
            **vars(state),
            "error": None if error is None else f"{type(error).__name__}: {error}",
        }
        try:
            row["meta"] = parse(dumps(state.meta, default=described))
            return dumps(row, ensure_ascii=False, default=_plain)
        except Exception as reason:  # `_plain` calls the user's methods
            message = f"{self._location}: a row is not saved, and will run again: {reason}"
            file, number = self._location
            warnings.warn_explicit(message, SgnbWarning, file, number)
            return None


def _split_last_line(text: bytes) -> tuple[bytes, bytes]:
    """Return `text` up to the last line break, and the remainder."""
    end = text.rfind(b"\n") + 1
    return text[:end], text[end:]


def _plain(value: Any) -> Any:
    """Return plain data for JSON from a value of numpy or pydantic, and the digest of a media item.
    Raises TypeError for other values."""
    if isinstance(value, MediaItem):
        return {"media": value.label, "sha256": value.digest.hex()}
    for method in ("tolist", "model_dump"):
        if hasattr(value, method):
            return getattr(value, method)()
    raise TypeError(f"{shown(value)} is no plain data")


def described(value: Any) -> Any:
    """Return plain data for JSON from meta information; a printed form of values that are no plain
    data."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.asdict(value)
    try:
        return _plain(value)
    except TypeError:
        return shown(value)
