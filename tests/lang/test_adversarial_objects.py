"""Programs that read objects of the standard library and of numpy, changed between two runs: each
run as a graph is equal to the program, or raises a `TraceError`."""

from __future__ import annotations

import contextlib
import contextvars
import functools
import itertools
import math
import types
import warnings
from collections import ChainMap, OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, NamedTuple

import numpy as np
import pytest

import sgnb as sgl
from sgnb.errors import TraceError
from sgnb.lang import CompiledProgram, function

from .fake import FakeExecutor


@dataclass
class Settings:
    tone: str = "kind"
    rows: int = 1
    shots: list[str] = field(default_factory=lambda: ["a"])


class Shop:
    """Class attributes, properties and special methods."""

    currency = "EUR"

    def __init__(self) -> None:
        self.price = 3

    @property
    def label(self) -> str:
        return f"{self.price} {self.currency}"

    @classmethod
    def named(cls) -> str:
        return cls.currency.lower()

    @staticmethod
    def note() -> str:
        return str(SETTINGS.rows)

    def __call__(self, text: str) -> str:
        return f"{text}:{self.price}"

    def __bool__(self) -> bool:
        return self.price > 2

    def __len__(self) -> int:
        return self.price

    def __getattr__(self, name: str) -> str:
        return f"{name}{self.price}"


class Level(Enum):
    LOW = "low"
    HIGH = "high"


class Pair(NamedTuple):
    first: str
    rest: list[str]


class Lazy:
    @functools.cached_property
    def text(self) -> str:
        return SETTINGS.tone


SETTINGS = Settings()
SHOP = Shop()
LEVEL = Level.LOW
PAIR = Pair("a", ["b"])
NUMBERS = np.arange(3)
SET = {"a", "b"}
QUEUE = deque(["a"], maxlen=2)
CHAIN = ChainMap({"x": "1"}, {"y": "2"})
DEFAULTS: defaultdict[str, int] = defaultdict(int)
ORDERED = OrderedDict(a=1, b=2)
TONE: contextvars.ContextVar[str] = contextvars.ContextVar("TONE", default="kind")
MODULE = types.ModuleType("shop_module")
MODULE.word = lambda: "module"  # type: ignore[attr-defined]
COUNT = 2
NESTED = (("a", ["b"]),)
PARTIAL = functools.partial("{}-{}".format, "p")
FLAG = "no"


@functools.lru_cache
def cached(key: str) -> str:
    return f"{key}{SETTINGS.tone}"


def shots() -> Iterator[str]:
    yield from SETTINGS.shots


def maker(word: str) -> Callable[[str], str]:
    def inner(text: str) -> str:
        return f"{word} {text} {SETTINGS.tone}"

    return inner


INNER = maker("in")


