"""Nodes on a processor: known answers, limits, and what cannot get slower or quicker."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from gpuscope.cost.processor import NodeCost, node_costs
from gpuscope.hardware.processors import Processor
from gpuscope.program.types import ModuleInfo, Op, Program, Storage, TensorSpec

CPU = Processor(
    id="x", name="X", vendor="", architecture="", cores=8,
    core_flops_per_s={"fp32": 1e11}, flops_per_s={"fp32": 8e11}, vector_bits=512,
    l2_bytes=1 << 20, l3_bytes=32 << 20, l2_bytes_per_s=1e11, l3_bytes_per_s=2e10,
    core_memory_bytes_per_s=1e10, memory_bytes_per_s=4e10,
)  # fmt: skip
ONE = CPU.with_cores(1)


def spec(*shape: int, storage: int = 0) -> TensorSpec:
    stride = [math.prod(shape[n + 1 :]) for n in range(len(shape))]
    return TensorSpec(shape, tuple(stride), "float32", storage=storage)


def cost(kind: str, op: Op, on: Processor = ONE, weight: int = 0) -> NodeCost:
    kept = Storage(1, weight, "parameter", -1, None)
    program = Program(
        name="p",
        ops=(replace(op, module="node"),),
        storages=(kept,) if weight else (),
        modules=(ModuleInfo("node", kind),),
    )
    (found,) = node_costs(program, on, 0.0)
    return found


def product(m: int, n: int, k: int) -> Op:
    a, b, c = spec(m, k), spec(k, n, storage=1), spec(m, n, storage=2)
    return Op(0, "aten::mm", inputs=(a, b), outputs=(c,))


def test_a_large_product_takes_its_flops_at_a_share_of_the_peak() -> None:
    found = cost("Gemm", product(512, 512, 256))
    assert found.flops == 2 * 512 * 512 * 256
    assert 0.5 < found.flops / found.duration_s / 1e11 < 0.8
    assert found.duration_s == found.arithmetic_s > found.memory_s


def test_a_vector_times_a_matrix_waits_for_the_weights() -> None:
    found = cost("Gemm", product(1, 4096, 4096), weight=4096 * 4096 * 4)
    # 64 MiB lie in no cache: they come at what one core reads of memory.
    assert math.isclose(found.memory_s, found.nbytes / 1e10)
    assert found.duration_s == found.memory_s > found.arithmetic_s


def test_threads_share_a_product_and_not_a_tiny_one() -> None:
    shared, alone = cost("Gemm", product(512, 512, 256), CPU), cost("Gemm", product(8, 16, 16), CPU)
    assert shared.threads == 8
    assert alone.threads == 1
    one = cost("Gemm", product(512, 512, 256))
    assert one.duration_s / 8 < shared.duration_s < one.duration_s


def test_a_loop_adds_its_clocks_to_its_bytes() -> None:
    x, y = spec(1000, 1000), spec(1000, 1000, storage=2)
    bare = cost("Reshaped", Op(0, "aten::clone", inputs=(x,), outputs=(y,)))
    found = cost("Gelu", Op(0, "aten::gelu", inputs=(x,), outputs=(y,)))
    assert math.isclose(bare.duration_s, 8e6 / 2e10)  # both tensors, in the L3
    assert math.isclose(found.duration_s - bare.duration_s, 1e6 * 1.7 / 3e9)


def test_narrow_registers_take_longer_where_a_loop_is_vectorized() -> None:
    x, y = spec(100, 100), spec(100, 100, storage=2)
    op = Op(0, "aten::gelu", inputs=(x,), outputs=(y,))
    narrow = replace(ONE, vector_bits=128)
    assert math.isclose(cost("Gelu", op, narrow).arithmetic_s, 4 * cost("Gelu", op).arithmetic_s)
    # What runs element by element takes as long.
    assert cost("Log", op, narrow).arithmetic_s == cost("Log", op).arithmetic_s


@pytest.mark.parametrize("more", [2, 4])
def test_more_work_never_takes_less(more: int) -> None:
    for on in (ONE, CPU):
        small, large = cost("Gemm", product(64, 64, 64), on), cost(
            "Gemm", product(64 * more, 64, 64), on
        )  # fmt: skip
        assert small.duration_s < large.duration_s


def test_depthwise_convolutions_reach_less_of_the_peak_than_dense_ones() -> None:
    x, y = spec(1, 64, 32, 32), spec(1, 64, 32, 32, storage=2)
    dense = cost("Conv", Op(0, "aten::convolution", inputs=(x, spec(64, 64, 3, 3, storage=1)),
                            outputs=(y,), args={"groups": 1}))  # fmt: skip
    depthwise = cost("Conv", Op(0, "aten::convolution", inputs=(x, spec(64, 1, 3, 3, storage=1)),
                                outputs=(y,), args={"groups": 64}))  # fmt: skip
    assert dense.flops == 64 * depthwise.flops
    assert dense.flops / dense.arithmetic_s > 3 * depthwise.flops / depthwise.arithmetic_s


def test_a_row_of_a_table_is_read_not_the_table() -> None:
    table, ids = spec(50_000, 64), spec(4, storage=3)
    op = Op(0, "aten::embedding", inputs=(table, ids), outputs=(spec(4, 64, storage=2),))
    assert cost("Gather", op).nbytes < 4096
