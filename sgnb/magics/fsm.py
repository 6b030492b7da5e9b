"""`%sglang fsm` and `sgnb.fsm`: the automaton of a regex or JSON schema, as a drawing and tables.
Runs no model."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

from ..errors import OptionError, shown
from ..events import AutomatonDrawn
from ..grammar.automaton_table import (
    AllowedTokens,
    Transition,
    VocabularyEncoder,
    allowed_tokens,
    lines,
)
from ..grammar.compiler import CompiledGrammar, compile_spec
from ..grammar.documents import bundle, read_documents
from ..grammar.grammar_report import cut, explain
from ..grammar.grammar_rules import example_of
from ..grammar.spec import GrammarSpec, pattern_text, schema_text
from ..lang.primitives.constraint_options import resolve_constraints
from ..sampling import read_option, text
from ..viz import in_kernel
from ..viz.live.recorded_run import show_automaton
from .automaton_layout import drawing
from .table import Displayable, Facts, Table, html_lines, one_line

EDGES_SHOWN = 24
EDGES_DRAWN = 500
STATES_SHOWN = 12
"""Number of states listed with allowed tokens."""

_GRAMMAR = re.compile(r"::=|^[ \t]*[?!]?start[ \t]*:", re.MULTILINE)


class FsmReport(Displayable):
    """Report on a constraint.

    Attributes:
        grammar: Compiled grammar.
        report: Figures, an example and warnings, as data.
        tokenizer: Tokenizer to count allowed tokens, or None.
    """

    def __init__(
        self, grammar: CompiledGrammar, tokenizer: VocabularyEncoder | None = None
    ) -> None:
        self.grammar, self.report = grammar, explain(grammar, tokenizer)
        if grammar.automaton is None:
            self.report = replace(self.report, example=example_of(grammar))
        self._tokenizer = tokenizer
        self._lines = lines(grammar)
        choices = list(dict.fromkeys(line.start for line in self._lines))[:STATES_SHOWN]
        allowed = allowed_tokens(grammar, tokenizer, choices) if tokenizer else ()
        self._tokens = Table(map(_token_row, allowed))

    def facts(self) -> Facts:
        """Return the figures of the report and the size of the drawing, in characters instead of
        bytes."""
        states = {state for line in self._lines for state in (line.start, line.target)}
        size = f"{len(states):,} states, {len(self._lines):,} edges"
        return Facts(self.report.facts() | ({"in characters": size} if states else {}))

    def table(self) -> Table:
        """Return a table of the first compressed edges; without an automaton, of the first rules.
        Brackets mark states with a permitted end of text."""
        if rules := self.report.rules:
            return Table(
                {"rule": rule.name, "text": cut(rule.text)} for rule in rules[:EDGES_SHOWN]
            )
        return Table(map(_row, self._lines[:EDGES_SHOWN]))

    @cached_property
    def drawing(self) -> AutomatonDrawn | None:
        """Return the layout for views, or None without an automaton or beyond 20,000 states."""
        return drawing(self.grammar, self._tokenizer)

    def _ipython_display_(self) -> None:
        """Display the drawing with tables below. IPython falls back to the default display after
        NotImplementedError."""
        from IPython.display import display

        if not in_kernel() or self.drawing is None:
            raise NotImplementedError
        show_automaton(self.drawing, repr(self))
        display({"text/html": self._repr_html_(), "text/plain": ""}, raw=True)

    def to_dot(self) -> Any:
        """Return a `graphviz.Digraph` of the compressed automaton: the 500 edges nearest to the
        start.

        Rendering needs the `dot` program; reading the source does not.
        """
        import graphviz

        graph = graphviz.Digraph("grammar", graph_attr={"rankdir": "LR"})
        drawn = self._lines[:EDGES_DRAWN]
        final = {line.target for line in drawn if line.final}
        final |= {1} if self.report.shortest == "" else set()
        for state in sorted({state for line in drawn for state in (line.start, line.target)} | {1}):
            graph.node(str(state), shape="doublecircle" if state in final else "circle")
        for line in drawn:
            label = graphviz.escape(line.text + (f"\n{line.part}" if line.part else ""))
            ends, width = (str(line.start), str(line.target)), "3" if line.forced else "1"
            graph.edge(*ends, label=label, penwidth=width)
        return graph

    def __repr__(self) -> str:
        parts = [repr(self.facts()), *(one_line(f"! {line}") for line in self.report.warnings)]
        if self._lines or self.report.rules:
            parts += ["", repr(self.table()), *self._hidden()]
        if self._tokens:
            parts += ["", repr(self._tokens)]
        return "\n".join(parts)

    def _html(self) -> str:
        warnings = html_lines("li", self.report.warnings)
        parts = [self.facts()._html(), f"<ul>{warnings}</ul>" if warnings else ""]
        if self._lines or self.report.rules:
            parts += [self.table()._html(), html_lines("p", self._hidden())]
        if self._tokens:
            parts.append(self._tokens._html())
        return "".join(parts)

    def _hidden(self) -> list[str]:
        rows, unit = (self.report.rules, "rules") if self.report.rules else (self._lines, "edges")
        hidden = len(rows) - EDGES_SHOWN
        return [f"and {hidden:,} more {unit}"] if hidden > 0 else []


def spec_of(pattern_or_schema: Any, documents: Any = None) -> GrammarSpec:
    """Return the grammar specification of a constraint.

    Args:
        pattern_or_schema: Regex, JSON schema, grammar, dtype or choices. A string with "::=" or
            with a rule "start:" is a grammar, a string starting with "{" a schema, any other string
            a regex. `int`, `float`, `bool` and `str` are dtypes, a list of strings are choices, all
            else is a schema.
        documents: Schemas by URI, or a folder, for the references of the schema.

    Raises:
        OptionError: `documents` is given without a schema.
    """
    spec = _regex_or_grammar(pattern_or_schema)
    if spec is None and documents is None:
        return GrammarSpec("json_schema", schema_text(pattern_or_schema))
    if spec is None:
        others = read_documents(documents) if isinstance(documents, (str, Path)) else documents
        return GrammarSpec("json_schema", bundle(pattern_or_schema, others))
    if documents is not None:
        message = f"documents={shown(documents)} has no effect: the constraint is no JSON schema"
        raise OptionError(message, "give documents with a schema")
    return spec


def _regex_or_grammar(pattern_or_schema: Any) -> GrammarSpec | None:
    """Return the specification of a constraint, or None for a JSON schema."""
    if pattern_or_schema in (int, float, bool, str):
        return GrammarSpec("regex", resolve_constraints({"dtype": pattern_or_schema})["regex"])
    if isinstance(pattern_or_schema, re.Pattern):
        return GrammarSpec("regex", pattern_text(pattern_or_schema))
    if isinstance(pattern_or_schema, (list, tuple)):
        choices = [re.escape(read_option("choices", c, "strings", text)) for c in pattern_or_schema]
        return GrammarSpec("regex", "|".join(choices))

    if isinstance(pattern_or_schema, str) and _GRAMMAR.search(pattern_or_schema):
        return GrammarSpec("ebnf", pattern_or_schema)
    if isinstance(pattern_or_schema, str) and not pattern_or_schema.lstrip().startswith("{"):
        return GrammarSpec("regex", pattern_or_schema)
    return None


def fsm(
    pattern_or_schema: Any, tokenizer: VocabularyEncoder | None = None, documents: Any = None
) -> FsmReport:
    """Compile a constraint and return the report.

    Args:
        pattern_or_schema: Regex, JSON schema as JSON text, a dict or a type, GBNF or Lark, a
            dtype such as `int`, or a list of choices.
        tokenizer: Tokenizer to count allowed tokens, or None.
        documents: Schemas by URI, or a folder, for the references of the schema.

    Raises:
        GrammarError: The constraint is invalid.
    """
    return FsmReport(compile_spec(spec_of(pattern_or_schema, documents)), tokenizer)


def _row(line: Transition) -> dict[str, Any]:
    target = f"({line.target})" if line.final else line.target
    return {"from": line.start, "to": target, "text": cut(line.text), "part": cut(line.part)}


def _token_row(row: AllowedTokens) -> dict[str, Any]:
    some = " ".join(map(_quoted, row.some))
    return {"state": row.state, "allowed tokens": f"{row.count:,}", "such as": some}


def _quoted(piece: bytes) -> str:
    """Quote a token as text, or as bytes if the token contains partial characters."""
    try:
        return repr(piece.decode())
    except UnicodeDecodeError:
        return repr(piece)
