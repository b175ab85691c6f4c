"""FSDP2's own operators: copies into and out of the buffers of its collectives, and its memory."""

from __future__ import annotations

from typing import Any

import torch

from gpuscope.program.capture.distributed import chunks
from gpuscope.program.capture.patches import Patches
from gpuscope.program.capture.storages import UNSHARDED, StorageTracker

TAKEN_APART = frozenset(
    {"fsdp::all_gather_copy_in", "fsdp::split_with_sizes_copy", "fsdp::chunk_cat"}
)
"""Operators whose CUDA kernels are other operators
(torch/distributed/fsdp/_fully_shard/_fsdp_collectives.py)."""


def install(patch: Patches, recorder: Any) -> None:
    """Follow storages that are resized to free and to hold unsharded parameters."""
    chunks.install(patch)
    original = torch.UntypedStorage.resize_

    def resize(self: Any, size: int) -> Any:
        result = original(self, size)
        recorder.storages.resized(self)
        return result

    patch.set(torch.UntypedStorage, "resize_", resize)


def run(storages: StorageTracker, name: str, args: Any, kwargs: Any) -> Any:
    """What the operator does on CUDA, each part for the recorder to see."""
    if name == "fsdp::all_gather_copy_in":
        return _all_gather_copy_in(storages, *args)
    if name == "fsdp::chunk_cat":
        tensors, dim, chunks = args
        torch._chunk_cat(tensors, dim, chunks, out=kwargs["out"])
        storages.mark(kwargs["out"], "communication", "reduce-scatter input")
        return None
    output, sizes = args[:2]
    dim = args[2] if len(args) > 2 else kwargs.get("dim", 0)
    torch.split_with_sizes_copy(output, sizes, dim=dim, out=kwargs["out"])
    for tensor in kwargs["out"]:
        storages.mark(tensor, "communication", UNSHARDED)
    return None


def _all_gather_copy_in(
    storages: StorageTracker, inputs: Any, output: Any, sizes: Any, numel: int, rank: int
) -> Any:
    mine = output.narrow(0, numel * rank, numel)
    with torch.no_grad():
        torch._foreach_copy_(torch.split(mine, sizes), inputs)
    storages.mark(output, "communication", "all-gather output")
    return mine, output
