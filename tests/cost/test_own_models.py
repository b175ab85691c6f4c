"""What users say of their own operators: rooflines by hand, wrong figures, where it is said."""

from __future__ import annotations

import pytest

import gpuscope as gs
from gpuscope.cost.engine import cost_program
from gpuscope.cost.registry import MODELS
from gpuscope.errors import InvalidValueError, WorkloadError
from gpuscope.hardware import parse_target
from gpuscope.program.own_costs import SAID, with_costs
from gpuscope.program.types import Op, Program, TensorSpec

H200 = parse_target("h200").device
SIDE = 8192


@pytest.fixture(autouse=True)
def _forgotten():
    yield
    for name in ("gpuscope_tests::op", "gpuscope_tests::plugged"):
        MODELS.drop(name)
        SAID.pop(name, None)


def _kernels(name="gpuscope_tests::op", dtype="bfloat16"):
    spec = TensorSpec((SIDE, SIDE), (SIDE, 1), dtype)
    op = Op(0, name, "default", (spec,), (spec,), {"times": 3})
    costed = cost_program(Program("own", ops=(op,)), H200)
    return costed.ops[0].kernels, costed


def test_bytes_and_efficiency_set_the_time():
    gs.kernel_model("gpuscope_tests::op", bytes=8e9, efficiency=0.5)
    (kernel,), costed = _kernels()
    assert kernel.duration_s == pytest.approx(
        8e9 / (0.5 * H200.memory_bandwidth_bytes_per_s), rel=0.1
    )
    assert kernel.read_bytes + kernel.written_bytes == 8e9
    assert kernel.origin == "estimated"
    assert not costed.assumptions


def test_flops_of_the_matrix_units_by_a_function_of_the_operator():
    gs.kernel_model(
        "gpuscope_tests::op",
        flops=lambda op: op.args["times"] * 2 * SIDE * op.inputs[0].numel,
        tensor_cores=True,
        efficiency=0.5,
    )
    (kernel,), _ = _kernels()
    assert kernel.flops == 6 * SIDE**3
    peak = H200.peak_flops_per_s("bfloat16")
    assert kernel.duration_s == pytest.approx(6 * SIDE**3 / (0.5 * peak), rel=0.01)
    assert kernel.limiter == "tensor_core"


def test_each_tensor_once_is_the_least_and_more_work_never_quicker():
    gs.kernel_model("gpuscope_tests::op")
    (plain,), _ = _kernels()
    assert plain.least_bytes == 2 * 2 * SIDE**2
    assert plain.duration_s > plain.least_bytes / H200.memory_bandwidth_bytes_per_s
    gs.kernel_model("gpuscope_tests::op", flops=1e14)
    (more,), _ = _kernels()
    assert more.duration_s > plain.duration_s
    assert more.limiter == "compute"
    assert plain.high_s < 4 * plain.duration_s  # narrower than a guess


def test_what_was_said_goes_with_the_program():
    gs.kernel_model("gpuscope_tests::op", bytes=lambda op: 4 * op.inputs[0].nbytes, efficiency=0.5)
    (here,), _ = _kernels()
    spec = TensorSpec((SIDE, SIDE), (SIDE, 1), "bfloat16")
    ops = with_costs([Op(0, "gpuscope_tests::op", "default", (spec,), (spec,))])
    MODELS.drop("gpuscope_tests::op")  # as in the process that costs what another captured
    costed = cost_program(Program("own", ops=tuple(ops)), H200)
    (there,) = costed.ops[0].kernels
    assert there.duration_s == here.duration_s
    assert there.least_bytes == 4 * 2 * SIDE**2
    assert not costed.assumptions


def test_without_a_model_the_way_to_one_is_told():
    (kernel,), costed = _kernels()
    assert kernel.high_s == pytest.approx(4 * kernel.duration_s)
    assert any('gs.kernel_model("gpuscope_tests::op"' in text for text in costed.assumptions)


@pytest.mark.parametrize(
    ("name", "figures"),
    [
        ("op", {}),
        ("gpuscope_tests::op", {"flops": -1}),
        ("gpuscope_tests::op", {"bytes": "many"}),
        ("gpuscope_tests::op", {"efficiency": 0}),
        ("gpuscope_tests::op", {"efficiency": 1.5}),
        ("aten::mm", {"flops": 1}),
    ],
)
def test_wrong_figures_are_refused(name, figures):
    with pytest.raises(InvalidValueError):
        gs.kernel_model(name, **figures)


def test_a_function_that_fails_is_named():
    gs.kernel_model("gpuscope_tests::op", flops=lambda op: op.inputs[7].numel)
    with pytest.raises(WorkloadError, match=r"flops of kernel_model.*IndexError"):
        _kernels()


def test_a_plugin_may_say_it(tmp_path, monkeypatch):
    (tmp_path / "own_costs.py").write_text(
        'import gpuscope as gs\n\ngs.kernel_model("gpuscope_tests::plugged", bytes=8e9)\n'
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("GPUSCOPE_PLUGINS", "own_costs")
    monkeypatch.setattr(MODELS, "_most_loaded", False)
    monkeypatch.setattr(MODELS, "_loaded", False)
    (kernel,), _ = _kernels("gpuscope_tests::plugged")
    assert kernel.least_bytes == 8e9
