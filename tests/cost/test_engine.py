"""The engine: each distinct operator costed once, what is still in the L2, and strictness."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpuscope.cost import engine
from gpuscope.cost.engine import cost_program, costed_together
from gpuscope.cost.registry import Work
from gpuscope.cost.types import Kernel
from gpuscope.errors import CaptureError, UnsupportedError
from gpuscope.hardware import device
from gpuscope.program.types import Op, Program, TensorSpec

H200 = device("h200")
MIB = 2**20


def tensor(storage: int, *shape: int, dtype: str = "float32", where="device") -> TensorSpec:
    stride, step = [], 1
    for size in reversed(shape):
        stride.insert(0, step)
        step *= size
    return TensorSpec(shape, tuple(stride), dtype, where, storage)


def program(*ops: Op, **fields) -> Program:
    return Program("test", tuple(replace(op, index=i) for i, op in enumerate(ops)), **fields)


def call(name: str, inputs, outputs, **fields) -> Op:
    return Op(0, name, inputs=tuple(inputs), outputs=tuple(outputs), **fields)


def add(a: TensorSpec, b: TensorSpec, out: TensorSpec, **fields) -> Op:
    return call("aten::add", (a, b), (out,), overload="Tensor", args={"alpha": 1}, **fields)


BIG = 64 * MIB  # elements: far beyond any L2, so that nothing is ever hot

MIXED = [
    add(tensor(20, BIG), tensor(21, BIG), tensor(22, BIG)),
    add(tensor(20, BIG), tensor(20, BIG), tensor(22, BIG)),  # reads half as much
    add(tensor(21, BIG), tensor(20, BIG), tensor(21, BIG)),
    add(tensor(0, 1024, 1024), tensor(1, 1024, 1024), tensor(2, 1024, 1024)),
    add(tensor(0, 1024, 1024), tensor(0, 1024, 1024), tensor(3, 1024, 1024)),
    add(tensor(4, 1024, 1024), tensor(5, 1024, 1024), tensor(4, 1024, 1024)),
    add(tensor(6, 1024, 1024), tensor(7, 1024, 1024), tensor(8, 1024, 1024), stream=3),
    call("aten::mm", (tensor(0, 1024, 1024), tensor(1, 1024, 1024)), (tensor(9, 1024, 1024),)),
    call("aten::mm", (tensor(0, 1024, 1024), tensor(5, 1024, 1024)), (tensor(9, 1024, 1024),)),
    call("aten::sum", (tensor(0, 64, 4096),), (tensor(10, 64),), args={"dim": (1,)}),
    call("aten::sum", (tensor(0, 64, 4096),), (tensor(10, 4096),), args={"dim": (0,)}),
    call("aten::_softmax", (tensor(0, 64, 4096),), (tensor(11, 64, 4096),), args={"dim": -1}),
    call("aten::relu", (tensor(0, 64),), (tensor(12, 64),)),
    call("aten::relu", (tensor(0, 64),), (tensor(12, 64),)),
]


def plain(kernels) -> list[Kernel]:
    return [replace(k, op=0) for k in kernels]


def test_costing_once_equals_costing_each(monkeypatch) -> None:
    """Whatever was remembered, every operator gets the kernels that it would get alone."""
    whole = cost_program(program(*MIXED), H200)

    class Forgetful(dict):
        def get(self, key, default=None):
            return None

    original = engine._Coster.__init__

    def without_memory(self, *args, **kwargs):
        original(self, *args, **kwargs)
        self._known = Forgetful()

    monkeypatch.setattr(engine._Coster, "__init__", without_memory)
    each = cost_program(program(*MIXED), H200)
    for remembered, fresh in zip(whole.ops, each.ops, strict=True):
        assert plain(remembered.kernels) == plain(fresh.kernels)
        assert remembered.host == fresh.host


def test_equal_operators_are_costed_once(monkeypatch) -> None:
    costed = []
    original = engine._Coster._cost

    def counting(self, op, hot):
        costed.append(op.name)
        return original(self, op, hot)

    monkeypatch.setattr(engine._Coster, "_cost", counting)
    same = add(tensor(0, BIG), tensor(1, BIG), tensor(2, BIG))
    cost_program(program(*[same] * 50), H200)
    assert len(costed) == 1


def test_what_programs_have_in_common_is_costed_once(monkeypatch) -> None:
    costed = []
    original = engine._Coster._cost

    def counting(self, op, hot):
        costed.append(op.name)
        return original(self, op, hot)

    monkeypatch.setattr(engine._Coster, "_cost", counting)
    small, large = (add(tensor(0, n), tensor(1, n), tensor(2, n)) for n in (1024, BIG))
    own = replace(small, name="mine::add")
    with costed_together():
        first = cost_program(program(small, own), H200)
        second = cost_program(program(small, large, own), H200)
        elsewhere = cost_program(program(small), device("h100"))
    assert costed == ["aten::add", "mine::add", "aten::add", "aten::add"]
    assert second.ops[0].kernels == first.ops[0].kernels != elsewhere.ops[0].kernels
    assert second.assumptions == first.assumptions
    cost_program(program(small), H200)
    assert len(costed) == 5  # what was known is forgotten


def test_a_curve_reads_its_program_once() -> None:
    """What does not follow from the device is found once for all points of a curve."""
    step = program(*MIXED)
    base = cost_program(step, H200)
    sorts, residency = engine._sorts.cache_info(), engine.residency.cache_info()
    faster = H200.replace(memory_bandwidth_bytes_per_s=2 * H200.memory_bandwidth_bytes_per_s)
    again, alone = cost_program(replace(step, storages=()), faster), cost_program(step, H200)
    assert engine._sorts.cache_info().misses == sorts.misses
    assert engine.residency.cache_info().misses == residency.misses
    assert again.ops[0].kernels[0].duration_s < base.ops[0].kernels[0].duration_s
    assert alone == base


def test_kernels_carry_the_stream_of_their_operator() -> None:
    costed = cost_program(program(*MIXED), H200)
    assert {k.stream for k in costed.ops[6].kernels} == {3}
    assert {k.stream for c in (*costed.ops[:6], *costed.ops[7:]) for k in c.kernels} == {0}


@pytest.fixture
def residency(monkeypatch):
    """A function: the hot flags that each operator's kernel model is given."""

    def flags(device_, *ops: Op) -> list[tuple[bool, ...]]:
        seen: list[tuple[bool, ...]] = []

        def spy(work: Work) -> tuple[Kernel, ...]:
            seen.append(work.hot)
            return ()

        monkeypatch.setattr(engine, "model_for", lambda name: spy)
        # A different argument each, so that every operator is costed.
        cost_program(program(*(replace(op, args={"i": i}) for i, op in enumerate(ops))), device_)
        return seen

    return flags


