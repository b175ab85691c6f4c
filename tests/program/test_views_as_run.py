"""Fakes' views have the strides of real ones, also along dimensions of one."""

from __future__ import annotations

import random

import pytest

pytest.importorskip("torch")

import torch
from torch import nn

import gpuscope as gs


def _drawn(draw: random.Random) -> tuple[torch.Tensor, list[int]]:
    """A tensor whose dimensions lie in any order, many of one, and another shape for it."""
    shape = [draw.choice([1, 1, 2, 3, 4]) for _ in range(draw.randint(1, 4))]
    order = draw.sample(range(len(shape)), len(shape))
    made = torch.empty([shape[d] for d in order]).permute(
        [order.index(d) for d in range(len(order))]
    )
    left, other = made.numel(), [1] * draw.randint(0, 2)
    while left > 1:
        part = draw.choice([d for d in range(2, left + 1) if left % d == 0])
        other.insert(draw.randint(0, len(other)), part)
        left //= part
    return made, other


def test_views_have_the_strides_of_real_ones() -> None:
    draw, expected, found = random.Random(0), [], []
    for _ in range(300):
        real, shape = _drawn(draw)
        try:
            expected.append((real.shape, real.stride(), shape, real.view(shape).stride()))
        except RuntimeError:
            continue

    def build() -> object:
        def step() -> None:
            for old, stride, shape, _ in expected:
                made = torch.empty_strided(old, stride, device="cuda").view(shape)
                found.append((old, stride, shape, made.stride()))

        return step

    gs.capture(build)
    assert len(expected) > 100
    assert found[-len(expected) :] == expected


def test_one_token_of_many_sequences_is_one_product() -> None:
    """Heads side by side, one token each: `matmul` folds the batch and reads the weights once."""

    def build() -> object:
        out = nn.Linear(256, 256, bias=False).cuda().requires_grad_(False)
        heads = torch.rand(8, 4, 1, 64, device="cuda")
        return lambda: out(heads.transpose(1, 2).flatten(2))

    names = [op.name for op in gs.capture(build).ops]
    assert "aten::mm" in names
    assert "aten::bmm" not in names