def wrapped(func: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(func)
    def inner(*args: Any, **kwargs: Any) -> Any:
        return func(*args, **kwargs) * SETTINGS.rows

    return inner


@wrapped
def decorated(text: str) -> str:
    return text + "."


def default_of_helper(text: str, tone: str = "kind") -> str:
    return text + tone


def keyword_of_helper(text: str, *, tone: str = "kind") -> str:
    return text + tone


def replaced_helper(text: str) -> str:
    return text + "1"


def replacement(text: str) -> str:
    return text + "2"


WORD = b"word"


def dataclass_field(s: Any, q: str) -> None:
    s += SETTINGS.tone + q


def dataclass_count(s: Any, q: str) -> None:
    for i in range(SETTINGS.rows):
        s += f"{i}{q}" + sgl.gen(f"x{i}")


def default_factory(s: Any, q: str) -> None:
    s += q + ",".join(SETTINGS.shots)


def property_read(s: Any, q: str) -> None:
    s += q + SHOP.label


def class_attribute(s: Any, q: str) -> None:
    s += q + Shop.currency + SHOP.named()


def static_method(s: Any, q: str) -> None:
    s += q + SHOP.note()


def called_object(s: Any, q: str) -> None:
    s += q + SHOP("t")


def truth_of_object(s: Any, q: str) -> None:
    s += q + ("yes" if SHOP else "no") + str(len(SHOP))


def dynamic_attribute(s: Any, q: str) -> None:
    s += q + SHOP.anything


def generator(s: Any, q: str) -> None:
    for shot in shots():
        s += shot
    s += q


def generator_expression(s: Any, q: str) -> None:
    s += q + "".join(shot * SETTINGS.rows for shot in SETTINGS.shots)


def context_variable(s: Any, q: str) -> None:
    s += q + TONE.get()


def cache_of_helper(s: Any, q: str) -> None:
    s += q + cached("k")


def walrus(s: Any, q: str) -> None:
    if (n := len(SETTINGS.shots)) > 1:
        s += f"{n} shots"
    s += q


def nested_closure(s: Any, q: str) -> None:
    s += INNER("x") + q


def local_closure(s: Any, q: str) -> None:
    def suffix() -> str:
        return SETTINGS.tone

    s += q + suffix()


def lambda_global(s: Any, q: str) -> None:
    s += q + (lambda: SETTINGS.tone)()


def partial_function(s: Any, q: str) -> None:
    s += PARTIAL("x") + q


def patched_module(s: Any, q: str) -> None:
    s += q + MODULE.word()


def numpy_items(s: Any, q: str) -> None:
    for number in NUMBERS:
        s += f"{number}{q}"


def numpy_decision(s: Any, q: str) -> None:
    s += q + ("many" if NUMBERS.sum() > 3 else "few")


def set_members(s: Any, q: str) -> None:
    s += q + ",".join(sorted(SET))


def set_choices(s: Any, q: str) -> None:
    s += q + sgl.select("x", list(SET))


def deque_items(s: Any, q: str) -> None:
    s += q + "".join(QUEUE)


def chained_map(s: Any, q: str) -> None:
    s += q + CHAIN["x"] + CHAIN["y"]


def default_dict(s: Any, q: str) -> None:
    s += q + str(DEFAULTS.get("n", 0))


def ordered_keys(s: Any, q: str) -> None:
    s += q + "".join(ORDERED)


def enum_member(s: Any, q: str) -> None:
    s += q + LEVEL.value + ("!" if LEVEL is Level.HIGH else "")


def named_tuple(s: Any, q: str) -> None:
    s += q + PAIR.first + "".join(PAIR.rest)


def nested_tuple(s: Any, q: str) -> None:
    for name, rest in NESTED:
        s += q + name + "".join(rest)


def cached_property(s: Any, q: str) -> None:
    s += q + Lazy().text


def decorated_helper(s: Any, q: str) -> None:
    s += q + decorated("d")


def helper_default(s: Any, q: str) -> None:
    s += default_of_helper("t") + q


def helper_keyword_default(s: Any, q: str) -> None:
    s += keyword_of_helper("t") + q


def helper_code(s: Any, q: str) -> None:
    s += replaced_helper("t") + q


def own_code(s: Any, q: str) -> None:
    s += "own" + q


def own_code_after_an_edit(s: Any, q: str) -> None:
    s += "other" + q


def own_helper_code(s: Any, q: str) -> None:
    s += q + decorated("c") + replaced_helper(q)


def method_of_instance(s: Any, q: str) -> None:
    s += q + SHOP.named()


def bytes_and_numbers(s: Any, q: str) -> None:
    s += q + WORD.decode() + str(complex(COUNT, 1))


def slices(s: Any, q: str) -> None:
    s += q + "".join(SETTINGS.shots[-1:]) + str(NUMBERS[1:].tolist())


def numpy_text(s: Any, q: str) -> None:
    s += f"{NUMBERS}{NUMBERS.mean():.1f}" + q


def numpy_choice(s: Any, q: str) -> None:
    s += q + sgl.select("x", [str(n) for n in NUMBERS[NUMBERS > 0]])


def plain_global(s: Any, q: str) -> None:
    for i in range(COUNT):
        s += f"{i}. {q}" + sgl.gen(f"x{i}", max_tokens=COUNT)


def plain_shadowed(s: Any, q: str) -> None:
    if FLAG == "yes":
        q = FLAG
    s += sgl.user(q) + sgl.assistant(sgl.gen("x"))


def star_keywords(s: Any, q: str) -> None:
    s += q + sgl.gen("x", **{"max_tokens": SETTINGS.rows})


def comprehension_of_gens(s: Any, q: str) -> None:
    for part in [q + sgl.gen(f"x{i}") for i in range(SETTINGS.rows)]:
        s += part


def map_and_zip(s: Any, q: str) -> None:
    for shot, number in zip(map(str.upper, SETTINGS.shots), itertools.count(), strict=False):
        s += f"{shot}{number}"
    s += q


def try_import(s: Any, q: str) -> None:
    with contextlib.suppress(AttributeError):
        s += MODULE.extra
    s += q


def math_constant(s: Any, q: str) -> None:
    s += q + f"{math.pi:.2f}"


def in_assert(s: Any, q: str) -> None:
    assert SETTINGS.rows < 3, "too many rows"
    s += q


def deleted_key(s: Any, q: str) -> None:
    s += q + ("found" if "a" in ORDERED else "missing")


def mutable_default(s: Any, q: str, words: Any = SETTINGS.shots) -> None:
    s += q + "".join(words)


def loop_else(s: Any, q: str) -> None:
    for shot in SETTINGS.shots:
        if shot == "b":
            break
        s += shot
    else:
        s += "none"
    s += q


def set_settings(**values: Any) -> Callable[[], None]:
    return lambda: vars(SETTINGS).update(values)


def set_global(name: str, value: Any) -> Callable[[], None]:
    return lambda: globals().update({name: value})


def set_price() -> None:
    SHOP.price = 1


def add_shot() -> None:
    SETTINGS.shots.append("b")


def set_tone_and_clear() -> None:
    SETTINGS.tone = "rude"
    cached.cache_clear()


EDITS: dict[Callable[..., Any], Callable[[], Any]] = {
    dataclass_field: set_settings(tone="rude"),
    dataclass_count: set_settings(rows=3),
    default_factory: add_shot,
    property_read: set_price,
    class_attribute: lambda: setattr(Shop, "currency", "USD"),
    static_method: set_settings(rows=2),
    called_object: set_price,
    truth_of_object: set_price,
    dynamic_attribute: set_price,
    generator: add_shot,
    generator_expression: set_settings(rows=2),
    context_variable: lambda: TONE.set("rude"),
    cache_of_helper: set_tone_and_clear,
    walrus: add_shot,
    nested_closure: set_settings(tone="rude"),
    local_closure: set_settings(tone="rude"),
    lambda_global: set_settings(tone="rude"),
    partial_function: set_global("PARTIAL", functools.partial("{}+{}".format, "r")),
    patched_module: lambda: setattr(MODULE, "word", lambda: "patched"),
    numpy_items: lambda: NUMBERS.__setitem__(1, 9),
    numpy_decision: lambda: NUMBERS.__setitem__(1, 9),
    set_members: lambda: SET.add("c"),
    set_choices: lambda: SET.add("c"),
    deque_items: lambda: QUEUE.extend(["b", "c"]),
    chained_map: lambda: CHAIN.maps.reverse() or CHAIN.maps[0].update(x="3"),
    default_dict: lambda: DEFAULTS.__setitem__("n", 5),
    ordered_keys: lambda: ORDERED.move_to_end("a"),
    enum_member: set_global("LEVEL", Level.HIGH),
    named_tuple: lambda: PAIR.rest.append("c"),
    nested_tuple: lambda: NESTED[0][1].append("c"),
    cached_property: set_settings(tone="rude"),
    decorated_helper: set_settings(rows=2),
    helper_default: lambda: setattr(default_of_helper, "__defaults__", ("rude",)),
    helper_keyword_default: lambda: keyword_of_helper.__kwdefaults__.update(tone="rude"),  # type: ignore[union-attr]
    helper_code: lambda: setattr(replaced_helper, "__code__", replacement.__code__),
    own_code: lambda: setattr(own_code, "__code__", own_code_after_an_edit.__code__),
    own_helper_code: lambda: setattr(replaced_helper, "__code__", replacement.__code__),
    method_of_instance: lambda: setattr(Shop, "named", classmethod(lambda cls: "patched")),
    bytes_and_numbers: set_global("WORD", b"other"),
    slices: add_shot,
    numpy_text: lambda: NUMBERS.__setitem__(1, 9),
    numpy_choice: lambda: NUMBERS.__setitem__(1, 9),
    plain_global: set_global("COUNT", 1),
    plain_shadowed: set_global("FLAG", "yes"),
    star_keywords: set_settings(rows=5),
    comprehension_of_gens: set_settings(rows=2),
    map_and_zip: add_shot,
    try_import: lambda: setattr(MODULE, "extra", "extra"),
    math_constant: lambda: None,
    in_assert: set_settings(rows=5),
    deleted_key: lambda: ORDERED.pop("a"),
    mutable_default: add_shot,
    loop_else: add_shot,
}


@pytest.fixture(autouse=True)
def world(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Restore everything that an edit changes."""
    for name in ("PARTIAL", "LEVEL", "COUNT", "FLAG", "WORD"):
        monkeypatch.setitem(globals(), name, globals()[name])
    monkeypatch.setattr(Shop, "currency", "EUR")
    monkeypatch.setattr(MODULE, "word", lambda: "module")
    monkeypatch.setattr(default_of_helper, "__defaults__", ("kind",))
    monkeypatch.setattr(keyword_of_helper, "__kwdefaults__", {"tone": "kind"})
    monkeypatch.setattr(Shop, "named", Shop.__dict__["named"])
    for func in (replaced_helper, own_code):
        monkeypatch.setattr(func, "__code__", func.__code__)
    token = TONE.set("kind")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
    SETTINGS.tone, SETTINGS.rows, SETTINGS.shots[:] = "kind", 1, ["a"]
    SHOP.price, NUMBERS[:] = 3, np.arange(3)
    SET.intersection_update({"a", "b"})
    QUEUE.clear()
    QUEUE.append("a")
    CHAIN.maps[:] = [{"x": "1"}, {"y": "2"}]
    DEFAULTS.clear()
    ORDERED.clear()
    ORDERED.update(a=1, b=2)
    PAIR.rest[:] = ["b"]
    NESTED[0][1][:] = ["b"]
    vars(MODULE).pop("extra", None)
    cached.cache_clear()
    TONE.reset(token)


def outcome(program: Any, fake: FakeExecutor, values: dict[str, Any]) -> Any:
    """The text, the variables, and the calls of a run, or the type and text of the error."""
    fake.calls.clear()
    try:
        state = program.run(**values, backend=fake)
        state.sync()
    except Exception as error:
        return type(error).__name__, str(error).partition("\n")[0]
    calls = [
        (call.prompt, getattr(call, "params", None), getattr(call, "choices", None))
        for call in fake.calls
    ]
    return state.text(), state._branch.variables, calls


@pytest.mark.parametrize("code", EDITS, ids=lambda code: code.__name__)
def test_a_graph_is_equal_to_the_program_or_an_error(
    code: Callable[..., Any], fake: FakeExecutor
) -> None:
    program = function(code)
    compiled: CompiledProgram = program.compile()
    before = outcome(program, fake, {"q": "a"})
    for i, q in enumerate(("a", "b c", "", "x")):
        if i == 2:
            EDITS[code]()
        expected = outcome(program, fake, {"q": q})
        got = outcome(compiled, fake, {"q": q})
        assert got == expected or got[0] == "TraceError", (q, got, expected)
    if code is not math_constant:
        assert outcome(program, fake, {"q": "a"}) != before, "the edit changes nothing"


def test_a_program_with_a_mutable_default_is_compared_before_each_run(fake: FakeExecutor) -> None:
    compiled = function(mutable_default).compile()
    compiled.run(q="a", backend=fake)
    assert compiled._checked is not None and compiled._checked._plain is None


def test_the_cases_are_at_least_30() -> None:
    assert len(EDITS) >= 40
    with contextlib.suppress(TraceError):
        assert all(function(code).compile() for code in EDITS)
