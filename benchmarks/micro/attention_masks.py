"""Which kernels attention with a mask takes: `python attention_masks.py OUT.jsonl`.

Masks by who made them: contiguous, permuted (T5's relative positions come out of an embedding with
the heads last), broadcast over batch or heads, odd lengths, with and without a gradient. Writes the
kernels of the forward pass and of forward and backward together, and their times.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

BATCH, HEADS, LENGTH, HEAD = 4, 8, 512, 64


def masks(dtype: torch.dtype, grad: bool) -> dict[str, torch.Tensor]:
    """Every kind of mask by its name."""

    def made(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, device="cuda", dtype=dtype, requires_grad=grad)

    length = LENGTH
    whole = made(BATCH, HEADS, length, length)
    shared = made(1, HEADS, length, length)
    last = made(length, length, HEADS)
    one = made(1, 1, length, length)
    return {
        "contiguous": whole,
        "shared over the batch": shared,
        "heads last": last.permute(2, 0, 1).unsqueeze(0),
        "heads last, added to a padding mask": last.permute(2, 0, 1).unsqueeze(0)
        + torch.zeros(BATCH, 1, 1, length, device="cuda", dtype=dtype),
        "heads last, made contiguous": last.permute(2, 0, 1).unsqueeze(0).contiguous(),
        "expanded": one.expand(BATCH, HEADS, length, length),
        "of two dimensions": made(length, length),
        "one row": made(BATCH, 1, 1, length),
    }


def kernels(call: Any) -> list[list[Any]]:
    """Names and microseconds of what a call launches."""
    for _ in range(2):
        call()
    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CUDA]) as session:
        call()
        torch.cuda.synchronize()
    return [
        [e.name[:120], round(e.device_time_total, 2)]
        for e in session.events()
        if e.device_type == torch.autograd.DeviceType.CUDA
    ]


def main() -> int:
    """Every case, a line each."""
    with Path(sys.argv[1]).open("w") as out:
        for dtype in (torch.bfloat16, torch.float32):
            for grad in (True, False):
                for odd in (False, True):
                    _of(dtype, grad, odd, out)
    return 0


def _of(dtype: torch.dtype, grad: bool, odd: bool, out: Any) -> None:
    for name, mask in masks(dtype, grad).items():
        length = LENGTH - 12 if odd else LENGTH
        if odd:
            mask = mask[..., : min(length, mask.shape[-2]), : min(length, mask.shape[-1])]
        q, k, v = (
            torch.randn(BATCH, HEADS, length, HEAD, device="cuda", dtype=dtype, requires_grad=True)
            for _ in range(3)
        )
        for dropout in (0.0, 0.1):
            row: dict[str, Any] = {"mask": name, "dtype": str(dtype), "grad": grad}
            row |= {"length": length, "dropout": dropout, "stride": list(mask.stride())}
            row["shape"] = list(mask.shape)

            def forward(q=q, k=k, v=v, mask=mask, dropout=dropout) -> torch.Tensor:  # type: ignore[no-untyped-def]
                attend = torch.nn.functional.scaled_dot_product_attention
                return attend(q, k, v, attn_mask=mask, dropout_p=dropout)

            def both(forward=forward) -> None:  # type: ignore[no-untyped-def]
                forward().sum().backward(retain_graph=True)

            try:
                row["forward"], row["both"] = kernels(forward), kernels(both)
            except RuntimeError as error:
                row["failed"] = str(error).splitlines()[0][:200]
            out.write(json.dumps(row) + "\n")
            out.flush()


if __name__ == "__main__":
    sys.exit(main())
