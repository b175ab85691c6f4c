"""What the benches measure: that calls are what they say, on tensors without data."""

from __future__ import annotations

import json

import pytest

pytest.importorskip("torch")
import torch

from gpuscope.measurement.bench import (
    attention,
    convolution,
    gather,
    matmul,
    optimizers,
    peer,
    pointwise,
    recurrent,
    reduction,
    transfers,
    working_set,
)
from gpuscope.measurement.bench.harness import BenchCase
from gpuscope.measurement.bench.trace_kernels import TIMED
from gpuscope.measurement.bench.types import params_key

BENCHES = (
    matmul,
    attention,
    convolution,
    gather,
    optimizers,
    pointwise,
    recurrent,
    reduction,
    transfers,
    working_set,
)
NEEDS_DATA = ("nonzero", "masked_select", "masked")
"""Operators whose result's size depends on data: they cannot run on tensors without."""


def names(module) -> str:
    return module.__name__.rpartition(".")[2]


@pytest.mark.parametrize("module", BENCHES, ids=names)
@pytest.mark.parametrize("quick", [True, False])
def test_cases_are_told_apart_and_can_be_saved(module, quick: bool) -> None:
    cases: list[BenchCase] = list(module.cases(quick))
    assert cases
    for case in cases:
        assert case.timed in TIMED
        assert case.flops is None or case.flops > 0
        assert case.bytes is None or case.bytes > 0
        assert json.loads(params_key(case.params)) == case.params
        assert set(case.states) <= {"hot", "cold", "cold_clean"}


@pytest.mark.parametrize("module", BENCHES, ids=names)
def test_quick_is_a_small_part(module) -> None:
    quick = {(c.family, params_key(c.params)) for c in module.cases(True)}
    full = {(c.family, params_key(c.params)) for c in module.cases(False)}
    assert quick <= full
    assert len(quick) <= 50


@pytest.mark.parametrize("module", BENCHES, ids=names)
def test_calls_run_on_tensors_without_data(module) -> None:
    ran = 0
    for case in list(module.cases(False))[::23]:
        if case.params.get("op") in NEEDS_DATA or "fused" in str(case.params.get("op")):
            continue
        if case.family == "rnn" and case.params["seq"] > 64:
            continue  # slow to lay out, and no different
        if case.family == "optimizer" and case.params["total"] > 10**7:
            continue
        if str(case.params.get("op", case.params.get("copy", ""))).startswith(("d2h", "both")):
            continue  # to the host: what has no data cannot be copied there
        case.make("meta")()
        ran += 1
    assert ran >= 1


def test_work_of_a_product_by_hand() -> None:
    case = matmul.product("bf16", "TN", 64, 32, 16, "layer")
    assert case.flops == 2 * 64 * 32 * 16
    assert case.bytes == 2 * (64 * 16 + 16 * 32 + 64 * 32)
    # fp8 operands, bf16 result; int8 operands, int32 result
    assert matmul.scaled(64, 32, 16, rowwise=True).bytes == 64 * 16 + 16 * 32 + 2 * 64 * 32
    assert matmul.integer(64, 32, 16).bytes == 64 * 16 + 16 * 32 + 4 * 64 * 32


@pytest.mark.parametrize("layout", ["NT", "NN", "TN"])
def test_layouts_are_how_the_operands_are_stored(layout: str, monkeypatch) -> None:
    seen = []
    monkeypatch.setattr(torch, "mm", lambda a, b: seen.append((a, b)))
    matmul.product("fp32", layout, 6, 4, 2, "layer").make("cpu")()
    ((a, b),) = seen
    assert (tuple(a.shape), tuple(b.shape)) == ((6, 2), (2, 4))
    assert (a.is_contiguous(), b.is_contiguous()) == (layout[0] == "N", layout[1] == "N")


def test_the_three_products_of_a_layer() -> None:
    # y[t, o] = x[t, i] w[o, i]^T; dx = dy w; dw = dy^T x
    assert matmul.layer_shape("NT", 5, 3, 2) == (5, 3, 2)
    assert matmul.layer_shape("NN", 5, 3, 2) == (5, 2, 3)
    assert matmul.layer_shape("TN", 5, 3, 2) == (3, 2, 5)


def test_random_shapes_are_the_same_every_time() -> None:
    def drawn() -> list[tuple[int, int, int]]:
        return list(matmul.random_shapes(20, 1, 1e12))

    assert drawn() == drawn()
    assert all(2.0 * m * n * k <= 1e12 for m, n, k in drawn())


def test_work_of_attention_by_hand() -> None:
    sizes = attention.Sizes(b=2, h=8, hkv=2, sq=16, skv=32, d=4)
    whole = 4.0 * 2 * 8 * 16 * 32 * 4
    assert attention.flops("fwd", sizes, causal=False) == whole
    assert attention.flops("fwd", sizes, causal=True) == whole / 2
    assert attention.flops("bwd", sizes, causal=False) == whole * 2.5
    case = attention.case("fwd", "bf16", sizes)
    assert case.bytes == 2 * (2 * (2 * 8 * 16 * 4) + 2 * (2 * 2 * 32 * 4))


def test_work_of_a_convolution_by_hand() -> None:
    # 8 images, 3x3, stride 2, padding 1: 14 x 14 -> 7 x 7, in 4 groups
    flops, least = convolution.work((16, 14, 32, 3, 2, 1, 4), 8, 2, 2)
    assert flops == 2 * 8 * 32 * 4 * 9 * 49
    assert least == 2 * (8 * 16 * 196 + 32 * 4 * 9 + 8 * 32 * 49)


