"""What every script begins with: the process group and this rank's device."""

from __future__ import annotations

import os

import torch
import torch.distributed as dist


def init() -> tuple[int, int]:
    """Join the job as torchrun started it; returns rank and world size."""
    local = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local)
    if not dist.is_initialized():
        dist.init_process_group("nccl")
    torch.manual_seed(0)
    return dist.get_rank(), dist.get_world_size()


def tokens(batch: int, seq: int, vocab: int) -> torch.Tensor:
    """A batch of random tokens on the device."""
    return torch.randint(0, vocab, (batch, seq), device="cuda")
