"""`python -m sgnb.models`: print the card of every bundled model."""

import argparse

from . import names, path

argparse.ArgumentParser(prog="python -m sgnb.models", description=__doc__).parse_args()
for name in names():
    print((path(name) / "README.md").read_text(encoding="utf-8"))