def test_convolutions_use_the_layout_and_precision_they_say(monkeypatch) -> None:
    case = convolution.case((4, 8, 4, 3, 1, 1, 1), 2, "tf32", "nhwc", "fwd")
    out = case.make("cpu")()
    assert out.is_contiguous(memory_format=torch.channels_last)
    assert torch.backends.cudnn.allow_tf32
    convolution.case((4, 8, 4, 3, 1, 1, 1), 2, "fp32", "nchw", "fwd").make("cpu")()
    assert not torch.backends.cudnn.allow_tf32
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", True)


@pytest.mark.parametrize(
    ("name", "dtype", "each"),
    [
        ("add", "bf16", 6),
        ("fill_", "fp32", 4),
        ("dropout", "bf16", 5),
        ("gt_scalar", "fp32", 5),
        ("cat2", "fp32", 16),
        ("add_row", "bf16", 4),
    ],
)
def test_traffic_of_pointwise_operators_by_hand(name: str, dtype: str, each: int) -> None:
    op = {**pointwise.MAIN, **pointwise.OTHER}[name]
    assert pointwise.case(name, op, dtype, 1000).bytes == 1000 * each


@pytest.mark.parametrize("name", [*pointwise.MAIN, *pointwise.OTHER])
def test_pointwise_operators_really_run(name: str) -> None:
    op = {**pointwise.MAIN, **pointwise.OTHER}[name]
    pointwise.case(name, op, "bf16", 262144).make("cpu")()


@pytest.mark.parametrize("name", [*reduction.OPS, *reduction.RARE])
def test_reductions_really_run(name: str) -> None:
    op = {**reduction.OPS, **reduction.RARE}[name]
    reduction.case(name, op, "fp32", 16, 64).make("cpu")()


@pytest.mark.parametrize("name", list(gather.MOVED))
def test_lookups_really_run(name: str) -> None:
    gather.case(name, 100, 8, 16, "fp32").make("cpu")()


@pytest.mark.parametrize("name", list(optimizers.KINDS))
def test_optimizers_really_change_parameters(name: str) -> None:
    case = optimizers.case(name, 1000, 10, "fp32")
    assert case.bytes == 4 * 1000 * optimizers.KINDS[name][2]
    case.make("cpu")()


def test_optimizer_traffic_is_what_adamw_must_touch() -> None:
    # reads parameter, gradient, two moments; writes parameter and moments
    assert optimizers.case("adamw_fused", 10**6, 10, "fp32").bytes == 28 * 10**6


def test_copies_and_their_links() -> None:
    one, both, within = (
        transfers.case(kind, 1 << 20) for kind in ("h2d_pinned", "both_pinned", "d2d")
    )
    assert (one.bytes, one.link_bytes, one.timed) == (1 << 20, 1 << 20, "sum")
    # a duplex link carries both at once
    assert (both.bytes, both.link_bytes, both.timed) == (2 << 20, 1 << 20, "span")
    assert (within.bytes, within.link_bytes) == (2 << 20, None)


def test_copies_really_copy(monkeypatch) -> None:
    monkeypatch.setattr(torch.Tensor, "pin_memory", lambda self: self)
    for kind in ("h2d_pinned", "d2h_pinned", "h2d_pageable", "d2h_pageable", "d2d"):
        assert int(transfers.case(kind, 4096).make("cpu")().sum()) > 0


def test_peers_are_measured_both_ways() -> None:
    cases = list(peer.cases(0, {1: True, 2: False}, quick=False))
    assert {(c.params["there"], c.params["op"]) for c in cases} == {
        (1, "to"),
        (1, "from"),
        (2, "to"),
        (2, "from"),
    }
    assert {c.params["there"] for c in cases if c.peer} == {1}
    assert len(list(peer.cases(0, {1: True, 2: True}, quick=True))) == 6


def test_working_sets_touch_what_they_say() -> None:
    case = working_set.case("ws_copy", 1)
    assert case.bytes == 1 << 20
    assert case.make("cpu")().numel() == (1 << 20) // 8  # half is read, half written


def test_a_copy_beside_compute_is_held_against_both_limits() -> None:
    copy, products, alone = transfers.beside_compute("h2d_pinned")
    assert (copy.timed, products.timed, alone.timed) == ("copies", "kernels", "kernels")
    assert copy.link_bytes == transfers.BESIDE_BYTES
    assert products.flops == alone.flops == 2.0 * 8192**3 * 4


@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
def test_work_of_recurrent_layers_by_hand(kind: str) -> None:
    gates = {"LSTM": 4, "GRU": 3}[kind]
    forward = recurrent.case(kind, (8, 2, 5, 3), "fp32", "fwd")
    # every gate of every layer and step: input and state products of [3, 8] x [8, 8]
    assert forward.flops == gates * 2 * 2 * 5 * (2 * 3 * 8 * 8)
    assert recurrent.case(kind, (8, 2, 5, 3), "fp32", "fwdbwd").flops == 3 * forward.flops
    assert forward.make("cpu")().shape == (5, 3, 8)
    assert len(recurrent.case(kind, (8, 2, 5, 3), "fp32", "fwdbwd").make("cpu")()) == 9
