"""Programs accept an engine wherever the class was imported from."""

import subprocess
import sys

import pytest

PROGRAM = """
import sgnb
from sgnb.engine.engine import Engine

@sgnb.function
def program(s):
    s += "one" + sgnb.gen("x", max_tokens=2)

with Engine("tiny", device="cpu") as engine:
    assert program.run(backend=engine)["x"]
"""


@pytest.mark.slow
def test_an_engine_of_the_inner_module_runs_programs() -> None:
    subprocess.run([sys.executable, "-c", PROGRAM], check=True, timeout=120)
