"""Every way to fine-tune on every cluster asked for."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from gpuscope.document.text import Text
from gpuscope.planning.tuning.types import Tuned, TuningQuestion
from gpuscope.planning.types import Rejected
from gpuscope.program.models.tuning import SHARDINGS, FineTuning

__all__ = ["MICROBATCHES", "OF_METHOD", "candidates"]

MICROBATCHES = (1, 2, 4, 8, 16)
"""Sequences of a micro-batch."""

OF_METHOD = {
    "full": ("adamw", "adamw-8bit", "paged-adamw-8bit"),
    "lora": ("adamw",),
    "qlora": ("paged-adamw-8bit",),
}
"""Optimizers that are tried: of adapters the states are small, and QLoRA's paper pages them."""


def candidates(question: TuningQuestion) -> tuple[list[Tuned], list[Rejected]]:
    """All that can be, and those that cannot with what does not divide.

    Args:
        question: what is asked; its `clusters` are gone through in order.
    """
    found: list[Tuned] = []
    out: list[Rejected] = []
    for cluster in question.clusters:
        for method, microbatch in product(question.methods, MICROBATCHES):
            together = microbatch * cluster.n_devices
            if question.global_batch % together:
                reason = Text(
                    "{batch} sequences are not divisible by {devices} devices x {microbatch}.",
                    batch=question.global_batch,
                    devices=cluster.n_devices,
                    microbatch=microbatch,
                )
                words = f"{cluster.name}: {method}, microbatch {microbatch}"
                out.append(Rejected(words, "layout", reason))
                continue
            for optimizer, sharding, recompute in _choices(method, cluster.n_devices):
                tuning = FineTuning(
                    method=method,
                    rank=question.rank,
                    targets=question.targets,
                    optimizer=optimizer,
                    sharding=sharding,
                    devices=cluster.n_devices,
                    node=cluster.devices_per_node,
                    microbatches=question.global_batch // together,
                )
                found.append(Tuned(cluster, tuning, microbatch, recompute))
    return found, out


def _choices(method: str, devices: int) -> Iterator[tuple[str, str, bool]]:
    """Optimizer, sharding, recomputation."""
    shardings = SHARDINGS if devices > 1 else ("none",)
    yield from product(OF_METHOD[method], shardings, (False, True))
