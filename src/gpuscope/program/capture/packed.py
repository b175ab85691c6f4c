"""Packed and padded sequences: `pack_padded_sequence` and its kin, as CUDA takes them apart.

They read lengths in host memory and make one slice for each run of equal ones
(aten/src/ATen/native/PackedSequence.cpp). C++ would read them from memory that fakes lack, so the
same steps are taken here, and recorded one by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import torch

from gpuscope.document.text import Text
from gpuscope.program.capture.fakes import recorder

__all__ = ["pack", "pack_backward", "pad", "pad_sequence"]


def pack(x: torch.Tensor, lengths: torch.Tensor, batch_first: bool) -> Any:
    """The data of all sequences by time step [total, ...] and the batch of each step, on the host.

    Raises:
        RuntimeError: the lengths do not fall, or are no lengths, as PyTorch says it.
    """
    x = x.transpose(0, 1) if batch_first else x
    known = _read(lengths)
    if known is None:
        recorder().values.assume(
            Text("Lengths of sequences that are not known are taken as the longest possible.")
        )
        known = [x.shape[0]] * x.shape[1]
    if len(known) != x.shape[1]:
        raise RuntimeError(
            f"Expected `len(lengths)` to be equal to batch_size, but got {len(known)} (batch_size="
            f"{x.shape[1]})"
        )
    if any(a < b for a, b in pairwise(known)):
        raise RuntimeError(
            "`lengths` array must be sorted in decreasing order when `enforce_sorted` is True."
        )
    if not known or known[-1] <= 0:
        raise RuntimeError("Length of all samples has to be greater than 0")
    steps, before = [], 0
    for at, length in enumerate(reversed(known)):
        if length > before:
            part = x[before:length, : len(known) - at].contiguous()
            steps.append(part.view(-1, *x.shape[2:]))
            before = length
    sizes = [sum(length > t for length in known) for t in range(known[0])]
    return torch.cat(steps), torch.tensor(sizes, device="cpu")


def pack_backward(
    grad: torch.Tensor, shape: Any, batch_sizes: torch.Tensor, batch_first: bool
) -> torch.Tensor:
    """The gradient of what was packed: zeros, and a copy for every time step."""
    outer = (shape[1], shape[0]) if batch_first else (shape[0], shape[1])
    made = grad.new_zeros((*outer, *shape[2:]))
    offset = 0
    for t, size in enumerate(_sizes(batch_sizes)):
        made[t, :size].copy_(grad[offset : offset + size])
        offset += size
    return made.transpose(0, 1) if batch_first else made


def pad(
    data: torch.Tensor,
    batch_sizes: torch.Tensor,
    batch_first: bool,
    padding: float,
    total_length: int = -1,
) -> tuple[torch.Tensor, torch.Tensor]:
    """The padded sequences, and their lengths on the host."""
    sizes = _sizes(batch_sizes)
    longest = max(total_length, len(sizes))
    out = data.new_full((longest, sizes[0], *data.shape[1:]), padding)
    offset = begin = 0
    for t in range(1, len(sizes) + 1):
        if t < len(sizes) and sizes[t] == sizes[begin]:
            continue
        batch, steps = sizes[begin], t - begin
        part = data[offset : offset + batch * steps].view(steps, batch, *data.shape[1:])
        out[begin:t, :batch].copy_(part)
        offset, begin = offset + batch * steps, t
    lengths = [sum(size > at for size in sizes) for at in range(sizes[0])]
    return out.transpose(0, 1) if batch_first else out, torch.tensor(lengths, device="cpu")


def pad_sequence(
    sequences: Sequence[torch.Tensor],
    batch_first: bool = False,
    padding_value: float = 0.0,
    padding_side: str = "right",
) -> torch.Tensor:
    """Sequences beside each other in one tensor, a copy for each.

    C++ would make the tensor on the device that a fake names to it, the host
    (aten/src/ATen/native/PackedSequence.cpp, `pad_sequence`).
    """
    first = sequences[0]
    longest, count = max(s.shape[0] for s in sequences), len(sequences)
    outer = (count, longest) if batch_first else (longest, count)
    out = first.new_full((*outer, *first.shape[1:]), padding_value)
    for at, one in enumerate(sequences):
        row = out[at] if batch_first else out[:, at]
        begin = longest - one.shape[0] if padding_side == "left" else 0
        row[begin : begin + one.shape[0]].copy_(one)
    return out


def _sizes(batch_sizes: torch.Tensor) -> list[int]:
    found = _read(batch_sizes)
    return [1] * batch_sizes.numel() if found is None else found


def _read(tensor: torch.Tensor) -> list[int] | None:
    """Numbers in host memory; None where they are not known."""
    found = recorder().host_values.told(tensor, "tolist")
    return None if found is None else [int(n) for n in found]
