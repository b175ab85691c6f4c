"""Every way to fine-tune on every cluster asked for."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from math import ceil

from gpuscope.cost.attention.choice import has_flash
from gpuscope.document.text import Text
from gpuscope.hardware import Cluster
from gpuscope.planning.tuning.launch import lacks
from gpuscope.planning.tuning.types import Tuned, TuningQuestion
from gpuscope.planning.types import Rejected
from gpuscope.program.models.rows import Rows, rows_of
from gpuscope.program.models.tuning import SHARDINGS, FineTuning

__all__ = ["MICROBATCHES", "OF_METHOD", "candidates", "laid", "refused"]

MICROBATCHES = (1, 2, 4, 8, 16)
"""Sequences of a micro-batch."""

OF_METHOD = {
    "full": ("adamw", "adamw-8bit", "paged-adamw-8bit"),
    "lora": ("adamw",),
    "qlora": ("paged-adamw-8bit",),
}
"""Optimizers that are tried: of adapters the states are small, and QLoRA's paper pages them."""


def candidates(question: TuningQuestion) -> tuple[list[Tuned], list[Rejected]]:
    """All that can be, and those that cannot with what does not divide, or what cannot start them.

    Args:
        question: what is asked; its `clusters` are gone through in order.
    """
    found: list[Tuned] = []
    out: list[Rejected] = []
    unable: list[Rejected] = []
    for cluster in question.clusters:
        lacking = lacks(question.framework, cluster)
        if lacking is not None:
            unable.append(Rejected(cluster.name, "framework", lacking.what))
            continue
        every = product(question.packings, question.methods, MICROBATCHES)
        for packing, method, microbatch in every:
            rows, passes = laid(question, cluster, packing, microbatch)
            reason = refused(question, cluster, packing, microbatch, passes)
            if reason is not None:
                words = f"{cluster.name}: {method}, microbatch {microbatch}"
                words += f", packing {packing}" if rows else ""
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
                    microbatches=ceil(passes),
                )
                found.append(Tuned(cluster, tuning, microbatch, recompute, passes, rows))
    return found, unable + out


def laid(
    question: TuningQuestion, cluster: Cluster, packing: str, microbatch: int
) -> tuple[Rows | None, float]:
    """What rows of examples are like (None: all as long as a row), and micro-batches of a step."""
    together = microbatch * cluster.n_devices
    if not question.lengths:
        return None, question.global_batch / together
    rows = rows_of(question.lengths, question.seq, packing, together)
    return rows, question.global_batch / rows.examples / together


def refused(
    question: TuningQuestion, cluster: Cluster, packing: str, microbatch: int, passes: float
) -> Text | None:
    """Why these rows cannot be, if they cannot."""
    if packing == "flash" and not has_flash(cluster.device):
        return Text("FlashAttention has no kernels for {device}.", device=cluster.device.name)
    if packing in ("flash", "mask"):
        if passes >= 1:
            return None
        return Text(
            "{batch} examples fill fewer rows than {devices} devices x {microbatch}.",
            batch=question.global_batch,
            devices=cluster.n_devices,
            microbatch=microbatch,
        )
    if passes.is_integer():
        return None
    return Text(
        "{batch} sequences are not divisible by {devices} devices x {microbatch}.",
        batch=question.global_batch,
        devices=cluster.n_devices,
        microbatch=microbatch,
    )


def _choices(method: str, devices: int) -> Iterator[tuple[str, str, bool]]:
    """Optimizer, sharding, recomputation."""
    shardings = SHARDINGS if devices > 1 else ("none",)
    yield from product(OF_METHOD[method], shardings, (False, True))
