"""What `num_api_spec_tokens` saves on a model behind an API: requests and tokens, as the server
counts them.

`transformers serve` on loopback with the bundled model, its completions endpoint at temperature 0.
Programs of three and of six fields, over rows with other examples before them.
"""

from __future__ import annotations

from typing import Any

import sgnb as sgl
from tests.backends.transformers_serve import MODEL, Server

from .common import Report

NUM_TOKENS = 48
EXAMPLES = [
    "Name: Lena. Age: 56. Job: night nurse. Traits: honest, curious. City: Paris. Hobby: hiking.",
    "Name: Marco. Age: 26. Job: student. Traits: brave, forgetful. City: Tokyo. Hobby: running.",
    "Name: Ida. Age: 34. Job: baker. Traits: patient, quiet. City: Oslo. Hobby: painting.",
    "Name: Omar. Age: 41. Job: teacher. Traits: kind, loud. City: Cairo. Hobby: chess.",
    "Name: Mei. Age: 29. Job: doctor. Traits: careful, funny. City: Lima. Hobby: reading.",
    "Name: Paul. Age: 63. Job: farmer. Traits: stubborn, warm. City: Rome. Hobby: fishing.",
]
ROWS = [{"first": a, "second": b} for a in EXAMPLES[:3] for b in EXAMPLES if a != b][:12]
BAR = 0.4


def three(s: Any, first: str, second: str) -> None:
    s += f"{first}\n{second}\nName:" + sgl.gen("name", stop=".")
    s += ". Age:" + sgl.gen("age", stop=".") + ". Job:" + sgl.gen("job", stop=".")


def six(s: Any, first: str, second: str) -> None:
    three(s, first, second)
    s += ". Traits:" + sgl.gen("traits", stop=".") + ". City:" + sgl.gen("city", stop=".")
    s += ". Hobby:" + sgl.gen("hobby", stop=".")


def run() -> Report:
    report = Report(
        f"Speculative execution of API calls, {len(ROWS)} rows, {NUM_TOKENS} tokens ahead",
        (
            "program",
            "requests",
            "with it",
            "prompt tokens",
            "with it",
            "ratio",
            "completion tokens",
            "with it",
            "answered ahead",
            "missed",
            "prompt tokens saved, estimated",
            "the same texts",
        ),
    )
    ratios = []
    with Server() as server:
        for program in (three, six):
            alone, each = usage_of(server.url, program, None)
            ahead, together = usage_of(server.url, program, NUM_TOKENS)
            same = sum(a == b for a, b in zip(each, together, strict=True))
            ratios.append(ahead["prompt"] / alone["prompt"])
            report.rows.append(
                (
                    program.__name__,
                    alone["requests"],
                    ahead["requests"],
                    f"{alone['prompt']:,}",
                    f"{ahead['prompt']:,}",
                    f"{ratios[-1]:.2f}",
                    f"{alone['completion']:,}",
                    f"{ahead['completion']:,}",
                    f"{ahead['ahead']} of {ahead['calls']}",
                    ahead["missed"],
                    f"{ahead['saved prompt']:,}",
                    f"{same} of {len(ROWS)}",
                )
            )
    report.bar = f"three fields take at most {BAR} of the prompt tokens"
    report.met = ratios[0] <= BAR
    report.note = (
        "Texts differ where a prompt that ends at a field is cut into other tokens than those that"
        " the model wrote."
    )
    return report


def usage_of(url: str, program: Any, num_tokens: int | None) -> tuple[dict[str, Any], list[str]]:
    """What a batch took, and its texts."""
    model = sgl.OpenAI(MODEL, False, base_url=url, max_parallel=2)
    limit = {"temperature": 0, "max_new_tokens": NUM_TOKENS}
    speculating = sgl.function(program, num_api_spec_tokens=num_tokens)
    texts = [state.text() for state in speculating.run_batch(ROWS, backend=model, **limit)]
    return model.usage().rows()[-1], texts
