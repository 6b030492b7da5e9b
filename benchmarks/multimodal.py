"""Every multimodal type of the installed transformers, small with random weights, against the
model's own forward on prompts with images, videos and sounds: exact, refused, or wrong.

Greedy tokens of prompts with one item, two items and shared items: cold, cached, forked, in steps
of ten tokens, and with so little memory that requests are retracted and rows are encoded again.
`python -m benchmarks.multimodal --help` lists options for some types and the list of exact ones.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import signal
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import tests.torchvision_stand_in  # noqa: F401  before transformers

# isort: split
import numpy as np
import torch
import transformers
from transformers.models.auto.modeling_auto import MODEL_FOR_MULTIMODAL_LM_MAPPING_NAMES

import tests.multimodal_models as small_models
from sgnb import media
from sgnb.engine.engine import Engine
from sgnb.engine.model.item_texts import sampling_rate
from sgnb.errors import ModelError
from sgnb.segment import Segment
from tests.multimodal_models.items import clip, item_text, modalities, picture, sound
from tests.multimodal_models.reference import Reference, encode, reference

from .common import Report

NEW = 6
"""Tokens of each answer."""

SECONDS = 300
"""Time limit of a type."""

TIE = 1e-4
"""Prompts with a smaller difference of the two best logits are left out: rounding decides."""

DOUBT = 0.1
"""With a smaller difference, a prompt is left out if the model's own cache changes the logits by
half of the difference. Mamba layers of Nemotron-H limit their time steps in a prompt only."""

EXACT_BARS = {"any": 60, "video": 15, "audio": 5}
EXACT_LIST = Path(__file__).with_name("exact_multimodal.txt")
"""Exact types, each with its exact kinds of items. A test keeps them exact."""

KINDS = "image", "video", "audio"


class Result(NamedTuple):
    verdict: str  # "exact", "refused", "wrong", "fails" or "not built"
    why: str = ""


Results = dict[str, Result]
"""Results of a type by kind of item; "any" for a type that is not built."""


class Case(NamedTuple):
    """A prompt and its answer by the model's own forward."""

    prompt: list[Segment]
    tokens: list[int]


def items_of(kind: str) -> list[Any]:
    """Return two different items as processors take them."""
    if kind == "image":
        return [picture(1), picture(2, 70, 110)]
    if kind == "video":
        return [clip(3), clip(4)]
    return [sound(5), sound(6)]


def as_media(item: Any, kind: str, rate: int = 16_000) -> media.MediaItem:
    """Return an item as a value of sgnb; a video has two frames per second. rate: of a sound, in
    samples per second."""
    if kind == "image":
        return media.Image(np.array(item))
    if kind == "video":
        return media.Video(item, np.arange(len(item)) / 2)
    return media.Audio(item, rate)


def cases(model: Any, processor: Any, kind: str) -> list[Case]:
    """Return prompts with one item, which share prefixes, and with two items if the processor
    takes two. The model has its own attention."""
    first, second = items_of(kind)
    rate = sampling_rate(processor) or 16_000  # the reference does not resample
    prompts = [
        ["see 17 ", first, " and tell"], ["see 17 ", first, " or count to"],
        ["see 17 ", second, " and tell"], [first, " what is it"],
        ["see 17 ", first, " or ", second, " and tell"], ["no picture here"],
    ]  # fmt: skip
    found: list[Case] = []
    for parts in prompts:
        try:
            expected = reference(model, processor, parts, NEW)
        except Exception:
            if not found:
                raise
            continue  # such as two items
        segments = [
            Segment(part)
            if isinstance(part, str)
            else Segment("", "media", item=as_media(part, kind, rate))
            for part in parts
        ]
        if expected.gap > DOUBT or expected.gap > max(
            TIE, 2 * _cache_error(model, processor, parts, expected)
        ):
            found.append(Case(segments, expected.tokens))
    return found


