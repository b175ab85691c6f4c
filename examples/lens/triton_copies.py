"""Triton: an addition, a strided copy, and a transposition, as the compiler lays them out.

Known answers (fp32): the addition moves 16 bytes a lane, so a request of 32 lanes is 16 sectors,
all of them used. Every eighth element costs a sector of its own: 32 sectors a request.

    gpuscope lens examples/lens/triton_copies.py:launch
"""

import torch
import triton
import triton.language as tl

N = 4096


@triton.jit
def add(a, b, total, n, BLOCK: tl.constexpr):  # noqa: N803
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < n
    left = tl.load(a + i, mask=inside)
    right = tl.load(b + i, mask=inside)
    tl.store(total + i, left + right, mask=inside)


@triton.jit
def strided(source, target, stride, BLOCK: tl.constexpr):  # noqa: N803
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(target + i, tl.load(source + i * stride))


@triton.jit
def transpose(source, target, n, BLOCK: tl.constexpr):  # noqa: N803
    r = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    c = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    tile = tl.load(source + r[:, None] * n + c[None, :])
    tl.store(target + c[:, None] * n + r[None, :], tl.trans(tile))


def launch():
    """Launch all three."""
    a, b, total = torch.arange(float(N)), torch.ones(N), torch.empty(N)
    add[(N // 1024,)](a, b, total, N, BLOCK=1024)
    assert torch.equal(total, a + b)
    wide, narrow = torch.arange(8.0 * N), torch.empty(N)
    strided[(N // 1024,)](wide, narrow, 8, BLOCK=1024)
    assert torch.equal(narrow, wide[::8])
    square, turned = torch.arange(float(N)).reshape(64, 64), torch.empty(64, 64)
    transpose[(2, 2)](square, turned, 64, BLOCK=32)
    assert torch.equal(turned, square.T)
