"""`python -m sgnb.models` prints the card of every bundled model."""

from . import names, path

for name in names():
    print((path(name) / "README.md").read_text(encoding="utf-8"))
