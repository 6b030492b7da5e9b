"""Errors of requests with a grammar."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...errors import GrammarError, RequestError
from ...grammar.matcher import Matcher
from .output import TokenRecord
from .tokenizer import Tokenizer

SHOWN_TOKENS = 6
"""Maximum number of allowed tokens in an error."""

SHOWN_BEFORE = 40


def forbidden(
    tokenizer: Tokenizer, matcher: Matcher, before: Sequence[TokenRecord], token: int
) -> GrammarError:
    """Return the error of a token that the grammar forbids, with tokens that are allowed.

    Args:
        tokenizer: Source of the tokens' texts.
        matcher: The grammar before the token.
        before: Records of the output tokens before.
        token: The token.
    """
    ids = np.flatnonzero(tokenizer.vocabulary.unpacked(matcher.next_token_bitmask())).tolist()
    shown = sorted((tokenizer.text(id) for id in ids), key=lambda text: (len(text), text))
    allowed = [repr(text) for text in shown[:SHOWN_TOKENS]]
    if matcher.is_final:
        allowed.append("the end of the text")

    if len(ids) > SHOWN_TOKENS:
        allowed.append(f"{len(ids) - SHOWN_TOKENS:,} more tokens")

    place = "".join(record.text for record in before)[-SHOWN_BEFORE:]
    where = f"after {place!r}" if place else "at the begin"
    return GrammarError(
        f"the grammar forbids {tokenizer.text(token)!r} as output token {len(before)}, {where}",
        f"allowed: {', '.join(allowed)}",
    )


def no_room(tokens: int) -> RequestError:
    """Return the error of given tokens whose shortest completion does not fit into `tokens`."""
    return RequestError(
        f"the grammar's shortest text after the given output needs more than {tokens} tokens",
        "give a shorter output, or raise max_tokens",
    )


def too_short(needed: int, limit: int, *, is_bound: bool) -> RequestError:
    """Return the error of a limit below the shortest text. is_bound: `needed` is a lower bound."""
    tokens = f"{needed:,} token{'s' * (needed != 1)}{' or more' if is_bound else ''}"
    return RequestError(
        f"the grammar's shortest text needs {tokens}, and the limit is {limit}",
        "raise max_tokens (max_new_tokens in Engine.generate); if the context is full, shorten the "
        "prompt",
    )


def no_token(text: bytes) -> GrammarError:
    """Return the error of a grammar that allows no token of the vocabulary after `text`."""
    return GrammarError(
        f"no token of the vocabulary can follow after {text[-SHOWN_BEFORE:]!r}",
        "the grammar needs bytes that this tokenizer does not have",
    )
