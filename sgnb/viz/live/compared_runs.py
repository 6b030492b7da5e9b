"""Recording of two runs of a program next to each other. Needs no engine."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator

from ...events import ComparisonDone, Record, RunsCompared, VariantRan, encode, replay
from ..state.run_diff import RecordedRun, changed_answers, compare_runs
from .recorded_run import Recording

EARLIER = 100
"""Added to the engine numbers of the earlier run: requests, tokens and nodes of the two runs never
have equal numbers."""

SHOWN_ROWS = 10

_numbers = itertools.count(1)


def joined_runs(earlier: Recording, later: Recording) -> Recording:
    """Return a recording that compares two runs.

    Args:
        earlier: Recording of the earlier run.
        later: Recording of the later run.

    Raises:
        OptionError: A recording does not have the start of the run.
    """
    name = f"reruns {next(_numbers)}"
    records = [list(replay(recording.lines)) for recording in (earlier, later)]
    runs = [RecordedRun(earlier.run, records[0]), RecordedRun(later.run, records[1])]
    compared = compare_runs(name, *runs)

    head = [r._replace(engine=r.engine + EARLIER) for r in records[0] if not _is_of(later.run, r)]
    tail = [record for record in records[1] if not _is_of(earlier.run, record)]
    end = head[-1].t
    shift = max(0.0, end - tail[0].t)
    tail = [record._replace(t=record.t + shift) for record in tail]
    lines = tuple(_findings(compared, *runs))
    outcome = [
        VariantRan(name, earlier.run, earlier.run, ""),
        VariantRan(name, later.run, later.run, "" if _same_text(compared) else "the text differs"),
        compared,
        ComparisonDone(name, lines),
    ]

    end = tail[-1].t
    events = [Record(0, end, event) for event in outcome]
    whole = [*head, *tail, *events]
    return Recording(encode(r._replace(seq=i)) for i, r in enumerate(whole, 1))


def _is_of(run: str, record: Record) -> bool:
    return getattr(record.event, "run", "") == run


def _same_text(compared: RunsCompared) -> bool:
    return all(mark == "=" for mark in compared.text_marks)


def _findings(compared: RunsCompared, earlier: RecordedRun, later: RecordedRun) -> Iterator[str]:
    changed = sum(mark != "=" for mark in compared.line_marks)
    yield f"{_count(changed, 'changed line')}" if changed else "the program has the same lines"

    characters = Counter[str]()
    for mark, text in zip(compared.text_marks, compared.texts, strict=True):
        characters[mark] += len(text)
    if _same_text(compared):
        yield "the text is the same"
    else:
        yield (
            f"the text differs: {_count(characters['='], 'equal character')},"
            f" {characters['-']:,} removed, {characters['+']:,} new"
        )

    if later.state.is_batch:
        rows = changed_answers(earlier, later)
        more = f" and {len(rows) - SHOWN_ROWS:,} more" if len(rows) > SHOWN_ROWS else ""
        named = f": {', '.join(rows[:SHOWN_ROWS])}{more}" if rows else ""
        yield f"{_count(len(rows), 'row')} of {len(later.state.rows):,} with another answer{named}"
        if later.rows:
            yield f"{later.id} ran only the counted rows; other rows keep text and answer"

    tokens = [later.state.metrics.computed_tokens, earlier.state.metrics.computed_tokens]
    yield f"{_count(tokens[0], 'computed prompt token')} instead of {tokens[1]:,}"
    totals = Counter[str]()
    for begin, end, text in zip(
        compared.cause_begins, compared.cause_ends, compared.causes, strict=True
    ):
        totals[text] += end - begin

    for text, count in totals.most_common(SHOWN_ROWS):
        yield f"computed, {_count(count, 'token')}: {text}"


def _count(number: int, word: str) -> str:
    return f"{number:,} {word}" + "s" * (number != 1)