def _cache_error(model: Any, processor: Any, parts: list[Any], expected: Reference) -> float:
    """Return the largest change of a logit by transformers' cache, up to the first other token."""
    inputs = encode(processor, parts)
    output = model.generate(
        **inputs, max_new_tokens=NEW, do_sample=False, eos_token_id=None, output_logits=True,
        return_dict_in_generate=True,
    )  # fmt: skip
    generated = output.sequences[0, -NEW:].tolist()
    same = next((i for i in range(NEW) if generated[i] != expected.tokens[i]), NEW - 1)
    logits = torch.cat(output.logits)[: same + 1]
    return float((logits - expected.logits[: same + 1]).abs().max())


def compare(model: Any, processor: Any, kinds: dict[str, list[Case]]) -> Results:
    """Compare engines with the expected tokens of each kind of item."""
    longest = 0
    results: Results = {}
    make = partial(Engine, model, tokenizer=processor.tokenizer, processor=processor, device="cpu")
    with make() as engine:
        taken = engine.modalities
        for kind in kinds.keys() - taken:
            results[kind] = Result("refused", engine.refused_modalities.get(kind, ""))
        sizes = [
            len(ids) for kind in taken for ids in engine.encode([c.prompt for c in kinds[kind]])
        ]
        longest = max(sizes, default=0)
        ways = {"together": _together, "again, from the cache": _together}
        _try(engine, kinds, ways, results)
    if taken:
        with make(max_step_tokens=10, max_running_requests=4, prefix_cache=False) as engine:
            _try(engine, kinds, {"in steps of ten": _one_by_one}, results)
        tight = {"max_total_tokens": longest + 24, "encoder_cache": 1e-9}
        with make(**tight, max_step_tokens=64, max_running_requests=4) as engine:
            ways = {"in little memory": _together, "in little memory, again": _one_by_one}
            _try(engine, kinds, ways, results)
    return results


def _try(
    engine: Engine, kinds: dict[str, list[Case]], ways: dict[str, Any], results: Results
) -> None:
    """Run the cases of all kinds that are not wrong yet."""
    for kind in engine.modalities & kinds.keys():
        for name, way in ways.items():
            if results.get(kind, Result("exact")).verdict != "exact":
                continue
            prompts = engine.encode([case.prompt for case in kinds[kind]])
            try:
                answers = way(engine, prompts)
            except Exception as error:
                results[kind] = Result("fails", f"{name}: {_line(error)}")
                continue
            wrong = [i for i, tokens in enumerate(answers) if tokens != kinds[kind][i].tokens]
            results[kind] = Result("exact")
            if wrong:
                results[kind] = Result("wrong", f"{name}: prompts {wrong}")


def _together(engine: Engine, prompts: list[list[int]]) -> list[list[int]]:
    outputs = engine.generate(prompts, temperature=0, max_new_tokens=NEW, ignore_eos=True)
    return [output.token_ids for output in outputs]


def _one_by_one(engine: Engine, prompts: list[list[int]]) -> list[list[int]]:
    return [_together(engine, [prompt])[0] for prompt in prompts]


def template(processor: Any) -> str:
    """Return a chat template that writes texts and placeholders of items."""
    parts = [(kind, item_text(processor, kind)) for kind in modalities(processor)]
    branches = "".join(f"{{% elif c['type'] == '{kind}' %}}{text}" for kind, text in parts)
    return (
        "{% for m in messages %}{% for c in m['content'] %}{% if c['type'] == 'text' %}"
        "{{ c['text'] }}" + branches + "{% endif %}{% endfor %}{% endfor %}"
    )


def try_type(name: str) -> Results:
    """Return the results of a type."""
    warnings.simplefilter("ignore")
    transformers.logging.set_verbosity_error()
    torch.set_num_threads(1)
    if name not in small_models.TYPES:
        return {"any": Result("refused", small_models.why_not.get(name, ""))}
    try:
        with _limited():
            model, processor = small_models.multimodal_model(name)
            processor.chat_template = template(processor)
            kinds = modalities(processor)
    except Exception as error:
        return {"any": Result("not built", _line(error))}

    results: Results = {}
    ready: dict[str, list[Case]] = {}
    for kind in kinds:
        try:
            with _limited():
                ready[kind] = cases(model, processor, kind)
        except Exception as error:
            results[kind] = Result("not built", _line(error))
    if ready:
        try:
            with _limited():
                results |= compare(model, processor, ready)
        except ModelError as error:
            results |= dict.fromkeys(ready, Result("refused", _line(error)))
        except Exception as error:
            results |= dict.fromkeys(ready, Result("fails", _line(error)))
    return results


