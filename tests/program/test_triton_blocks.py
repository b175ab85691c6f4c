"""Triton kernels followed block by block: known answers by hand."""

from __future__ import annotations

import sys
from math import ceil

import pytest

torch = pytest.importorskip("torch")

from gpuscope.cost.engine import cost_program  # noqa: E402
from gpuscope.hardware import parse_target  # noqa: E402
from gpuscope.program.capture import capture  # noqa: E402

KERNELS = """
import torch
import triton
import triton.language as tl

DOUBLE = tl.constexpr(2)


@triton.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    tl.store(out + at, tl.load(x + at, mask=mask) + tl.load(y + at, mask=mask), mask=mask)


@triton.jit
def strided(x, out, step, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at * step))


@triton.jit
def _largest(x):
    return tl.max(x, axis=0)


@triton.jit
def softmax(x, out, stride, columns, BLOCK: tl.constexpr):
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    v = tl.load(x + row * stride + at, mask=at < columns, other=-float("inf"))
    e = tl.exp(v - _largest(v))
    tl.store(out + row * stride + at, e / tl.sum(e, axis=0), mask=at < columns)


@triton.autotune(
    configs=[triton.Config({"BM": 128, "BN": n, "BK": 32}, num_warps=8) for n in (16, 128)],
    key=["M"],
)
@triton.heuristics({"EVEN": lambda args: args["K"] % args["BK"] == 0})
@triton.jit
def tuned(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
          EVEN: tl.constexpr):
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(tl.cdiv(K, BK)):
        at = k * BK + tl.arange(0, BK)
        if EVEN:
            left = tl.load(a + m[:, None] * K + at[None, :])
        else:
            left = tl.load(a + m[:, None] * K + at[None, :], mask=at[None, :] < K, other=0.0)
        total += tl.dot(left, tl.load(b + at[:, None] * N + n[None, :]))
    tl.store(c + m[:, None] * N + n[None, :], total.to(c.dtype.element_ty))


@triton.jit
def rows(index, table, out, width, BLOCK: tl.constexpr):
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    tl.store(out + row * width + at, tl.load(table + tl.load(index + row) * width + at))


@triton.jit
def by_data(lengths, x, BLOCK: tl.constexpr):
    for k in range(tl.load(lengths)):
        tl.store(x + k * BLOCK + tl.arange(0, BLOCK), 0.0)


@triton.jit
def block_pointers(x, out, M, N, BM: tl.constexpr, BN: tl.constexpr):
    source = tl.make_block_ptr(x, (M, N), (N, 1), (tl.program_id(0) * BM, 0), (BM, BN), (1, 0))
    target = tl.make_block_ptr(out, (M, N), (N, 1), (tl.program_id(0) * BM, 0), (BM, BN), (1, 0))
    for _ in range(0, N, BN):
        tl.store(target, tl.load(source, boundary_check=(0, 1)) * DOUBLE, boundary_check=(0, 1))
        source, target = tl.advance(source, (0, BN)), tl.advance(target, (0, BN))


@torch.library.triton_op("gpuscope_tests::plus", mutates_args={})
def plus(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    grid = lambda meta: (triton.cdiv(out.numel(), meta["BLOCK"]),)
    torch.library.wrap_triton(add)[grid](x, y, out, out.numel(), BLOCK=1024)
    return out


plus.register_autograd(lambda ctx, grad: (grad, grad))
"""


@pytest.fixture
def kernels(tmp_path, monkeypatch):
    """A function: launches (in a step of its own) what it is given, and returns the operators."""
    (tmp_path / "followed_kernels.py").write_text(KERNELS)
    monkeypatch.syspath_prepend(str(tmp_path))

    def launched(make, strict=False):
        def build():
            sys.modules.pop("followed_kernels", None)
            import followed_kernels

            return make(followed_kernels)

        program = capture(build, strict=strict)
        return program, [op for op in program.ops if op.name.startswith("triton::")]

    yield launched
    sys.modules.pop("followed_kernels", None)


def _cuda(*shape, dtype=torch.float32):
    return torch.empty(*shape, device="cuda", dtype=dtype)


def _add(n):
    def make(k):
        x, y, out = _cuda(n), _cuda(n), _cuda(n)
        return lambda: k.add[(ceil(n / 1024),)](x, y, out, n, BLOCK=1024)

    return make


