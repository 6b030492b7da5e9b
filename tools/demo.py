"""Run the quickstart notebook on the bundled model and print the outputs: `make demo`.

Prints the text of each cell after the execution, then the cache hit rate and the path of the
executed notebook.
"""

from __future__ import annotations

import sys

import nbformat
from nbclient.exceptions import CellExecutionError

from tools.notebooks import FOLDER, ROOT, execute, said

SOURCE = FOLDER / "01_quickstart.ipynb"
PROBE = "import sgnb; print(sgnb.cache.stats()['hit_rate'])"


def indented(text: str, mark: str) -> str:
    return "\n".join(f"{mark} {line}".rstrip() for line in text.splitlines())


def run(notebook: nbformat.NotebookNode) -> float:
    """Execute the cells in order, printing each with its text. Returns the hit rate of the
    notebook's engine."""
    probe = nbformat.v4.new_code_cell(PROBE)
    notebook.cells.append(probe)
    try:
        for cell in execute(notebook):
            if cell is not probe:
                print("\n" + indented(cell.source, ">"))
                for text in filter(None, map(said, cell.outputs)):
                    print(indented(text, " "), flush=True)
    finally:
        notebook.cells.pop()
    return float(said(probe.outputs[0]))


def main() -> int:
    target = ROOT / "out" / SOURCE.name
    target.parent.mkdir(exist_ok=True)
    notebook = nbformat.read(SOURCE, as_version=4)
    try:
        hit_rate = run(notebook)
    except CellExecutionError as error:
        print(error, file=sys.stderr)
        return 1
    finally:
        nbformat.write(notebook, target)
    print(f"\ncache hit rate: {hit_rate:.0%} of the prompt tokens were not computed again")
    print(f"executed notebook: {target.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
