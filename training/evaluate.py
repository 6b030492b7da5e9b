"""Measures the bundled model on held-out questions: `python -m training.evaluate`.

Prints a table, writes it to training/RESULTS.md and into the model's card. Plain transformers, greedy, float32.
"""

from __future__ import annotations

import argparse
import re
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedTokenizerBase

from .forms import END
from .suites import SUITES, Case, Suite
from .tokenizer import MODEL

RESULTS = Path(__file__).parent / "RESULTS.md"
BATCH = 25
MAX_NEW_TOKENS = 160


class Subject:
    """The model under test."""

    def __init__(self, folder: Path) -> None:
        self.tokenizer: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(folder, padding_side="left")
        self.model: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()

    @torch.inference_mode()
    def generate(self, prompts: list[str], stop: str) -> list[str]:
        """The greedy answers, up to `stop` or the end of the turn."""
        inputs = self.tokenizer(prompts, return_tensors="pt", padding=True)
        stops = {"stop_strings": [stop], "tokenizer": self.tokenizer} if stop else {}
        out = self.model.generate(**inputs, max_new_tokens=MAX_NEW_TOKENS, do_sample=False, **stops)
        texts = self.tokenizer.batch_decode(out[:, inputs.input_ids.shape[1]:])
        return [re.split(re.escape(END) + (f"|{re.escape(stop)}" if stop else ""), text)[0] for text in texts]

    @torch.inference_mode()
    def choose(self, prompt: str, choices: Iterable[str]) -> str:
        """The choice with the largest mean log-probability a token."""
        start = len(self.tokenizer(prompt).input_ids)

        def score(choice: str) -> float:
            ids = torch.tensor([self.tokenizer(f"{prompt} {choice}").input_ids])
            logs = self.model(ids).logits[0, :-1].log_softmax(-1)
            return float(logs[range(start - 1, ids.shape[1] - 1), ids[0, start:]].mean())

        return max(choices, key=score)

    def answers(self, cases: list[Case], stop: str) -> list[str]:
        if cases[0].choices:
            return [self.choose(case.prompt, case.choices) for case in cases]
        found = []
        for at in range(0, len(cases), BATCH):
            found += self.generate([case.prompt for case in cases[at:at + BATCH]], stop)
        return found


def run(subject: Subject, suite: Suite, count: int, show: int) -> float:
    """The share of right answers; prints the first `show` wrong ones."""
    cases = suite.cases(count)
    answers = subject.answers(cases, suite.stop)
    wrong = [(c, a) for c, a in zip(cases, answers, strict=True) if not suite.judge(a, c.want)]
    for case, answer in wrong[:show]:
        print(f"    {case.prompt[-160:]!r}\n      wanted {case.want!r}, got {answer!r}")
    return 1 - len(wrong) / len(cases)


def table(scores: dict[str, float]) -> str:
    rows = "\n".join(f"| {name} | {100 * score:.1f} % |" for name, score in scores.items())
    return f"| held-out set | right |\n|---|---|\n{rows}\n"


def put_into(page: Path, text: str) -> None:
    """Replace what stands between the two marks of the page."""
    begin, end = "<!-- results -->", "<!-- end of results -->"
    head, _, rest = page.read_text(encoding="utf-8").partition(begin)
    page.write_text(f"{head}{begin}\n{text}{end}{rest.partition(end)[2]}", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, default=MODEL)
    parser.add_argument("--count", type=int, default=100, help="questions in each suite")
    parser.add_argument("--only", default="", help="suites whose name holds this; writes nothing")
    parser.add_argument("--show", type=int, default=0, help="so many wrong answers of each suite")
    options = parser.parse_args()
    subject, scores, started = Subject(options.model), {}, time.time()
    for suite in SUITES:
        if options.only in suite.name:
            scores[suite.name] = run(subject, suite, options.count, options.show)
            print(f"{100 * scores[suite.name]:5.1f} %  {suite.name}", flush=True)
    print(f"{time.time() - started:.0f} s")
    if not options.only:
        for page in (RESULTS, options.model / "README.md"):
            put_into(page, table(scores))


if __name__ == "__main__":
    main()
