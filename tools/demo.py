"""Run the quickstart notebook on the bundled model and print what it made: `make demo`.

Prints the text below each cell as it is executed, then the cache hit rate and where the executed
notebook lies.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError
from traitlets.config import Config

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "notebooks" / "01_quickstart.ipynb"
PROBE = "import sgnb; print(sgnb.cache.stats()['hit_rate'])"


def text_of(cell: nbformat.NotebookNode) -> str:
    """What a cell's outputs say as plain text."""
    parts = []
    for output in cell.outputs:
        if output.output_type == "stream":
            parts.append(output.text)
        elif output.output_type in ("display_data", "execute_result"):
            parts.append(output.data.get("text/plain", ""))
        elif output.output_type == "error":
            parts.append("\n".join(output.traceback))
    return "\n".join(part.rstrip("\n") for part in parts if part.strip())


def indented(text: str, mark: str) -> str:
    return "\n".join(f"{mark} {line}".rstrip() for line in text.splitlines())


def run(notebook: nbformat.NotebookNode) -> float:
    """Execute the cells in order, printing each with its text. Returns the hit rate of the
    notebook's engine."""
    with tempfile.TemporaryDirectory() as folder:
        no_port = Config(ConnectionFileMixin={"transport": "ipc", "ip": f"{folder}/kernel"})
        client = NotebookClient(
            notebook,
            timeout=300,
            kernel_name="python3",
            config=no_port,
            resources={"metadata": {"path": str(ROOT)}},
        )
        return _execute(client, notebook)


def _execute(client: NotebookClient, notebook: nbformat.NotebookNode) -> float:
    with client.setup_kernel():
        for index, cell in enumerate(notebook.cells):
            if cell.cell_type == "code":
                print("\n" + indented(cell.source, ">"))
                client.execute_cell(cell, index)
                print(indented(text_of(cell), " "))
        probe = nbformat.v4.new_code_cell(PROBE)
        notebook.cells.append(probe)
        client.execute_cell(probe, len(notebook.cells) - 1)
        notebook.cells.pop()
    return float(text_of(probe))


def main() -> int:
    os.environ["SGNB_STATIC"] = "1"
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
