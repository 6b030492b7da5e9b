"""Trains the bundled model for images: `python -m training.vision.train`. One GPU and six minutes.

Without `--model`, all parameters are trained. The text model starts from the bundled weights, and each batch has text
of the text model's training against forgetting. The schedule follows the clock: time on a GPU is limited.

`--model FOLDER --share 0.7` continues a training, on a CPU too. The weights of the decoder are interpolated between the
text model (0) and the folder (1) against forgetting (Wortsman et al. 2022, arXiv 2109.01903), and frozen. Tower and
projector are trained on drawings alone: the options of text have no effect.
"""

from __future__ import annotations

import argparse
import time
from collections import defaultdict
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import DataLoader
from transformers import LlavaForConditionalGeneration

from ..tokenizer import MODEL as TEXT_MODEL
from ..train import learning_rate
from .data import UNTRAINED, Batch, Drawings
from .network import TOKENS, build, export, image_rows, interpolate

WORDS = "model.language_model.embed_tokens.weight"
TEXT_RATE = 0.35
"""Learning rate of the text model, relative to the vision tower."""

SCALE = 1_000
"""Steps of the schedule; the clock says which one."""


def optimizers_for(model: nn.Module, peak: float) -> list[torch.optim.Optimizer]:
    """Muon for the matrices of layers, AdamW for embeddings, convolutions and vectors; the trained text model learns
    slower."""
    groups: dict[tuple[bool, bool], list[nn.Parameter]] = defaultdict(list)
    for name, parameter in model.named_parameters():
        if not parameter.requires_grad:
            continue
        is_matrix = parameter.ndim == 2 and "embed" not in name
        groups[is_matrix, "language_model" in name].append(parameter)
    muon, adam = (
        [{"params": groups[is_matrix, is_text], "scale": TEXT_RATE if is_text else 1.0} for is_text in (False, True)]
        for is_matrix in (True, False))
    fused = next(model.parameters()).is_cuda
    return [torch.optim.Muon(muon, lr=peak, weight_decay=0.05, adjust_lr_fn="match_rms_adamw"),
            torch.optim.AdamW(adam, lr=peak, betas=(0.9, 0.95), weight_decay=0.0, fused=fused)]


def answer_loss(model: LlavaForConditionalGeneration, batch: Batch) -> Tensor:
    """Return the mean cross entropy of answers."""
    decoder, words = model.model.language_model, model.get_parameter(WORDS)
    first = batch.ids[0].tolist().index(model.config.image_token_id)
    rows = F.embedding(batch.ids, words)
    images = image_rows(model, batch.pixels).to(rows.dtype)
    rows = torch.cat([rows[:, :first], images, rows[:, first + TOKENS :]], 1)
    hidden = decoder(inputs_embeds=rows, use_cache=False).last_hidden_state
    at = batch.labels[:, 1:] != UNTRAINED
    return F.cross_entropy((hidden[:, :-1][at] @ words.T).float(), batch.labels[:, 1:][at])


def text_loss(model: LlavaForConditionalGeneration, text: Tensor) -> Tensor:
    """Return the mean cross entropy of text, [rows, length] of ids."""
    hidden = model.model.language_model(input_ids=text.long(), use_cache=False).last_hidden_state[:, :-1]
    logits = hidden @ model.get_parameter(WORDS).T
    return F.cross_entropy(logits.float().flatten(0, 1), text[:, 1:].long().flatten())


def train(options: argparse.Namespace) -> LlavaForConditionalGeneration:
    torch.manual_seed(options.seed)
    torch.set_float32_matmul_precision("high")
    model = build(TEXT_MODEL)
    if options.model:
        interpolate(model, options.model, options.share)
    model.to(options.device)
    optimizers = optimizers_for(model, options.lr)
    data = Drawings(TEXT_MODEL, options.seed, 1 << 20, options.rows, options.chart_share,
                    0 if options.model else options.text_tokens)
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
        with torch.autocast(options.device, torch.bfloat16, enabled=options.device == "cuda"):
            losses = {"answers": answer_loss(model, batch)}
            if not options.model:
                losses["text"] = options.text_weight * text_loss(model, batch.text)
        torch.stack(list(losses.values())).sum().backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for optimizer in optimizers:
            optimizer.step()
        model.zero_grad()
        if time.perf_counter() - shown > 5:
            shown = time.perf_counter()
            said = "  ".join(f"{name} {loss.item():.4f}" for name, loss in losses.items())
            print(f"{shown - began:.0f} s  step {step + 1}  {said}", flush=True)
    return model


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, help="folder of a trained model to go on with")
    parser.add_argument("--share", type=float, default=0.7, help="of the decoder's own weights, with --model")
    parser.add_argument("--seconds", type=float, default=330.0, help="of training")
    parser.add_argument("--rows", type=int, default=256, help="drawings of a batch")
    parser.add_argument("--chart-share", type=float, default=0.2, help="part of the drawings made by matplotlib")
    parser.add_argument("--text-tokens", type=int, default=49_152, help="tokens of text in a batch")
    parser.add_argument("--text-weight", type=float, default=2.0)
    parser.add_argument("--lr", type=float, default=2e-3, help="highest learning rate")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=14, help="processes that make batches; 0 makes them in line")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--out", type=Path, default=Path("out/tiny-vision"), help="folder of the model")
    options = parser.parse_args()
    export(train(options).cpu(), TEXT_MODEL, options.out)
    print(f"written to {options.out}")


if __name__ == "__main__":
    main()