def mib(storage: int, size: int) -> TensorSpec:
    return tensor(storage, size * MIB // 4)


def test_what_was_used_lately_is_in_the_l2(residency) -> None:
    small = H200.replace(l2_bytes=16 * MIB)  # usable: 12 MiB
    relu = "aten::relu"
    flags = residency(
        small,
        call(relu, [mib(0, 2)], [mib(1, 2)]),  # never seen
        call(relu, [mib(1, 2)], [mib(2, 2)]),  # just written
        call(relu, [mib(0, 2)], [mib(3, 2)]),  # 4 MiB ago, itself 2
        call(relu, [mib(4, 20)], [mib(5, 2)]),  # too big, and pushes everything out
        call(relu, [mib(0, 2)], [mib(6, 2)]),
        call(relu, [mib(4, 20)], [mib(5, 2)]),
    )
    assert flags == [(False,), (True,), (True,), (False,), (False,), (False,)]


def test_exactly_the_usable_share_fits(residency) -> None:
    small = H200.replace(l2_bytes=16 * MIB)

    def again(between: int) -> bool:
        relu = "aten::relu"
        return residency(
            small,
            call(relu, [mib(0, 2)], [mib(0, 2)]),
            call(relu, [mib(1, between)], [mib(1, between)]),
            call(relu, [mib(0, 2)], [mib(0, 2)]),
        )[2][0]

    assert again(10)  # 10 between and 2 itself are 12
    assert not again(11)


def test_what_was_picked_of_a_large_table_is_there_for_the_same_indices_alone(residency) -> None:
    small = H200.replace(l2_bytes=16 * MIB)
    lookup, table = "aten::embedding", mib(0, 100)
    flags = residency(
        small,
        call("aten::relu", [mib(5, 2)], [mib(6, 2)]),
        call(lookup, [table, tensor(1, 1024)], [mib(2, 2)]),
        call("aten::relu", [mib(6, 2)], [mib(7, 2)]),  # a look-up does not push out 100 MiB
        call(lookup, [table, tensor(1, 1024)], [mib(3, 2)]),
        call(lookup, [table, tensor(4, 1024)], [mib(3, 2)]),
    )
    assert flags == [(False,), (False, False), (True,), (True, True), (False, False)]


def test_views_touch_nothing(residency) -> None:
    small = H200.replace(l2_bytes=16 * MIB)
    flags = residency(
        small,
        call("aten::relu", [mib(0, 2)], [mib(1, 2)]),
        call("aten::view", [mib(9, 100)], [mib(9, 100)], view=True),
        call("aten::relu", [mib(1, 2)], [mib(2, 2)]),
    )
    assert flags == [(False,), (True,)]


def test_without_an_l2_nothing_is_hot(residency) -> None:
    none = replace(H200, l2_bytes=None)
    op = call("aten::relu", [mib(0, 1)], [mib(0, 1)])
    assert residency(none, op, op) == [(False,), (False,)]


def test_the_same_memory_twice_is_read_once() -> None:
    two, one = cost_program(program(*MIXED), H200).ops[:2]
    assert two.kernels[0].read_bytes == 2 * one.kernels[0].read_bytes == 2 * 4 * BIG


@pytest.mark.parametrize(
    "op",
    [
        call("aten::view", [tensor(0, 4)], [tensor(0, 4)], view=True),
        call("gpuscope::synchronize", [], [], sync="synchronize", view=True),
        call("aten::empty", [], [tensor(0, 4)]),
        call("aten::_local_scalar_dense", [tensor(0)], [], sync="item"),
        call("aten::add", [tensor(0, 4, where="host")], [tensor(1, 4, where="host")]),
    ],
    ids=lambda op: op.name,
)
def test_operators_without_kernels(op) -> None:
    (costed,) = cost_program(program(op), H200).ops
    assert costed.kernels == ()
    assert costed.host.before_s > 0


UNKNOWN = call("other::mystery", [tensor(0, MIB)], [tensor(1, MIB)])


def test_unknown_operators_are_bandwidth_bound_and_named() -> None:
    costed = cost_program(program(UNKNOWN), H200)
    (kernel,) = costed.ops[0].kernels
    assert kernel.read_bytes + kernel.written_bytes == 8 * MIB
    assert kernel.duration_s > 8 * MIB / H200.memory_bandwidth_bytes_per_s
    assert any("other::mystery" in sentence for sentence in costed.assumptions)


def test_strict_refuses_them() -> None:
    with pytest.raises(CaptureError) as caught:
        cost_program(program(UNKNOWN), H200, strict=True)
    assert "other::mystery" in caught.value.what
    assert "--strict" in caught.value.next_step
    cost_program(program(*MIXED), H200, strict=True)


def test_a_dtype_that_the_device_lacks() -> None:
    fp8 = "float8_e4m3fn"
    product = call(
        "aten::_scaled_mm",
        [tensor(0, 64, 64, dtype=fp8), tensor(1, 64, 64, dtype=fp8)],
        [tensor(2, 64, 64, dtype="bfloat16")],
    )
    assert cost_program(program(product), H200).ops[0].kernels
    with pytest.raises(UnsupportedError, match=r"float8|fp8"):
        cost_program(program(product), device("a100-80gb"))


def test_assumptions_of_the_program_come_along() -> None:
    costed = cost_program(program(*MIXED, assumptions=("half of it",)), H200)
    assert costed.assumptions[0] == "half of it"


def test_a_graph_is_asked_for_by_the_compile_mode() -> None:
    assert cost_program(program(*MIXED, compiled="reduce-overhead"), H200).graph
    assert not cost_program(program(*MIXED), H200).graph
    assert not cost_program(program(*MIXED, compiled="default"), H200).graph


def test_intervals_hold_the_expected_value() -> None:
    for costed in cost_program(program(*MIXED), H200).ops:
        for kernel in costed.kernels:
            assert 0 < kernel.low_s <= kernel.duration_s <= kernel.high_s


@pytest.mark.parametrize("name", ["a100-80gb", "mi300x", "tpu-v5p", "rtx-4090"])
def test_other_devices(name) -> None:
    costed = cost_program(program(*MIXED), device(name))
    assert all(c.kernels for c in costed.ops)
    assert costed.device_spread > cost_program(program(*MIXED), H200).device_spread


def test_constants_from_farther_away_make_the_whole_device_less_sure() -> None:
    """An H200's own constants share no error; another vendor's device may be off as a whole.

    Between them: own kernels but another's host, the same generation, the same vendor.
    """
    step = program(add(tensor(0, 64), tensor(1, 64), tensor(2, 64)))
    shared = {
        name: cost_program(step, device(name)).common_spread
        for name in ("h200", "v100-sxm2-32gb", "gh200", "rtx-4090", "mi300x")
    }
    assert shared["h200"] == 0
    assert sorted(set(shared.values())) == [shared[n] for n in shared]
    assert shared["mi300x"] >= 0.2
