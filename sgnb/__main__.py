"""`python -m sgnb`: print the version, check this machine, and run a first program on the bundled
model. `--check` skips the program. The exit status is 1 if a part is missing."""

from __future__ import annotations

import argparse
import inspect
import sys
import textwrap
import time
from collections.abc import Sequence
from typing import Any

import sgnb as sgl
from sgnb.magics.doctor import check


@sgl.function
def trip(s: Any) -> None:
    s += "Q: What is the capital of Japan?\nA:" + sgl.gen("capital", stop="\n") + "\n"
    questions = s.fork(2)
    questions[0] += "Q: What language do people speak there?\nA:" + sgl.gen("answer", stop="\n")
    questions[1] += "Q: On which continent is it?\nA:" + sgl.gen("answer", stop="\n")
    questions.join()
    s += "Is Tokyo a city? " + sgl.select("city", ["yes", "no"])


def show_program() -> None:
    """Load the bundled model, run `trip`, and print the program's source, answers and prefix-cache
    hit rate."""
    print("\n" + textwrap.indent(inspect.getsource(trip.func), "  > "))
    with sgl.load("tiny"):
        began = time.perf_counter()
        state = trip.run(temperature=0, max_new_tokens=16)
        answers = {"capital": state["capital"], "answer": state["answer"], "city": state["city"]}
        seconds = time.perf_counter() - began
        hit_rate = sgl.cache.stats()["hit_rate"]

    for name, answer in answers.items():
        print(f"  s[{name!r}] = {answer!r}")
    print(
        f"\n  {seconds:.2f} s; {hit_rate:.0%} of the prompt tokens were found in the cache: "
        "the branches share the text before them"
    )


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m sgnb", description=__doc__)
    parser.add_argument("--version", action="version", version=f"sgnb {sgl.__version__}")
    parser.add_argument("--check", action="store_true", help="what works here, without the program")
    options = parser.parse_args(arguments)
    parts = check()
    print(f"sgnb {sgl.__version__}\n\n{parts}")
    if any(part["ok"] == "no" for part in parts):
        return 1
    if not options.check:
        show_program()
    print("\nIn a notebook: %load_ext sgnb, then %%sglang? and %sglang.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
