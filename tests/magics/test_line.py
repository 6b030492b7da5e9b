"""The magic line: words, options, parameters, help."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sgnb.errors import OptionError
from sgnb.magics.help_texts import cell_help, line_help
from sgnb.magics.line import Param, split, unquote
from sgnb.magics.magic_options import (
    CELL_OPTIONS,
    COMMANDS,
    LOAD_OPTIONS,
    CellLine,
    LineCall,
)
from sgnb.viz import VIEWS


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("", []),
        ("  qa   q  ", ["qa", "q"]),
        ("--over [q for q in qs]", ["--over", "[q for q in qs]"]),
        ("--over ['a b', \"c ]\"]", ["--over", "['a b', \"c ]\"]"]),
        ('--run q="What is it?"', ["--run", 'q="What is it?"']),
        (r'a="say \"hi there\"" b', [r'a="say \"hi there\""', "b"]),
    ],
)
def test_split(line: str, words: list[str]) -> None:
    assert split(line) == words


@given(
    st.lists(
        st.text(
            st.characters(exclude_characters="'\"()[]{}\\", exclude_categories=["Z", "C"]),
            min_size=1,
        )
    )
)
def test_split_undoes_join(words: list[str]) -> None:
    assert split("  ".join(words)) == words


@given(st.text())
def test_split_never_fails_in_another_way(line: str) -> None:
    try:
        words = split(line)
    except OptionError:
        return
    assert re.sub(r"\s", "", line) == re.sub(r"\s", "", "".join(words))


def test_unquote() -> None:
    assert [unquote(w) for w in ("'a b'", '"x"', "it's", "'", "")] == ["a b", "x", "it's", "'", ""]


def test_a_full_line() -> None:
    cell = CellLine.parse(
        "qa q:str n:int=3 -m=small -o out --over questions[:5] --temperature 0 "
        "--top-p=0.9 --max-tokens 7 --seed 1 "
        "--show text --static --special-tokens --bg --timeout 2.5 -q"
    )
    assert (cell.name, cell.params) == ("qa", (Param("q", "str"), Param("n", "int", "3")))
    assert (cell.model, cell.out, cell.over, cell.show) == (
        "small",
        "out",
        "questions[:5]",
        ("text",),
    )
    assert dict(cell.sampling) == {"temperature": 0, "top_p": 0.9, "max_new_tokens": 7, "seed": 1}
    assert cell.special_tokens and not CellLine.parse("qa").special_tokens
    assert (cell.static, cell.bg, cell.timeout, cell.quiet, cell.defines_only) == (
        True,
        True,
        2.5,
        True,
        False,
    )


def test_load_options_are_the_engine_s() -> None:
    from sgnb.engine.options import EngineOptions

    line = (
        "load some/model --as big --shared --replicas 2 --on ray "
        "--device cuda:1 --dtype bfloat16 --attention triton "
        "--memory-limit 38.5 --quantize int4 --kv-dtype fp8 --tensor-parallel 2 "
        "--max-total-tokens 9000 --max-step-tokens=4096 --max-running-requests 64 "
        "--max-states 300 --checkpoint-every 512 --context-length 2048 "
        "--cuda-graphs off --overlap off --precompile off --fuse off --compile off "
        "--fork-attention off "
        "--deterministic on --host-cache 2 --disk-cache on --approximate-seconds 0.5"
    )
    given = LineCall.parse(line).options
    assert set(given) == {option.dest for option in LOAD_OPTIONS}
    assert given.pop("name") == "big" and given.pop("shared")
    assert (given.pop("replicas"), given.pop("on")) == (2, "ray")
    assert given.pop("tensor_parallel") == 2, "not together with deterministic"
    assert LineCall.parse("load some/model --tp-size 2").options == {"tensor_parallel": 2}
    options = EngineOptions.make(given)
    assert (options.memory_limit, options.max_total_tokens, options.attention) == (
        38.5,
        9000,
        "triton",
    )
    assert (options.max_states, options.checkpoint_every) == (300, 512)
    assert (options.host_cache, options.disk_cache) == (2, True)
    assert options.kv_dtype == "fp8"
    assert options.approximate_seconds == 0.5
    assert (options.fuse, options.cuda_graphs, options.deterministic) == (False, False, True)
    with pytest.raises(OptionError, match="--fuse 'no' is neither on nor off"):
        LineCall.parse("load some/model --fuse no")


def test_arguments_follow_the_parameters_types() -> None:
    cell = CellLine.parse('qa q:str n:int x --run q=3 --run n=3 --run x="a b"')
    assert cell.arguments() == {"q": "3", "n": 3, "x": "a b"}
    assert CellLine.parse("qa x --run x=plain").arguments() == {"x": "plain"}


def test_show() -> None:
    assert CellLine.parse("--show all").show == CellLine.parse("").show == VIEWS
    assert CellLine.parse("--show none").show == ()
    assert CellLine.parse("--show tree,text").show == ("tree", "text")


@pytest.mark.parametrize(
    ("line", "message", "hint"),
    [
        ("--temprature 1", "'--temprature'", "--temperature"),
        ("--temperature", "needs a value", "--temperature F"),
        ("--temperature hot", "hot", "0.7"),
        ("--max-tokens 1.5", "1.5", "32"),
        ("--timeout -1", "-1", "above 0"),
        ("--seed=", "needs a value", "--seed N"),
        ("--bg=yes", "takes no value", "alone"),
        ("--show treee", "'treee'", "'tree'"),
        ("-o 1x", "'1x'", "letters"),
        ("2nd", "'2nd'", "letters"),
        ("class", "'class'", "letters"),
        ("qa s", "'s'", "state"),
        ("qa q:strr", "'strr'", "'str'"),
        ("qa q=maybe", "not a Python literal", "n=3"),
        ("qa q q", "'q'", "different name"),
        ("qa --over xs", "--over", "answer q"),
        ("qa q --run z=1", "'z'", "q"),
        ("qa q --run q", "no value", "q=3"),
        ("qa n:int --run n=many", "n=many", "literal"),
        ("qa n:int --run n=1.5", "n=1.5", "literal"),
        ("qa q --run q=1 --over xs", "exclude", "batch"),
        ("qa q --over [1, 2", "closing ]", "close"),
    ],
)
def test_mistakes_name_the_value_and_the_cure(line: str, message: str, hint: str) -> None:
    with pytest.raises(OptionError) as caught:
        CellLine.parse(line)
    assert message in caught.value.message
    assert hint in caught.value.hint


def test_help_has_everything_that_parses() -> None:
    for option in CELL_OPTIONS:
        assert all(flag in cell_help() for flag in option.flags)
    for name, command in COMMANDS.items():
        assert all(word in line_help() for word in (name, *command.actions))


def test_replicas_are_a_number_or_bounds() -> None:
    assert LineCall.parse("load tiny --replicas 3").options == {"replicas": 3}
    assert LineCall.parse("load tiny --replicas 1..4").options == {"replicas": (1, 4)}
    with pytest.raises(OptionError, match="--replicas x is not a whole number"):
        LineCall.parse("load tiny --replicas x")
    for word in ("1..", "..4", "1..x", "1...4"):
        with pytest.raises(OptionError, match=r"is not a minimum and a maximum\n.*--replicas 1..4"):
            LineCall.parse(f"load tiny --replicas {word}")
