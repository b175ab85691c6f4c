"""Collectives by hand, and long sequences by context parallelism."""

from __future__ import annotations

import torch
import torch.distributed as dist
import torch.nn.functional as F
from setup import init
from torch.distributed.device_mesh import init_device_mesh


def overlapped():
    """An all-reduce of 256 MB under products, and one that nothing hides."""
    init()
    a = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)
    grads = torch.randn(64 * 2**20, device="cuda")
    small = torch.randn(4 * 2**20, device="cuda")

    def step():
        work = dist.all_reduce(grads, async_op=True)
        b = a
        for _ in range(8):
            b = a @ b
        work.wait()
        dist.all_reduce(small)

    return step


def context():
    """Causal attention over 32k tokens, the sequence spread over the ranks (ring attention)."""
    from torch.distributed.tensor.experimental import context_parallel
    from torch.nn.attention import SDPBackend, sdpa_kernel

    _, world = init()
    mesh = init_device_mesh("cuda", (world,), mesh_dim_names=("cp",))
    q, k, v = (
        torch.randn(1, 16, 32768, 128, device="cuda", dtype=torch.bfloat16) for _ in range(3)
    )

    def step():
        parts = [t.clone() for t in (q, k, v)]
        with (
            sdpa_kernel(SDPBackend.FLASH_ATTENTION),
            context_parallel(mesh, buffers=parts, buffer_seq_dims=[2, 2, 2]),
        ):
            for part in parts:
                part.requires_grad_()
            F.scaled_dot_product_attention(*parts, is_causal=True).sum().backward()
            for part in parts:
                part.requires_grad_(False)

    return step
