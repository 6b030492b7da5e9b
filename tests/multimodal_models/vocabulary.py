"""A small tokenizer with the special tokens that a processor wants: names and literals in the
source of the processor's class."""

from __future__ import annotations

import ast
import copy
import inspect
import re
import sys

from transformers import PreTrainedTokenizerFast

from ..byte_tokenizers import byte_level

TEXT_VOCAB = 400
"""Ids below are text; special tokens of items follow."""

LITERAL = re.compile(r"<[^\s<>{}=\\\\]+>|\[[A-Z][A-Z_]+\]")
"""Special tokens as literals of a processor's source."""

ATTRIBUTE = re.compile(r"(.+_token)(_id)?$")


def special_tokens(processor_class: type) -> tuple[set[str], set[str]]:
    """Return the names of token attributes that the class reads from its tokenizer, and the special
    tokens that are literals in the class."""
    names: set[str] = set()
    literals: set[str] = set()
    for owner in processor_class.__mro__:
        module = sys.modules[owner.__module__]
        if ".models." in module.__name__:
            for node in ast.walk(ast.parse(inspect.getsource(module))):
                names |= _attribute(node)
                if isinstance(node, ast.Constant) and isinstance(node.value, str):
                    literals |= set(LITERAL.findall(node.value))
    return names, literals


def _attribute(node: ast.AST) -> set[str]:
    """Return the name of a token in `tokenizer.NAME` or `hasattr(tokenizer, "NAME")`."""
    name: object = None
    if isinstance(node, ast.Attribute) and _is_tokenizer(node.value):
        name = node.attr
    elif (
        isinstance(node, ast.Call)
        and len(node.args) > 1
        and _is_tokenizer(node.args[0])
        and isinstance(node.args[1], ast.Constant)
    ):
        name = node.args[1].value
    match = ATTRIBUTE.match(name) if isinstance(name, str) else None
    return {match.group(1)} if match else set()


def _is_tokenizer(node: ast.AST) -> bool:
    return (isinstance(node, ast.Name) and node.id == "tokenizer") or (
        isinstance(node, ast.Attribute) and node.attr == "tokenizer"
    )


STANDARD = {"bos_token", "eos_token", "pad_token", "unk_token"}


def tokenizer_for(
    processor_class: type, more: dict[str, str | None] | None = None
) -> PreTrainedTokenizerFast:
    """Return a byte-level tokenizer with the special tokens of a processor; `more` names tokens
    by attribute, and attributes without a token."""
    names, literals = special_tokens(processor_class)
    known = {
        name: f"<|{name.removesuffix('_token')}|>"
        for name in sorted(names - STANDARD)
        if not name.startswith(("all_", "add_"))
    } | (more or {})
    named = {name: token for name, token in known.items() if token is not None}
    text = byte_level(TEXT_VOCAB)
    raw = copy.deepcopy(text.backend_tokenizer)
    raw.add_special_tokens([f"<|reserved{i}|>" for i in range(TEXT_VOCAB - raw.get_vocab_size())])
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=raw, bos_token=text.bos_token, eos_token=text.eos_token,
        pad_token=text.bos_token, unk_token=text.bos_token, extra_special_tokens=named,
    )  # fmt: skip
    tokenizer.add_tokens(sorted(literals - set(named.values())), special_tokens=True)
    return tokenizer
