"""Trains the bundled model that sees: `python -m training.vision.train`. One GPU and six minutes.

All parameters are trained: the text model starts from the bundled weights, and a part of each batch is text of its own
training, so that it forgets nothing. The schedule follows the clock, because the time on a GPU is what is given.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import time
from collections import Counter
from functools import partial
from pathlib import Path
from random import Random

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.utils.data import DataLoader
from transformers import LlavaForConditionalGeneration

from .. import forms
from ..train import learning_rate
from . import matplotlib_charts
from .data import BEFORE, UNTRAINED, Batch, Drawings, draw_content
from .drawings import Bars, Pixels, draw
from .network import TOKENS, build, image_rows
from .questions import Question, ask

TEXT_MODEL = Path(__file__).parents[2] / "sgnb" / "models" / "tiny"
WORDS = "model.language_model.embed_tokens.weight"
TEXT_RATE = 0.35
"""Learning rate of the text model, relative to the vision tower."""

SCALE = 1_000
"""Steps of the schedule; the clock says which one."""


def optimizers_for(model: nn.Module, peak: float) -> list[torch.optim.Optimizer]:
    """Muon for the matrices of layers, AdamW for embeddings, convolutions and vectors; the trained text model learns
    slower."""
    groups: dict[tuple[bool, bool], list[nn.Parameter]] = {}
    for name, parameter in model.named_parameters():
        is_matrix = parameter.ndim == 2 and "embed" not in name
        groups.setdefault((is_matrix, "language_model" in name), []).append(parameter)
    muon, adam = (
        [{"params": groups[is_matrix, is_text], "scale": TEXT_RATE if is_text else 1.0} for is_text in (False, True)]
        for is_matrix in (True, False))
    fused = next(model.parameters()).is_cuda
    return [torch.optim.Muon(muon, lr=peak, weight_decay=0.05, adjust_lr_fn="match_rms_adamw"),
            torch.optim.AdamW(adam, lr=peak, betas=(0.9, 0.95), weight_decay=0.0, fused=fused)]


def losses(model: LlavaForConditionalGeneration, batch: Batch) -> tuple[Tensor, Tensor]:
    """Return the mean cross entropy of answers, and of text."""
    decoder, words = model.model.language_model, model.get_parameter(WORDS)
    first = batch.ids[0].tolist().index(model.config.image_token_id)
    rows = F.embedding(batch.ids, words)
    images = image_rows(model, batch.pixels).to(rows.dtype)
    rows = torch.cat([rows[:, :first], images, rows[:, first + TOKENS :]], 1)
    hidden = decoder(inputs_embeds=rows, use_cache=False).last_hidden_state
    at = batch.labels[:, 1:] != UNTRAINED
    answers = F.cross_entropy((hidden[:, :-1][at] @ words.T).float(), batch.labels[:, 1:][at])
    text = batch.text.long()
    hidden = decoder(input_ids=text, use_cache=False).last_hidden_state[:, :-1]
    return answers, F.cross_entropy((hidden @ words.T).float().flatten(0, 1), text[:, 1:].flatten())


def train(options: argparse.Namespace) -> LlavaForConditionalGeneration:
    torch.manual_seed(options.seed)
    torch.set_float32_matmul_precision("high")
    model = build(TEXT_MODEL).to(options.device)
    optimizers = optimizers_for(model, options.lr)
    data = Drawings(TEXT_MODEL, options.seed, 1 << 20, options.rows, options.chart_share, options.text_tokens)
    loader = DataLoader(data, batch_size=None, sampler=range(len(data)), num_workers=options.workers,
                        prefetch_factor=6 if options.workers else None, pin_memory=options.device == "cuda")
    began = shown = time.perf_counter()
    for step, parts in enumerate(loader):
        passed = (time.perf_counter() - began) / options.seconds
        if passed >= 1:
            break
        for group in [group for optimizer in optimizers for group in optimizer.param_groups]:
            group["lr"] = group["scale"] * learning_rate(int(passed * SCALE), SCALE, options.lr)
        batch = Batch(*(part.to(options.device, non_blocking=True) for part in parts))
        with torch.autocast(options.device, torch.bfloat16):
            answers, text = losses(model, batch)
        (answers + options.text_weight * text).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for optimizer in optimizers:
            optimizer.step()
        model.zero_grad()
        if time.perf_counter() - shown > 5:
            shown = time.perf_counter()
            print(f"{shown - began:.0f} s  step {step + 1}  answers {answers.item():.4f}  text {text.item():.4f}",
                  flush=True)
    return model


def held_out_question(seed: int, chart: bool, index: int) -> tuple[Pixels, Question]:
    """Return a drawing that training never sees, and a question about it."""
    rng = Random(f"held out/{seed}/{chart}/{index}")
    what = draw_content(rng, from_held_out=True, chart=chart)
    pixels = matplotlib_charts.render(what, rng) if chart and isinstance(what, Bars) else draw(what, rng)
    return pixels, ask(what, rng)


def held_out_questions(count: int, *, chart: bool, seed: int = 0) -> list[tuple[Pixels, Question]]:
    """Return drawings that training never sees, each with a question; drawn by several processes."""
    with multiprocessing.Pool(initializer=torch.set_num_threads, initargs=(1,)) as processes:
        return processes.map(partial(held_out_question, seed, chart), range(count), 20)


@torch.inference_mode()
def answer(model: LlavaForConditionalGeneration, questions: list[tuple[Pixels, Question]], new: int = 72) -> list[str]:
    """Return greedy answers, of all questions at once."""
    tokenizer = Drawings(TEXT_MODEL, 0, 1, 1, 0.0, 256).tokenizer
    device, words = model.device, model.get_parameter(WORDS)
    head = tokenizer.encode(BEFORE).ids
    tails = [tokenizer.encode(f"{q.ask}{forms.END}\n{forms.ASSISTANT}\n").ids for _, q in questions]
    longest, end = max(map(len, tails)), tokenizer.token_to_id(forms.END)
    padded = torch.tensor([tail + [end] * (longest - len(tail)) for tail in tails], device=device)
    lengths = torch.tensor([len(head) + TOKENS + len(tail) for tail in tails], device=device)
    pixels = torch.from_numpy(np.stack([pixels for pixels, _ in questions]))
    images = image_rows(model, pixels.to(device)).to(words.dtype)
    begin = F.embedding(torch.tensor([head] * len(tails), device=device), words)
    rows = torch.cat([begin, images, F.embedding(padded, words)], 1)
    texts: list[list[int]] = [[] for _ in tails]
    ended = torch.zeros(len(tails), dtype=torch.bool, device=device)
    numbers = torch.arange(len(tails), device=device)
    for _ in range(new):  # rows of different lengths: the whole row again for each token
        hidden = model.model.language_model(inputs_embeds=rows, use_cache=False).last_hidden_state
        tokens = (hidden[numbers, lengths - 1] @ words.T).argmax(-1)
        ended |= tokens == end
        if bool(ended.all()):
            break
        for text, token, over in zip(texts, tokens.tolist(), ended.tolist(), strict=True):
            text += [] if over else [token]
        rows = torch.cat([rows, rows.new_zeros(len(rows), 1, rows.shape[2])], 1)
        rows[numbers, lengths] = F.embedding(tokens, words)
        lengths = lengths + 1
    return [tokenizer.decode(text) for text in texts]


def accuracy(model: LlavaForConditionalGeneration, count: int, *, chart: bool) -> dict[str, tuple[int, int]]:
    """Return right answers and questions by kind, and in "all"."""
    questions = held_out_questions(count, chart=chart)
    right, asked = Counter[str](), Counter[str]()
    for begin in range(0, count, 500):
        part = questions[begin : begin + 500]
        with torch.autocast(model.device.type, torch.bfloat16):
            answers = answer(model, part)
        for (_, question), text in zip(part, answers, strict=True):
            for kind in ("all", question.kind):
                asked[kind] += 1
                right[kind] += text == question.answer
    return {kind: (right[kind], asked[kind]) for kind in asked}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=330.0, help="of training")
    parser.add_argument("--rows", type=int, default=256, help="drawings of a batch")
    parser.add_argument("--chart-share", type=float, default=0.2, help="part of the drawings made by matplotlib")
    parser.add_argument("--text-tokens", type=int, default=49_152, help="tokens of text in a batch")
    parser.add_argument("--text-weight", type=float, default=2.0)
    parser.add_argument("--lr", type=float, default=2e-3, help="highest learning rate")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--questions", type=int, default=2_000, help="of the evaluation afterwards")
    parser.add_argument("--workers", type=int, default=14, help="processes that make batches; 0 makes them in line")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--out", type=Path, default=Path("out/tiny-vision"), help="folder of the weights")
    options = parser.parse_args()
    model = train(options).eval()
    options.out.mkdir(parents=True, exist_ok=True)
    weights = {name: tensor.bfloat16().cpu().contiguous() for name, tensor in model.state_dict().items()}
    weights.pop("lm_head.weight")  # tied
    save_file(weights, options.out / "model.safetensors", {"format": "pt"})
    print("saved", flush=True)
    results = {}
    for chart in (False, True):
        found = accuracy(model, options.questions, chart=chart)
        results["matplotlib" if chart else "drawings"] = found
        for kind, (right, asked) in sorted(found.items()):
            print(f"{'matplotlib' if chart else 'drawings'}: {kind} {right}/{asked} {right / asked:.3f}", flush=True)
    (options.out / "accuracy.json").write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
