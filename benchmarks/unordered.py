"""Questions about documents in random order, with and without `unordered`, on the bundled model:
computed prompt tokens, time, and the time of the search for 100 parts."""

from __future__ import annotations

import random
import statistics
import time
from typing import Any

from sgnb.backends import executor_of
from sgnb.engine.engine import Engine
from sgnb.lang import assistant, function, gen, unordered, user
from sgnb.lang.executor import OrderCall
from sgnb.part_order import OrderMemory
from sgnb.segment import Segment

from .common import Report

QUESTIONS, DOCUMENTS, RETRIEVED, WORDS = 24, 10, 8, 120
PARTS, PART_WORDS, SEARCHES = 100, 20, 9
MOST_SEARCH_MS = 20
TEXT = "the cat sat on a mat near some old river bank with green fish"


def document(number: int, words: int) -> str:
    words_of = random.Random(number).choices(TEXT.split(), k=words)
    return f"Document {number}. {' '.join(words_of)}."


@function
def in_given_order(s: Any, documents: list[str], question: str) -> None:
    s += user("\n\n".join(documents) + "\n\n" + question)
    s += assistant(gen("answer", max_tokens=8))


@function
def in_any_order(s: Any, documents: list[str], question: str) -> None:
    s += user(unordered(*documents, name="order") + "\n\n" + question)
    s += assistant(gen("answer", max_tokens=8))


def ask(engine: Engine, program: Any, retrieved: int) -> tuple[int, int, float, bool]:
    """Return the prompt tokens and the computed tokens of all questions, the processor seconds, and
    whether each answer is the answer to the same text written by hand."""
    executor_of(engine).flush_cache()
    documents = [document(number, WORDS) for number in range(DOCUMENTS)]
    generator = random.Random(1)
    rows = [generator.sample(documents, retrieved) for _ in range(QUESTIONS)]
    begin, states = time.process_time(), []
    for i, row in enumerate(rows):
        state = program.run(row, f"What is in number {i}?", backend=engine, temperature=0)
        state.sync()
        states.append(state)
    seconds = time.process_time() - begin

    info = [state.get_meta_info("answer") for state in states]
    prompt = sum(each["prompt_tokens"] for each in info)
    computed = prompt - sum(each["cached_tokens"] for each in info)
    executor_of(engine).flush_cache()
    is_exact = True
    for i, (row, state) in enumerate(zip(rows, states, strict=True)):
        order = state["order"] if "order" in state else range(retrieved)
        by_hand = in_given_order.run(
            [row[index] for index in order],
            f"What is in number {i}?",
            backend=engine,
            temperature=0,
        )
        is_exact = is_exact and by_hand.token_ids() == state.token_ids()
    return prompt, computed, seconds, is_exact


def search_milliseconds(engine: Engine) -> tuple[float, bool]:
    """Return the median processor time of a search, the tokenization included, for parts that are
    cached in another order, and whether the order was found."""
    executor = executor_of(engine)
    executor.flush_cache()
    parts = [(Segment(document(number, PART_WORDS), "data"),) for number in range(PARTS)]
    head, separator = (Segment("<|user|>\n"),), Segment("\n\n", "data")
    texts = [segment for part in parts for segment in (*part, separator)]
    [prompt] = engine.encode([[*head, *texts]])
    executor.fill_cache([prompt])

    times, found, order = [], True, list(range(PARTS))
    for seed in range(SEARCHES):
        random.Random(seed).shuffle(order)
        call = OrderCall(head, tuple(parts[i] for i in order), separator, "0")
        begin = time.process_time()
        chosen = executor.find_order(call, OrderMemory())
        times.append(time.process_time() - begin)
        found = found and [order[i] for i in chosen.order] == list(range(PARTS))
    return 1000 * statistics.median(times), found


def run() -> Report:
    report = Report(
        f"{QUESTIONS} questions about {DOCUMENTS} documents in random order, bundled model",
        ("", "given order", "unordered", "ratio"),
        bar=f"the same tokens as by hand, a search of {PARTS} parts in {MOST_SEARCH_MS} ms",
    )
    exact = True
    with Engine("tiny", context_length=4096, max_total_tokens=40_000) as engine:
        ask(engine, in_given_order, 2)  # warm
        for retrieved in (DOCUMENTS, RETRIEVED):
            prompt, computed, seconds, _ = ask(engine, in_given_order, retrieved)
            _, fewer, shorter, is_exact = ask(engine, in_any_order, retrieved)
            exact = exact and is_exact
            name = f"{retrieved} of {DOCUMENTS} documents"
            times = round(seconds, 2), round(shorter, 2), round(seconds / shorter, 2)
            report.rows += [
                (f"{name}: prompt tokens", prompt, prompt, ""),
                (f"{name}: computed prompt tokens", computed, fewer, round(computed / fewer, 2)),
                (f"{name}: processor seconds", *times),
            ]
        milliseconds, found = search_milliseconds(engine)
    report.rows += [
        ("the tokens of the same texts written by hand", "", "yes" if exact else "no", ""),
        (f"search of {PARTS} cached parts, median processor ms", "", round(milliseconds, 1), ""),
        ("the cached order of the parts was found", "", "yes" if found else "no", ""),
    ]
    report.met = exact and found and milliseconds <= MOST_SEARCH_MS
    return report