def _tuned(m, n, k):
    def make(user):
        a, b = _cuda(m, k, dtype=torch.bfloat16), _cuda(k, n, dtype=torch.bfloat16)
        c = _cuda(m, n, dtype=torch.bfloat16)
        return lambda: user.tuned[lambda meta: (m // meta["BM"], n // meta["BN"])](a, b, c, m, n, k)

    return make


@pytest.mark.parametrize("n", [1000, 1 << 20, (1 << 20) + 8])
def test_an_addition_moves_each_element_once(kernels, n):
    _, (op,) = kernels(_add(n))
    (work,) = op.args["work"]
    assert [(t.kind, t.tensor, t.distinct_bytes) for t in work.traffic] == [
        ("load", 0, 4 * n), ("load", 1, 4 * n), ("store", 2, 4 * n),
    ]  # fmt: skip
    assert all(t.requested_bytes == t.program_bytes == 4 * n for t in work.traffic)
    assert all(t.elements == n for t in work.traffic)
    assert (work.grid, work.flops, work.assumed) == (ceil(n / 1024), ceil(n / 1024) * 1024, ())
    assert [len(op.inputs), len(op.outputs)] == [3, 1]


def test_strides_fetch_whole_sectors(kernels):
    def make(k):
        x, out = _cuda(16 * 4096), _cuda(4096)
        return lambda: k.strided[(4,)](x, out, 16, BLOCK=1024)

    _, (op,) = kernels(make)
    load, store = op.args["work"][0].traffic
    assert load.distinct_bytes == 32 * 4096
    assert store.distinct_bytes == 4 * 4096


def test_a_softmax_counts_its_rows(kernels):
    def make(k):
        x, out = _cuda(300, 1000), _cuda(300, 1000)
        return lambda: k.softmax[(300,)](x, out, 1000, 1000, BLOCK=1024, num_warps=8)

    _, (op,) = kernels(make)
    (work,) = op.args["work"]
    assert [t.distinct_bytes for t in work.traffic] == [4 * 300_000] * 2
    assert work.flops == 300 * 1024 * 5  # largest, difference, exp, sum, quotient
    assert work.instructions == 300 * 1024 * (1 + 1 + 10 + 1 + 9)
    assert (work.warps, work.rounds, work.sampled) == (8, 0, 12)


def test_a_product_by_tiles(kernels):
    m, n, k = 512, 256, 192
    program, (op,) = kernels(_tuned(m, n, k))
    narrow, wide = op.args["work"]
    assert [narrow.grid, wide.grid] == [4 * 16, 4 * 2]
    for work, tile in ((narrow, 16), (wide, 128)):
        assert work.dots == (("bfloat16", 2.0 * m * n * k),)
        a, b, c = sorted(work.traffic, key=lambda t: t.tensor)
        assert a.program_bytes == 2 * m * k * (n / tile)
        assert b.program_bytes == 2 * k * n * (m / 128)
        assert [a.distinct_bytes, b.distinct_bytes] == [2 * m * k, 2 * k * n]
        assert [c.kind, c.distinct_bytes] == ["store", 2 * m * n]
        assert work.rounds == pytest.approx(k / 32)
    costed = cost_program(program, parse_target("h200").device)
    (kernel,) = (kernel for each in costed.ops for kernel in each.kernels)
    assert kernel.flops >= 2.0 * m * n * k
    assert kernel.grid in (narrow.grid, wide.grid)
    assert kernel.origin == "estimated"
    assert kernel.low_s < kernel.duration_s < kernel.high_s


def test_programs_that_run_at_once_share_what_they_read(kernels):
    _, (op,) = kernels(_tuned(4096, 4096, 512))
    wide = op.args["work"][1]
    a, b = (t for t in wide.traffic if t.kind == "load")
    # Neighbours along x take other rows of A, and the same columns of B.
    assert dict(a.shared)[32] == 1.0
    assert dict(b.shared)[32] == 1 / 32
    assert dict(a.shared)[64] == 1 / 2


def test_gathered_rows_are_taken_as_evenly_spread(kernels):
    def make(k):
        index, table = _cuda(512, dtype=torch.int64), _cuda(100_000, 256)
        out = _cuda(512, 256)
        return lambda: k.rows[(512,)](index, table, out, 256, BLOCK=256)

    program, (op,) = kernels(make)
    traffic = {(t.kind, t.tensor): t for t in op.args["work"][0].traffic}
    table = traffic["load", 1]
    assert table.gathered
    assert table.distinct_bytes == pytest.approx(4 * 256 * 512, rel=0.01)
    assert any("evenly spread" in text for text in program.assumptions)


def test_block_pointers_stop_at_the_edge(kernels):
    def make(k):
        x, out = _cuda(100, 96), _cuda(100, 96)
        return lambda: k.block_pointers[(7,)](x, out, 100, 96, BM=16, BN=32)

    _, (op,) = kernels(make)
    assert [t.distinct_bytes for t in op.args["work"][0].traffic] == [4 * 9600] * 2


def test_a_loop_over_data_is_named_with_its_line(kernels):
    def make(k):
        lengths, x = _cuda(1, dtype=torch.int32), _cuda(1 << 20)
        return lambda: k.by_data[(1,)](lengths, x, BLOCK=64)

    program, (op,) = kernels(make)
    assert "work" not in op.args
    line = KERNELS[: KERNELS.index("in range(tl.load(lengths))")].count("\n") + 1
    assert any(f"Line {line}" in text and "by_data" in text for text in program.assumptions)


def test_a_triton_operator_is_taken_apart(kernels):
    def make(k):
        x = _cuda(1 << 16).requires_grad_()
        return lambda: k.plus(x, x).sum().backward()

    program, launched = kernels(make)
    assert [op.name for op in launched] == ["triton::add"]
    assert not [op for op in program.ops if op.name.startswith("gpuscope_tests::")]
    assert any(op.phase == "backward" for op in program.ops)


def _seconds(kernels, make, on):
    program, _ = kernels(make)
    costed = cost_program(program, parse_target(on).device)
    return sum(k.duration_s for op in costed.ops for k in op.kernels)


@pytest.mark.parametrize("make", [lambda s: _add(s << 18), lambda s: _tuned(256 * s, 512, 256)])
def test_more_work_takes_longer_and_a_quicker_device_less(kernels, make):
    times = [_seconds(kernels, make(size), "a100") for size in (1, 4, 16)]
    assert times == sorted(times)
    assert times[0] < times[2]
    assert _seconds(kernels, make(16), "h200") < times[2]
    least = 2 * 4 * (16 << 18) / parse_target("a100").device.memory_bandwidth_bytes_per_s
    assert _seconds(kernels, _add(16 << 18), "a100") > least
