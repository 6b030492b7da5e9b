"""Execute tutorial notebooks and store the outputs for readers without a kernel.

    .venv/bin/python -m tools.notebooks [--check] [NAME...]

A NAME is the beginning of a file's name in notebooks/, such as `03`; by default all notebooks run.
Each notebook runs in a new kernel and an empty folder, with pictures instead of live views. Prints
the seconds per notebook. Fails if a cell raises, if a notebook takes over a minute, or if `faults`
finds errors.
"""

from __future__ import annotations

import argparse
import os
import re
import socket
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError
from nbformat import NotebookNode
from traitlets.config import Config

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "notebooks"

SECONDS = 120
"""A notebook's time at most, loading the model included, and a server in one of them."""
CELL_BYTES = 200_000
"""A cell's outputs at most, as the file stores them."""

METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}
UID = re.compile(r" sgnb-static-[0-9a-f]{12}")
"""Of a picture, by which a live view hides it; a stored one has none."""
TIMED = re.compile(r"\d[\d.,]*(?= ?(?:µs|ms|s|min|tok/s)\b)|\s+")
"""Figures that differ from run to run, and the room that tables leave for them."""
PLACE = re.compile(r"(?<![\w.~:/<-])/(?:home|root|tmp|var|usr|opt|mnt|work|Users)/|\b[A-Z]:\\\w")


def execute(notebook: NotebookNode) -> Iterator[NotebookNode]:
    """Run the code cells in a new kernel, and yield each cell after the execution. Raises
    CellExecutionError for an error in a cell.

    The kernel imports this folder's sgnb, and has no port."""
    with tempfile.TemporaryDirectory() as folder:
        (work := Path(folder, "work")).mkdir()
        client = NotebookClient(
            notebook,
            timeout=300,
            kernel_name="python3",
            record_timing=False,
            store_widget_state=False,
            coalesce_streams=True,
            config=Config(ConnectionFileMixin={"transport": "ipc", "ip": f"{folder}/kernel"}),
            resources={"metadata": {"path": str(work)}},
        )
        path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
        with client.setup_kernel(env={**os.environ, "PYTHONPATH": path, "SGNB_STATIC": "1"}):
            for index, cell in enumerate(notebook.cells):
                if cell.cell_type == "code":
                    client.execute_cell(cell, index)
                    yield cell


def run(path: Path, *, write: bool = True) -> list[str]:
    """Execute a notebook, print the seconds, and return the faults as lines. Saves the notebook
    unless a cell raised."""
    before = nbformat.read(path, as_version=4)
    notebook = nbformat.from_dict(before)
    start = time.monotonic()
    try:
        for _ in execute(notebook):
            pass
    except (CellExecutionError, CellTimeoutError, DeadKernelError) as error:
        return [str(error)]
    seconds = time.monotonic() - start
    print(f"{path.name}: {seconds:.1f} s", flush=True)
    clean(notebook, before)
    if write:
        nbformat.write(notebook, path)
    late = [f"took {seconds:.0f} s, over {SECONDS}"] if seconds > SECONDS else []
    return late + faults(notebook, socket.gethostname())


def clean(notebook: NotebookNode, before: NotebookNode) -> None:
    """Remove content that differs between runs. Outputs with only other times than `before` keep
    the old text."""
    notebook.metadata = nbformat.from_dict(METADATA)
    stored = {cell.id: cell for cell in before.cells}
    for cell in code_cells(notebook):
        for output in cell.outputs:
            if picture := output.get("data", {}).get("image/svg+xml"):
                output.data["image/svg+xml"] = UID.sub("", picture)
        if _kind(cell) == "solution":
            cell.metadata["jupyter"] = {"source_hidden": True, "outputs_hidden": True}
        old = stored[cell.id]
        if timeless(old.outputs) == timeless(cell.outputs):
            cell.outputs = old.outputs


def timeless(outputs: list[NotebookNode]) -> str:
    return TIMED.sub("", nbformat.v4.writes(nbformat.v4.new_notebook(metadata={"o": outputs})))


