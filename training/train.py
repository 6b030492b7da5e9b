"""Trains the bundled model: `python -m training.train`. One GPU and about 25 minutes, or a CPU and patience.

Stops and resumes anywhere: the checkpoint holds the weights, the optimizer and the step, and a batch depends only on
the seed and the step.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader
from transformers import LlamaForCausalLM

from .corpus import Batches
from .network import build, export
from .tokenizer import MODEL

RECORD = "training.json"
LENGTHS = (256, 512, 256, 2048, 256, 512, 256, 512, 2048, 256, 4096, 512)
"""Row lengths, taken in turn: mostly short, so that many documents open a row; some as long as the context."""


def learning_rate(step: int, steps: int, peak: float) -> float:
    """Linear warm-up over 2 % of the steps, level, then linear to zero over the last 40 %."""
    warm, fall = max(1, steps // 50), 0.4 * steps
    return peak * min((step + 1) / warm, 1.0, max(0.0, (steps - step) / fall))


def optimizers_for(model: LlamaForCausalLM, peak: float) -> list[torch.optim.Optimizer]:
    """Muon for the matrices of the layers, AdamW for the embedding and the norms; weight decay on matrices only."""
    layers = [p for p in model.model.layers.parameters() if p.ndim == 2]
    vectors = [p for p in model.parameters() if p.ndim < 2]
    others = [{"params": [model.model.embed_tokens.weight], "weight_decay": 0.1},
              {"params": vectors, "weight_decay": 0.0}]
    muon = torch.optim.Muon(layers, lr=peak, weight_decay=0.1, adjust_lr_fn="match_rms_adamw")
    return [muon, torch.optim.AdamW(others, lr=peak, betas=(0.9, 0.95), fused=next(model.parameters()).is_cuda)]


class Loss(nn.Module):
    """Mean next-token cross entropy of a batch [rows, length]."""

    def __init__(self, model: LlamaForCausalLM) -> None:
        super().__init__()
        self.model = model

    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        logits = self.model(input_ids=batch, use_cache=False).logits[:, :-1]
        return nn.functional.cross_entropy(logits.flatten(0, 1).float(), batch[:, 1:].flatten())


def data_for(options: argparse.Namespace) -> Batches:
    return Batches(options.model / "tokenizer.json", options.seed, options.steps, options.tokens, LENGTHS)


def batches(options: argparse.Namespace, first: int) -> Iterator[torch.Tensor]:
    """The batches from step `first` on, made by loader processes ahead of use."""
    data, steps = data_for(options), range(first, options.steps)
    yield from DataLoader(data, batch_size=None, sampler=steps, num_workers=options.workers,
                          prefetch_factor=8 if options.workers else None, pin_memory=options.device == "cuda")


def train(options: argparse.Namespace) -> LlamaForCausalLM:
    """Run or resume to `options.steps`."""
    torch.manual_seed(options.seed)
    torch.set_float32_matmul_precision("high")
    model = build(options.model / "tokenizer.json").to(options.device)
    optimizers = optimizers_for(model, options.lr)
    first = resume(options.out / "checkpoint.pt", model, optimizers)
    loss_of = torch.compile(Loss(model), dynamic=False) if options.device == "cuda" else Loss(model)
    shown, shown_at, step = time.time(), first, first
    for step, batch in enumerate(batches(options, first), first):
        for group in [group for optimizer in optimizers for group in optimizer.param_groups]:
            group["lr"] = learning_rate(step, options.steps, options.lr)
        with torch.autocast(options.device, torch.bfloat16):
            loss = loss_of(batch.to(options.device, torch.long, non_blocking=True))
        loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for optimizer in optimizers:
            optimizer.step()
        model.zero_grad()
        if time.time() - shown > 5:
            rate = (step + 1 - shown_at) * options.tokens / (time.time() - shown)
            shown, shown_at = time.time(), step + 1
            print(f"step {step + 1}/{options.steps}  loss {loss.item():.4f}  gradient {norm.item():.2f}  "
                  f"{rate / 1e6:.3f} M tokens/s", flush=True)
        if (step + 1) % options.save_every == 0:
            save(options.out / "checkpoint.pt", model, optimizers, step + 1)
    save(options.out / "checkpoint.pt", model, optimizers, step + 1)
    return model


def save(path: Path, model: nn.Module, optimizers: list[torch.optim.Optimizer], step: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    states = [optimizer.state_dict() for optimizer in optimizers]
    part = path.with_suffix(".part")  # a run that is stopped while it writes keeps the checkpoint before
    torch.save({"model": model.state_dict(), "optimizers": states, "step": step}, part)
    part.replace(path)


def resume(path: Path, model: nn.Module, optimizers: list[torch.optim.Optimizer]) -> int:
    """Load the checkpoint into model and optimizers, if there is one; the step to go on from."""
    if not path.exists():
        return 0
    state = torch.load(path, map_location="cpu", weights_only=True)
    model.load_state_dict(state["model"])
    for optimizer, saved in zip(optimizers, state["optimizers"], strict=True):
        optimizer.load_state_dict(saved)
    return int(state["step"])


def record(options: argparse.Namespace) -> dict[str, Any]:
    """How the weights were made: enough to make them again, and hashes of some batches to tell whether it is the same
    text."""
    data = data_for(options)
    return {
        "command": f"python -m training.train --steps {options.steps} --tokens {options.tokens} --lr {options.lr:g} "
                   f"--seed {options.seed}",
        **{name: getattr(options, name) for name in ("steps", "tokens", "lr", "seed")},
        "torch": torch.__version__,
        "device": torch.cuda.get_device_name() if options.device == "cuda" else options.device,
        "batches": {str(step): data.fingerprint(step) for step in (0, options.steps // 2, options.steps - 1)},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=30_000)
    parser.add_argument("--tokens", type=int, default=131_072, help="tokens in a batch")
    parser.add_argument("--lr", type=float, default=4e-3, help="highest learning rate")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=14, help="processes that make batches; 0 makes them in line")
    parser.add_argument("--save-every", type=int, default=2_000, help="steps between checkpoints")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--out", type=Path, default=Path("out/training"), help="where the checkpoint lies")
    parser.add_argument("--model", type=Path, default=MODEL, help="folder with the tokenizer; gets the weights")
    options = parser.parse_args()
    export(train(options).cpu(), options.model / "tokenizer.json", options.model)
    (options.model / RECORD).write_text(json.dumps(record(options), indent=2) + "\n", encoding="utf-8")
    print(f"written to {options.model}")


if __name__ == "__main__":
    main()
