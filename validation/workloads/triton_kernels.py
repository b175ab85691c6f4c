# ruff: noqa: N803, PIE808 (written as Triton kernels are)
"""Triton kernels as people write them, in several sizes: `CASES` names each, `made` launches it.

Needs Triton (with PyTorch for CUDA) to run; under a capture, nothing but PyTorch.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl


@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    x = tl.load(x_ptr + at, mask=mask)
    y = tl.load(y_ptr + at, mask=mask)
    tl.store(out_ptr + at, x + y, mask=mask)


@triton.jit
def swiglu_kernel(gate_ptr, up_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    gate = tl.load(gate_ptr + at, mask=mask).to(tl.float32)
    up = tl.load(up_ptr + at, mask=mask).to(tl.float32)
    tl.store(out_ptr + at, (gate * tl.sigmoid(gate) * up).to(tl.bfloat16), mask=mask)


@triton.jit
def gelu_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    x = tl.load(x_ptr + at, mask=mask)
    tl.store(out_ptr + at, 0.5 * x * (1.0 + tl.erf(x * 0.70710678)), mask=mask)


@triton.jit
def dropout_kernel(x_ptr, out_ptr, n, p, seed, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    x = tl.load(x_ptr + at, mask=mask)
    keep = tl.rand(seed, at) > p
    tl.store(out_ptr + at, tl.where(keep, x / (1 - p), 0.0), mask=mask)


@triton.jit
def softmax_kernel(x_ptr, out_ptr, stride, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * stride + at, mask=at < columns, other=-float("inf"))
    x = x.to(tl.float32)
    e = tl.exp(x - tl.max(x, axis=0))
    tl.store(out_ptr + row * stride + at, e / tl.sum(e, axis=0), mask=at < columns)


@triton.jit
def layer_norm_kernel(x_ptr, w_ptr, b_ptr, out_ptr, stride, columns, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    total = tl.zeros([BLOCK], dtype=tl.float32)
    for begin in range(0, columns, BLOCK):
        at = begin + tl.arange(0, BLOCK)
        total += tl.load(x_ptr + row * stride + at, mask=at < columns, other=0.0).to(tl.float32)
    mean = tl.sum(total, axis=0) / columns
    square = tl.zeros([BLOCK], dtype=tl.float32)
    for begin in range(0, columns, BLOCK):
        at = begin + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * stride + at, mask=at < columns, other=0.0).to(tl.float32)
        x = tl.where(at < columns, x - mean, 0.0)
        square += x * x
    scale = 1 / tl.sqrt(tl.sum(square, axis=0) / columns + eps)
    for begin in range(0, columns, BLOCK):
        at = begin + tl.arange(0, BLOCK)
        mask = at < columns
        x = tl.load(x_ptr + row * stride + at, mask=mask, other=0.0).to(tl.float32)
        w = tl.load(w_ptr + at, mask=mask)
        b = tl.load(b_ptr + at, mask=mask)
        tl.store(out_ptr + row * stride + at, (x - mean) * scale * w + b, mask=mask)


@triton.jit
def cross_entropy_kernel(x_ptr, label_ptr, loss_ptr, stride, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    top = -float("inf")
    total = 0.0
    for begin in range(0, columns, BLOCK):
        at = begin + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * stride + at, mask=at < columns, other=-float("inf"))
        x = x.to(tl.float32)
        new = tl.maximum(top, tl.max(x, axis=0))
        total = total * tl.exp(top - new) + tl.sum(tl.exp(x - new), axis=0)
        top = new
    label = tl.load(label_ptr + row)
    hit = tl.load(x_ptr + row * stride + label).to(tl.float32)
    tl.store(loss_ptr + row, tl.log(total) + top - hit)


@triton.jit
def column_sum_kernel(x_ptr, out_ptr, rows, columns, ROWS: tl.constexpr, COLS: tl.constexpr):
    r = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    c = tl.program_id(1) * COLS + tl.arange(0, COLS)
    mask = (r[:, None] < rows) & (c[None, :] < columns)
    x = tl.load(x_ptr + r[:, None] * columns + c[None, :], mask=mask, other=0.0)
    tl.atomic_add(out_ptr + c, tl.sum(x, axis=0), mask=c < columns)


@triton.jit
def transpose_kernel(x_ptr, out_ptr, rows, columns, SIDE: tl.constexpr):
    r = tl.program_id(0) * SIDE + tl.arange(0, SIDE)
    c = tl.program_id(1) * SIDE + tl.arange(0, SIDE)
    x = tl.load(
        x_ptr + r[:, None] * columns + c[None, :], mask=(r[:, None] < rows) & (c[None, :] < columns)
    )
    tl.store(
        out_ptr + c[:, None] * rows + r[None, :],
        tl.trans(x),
        mask=(c[:, None] < columns) & (r[None, :] < rows),
    )


@triton.jit
def embedding_kernel(index_ptr, table_ptr, out_ptr, width, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    index = tl.load(index_ptr + row)
    x = tl.load(table_ptr + index * width + at, mask=at < width)
    tl.store(out_ptr + row * width + at, x, mask=at < width)


@triton.jit
def matrix_vector_kernel(
    w_ptr, scale_ptr, x_ptr, out_ptr, n, k, ROWS: tl.constexpr, DEEP: tl.constexpr
):
    r = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    total = tl.zeros([ROWS], dtype=tl.float32)
    for begin in range(0, k, DEEP):
        at = begin + tl.arange(0, DEEP)
        w = tl.load(
            w_ptr + r[:, None] * k + at[None, :], mask=(r[:, None] < n) & (at[None, :] < k), other=0
        )
        x = tl.load(x_ptr + at, mask=at < k, other=0.0)
        total += tl.sum(w.to(tl.float32) * x[None, :].to(tl.float32), axis=1)
    scale = tl.load(scale_ptr + r, mask=r < n)
    tl.store(out_ptr + r, total * scale, mask=r < n)


@triton.jit
def matmul_kernel(
    a_ptr,
    b_ptr,
    c_ptr,
    M,
    N,
    K,
    sam,
    sak,
    sbk,
    sbn,
    scm,
    scn,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
    GROUP: tl.constexpr,
):
    pid = tl.program_id(0)
    rows, columns = tl.cdiv(M, BM), tl.cdiv(N, BN)
    in_group = GROUP * columns
    first = (pid // in_group) * GROUP
    size = min(rows - first, GROUP)
    pid_m = first + (pid % in_group) % size
    pid_n = (pid % in_group) // size
    m = (pid_m * BM + tl.arange(0, BM)) % M
    n = (pid_n * BN + tl.arange(0, BN)) % N
    k = tl.arange(0, BK)
    a_at = a_ptr + m[:, None] * sam + k[None, :] * sak
    b_at = b_ptr + k[:, None] * sbk + n[None, :] * sbn
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for step in range(0, tl.cdiv(K, BK)):
        a = tl.load(a_at, mask=k[None, :] < K - step * BK, other=0.0)
        b = tl.load(b_at, mask=k[:, None] < K - step * BK, other=0.0)
        total = tl.dot(a, b, total)
        a_at += BK * sak
        b_at += BK * sbk
    cm = pid_m * BM + tl.arange(0, BM)
    cn = pid_n * BN + tl.arange(0, BN)
    tl.store(
        c_ptr + cm[:, None] * scm + cn[None, :] * scn,
        total.to(c_ptr.dtype.element_ty),
        mask=(cm[:, None] < M) & (cn[None, :] < N),
    )


@triton.jit
def attention_kernel(
    q_ptr,
    k_ptr,
    v_ptr,
    out_ptr,
    scale,
    heads_stride,
    length,
    HEAD: tl.constexpr,
    BM: tl.constexpr,
    BN: tl.constexpr,
    CAUSAL: tl.constexpr,
):
    block, head = tl.program_id(0), tl.program_id(1)
    base = head.to(tl.int64) * heads_stride
    m = block * BM + tl.arange(0, BM)
    d = tl.arange(0, HEAD)
    q = tl.load(q_ptr + base + m[:, None] * HEAD + d[None, :], mask=m[:, None] < length, other=0.0)
    top = tl.full([BM], -float("inf"), dtype=tl.float32)
    total = tl.zeros([BM], dtype=tl.float32)
    out = tl.zeros([BM, HEAD], dtype=tl.float32)
    end = (block + 1) * BM if CAUSAL else length
    for begin in range(0, end, BN):
        n = begin + tl.arange(0, BN)
        k = tl.load(
            k_ptr + base + n[None, :] * HEAD + d[:, None], mask=n[None, :] < length, other=0.0
        )
        s = tl.dot(q, k) * scale
        if CAUSAL:
            s = tl.where(m[:, None] >= n[None, :], s, -float("inf"))
        new = tl.maximum(top, tl.max(s, 1))
        p = tl.exp(s - new[:, None])
        shrink = tl.exp(top - new)
        total = total * shrink + tl.sum(p, 1)
        v = tl.load(
            v_ptr + base + n[:, None] * HEAD + d[None, :], mask=n[:, None] < length, other=0.0
        )
        out = out * shrink[:, None] + tl.dot(p.to(v.dtype), v)
        top = new
    out = out / total[:, None]
    tl.store(
        out_ptr + base + m[:, None] * HEAD + d[None, :],
        out.to(out_ptr.dtype.element_ty),
        mask=m[:, None] < length,
    )


def _flat(kernel, tensors, dtype, *more, block=1024):
    def make(n):
        given = [torch.randn(n, device="cuda").to(dtype) for _ in range(tensors)]
        grid = (triton.cdiv(n, block),)
        return lambda: kernel[grid](*given, n, *more, BLOCK=block)

    return make


def _rows(dtype):
    def make(rows, columns):
        x = torch.randn(rows, columns, device="cuda").to(dtype)
        out = torch.empty_like(x)
        block = triton.next_power_of_2(columns)
        warps = 4 if block <= 2048 else 8 if block <= 8192 else 16
        return lambda: softmax_kernel[(rows,)](
            x, out, x.stride(0), columns, BLOCK=block, num_warps=warps
        )

    return make


def _layer_norm(rows, columns):
    x = torch.randn(rows, columns, device="cuda", dtype=torch.bfloat16)
    w, b, out = torch.ones_like(x[0]), torch.zeros_like(x[0]), torch.empty_like(x)
    return lambda: layer_norm_kernel[(rows,)](
        x, w, b, out, columns, columns, 1e-5, BLOCK=1024, num_warps=4
    )


def _cross_entropy(rows, columns):
    x = torch.randn(rows, columns, device="cuda", dtype=torch.bfloat16)
    labels = torch.zeros(rows, device="cuda", dtype=torch.int64)
    loss = torch.empty(rows, device="cuda")
    return lambda: cross_entropy_kernel[(rows,)](
        x, labels, loss, columns, columns, BLOCK=4096, num_warps=8
    )


def _column_sum(rows, columns):
    x = torch.randn(rows, columns, device="cuda")
    out = torch.zeros(columns, device="cuda")
    grid = (triton.cdiv(rows, 64), triton.cdiv(columns, 128))
    return lambda: column_sum_kernel[grid](x, out, rows, columns, ROWS=64, COLS=128)


def _transpose(rows, columns):
    x = torch.randn(rows, columns, device="cuda")
    out = torch.empty(columns, rows, device="cuda")
    grid = (triton.cdiv(rows, 64), triton.cdiv(columns, 64))
    return lambda: transpose_kernel[grid](x, out, rows, columns, SIDE=64)


def _embedding(tokens, vocabulary, width):
    table = torch.randn(vocabulary, width, device="cuda", dtype=torch.bfloat16)
    index = torch.randint(0, vocabulary, (tokens,), device="cuda")
    out = torch.empty(tokens, width, device="cuda", dtype=torch.bfloat16)
    block = triton.next_power_of_2(width)
    return lambda: embedding_kernel[(tokens,)](index, table, out, width, BLOCK=block)


def _matrix_vector(n, k):
    w = torch.zeros(n, k, device="cuda", dtype=torch.int8)
    scale, x = torch.ones(n, device="cuda"), torch.randn(k, device="cuda", dtype=torch.bfloat16)
    out = torch.empty(n, device="cuda")
    grid = (triton.cdiv(n, 16),)
    return lambda: matrix_vector_kernel[grid](w, scale, x, out, n, k, ROWS=16, DEEP=512)


def _matmul(dtype, bm, bn, bk, warps, stages):
    def make(m, n, k):
        a = torch.randn(m, k, device="cuda").to(dtype)
        b = torch.randn(k, n, device="cuda").to(dtype)
        c = torch.empty(m, n, device="cuda", dtype=dtype)
        grid = (triton.cdiv(m, bm) * triton.cdiv(n, bn),)
        return lambda: matmul_kernel[grid](
            a, b, c, m, n, k, *a.stride(), *b.stride(), *c.stride(), BM=bm, BN=bn, BK=bk, GROUP=8,
            num_warps=warps, num_stages=stages,
        )  # fmt: skip

    return make


def _attention(causal):
    def make(heads, length, head):
        q, k, v = (
            torch.randn(heads, length, head, device="cuda", dtype=torch.bfloat16) for _ in "qkv"
        )
        out = torch.empty_like(q)
        grid = (triton.cdiv(length, 128), heads)
        return lambda: attention_kernel[grid](
            q, k, v, out, head**-0.5, length * head, length, HEAD=head, BM=128, BN=64,
            CAUSAL=causal, num_warps=8, num_stages=3,
        )  # fmt: skip

    return make


_F32, _BF16 = torch.float32, torch.bfloat16
_LENGTHS = [(1 << 12,), (1 << 17,), (1 << 20,), (1 << 22,), (1 << 24,), (1 << 26,)]
_ROW_SIZES = [(64, 1024), (4096, 256), (8192, 1024), (8192, 4096), (4096, 16384), (32768, 2048)]
_SIDES = [(512, 512), (2048, 2048), (4096, 4096), (8192, 8192), (16384, 4096)]
_PRODUCTS = [
    (128, 128, 4096), (512, 512, 512), (1024, 1024, 1024), (2048, 2048, 2048), (4096, 4096, 4096),
    (8192, 8192, 8192), (8192, 1024, 8192), (64, 4096, 4096), (1000, 3000, 1100),
]  # fmt: skip
_HEADS = [(16, 512, 64), (32, 2048, 64), (32, 2048, 128), (64, 4096, 128), (8, 16384, 128)]

CASES = {
    "add": (_flat(add_kernel, 3, _F32), _LENGTHS),
    "swiglu": (_flat(swiglu_kernel, 3, _BF16), _LENGTHS),
    "gelu": (_flat(gelu_kernel, 2, _F32), _LENGTHS),
    "dropout": (_flat(dropout_kernel, 2, _F32, 0.1, 7), _LENGTHS),
    "softmax_f32": (_rows(_F32), _ROW_SIZES),
    "softmax_bf16": (_rows(_BF16), _ROW_SIZES),
    "layer_norm": (_layer_norm, _ROW_SIZES),
    "cross_entropy": (_cross_entropy, [(512, 32000), (4096, 50257), (16384, 32000)]),
    "column_sum": (_column_sum, _SIDES),
    "transpose": (_transpose, _SIDES),
    "embedding": (
        _embedding, [(512, 32000, 1024), (8192, 32000, 1024), (32768, 50257, 4096)],
    ),
    "matrix_vector": (_matrix_vector, [(1024, 1024), (4096, 4096), (14336, 4096), (32000, 8192)]),
    "matmul_bf16": (_matmul(_BF16, 128, 128, 64, 8, 3), _PRODUCTS),
    "matmul_small_tiles": (_matmul(_BF16, 64, 64, 32, 4, 4), _PRODUCTS),
    "matmul_tf32": (_matmul(_F32, 128, 64, 32, 4, 3), _PRODUCTS[1:6]),
    "attention": (_attention(False), _HEADS),
    "attention_causal": (_attention(True), _HEADS),
}  # fmt: skip
"""Name: what makes a launch, and the sizes to give it."""


def made(name, sizes):
    """A function that launches the kernel once, with its tensors made."""
    return CASES[name][0](*sizes)
