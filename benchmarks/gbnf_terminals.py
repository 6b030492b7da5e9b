"""GBNF as terminals for llguidance's greedy lexer, against single characters as terminals.

Single characters need no analysis, because greedy lexing loses no text. The analysis
(`llguidance_backend/network.py`) pays if the masks of larger terminals are faster.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

from sgnb.grammar.llguidance_backend.cfg_matcher import LlguidanceGrammar
from sgnb.grammar.llguidance_backend.gbnf import parse_gbnf
from sgnb.grammar.llguidance_backend.lark import WORK, ExpressionWriter, write
from sgnb.grammar.llguidance_backend.lexemes import WorkBudget
from sgnb.grammar.llguidance_backend.normal import trimmed
from sgnb.grammar.syntax import Chars, Literal, Node, Reference, Rules
from sgnb.grammar.vocabulary import Vocabulary
from tests.large_vocabulary import pieces

from .common import Report

JSON = r"""
root   ::= value
value  ::= object | array | string | number | ("true" | "false" | "null") ws
object ::= "{" ws (string ":" ws value ("," ws string ":" ws value)*)? "}" ws
array  ::= "[" ws (value ("," ws value)*)? "]" ws
string ::= "\"" ([^"\\\x00-\x1f] | "\\" (["\\/bfnrt] | "u" [0-9a-f]{4}))* "\"" ws
number ::= "-"? ("0" | [1-9] [0-9]{0,15}) ("." [0-9]+)? ws
ws     ::= [ \n\t]{0,20}
"""
JSON_TEXT = (
    '{"name": "Ada Lovelace, countess", "born": 1815, "tags": ["mathematics", "poetry and more"], '
    '"nested": {"a": [1, 2.5, null, true], "b": "A longer sentence, with a comma and an end."}}'
)
ARITHMETIC = r"""
root  ::= (sum "=" ws sum ";")+
sum   ::= term ([-+] ws term)*
term  ::= value ([*/] ws value)*
value ::= name | [0-9]+ ws | "(" ws sum ")" ws
name  ::= [a-z] [a-z0-9_]* ws
ws    ::= [ \n]*
"""
ARITHMETIC_TEXT = "(first + second) * 12 = total_1;total_2 + 7 * (x - 2) = 3 / y;"
MOVES = r"""
root    ::= ([1-9] [0-9]? ". " move " " move "\n")+
move    ::= (pawn | figure | "O-O" "-O"?) [+#]?
figure  ::= [NBKQR] [a-h]? [1-8]? "x"? [a-h] [1-8]
pawn    ::= ([a-h] "x")? [a-h] [1-8] ("=" [NBKQR])?
"""
MOVES_TEXT = "1. e4 e5\n2. Nf3 Nc6\n3. Bb5 a6\n4. Ba4 Nf6\n5. O-O Be7\n6. Re1 b5\n7. Bb3 d6\n"

GRAMMARS = (
    ("JSON", JSON, JSON_TEXT),
    ("arithmetic", ARITHMETIC, ARITHMETIC_TEXT),
    ("chess moves", MOVES, MOVES_TEXT),
)
WAYS: dict[str, Callable[[Rules], str]] = {
    "terminals": write,
    "single characters": lambda rules: write_characters(rules),
}
ROUNDS = 7


def write_characters(rules: Rules) -> str:
    """Return `rules` in Lark notation, with a terminal for each set of characters."""
    budget = WorkBudget(WORK)
    rules = trimmed(rules, budget.spend)
    names = {name: f"r{number}" for number, name in enumerate(rules.rules)}
    sets = ExpressionWriter("T", lambda node: None, budget.spend)
    terminals: dict[str, str] = {}

    def terminal(node: Node) -> str:
        return terminals.setdefault(sets.text(node), f"L{len(terminals)}")

    def leaf(node: Node) -> str | None:
        match node:
            case Chars():
                return terminal(node)
            case Literal(text) if text:
                return "(" + " ".join(terminal(Literal(char)) for char in text) + ")"
            case Reference(name):
                return names[name]
        return None

    writer = ExpressionWriter("h", leaf, budget.spend)
    lines = [f"start: {writer.text(rules.start)}"]
    lines += [f"{names[name]}: {writer.text(node)}" for name, node in rules.rules.items()]
    definitions = writer.hoisted | terminals | sets.hoisted
    return "\n".join(lines + [f"{name}: {text}" for text, name in definitions.items()]) + "\n"


def run() -> Report:
    vocabulary = Vocabulary(pieces())
    token_of = {piece: token for token, piece in enumerate(vocabulary.pieces) if piece}
    report = Report(
        f"GBNF for llguidance, {vocabulary.size:,} tokens, processor time",
        ("grammar", "way", "compile, ms", "mask, us: mean", "median", "max"),
    )
    means: dict[tuple[str, str], float] = {}
    for title, text, sample in GRAMMARS:
        rules, path = parse_gbnf(text), _longest_tokens(sample.encode(), token_of)
        for way, writer in WAYS.items():
            compile_seconds, mask_seconds = [], []
            for _ in range(ROUNDS):
                began = time.process_time()
                grammar = LlguidanceGrammar(writer(rules), vocabulary)
                compile_seconds.append(time.process_time() - began)
                mask_seconds.append(_masks(grammar, path))
            columns = zip(*mask_seconds, strict=True)
            typical = [1e6 * statistics.median(column) for column in columns]
            means[title, way] = statistics.mean(typical)
            report.rows.append((
                title, way, f"{1e3 * statistics.median(compile_seconds):.1f}",
                f"{means[title, way]:.0f}", f"{statistics.median(typical):.0f}",
                f"{max(typical):.0f}",
            ))  # fmt: skip
    report.bar = "masks of terminals 3 times faster on JSON, at most 1.5 times slower elsewhere"
    ratios = {
        title: means[title, "single characters"] / means[title, "terminals"]
        for title, *_ in GRAMMARS
    }
    report.met = ratios["JSON"] >= 3 and min(ratios.values()) >= 1 / 1.5
    return report


def _masks(grammar: LlguidanceGrammar, path: list[int]) -> list[float]:
    """Return the processor seconds of each mask along `path`."""
    matcher = grammar.matcher()
    seconds = []
    for token in path:
        began = time.process_time()
        mask = matcher.next_token_bitmask()
        seconds.append(time.process_time() - began)
        if not mask[token // 32] >> (token % 32) & 1:
            raise AssertionError(f"token {token} of the sample is not allowed")
        matcher.accept_token(token)
    return seconds


def _longest_tokens(text: bytes, token_of: dict[bytes, int]) -> list[int]:
    """Return the tokens of `text`, each the longest that matches."""
    path, start = [], 0
    while start < len(text):
        end = next(end for end in range(len(text), start, -1) if text[start:end] in token_of)
        path.append(token_of[text[start:end]])
        start = end
    return path
