"""What a real backend refuses, said by a capture, too."""

from __future__ import annotations

from typing import Any

from gpuscope.program.capture.calls import flat
from gpuscope.program.capture.fakes import on_device


def check(name: str, args: Any, ranks: int, backend: str) -> None:
    """Refuse a collective whose tensors do not fit together.

    Args:
        name: the operator without namespace, e.g. "_allgather_base_".
        args: its arguments.
        ranks: of the group.
        backend: of the group, as it was asked for.

    Raises:
        RuntimeError: tensors on the host in a group of NCCL alone.
        ValueError: sizes or dtypes that do not fit (ProcessGroupNCCL.cpp says the same).
    """
    tensors = [t for t in flat((args[0], args[1])) if hasattr(t, "dtype")]
    moves = name not in ("barrier", "monitored_barrier_")
    if moves and backend == "nccl" and not all(on_device(t) for t in tensors):
        raise RuntimeError("No backend type associated with device type cpu")
    if name in ("_allgather_base_", "_reduce_scatter_base_"):
        whole, part = args[:2] if name == "_allgather_base_" else (args[1], args[0])
        if whole.dtype != part.dtype:
            raise ValueError(f"tensors must have the same dtype: {whole.dtype}, {part.dtype}")
        if whole.numel() != part.numel() * ranks:
            raise ValueError(
                f"the whole tensor must be {ranks} (ranks of the group) times the part:"
                f" {whole.numel()} elements, but {part.numel()} a rank"
            )
    if name in ("allgather_", "gather_", "reduce_scatter_", "scatter_"):
        lists = args[0] if name in ("allgather_", "gather_") else args[1]
        for found in lists:
            if len(found) != ranks:
                raise ValueError(f"the list must have {ranks} tensors, not {len(found)}")
    if name == "alltoall_" and len(args[1]) != ranks:
        raise ValueError(f"the list must have {ranks} tensors, not {len(args[1])}")
