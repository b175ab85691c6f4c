"""The learned residual: bounded by physics, only where it was fitted, only on its own device."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise
from math import exp, inf, log
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuscope.cost import residual
from gpuscope.cost.engine import cost_program
from gpuscope.cost.registry import Constants, Work, model_for
from gpuscope.cost.residual import LIMIT, LIMIT_LARGE, Level, Residual, Trees, limit
from gpuscope.cost.residual_features import NAMES
from gpuscope.cost.types import Kernel
from gpuscope.errors import CatalogueError
from gpuscope.hardware import Calibration, calibration_for, device
from gpuscope.hardware.calibration import CALIBRATIONS, CalibratedValue
from gpuscope.program.types import Op, Program, TensorSpec

H200 = device("h200")
FILE = CALIBRATIONS / H200.id / residual.FILE


def with_scale(calibration: Calibration, scale: float) -> Calibration:
    entries = dict(calibration.entries)
    entries["residual.scale"] = CalibratedValue(scale, "1", "calibrated", scale, scale)
    return replace(calibration, entries=tuple(sorted(entries.items())))


ON = Constants(with_scale(calibration_for(H200), 1.0))
OFF = Constants(with_scale(calibration_for(H200), 0.0))


def dense(*shape: int, dtype: str = "bfloat16") -> TensorSpec:
    stride = tuple(int(np.prod(shape[i + 1 :])) for i in range(len(shape)))
    return TensorSpec(shape, stride, dtype)


def product(m: int, n: int, k: int, dtype: str = "bfloat16") -> Op:
    return Op(
        0,
        "aten::mm",
        inputs=(dense(m, k, dtype=dtype), dense(k, n, dtype=dtype)),
        outputs=(dense(m, n, dtype=dtype),),
    )


def made(leaf: float, level: float = 0.0, quantiles: tuple = ((inf, -0.3, 0.4),)) -> Residual:
    """One tree of depth 1: `leaf` where the duration is above 1 us, the same below."""
    names = {name: i for i, name in enumerate(NAMES)}
    trees = Trees(
        np.array([[names["duration"]]]),
        np.array([[0.0]]),
        np.array([[leaf, leaf]]),
        np.array([names["duration"]]),
        np.array([-2.0]),
        np.array([20.0]),
        quantiles,
    )
    return Residual(H200.id, {"matmul": trees}, {"matmul aten::mm": Level(level, -2.0, 20.0)})


@pytest.fixture
def use(monkeypatch: pytest.MonkeyPatch):
    def put(found: Residual | None) -> None:
        monkeypatch.setattr(residual, "load", lambda path: found)

    return put


def costed(op: Op, constants: Constants = ON, on=H200) -> tuple[Kernel, ...]:
    work = Work(op, on, constants)
    model = model_for(op.name)
    assert model is not None
    return residual.corrected(work, model(work), model)


def seconds(kernels: tuple[Kernel, ...]) -> float:
    return sum(k.duration_s for k in kernels)


def test_the_factor_is_level_and_trees_together(use) -> None:
    op = product(512, 512, 512)
    use(made(0.2, 0.1))
    assert seconds(costed(op)) == pytest.approx(seconds(costed(op, OFF)) * exp(0.3))
    assert {k.origin for k in costed(op)} == {"calibrated"}


def test_an_oblivious_tree_reads_its_levels_as_bits() -> None:
    trees = Trees(
        np.array([[0, 1]]),
        np.array([[1.0, 5.0]]),
        np.array([[0.1, 0.2, 0.3, 0.4]]),
        np.array([], np.int64),
        np.array([]),
        np.array([]),
        (),
    )
    values = [trees.value(np.array(x)) for x in ([0.0, 0.0], [0.0, 9.0], [2.0, 0.0], [2.0, 9.0])]
    assert values == [0.1, 0.2, 0.3, 0.4]


@given(st.floats(-50, 50), st.integers(0, 13), st.integers(0, 13), st.integers(0, 13))
@settings(max_examples=60, deadline=None)
def test_whatever_was_learned_stays_within_the_bounds(r: float, m: int, n: int, k: int) -> None:
    op = product(2**m, 2**n, 2**k)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(residual, "load", lambda path: made(r))
        found, physical = costed(op), costed(op, OFF)
    bound = limit(seconds(physical))
    for now, before in zip(found, physical, strict=True):
        assert abs(log(now.duration_s / before.duration_s)) <= bound + 1e-9
        work = Work(op, H200, ON)
        assert now.duration_s >= min(before.duration_s, residual.least_s(work, now)) * (1 - 1e-9)
        assert 0 <= now.low_s <= now.duration_s <= now.high_s


def test_a_convolution_has_its_own_residual_whatever_takes_longer() -> None:
    longer = Kernel("turned", "copy", 0, 9e-6, 9e-6, 9e-6)
    shorter = Kernel("main", "convolution", 0, 2e-6, 2e-6, 2e-6)
    assert residual.kind_of([longer, shorter]) == "convolution"
    assert residual.kind_of([longer, replace(shorter, kind="matmul")]) == "copy"


def test_the_bound_narrows_with_duration() -> None:
    assert limit(1e-6) == LIMIT == pytest.approx(log(2))
    assert limit(1.0) == pytest.approx(LIMIT_LARGE)
    sizes = [limit(s) for s in np.geomspace(1e-6, 1e-2, 50)]
    assert all(b <= a for a, b in pairwise(sizes))


@pytest.mark.parametrize("sign", [1, -1])
def test_twice_the_work_of_a_long_product_never_takes_less(use, sign: int) -> None:
    """Even where the trees jump as far as they can from one size to the next."""
    times = []
    for i, m in enumerate((4096, 8192, 16384, 32768)):
        use(made(sign * (9.0 if i % 2 else -9.0)))
        times.append(seconds(costed(product(m, 8192, 8192))))
    assert all(b > a for a, b in pairwise(times))


def test_outside_the_fitted_range_it_fades_to_nothing(use) -> None:
    op = product(512, 512, 512)
    near = made(0.3)
    trees = near.trees["matmul"]
    far = replace(trees, low=np.array([-2.0]), high=np.array([-1.0]))
    use(replace(near, trees={"matmul": far}))
    assert seconds(costed(op)) == pytest.approx(seconds(costed(op, OFF)))
    assert trees.nearness(np.full(len(NAMES), 20.0 + 0.05 * 22.0 + 0.025)) == pytest.approx(0.5)


def test_an_operator_that_was_not_fitted_has_none(use) -> None:
    use(replace(made(0.3), levels={}))
    op = product(512, 512, 512)
    assert seconds(costed(op)) == pytest.approx(seconds(costed(op, OFF)))


def test_a_duration_that_the_operator_was_not_seen_with_has_none(use) -> None:
    use(replace(made(0.3), levels={"matmul aten::mm": Level(0.2, -2.0, -1.0)}))
    op = product(512, 512, 512)
    assert seconds(costed(op)) == pytest.approx(seconds(costed(op, OFF)))


@pytest.mark.parametrize("name", ["h100", "a100", "mi300x", "b200"])
def test_other_devices_have_none(use, name: str) -> None:
    use(made(0.3))
    other = device(name)
    constants = Constants(calibration_for(other))
    work = Work(product(512, 512, 512), other, constants)
    assert residual.residual_of(work) is None


def test_a_scale_of_zero_switches_it_off(use) -> None:
    use(made(0.3))
    assert residual.residual_of(Work(product(8, 8, 8), H200, OFF)) is None
    half = Constants(with_scale(calibration_for(H200), 0.5))
    op = product(512, 512, 512)
    assert seconds(costed(op, half)) == pytest.approx(seconds(costed(op, OFF)) * exp(0.15))


def test_a_what_if_machine_keeps_the_factor_of_the_real_one(use) -> None:
    """A faster memory or clock moves the physical time; what was learned is about the kernel."""
    use(made(0.3))
    op = product(512, 512, 512)
    faster = H200.replace(clock_hz=H200.clock_hz * 0.5)
    ratio = seconds(costed(op, ON, faster)) / seconds(costed(op, OFF, faster))
    assert ratio == pytest.approx(exp(0.3))


def test_dozens_of_what_if_machines_ask_the_real_one_once(
    use, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(made(0.2))
    op, asked = product(2048, 2048, 2048), []
    features = residual.features
    monkeypatch.setattr(residual, "features", lambda *each: asked.append(1) or features(*each))
    times = [
        costed(op, on=H200.replace(memory_bandwidth_bytes_per_s=rate * 1e12))[0].duration_s
        for rate in (1.0, 2.0, 3.0)
    ]
    assert len(asked) == 1
    use(made(-0.2))  # another residual is asked anew
    slow = H200.replace(memory_bandwidth_bytes_per_s=1e12)
    assert costed(op, on=slow)[0].duration_s < times[0]


def test_the_interval_is_that_of_unseen_calls(use) -> None:
    use(made(0.0, quantiles=((1e-9, -0.01, 0.01), (inf, -0.3, 0.4))))
    (kernel,) = costed(product(2048, 2048, 2048))
    assert kernel.low_s / kernel.duration_s == pytest.approx(exp(-0.3))
    assert kernel.high_s / kernel.duration_s == pytest.approx(exp(0.4))


def test_families_unseen_widen_the_interval_and_never_below_nothing(use) -> None:
    quantiles = ((inf, log(0.9), log(1.2)),)
    for width, low, high in ((1.0, 0.9, 1.2), (2.0, 0.8, 1.4), (20.0, 0.05, 5.0)):
        found = made(0.0, quantiles=quantiles)
        trees = {kind: replace(t, width=width) for kind, t in found.trees.items()}
        use(replace(found, trees=trees))
        (kernel,) = costed(product(2048, 2048, 2048))
        assert kernel.low_s / kernel.duration_s == pytest.approx(low)
        assert kernel.high_s / kernel.duration_s == pytest.approx(high)


def test_what_the_engine_adds_for_all_kernels_is_taken_out_of_the_interval() -> None:
    assert residual._without(0.05, 0.03) == pytest.approx(0.04)
    assert residual._without(0.02, 0.067) == 0.01


def test_a_missing_file_means_none_and_a_broken_one_an_error(tmp_path: Path) -> None:
    assert residual.load(tmp_path / "none.json") is None
    for at, text in enumerate(("{", "[]", '{"version": 99}', '{"version": 1}')):
        path = tmp_path / f"{at}.json"
        path.write_text(text)
        with pytest.raises(CatalogueError, match="cannot be read"):
            residual.load(path)


def test_the_catalogues_own_reads_and_is_small() -> None:
    found = residual.load(FILE)
    assert found is not None
    assert found.device_id == H200.id
    assert FILE.stat().st_size < 620_000
    for name, trees in found.trees.items():
        assert len(trees.leaf) <= 300, name
        assert (trees.low <= trees.high).all()
        for _, low, high in trees.quantiles:
            assert low <= 0 <= high
    content = json.loads(FILE.read_text())
    assert set(content["kinds"]) == set(found.trees)


def test_the_engine_applies_it_and_says_so(use) -> None:
    use(made(0.2))
    op = product(300, 120, 500)
    program = Program("test", (op,), storages=(), modules=())
    on = cost_program(program, H200, ON.calibration)
    off = cost_program(program, H200, OFF.calibration)
    before, after = off.ops[0].kernels, on.ops[0].kernels
    assert seconds(after) == pytest.approx(seconds(before) * exp(0.2))
    assert any("learned" in text for text in on.assumptions)
    assert not any("learned" in text for text in off.assumptions)
