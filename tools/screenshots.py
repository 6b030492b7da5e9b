"""Take the pictures in docs/images: the views of runs of the bundled model in JupyterLab, light and
dark.

    .venv/bin/python -m tools.screenshots [--out FOLDER] [NOTEBOOK ...]

Needs Chromium and playwright; drives the same JupyterLab as the browser tests.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import nbformat
from playwright.sync_api import Browser, Locator, expect, sync_playwright

from tests.browser.lab import FLAGS, Lab, Notebook, find_chromium

ROOT = Path(__file__).resolve().parent.parent

CELLS = (
    ("01_quickstart.ipynb", ".fork(", ("tree", "source", "branches", "time")),
    ("01_quickstart.ipynb", "--over countries", ("rows",)),
    ("04_structured_output.ipynb", "json_schema=Country", ("grammar",)),
    ("compare.ipynb", "--vs", ("compare", "branches")),
    ("states.ipynb", ".fork(", ("tree",)),
    ("models.ipynb", "backend=judge", ("branches",)),
    ("timeline.ipynb", "tools=[search]", ("branches", "time")),
    ("steps.ipynb", "--step", ("tree",)),
    ("15_images.ipynb", "%%sglang eight", ("tree",)),
)
"""A notebook, a part of its cell, and the views to take."""

COMPARED = """%%sglang capitals --vs nocache,nojump,nofork --temperature 0
lands = "Germany Japan Peru Egypt Austria Norway Cuba Kenya Russia Portugal".split()
cities = "Berlin Tokyo Lima Cairo Vienna Oslo Havana Nairobi Moscow Lisbon".split()
for land, city in zip(lands, cities):
    s += f"Q: What is the capital of {land}?\\nA: The capital of {land} is {city}.\\n"
forks = s.fork(4)
forks += lambda i: f"Q: What is the capital of {['France', 'Spain', 'Italy', 'Greece'][i]}?\\nA:"
forks += gen("answer", stop="\\n", max_tokens=16)
forks.join()
s += gen("record", regex=r'\\{"the capital of France": "(Paris|Rome)", "questions": 4\\}')
"""
RECURRENT = """%load_ext sgnb
import torch
from transformers import AutoTokenizer, Lfm2Config, Lfm2ForCausalLM
import sgnb as sgl
from sgnb import models

torch.manual_seed(0)
config = Lfm2Config(
    vocab_size=4096, hidden_size=64, intermediate_size=128, num_attention_heads=4,
    num_key_value_heads=2, num_hidden_layers=3, layer_types=["conv", "conv", "full_attention"],
    max_position_embeddings=4096, bos_token_id=1, eos_token_id=1, pad_token_id=0,
)
tokenizer = AutoTokenizer.from_pretrained(models.path("tiny"))
engine = sgl.Engine(Lfm2ForCausalLM(config), tokenizer=tokenizer, max_states=8)
sgl.set_default_backend(engine)
guide = "You help people who travel. You say one thing to see in a country, and no more.\\n"
guide += "Country: France\\nSee: the museums.\\nCountry: Japan\\nSee: the gardens.\\n"
"""
ASKED = """%%sglang --temperature 1 --seed 4
s += guide + "Country: Spain\\nSee:" + gen("thing", max_tokens=12)
"""
FORKED = """%%sglang countries --temperature 1 --seed 2
s += guide
forks = s.fork(3)
forks += lambda i: f"Country: {['Italy', 'Peru', 'Norway'][i]}\\nSee:"
forks += gen("thing", max_tokens=6)
forks.join()
s += "Of these, the best is" + gen("best", max_tokens=6)
"""
JUDGE = """%load_ext sgnb
%sglang load tiny
import sgnb as sgl
judge = sgl.Engine("tiny")
examples = "Q: What is the capital of Japan?\\nA: Tokyo\\n"
examples += "Q: What is the capital of Italy?\\nA: Rome\\n"
"""
JUDGED = """%%sglang drafts --temperature 0.9 --seed 1
s += examples
forks = s.fork(3)
forks += lambda i: f"Q: What is the capital of {['France', 'Spain', 'Germany'][i]}?\\nA:"
forks += gen("draft", stop="\\n", max_tokens=12)
forks.join()
s += f"Q: Is{s['draft'][0]} the capital of France?\\nA:"
s += select("right", [" Yes", " No"], backend=judge) + f"\\nQ: Where is{s['draft'][1]}?\\nA:"
s += gen("where", stop="\\n", max_tokens=12, backend=judge) + "\\nQ: And Berlin?\\nA:"
s += gen("there", stop="\\n", max_tokens=12)
"""
TOOL = """%load_ext sgnb
%sglang load tiny
import time

def search(query: str) -> str:
    "Search the library."
    time.sleep(0.05)
    return "Sleep and exercise."
