"""The programs by name: where each stands and how many devices it takes."""

from __future__ import annotations

from pathlib import Path

HERE = Path(__file__).resolve().parent

PROGRAMS: dict[str, str] = {
    "products-bfloat16": "products.py:bfloat16",
    "products-float32": "products.py:float32",
    "products-batched": "products.py:batched",
    "perceptron-train": "products.py:perceptron",
    "per-example-gradients": "products.py:per_example",
    "ensemble-train": "products.py:ensemble",
    "resnet18-train": "images.py:residual",
    "diffusion-step": "images.py:diffusion",
    "decoder-train-float32": "decoders.py:plain",
    "decoder-train-mixed": "decoders.py:mixed",
    "decoder-train-cudnn": "decoders.py:cudnn",
    "decoder-train-xla-attention": "decoders.py:by_xla",
    "decoder-train-scanned": "decoders.py:scanned",
    "decoder-train-recomputed": "decoders.py:recomputed",
    "decoder-prefill": "decoders.py:prefill",
    "decoder-decode-loop": "decoders.py:decode",
    "rows-bandwidth": "loops_and_tables.py:rows",
    "tables-train": "loops_and_tables.py:tables",
    "recurrent-train": "loops_and_tables.py:recurrent",
    "data-parallel": "sharded.py:data",
    "data-parallel-shard-map": "sharded.py:by_hand",
    "tensor-parallel": "sharded.py:tensor",
    "fully-sharded": "sharded.py:fully",
}

TWO_DEVICES = tuple(name for name, where in PROGRAMS.items() if where.startswith("sharded.py"))


def target(name: str) -> str:
    """The workload as the command line names it."""
    return str(HERE / PROGRAMS[name])
