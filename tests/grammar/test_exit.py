"""Exits of the interpreter while a thread is inside llguidance, and calls that never end."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]

BUSY_MASKS = """
import sys, time
from sgnb.grammar.compiler import TokenGrammar, compile_spec
from sgnb.grammar.spec import GrammarSpec
from sgnb.grammar.vocabulary import Vocabulary
from sgnb.grammar.workers import GrammarWorkers

rules = 'root ::= part\\npart ::= part part | "(" part ")" | [a-z]+ | [a-z ]+ part\\n'
pairs = [bytes([a, b]) for a in range(97, 123) for b in range(97, 123)]
vocabulary = Vocabulary([*(bytes([i]) for i in range(256)), *pairs, b""])
compiled = compile_spec(GrammarSpec("ebnf", rules))
workers, calls = GrammarWorkers(), []

def submit(key):
    matcher = TokenGrammar(compiled, vocabulary).matcher()
    def work():
        calls.append(key)
        matcher.next_token_bitmask()
        matcher.accept_token(97 + len(calls) % 5)
    def again():
        workers.submit(key, work, again)
    again()

for key in range(3):
    submit(key)
while len(calls) < 20:
    time.sleep(0.001)
objects = [{} for _ in range(200_000)]  # the finalization takes longer
"""

CALL = """
import threading, time
from sgnb import native_calls
native_calls.EXIT_SECONDS = %s
def call():
    with native_calls.native_call():
        time.sleep(%s)
        print("done", flush=True)
threading.Thread(target=call, daemon=True).start()
time.sleep(0.1)
"""

LATE = """
import atexit
def late():
    from sgnb.native_calls import native_call
    try:
        with native_call():
            pass
    except Exception as error:
        print(type(error).__name__, error.message, flush=True)
atexit.register(late)
import sgnb.native_calls
"""


def run(source: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", textwrap.dedent(source)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)


def test_an_exit_during_masks_does_not_crash() -> None:
    for _ in range(3):
        result = run(BUSY_MASKS)
        assert result.returncode == 0, (result.returncode, result.stderr)


def test_an_exit_waits_for_a_call() -> None:
    result = run(CALL % (60, 0.5))
    assert (result.returncode, result.stdout) == (0, "done\n")


def test_an_exit_does_not_wait_for_a_slow_call() -> None:
    began = time.monotonic()
    result = run(CALL % (0.2, 600))
    assert result.returncode == 0 and time.monotonic() - began < 60


def test_a_call_after_the_exit_is_refused() -> None:
    result = run(LATE)
    assert result.stdout == "EngineError the interpreter is exiting\n"
