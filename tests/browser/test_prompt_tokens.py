"""Each token of prompt and answer answers pointer and keyboard in the default colouring."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.browser.lab import Lab, Notebook

SETUP = "%load_ext sgnb\nimport sgnb; sgnb.load('tiny')"
QUESTIONS = (
    "%%sglang ask --max-tokens 4\n"
    "s += 'You are a careful assistant. Answer briefly.\\n'\n"
    "s += 'The capital of {}'.format({!r}) + gen('a')\n"
)
OUTSIDE = """cell => {
  const texts = [...document.querySelectorAll(".jp-Cell")[cell].querySelectorAll(".sgnb-text")];
  const walk = (node) => node.nodeType === 3 ? (node.parentElement.closest(".sgnb-token") ? [] : [node.data])
    : [...node.childNodes].flatMap(walk);
  return texts.flatMap(walk);
}"""  # noqa: E501


@pytest.mark.slow
def test_prompt_tokens_lead_to_the_reason_of_a_miss(notebook: Notebook, lab: Lab) -> None:
    france, spain = (QUESTIONS.replace("{!r}", repr(name)) for name in ("France", "Spain"))
    lab.write("prompt.ipynb", SETUP, france, spain)
    notebook.open("prompt.ipynb")
    for cell in range(3):
        notebook.run_cell(cell)
    page, card = notebook.page, notebook.cell(2)
    expect(card.locator(".sgnb-status")).to_have_text("done")
    assert page.evaluate(OUTSIDE, 2) == []

    card.locator(".sgnb-k-computed .sgnb-token").first.hover()
    facts = card.locator(".sgnb-inspector")
    expect(facts).to_contain_text("not found")
    expect(facts).to_contain_text("from here on, the tree continued with “␣France”")
    card.locator(".sgnb-k-cached .sgnb-token").first.hover()
    expect(facts).to_contain_text("found in the radix tree and reused")

    page.locator(".jp-Notebook").first.hover(position={"x": 2, "y": 2})
    card.locator(".sgnb-text").first.focus()
    for position in range(12):
        page.keyboard.press("ArrowRight")
        lit = card.locator(".sgnb-token.sgnb-lit").first
        expect(lit).to_have_attribute("data-position", str(position))


@pytest.mark.slow
def test_a_long_prompt_leads_to_the_reason_at_its_first_token(notebook: Notebook, lab: Lab) -> None:
    long = "%%sglang --max-tokens 2\ns += 'Once upon a time. ' * 450 + gen('a')\n"
    lab.write("long.ipynb", SETUP, long)
    notebook.open("long.ipynb")
    notebook.run_cell(0)
    notebook.run_cell(1)
    card = notebook.cell(1)
    expect(card.locator(".sgnb-status")).to_have_text("done")
    card.locator(".sgnb-k-computed.sgnb-token").first.click(position={"x": 30, "y": 8})
    expect(card.locator(".sgnb-inspector")).to_contain_text("not found")
    expect(card.locator(".sgnb-inspector")).to_contain_text("the tree had no continuation")