"""
TIMED = """%%sglang tips --temperature 0
s += use_tools([search]) + user("What keeps healthy?")
s += assistant(gen("call", tools=[search], tool_choice="required", max_tokens=40))
s += tool(s["call"], s["call"]())
s += user("Expand each tip.") + assistant_begin()
forks = s.fork(3)
forks += lambda i: f"Tip {i + 1}:"
forks += lambda i: gen("detail", max_tokens=12 + 8 * i)
forks.join()
s += "In summary:" + gen("summary", max_tokens=8) + assistant_end()
"""
STEPPED = """%%sglang --step -o stepped --logprobs 5
s += "The capital of France is"
s += gen("city", max_tokens=8)
"""
OWN = {
    "models.ipynb": (JUDGE, JUDGED),
    "timeline.ipynb": (TOOL, TIMED),
    "steps.ipynb": ("%load_ext sgnb\n%sglang load tiny", STEPPED),
    "compare.ipynb": ("%load_ext sgnb", COMPARED),
    "states.ipynb": (RECURRENT, ASKED, FORKED),
}
"""Notebooks that are made for the pictures."""

TITLES = {
    ("compare.ipynb", "branches"): "pair",
    ("states.ipynb", "tree"): "states",
    ("models.ipynb", "branches"): "models",
    ("timeline.ipynb", "branches"): "timeline",
    ("timeline.ipynb", "time"): "zoom",
    ("steps.ipynb", "tree"): "steps",
    ("15_images.ipynb", "tree"): "media",
}
"""Names of pictures that are not their view's."""

PAIR = "0.0", "0.1"
"""Branches of the comparison's program in the pair view."""
FOUND = "detail"
"""Search in the lanes."""

WHOLE = {"tree": "quickstart", "grammar": "constrained"}
"""Views whose whole cell is a picture too, in light."""


def photograph(browser: Browser, lab: Lab, out: Path, only: Sequence[str] = ()) -> None:
    """Take the pictures of all notebooks, or of the notebooks `only`."""
    page = browser.new_page(viewport={"width": 1180, "height": 1800})
    for name in dict.fromkeys(name for name, _, _ in CELLS if not only or name in only):
        if name in OWN:
            lab.write(name, *OWN[name])
        else:
            shutil.copy(ROOT / "notebooks" / name, lab.work / name)
        cells = nbformat.read(lab.work / name, as_version=4).cells
        book = Notebook(lab, page)
        book.open(name)
        for index, cell in enumerate(cells):
            if cell.cell_type == "code":
                book.run_cell(index)
        for _, marker, views in [one for one in CELLS if one[0] == name]:
            index = next(
                index
                for index, cell in enumerate(cells)
                if cell.source.startswith("%%sglang") and marker in cell.source
            )
            for theme in ("Light", "Dark"):
                book.theme(f"JupyterLab {theme}")
                for view in views:
                    cell = open_view(book, index, view)
                    title = TITLES.get((name, view), view)
                    prepare(cell, title)
                    save(cell.locator(".sgnb-card"), out / f"{title}-{theme.lower()}.png")
                    if theme == "Light" and title in WHOLE:
                        save(cell, out / f"{WHOLE[view]}.png")
    page.close()


def open_view(book: Notebook, index: int, view: str) -> Locator:
    # The active cell has a toolbar over the output.
    book.page.evaluate("window.jupyterapp.shell.currentWidget.content.activeCellIndex = 0")
    cell = book.cell(index)
    tab = cell.locator(f".sgnb-tab[data-view={'tree' if view == 'rows' else view}]")
    if tab.get_attribute("aria-selected") != "true":
        tab.click()
    expect(tab).to_have_attribute("aria-selected", "true")
    if view == "grammar" and not cell.locator(".sgnb-step-token.sgnb-lit").count():
        # Select a sampled token, to show the start and the path of the automaton.
        cell.locator(".sgnb-step:not(.sgnb-step-jump) .sgnb-step-token").nth(1).click()
    cell.locator(".sgnb-title").hover()
    return cell


def prepare(cell: Locator, title: str) -> None:
    """Bring the view into the state of the picture."""
    if title == "pair":
        for label, branch in zip(("compare", "with"), PAIR, strict=True):
            cell.get_by_label(f"{label} branch").select_option(branch)
    elif title == "timeline":
        field = cell.get_by_label("find in variables, texts, tools and branch names")
        field.fill(FOUND)
        field.press("Enter")
    elif title == "zoom":
        cell.get_by_role("button", name="+", exact=True).click()
    elif title == "steps":
        place = cell.locator(".sgnb-stepper")
        while "after a token" not in place.inner_text():
            cell.get_by_role("button", name="token", exact=True).click()
            cell.page.wait_for_timeout(500)


def save(part: Locator, path: Path) -> None:
    part.scroll_into_view_if_needed()
    part.screenshot(path=path)
    print(path)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "images")
    parser.add_argument("only", nargs="*", help="names of notebooks; without names, all")
    options = parser.parse_args()
    chromium = find_chromium()
    if chromium is None:
        print("no Chromium or Chrome on the PATH", file=sys.stderr)
        return 1
    options.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        lab = Lab(Path(folder))
        try:
            browser = playwright.chromium.launch(executable_path=chromium, args=list(FLAGS))
            photograph(browser, lab, options.out, options.only)
        finally:
            lab.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