@contextmanager
def _limited() -> Iterator[None]:
    """Raise TimeoutError after `SECONDS`."""

    def stop(*signal: object) -> None:
        raise TimeoutError(f"more than {SECONDS} s")

    previous = signal.signal(signal.SIGALRM, stop)
    signal.alarm(SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, previous)


def _line(error: BaseException) -> str:
    text = " ".join(str(error).split()) or type(error).__name__
    return text[:160]


def try_types(names: list[str], jobs: int) -> dict[str, Results]:
    """Try each type in a pool of processes."""
    with multiprocessing.get_context("spawn").Pool(jobs, maxtasksperchild=12) as processes:
        results = {}
        for name, found in zip(names, processes.imap(try_type, names), strict=True):
            results[name] = found
            shown = (f"{kind} {result.verdict}" for kind, result in found.items())
            print(f"{len(results)}/{len(names)} {name}: {', '.join(shown)}", file=sys.stderr)
        return results


def exact_kinds(results: dict[str, Results]) -> dict[str, list[str]]:
    """Return the exact kinds of items of the types without a wrong one."""
    exact = {}
    for name, by_kind in results.items():
        verdicts = {result.verdict for result in by_kind.values()}
        kinds = [kind for kind in KINDS if by_kind.get(kind, Result("")).verdict == "exact"]
        if kinds and not verdicts & {"wrong", "fails"}:
            exact[name] = kinds
    return exact


def table(results: dict[str, Results]) -> Report:
    """Return the table of all types."""
    report = Report("Images, videos and sounds of all multimodal types", ("type", *KINDS, "reason"))
    for name, by_kind in sorted(results.items()):
        common = by_kind.get("any")
        verdicts = [common or by_kind.get(kind, Result("")) for kind in KINDS]
        reasons = [f"{kind}: {r.why}" for kind, r in by_kind.items() if r.why]
        report.rows.append((name, *(v.verdict for v in verdicts), "; ".join(reasons)[:200]))
    exact = exact_kinds(results)
    counts = {
        "any": len(exact),
        **{kind: sum(kind in kinds for kinds in exact.values()) for kind in ("video", "audio")},
    }
    bad = [
        f"{name} ({kind}: {r.verdict})"
        for name, by_kind in results.items()
        for kind, r in by_kind.items()
        if r.verdict in ("wrong", "fails")
    ]
    report.bar = "at least 60 types exact, 15 with video, 5 with audio; none wrong"
    report.met = not bad and all(counts[name] >= bar for name, bar in EXACT_BARS.items())
    report.note = (
        f"{counts['any']} of {len(results)} types exact, {counts['video']} with video, "
        f"{counts['audio']} with audio; wrong or failing: {', '.join(bad) or 'none'}."
    )
    return report


def run() -> Report:
    """Try all types on all processors."""
    return table(try_types(sorted(MODEL_FOR_MULTIMODAL_LM_MAPPING_NAMES), os.cpu_count() or 1))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.multimodal", description=__doc__)
    parser.add_argument("types", nargs="*", help="model types; all by default")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    parser.add_argument(
        "--write-list", action="store_true", help=f"write the exact types to {EXACT_LIST.name}"
    )
    arguments = parser.parse_args()
    names = arguments.types or sorted(MODEL_FOR_MULTIMODAL_LM_MAPPING_NAMES)
    results = try_types(names, arguments.jobs)
    if arguments.write_list:
        lines = [" ".join((name, *kinds)) for name, kinds in sorted(exact_kinds(results).items())]
        EXACT_LIST.write_text("\n".join(lines) + "\n", encoding="utf-8")
    report = table(results)
    print(report.markdown(), flush=True)
    return int(not report.met)


if __name__ == "__main__":
    raise SystemExit(main())
