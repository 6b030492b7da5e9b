"""Former names of functions, commands and options: accepted with a warning, in no completion."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

import sgnb
from sgnb.benchmark import Workload
from sgnb.errors import OptionError
from sgnb.magics.complete import line_words
from sgnb.magics.magic_options import COMMANDS, FORMER_NAMES, CellLine, LineCall
from sgnb.magics.session import SESSION


@pytest.mark.parametrize(
    ("former", "name"),
    [
        ("trace", "recording"),
        ("traces", "recordings"),
        ("open_trace", "open_recording"),
        ("stop", "cancel"),
    ],
)
def test_former_names_of_functions(former: str, name: str) -> None:
    with pytest.warns(FutureWarning, match=f"sgnb.{former} is now called sgnb.{name}"):
        value = getattr(sgnb, former)
    assert value == getattr(sgnb, name)
    assert former not in dir(sgnb) and name in dir(sgnb)


def test_former_names_of_commands() -> None:
    for former, name in FORMER_NAMES.items():
        with pytest.warns(FutureWarning, match=f"%sglang {former} is now called %sglang {name}"):
            assert LineCall.parse(former).name == name
        assert former not in line_words([], SESSION) and name in COMMANDS


def test_former_flags() -> None:
    with pytest.warns(FutureWarning, match="--against is now called --vs"):
        options = LineCall.parse("bench program --against nocache").options
    assert options == {"vs": "nocache"}
    with pytest.warns(FutureWarning, match="--marks is now called --special-tokens"):
        assert CellLine.parse("name --marks").special_tokens
    assert "--against" not in line_words(["bench", "program"], SESSION)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert LineCall.parse("bench program --vs nocache").options == {"vs": "nocache"}


@pytest.mark.parametrize("name", ["vs", "against"])
def test_former_argument_of_bench(name: str) -> None:
    """The call itself fails: there is no engine."""
    program: Any = object()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with pytest.raises(OptionError):
            SESSION.bench(Workload("w", program), **{name: "itself"})  # type: ignore[arg-type]
    found = [str(w.message) for w in caught if issubclass(w.category, FutureWarning)]
    assert found == ["bench(against=) is now called bench(vs=)"] * (name == "against")
