"""The comparison of an approximate answer with an exact run, as a part of a sentence."""

from __future__ import annotations

from typing import Protocol


class VerificationFigures(Protocol):
    """Figures of a comparison, see `AnswerVerified`."""

    @property
    def same_tokens(self) -> int: ...
    @property
    def tokens(self) -> int: ...
    @property
    def mean_kl(self) -> float: ...
    @property
    def key_error(self) -> float: ...


def verdict(
    status: str, result: VerificationFigures | None, reason: str, seconds: str, text: str
) -> str:
    """Return the comparison as a part of a sentence. Twin of `verdictOf` of the page.

    Args:
        status: "pending", or a status of `AnswerVerified`.
        result: Figures; None without a comparison.
        reason: Why there was no comparison.
        seconds: Time until the comparison, with its unit.
        text: Exact answer, as shown.
    """
    if status == "pending":
        return "not verified yet"
    if status == "unverified" or result is None:
        return f"unverified: {reason}"
    if result.same_tokens < result.tokens:
        return f"differs from token {result.same_tokens + 1}; exact answer: {text}"
    word = "verified" if status == "same" else "differs"
    return (
        f"{word} {seconds} later: {result.tokens} of {result.tokens} tokens the same, "
        f"mean KL {result.mean_kl:.3f}, keys off by {100 * result.key_error:.1f} %"
    )
