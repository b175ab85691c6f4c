"""Experts spread over the ranks: top-2 of 16, tokens exchanged by all-to-all."""

from __future__ import annotations

import torch
import torch.distributed as dist
import torch.nn.functional as F
from setup import init
from torch import nn


class _Exchange(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        out = torch.empty_like(x)
        dist.all_to_all_single(out, x.contiguous())
        return out

    @staticmethod
    def backward(ctx, grad):
        out = torch.empty_like(grad)
        dist.all_to_all_single(out, grad.contiguous())
        return out


class Experts(nn.Module):
    """A layer with a fixed room for each expert, so that all exchanges have one size."""

    def __init__(self, dim: int, hidden: int, experts: int, world: int) -> None:
        super().__init__()
        self.experts, self.world = experts, world
        self.gate = nn.Linear(dim, experts, bias=False)
        local = experts // world
        self.up = nn.Parameter(torch.randn(local, dim, hidden) * 0.02)
        self.down = nn.Parameter(torch.randn(local, hidden, dim) * 0.02)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        tokens, dim = x.shape
        weight, chosen = F.softmax(self.gate(x).float(), -1).topk(2)
        room = 2 * tokens // self.experts
        order = chosen.flatten().argsort()
        sent = x[order // 2]
        got = _Exchange.apply(sent)
        local = self.experts // self.world
        by_expert = got.view(self.world, local, room, dim).transpose(0, 1).reshape(local, -1, dim)
        hidden = F.silu(torch.bmm(by_expert, self.up))
        out = torch.bmm(hidden, self.down)
        back = out.view(local, self.world, room, dim).transpose(0, 1).reshape(-1, dim)
        back = _Exchange.apply(back)
        result = torch.zeros_like(x)
        return result.index_add(
            0, order // 2, back * weight.flatten()[order].unsqueeze(1).to(back.dtype)
        )


def train():
    """Eight layers of experts, 8192 tokens a rank, bf16; the gates' gradients are averaged."""
    _, world = init()
    layers = nn.Sequential(*(Experts(2048, 4096, 16, world) for _ in range(8))).cuda().bfloat16()
    optimizer = torch.optim.AdamW(layers.parameters(), lr=1e-4, fused=True)
    x = torch.randn(8192, 2048, device="cuda", dtype=torch.bfloat16)

    def step():
        optimizer.zero_grad(set_to_none=True)
        layers(x).square().mean().backward()
        for layer in layers:
            dist.all_reduce(layer.gate.weight.grad, op=dist.ReduceOp.AVG)
        optimizer.step()

    return step