def faults(notebook: NotebookNode, host: str = "") -> list[str]:
    """Return deviations from the common form of tutorials as lines: title, exercises, and forbidden
    content of outputs. `host`: the name of the machine, forbidden in outputs."""
    places = re.compile(rf"{PLACE.pattern}|\b{re.escape(host)}\b") if host else PLACE
    return [*_form(notebook), *_outputs(notebook, places)]


def _form(notebook: NotebookNode) -> Iterator[str]:
    texts = [cell.source for cell in notebook.cells if cell.cell_type == "markdown"]
    titles = [line for text in texts for line in text.splitlines() if line.startswith("# ")]
    first = notebook.cells[0].source
    if len(titles) != 1 or not first.startswith("# ") or "\n" not in first:
        yield "begins with one `# ` title and what the reader will be able to do"
    last = max(
        (i for i, cell in enumerate(notebook.cells) if re.match("## ", cell.source)), default=0
    )
    if notebook.cells[last].source.splitlines()[0] != "## Exercises":
        yield "ends with a section `## Exercises`"
        return
    kinds = [_kind(cell) for cell in notebook.cells[last + 1 :]]
    if kinds not in [["task", "exercise", "solution"] * count for count in (2, 3, 4)]:
        yield f"2 to 4 exercises, each a task, `exercise` and `solution`; here {', '.join(kinds)}"
    for cell in code_cells(notebook):
        if _kind(cell) == "solution":
            if not cell.metadata.get("jupyter", {}).get("source_hidden"):
                yield f"cell {cell.id}: a solution's source is hidden"
            if not re.search(r"^ *assert ", cell.source, re.MULTILINE):
                yield f"cell {cell.id}: a solution asserts what answers the question"


def _kind(cell: NotebookNode) -> str:
    tags = {"exercise", "solution"} & set(cell.metadata.get("tags", []))
    return tags.pop() if tags else {"markdown": "task"}.get(cell.cell_type, cell.cell_type)


def _outputs(notebook: NotebookNode, places: re.Pattern[str]) -> Iterator[str]:
    cells = code_cells(notebook)
    if [cell.execution_count for cell in cells] != list(range(1, len(cells) + 1)):
        yield "executed from its first cell to its last"
    if not any("image/svg+xml" in one.get("data", {}) for cell in cells for one in cell.outputs):
        yield "keeps the picture of at least one view"
    for cell in cells:
        for output in cell.outputs:
            if output.output_type == "error" or output.get("name") == "stderr":
                yield f"cell {cell.id}: an output is an error: {said(output)[-300:]}"
            if "application/vnd.jupyter.widget-view+json" in output.get("data", {}):
                yield f"cell {cell.id}: a widget, of which nothing is seen without a kernel"
            data = {k: v for k, v in output.get("data", {}).items() if k != "image/png"}
            for text in [said(output), *data.values()]:
                if found := places.search(str(text)):
                    yield f"cell {cell.id}: an output names a place: {found[0]}"
        stored = len(nbformat.v4.writes(nbformat.v4.new_notebook(cells=[cell])).encode())
        if stored > CELL_BYTES:
            yield f"cell {cell.id}: {stored // 1000} kB of outputs, over {CELL_BYTES // 1000}"


def code_cells(notebook: NotebookNode) -> list[NotebookNode]:
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def said(output: NotebookNode) -> str:
    """Return the plain text of an output."""
    if output.output_type == "error":
        return "\n".join(output.traceback)
    return str(output.get("text") or output.get("data", {}).get("text/plain", ""))


def find(names: list[str]) -> list[Path]:
    """Return the notebooks with a file name beginning with a name in `names`, by default all."""
    paths = sorted(FOLDER.glob("*.ipynb"))
    for name in names:
        if not any(path.name.startswith(Path(name).name) for path in paths):
            raise SystemExit(f"no notebook in {FOLDER.name}/ begins with {name!r}")
    return [
        path for path in paths if path.name.startswith(tuple(Path(n).name for n in names) or "")
    ]


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--check", action="store_true", help="execute, and write nothing")
    options = parser.parse_args(arguments)
    failed = False
    for path in find(options.names):
        for fault in run(path, write=not options.check):
            failed = True
            print(f"{path.name}: {fault}", file=sys.stderr)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
