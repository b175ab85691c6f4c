"""Lists of tensors: how many lists there are follows from the values."""

from __future__ import annotations

from dataclasses import replace

from signature_oracle import meta, recorded

from gpuscope.program.signatures import complete
from gpuscope.program.types import Op

LIST = [meta(4, 5), meta(6)]


def completed(name: str, *args: object, dtype: str = "") -> Op | None:
    return complete(recorded(name, *args), values_recorded=True, dtype=dtype)


def test_overloads() -> None:
    cases = {
        "List": completed("aten::_foreach_add_", LIST, LIST, 1),
        "Scalar": completed("aten::_foreach_mul_", LIST, 0.9),
        "ScalarList": completed("aten::_foreach_div_", LIST, [1.0, 2.0]),
        "Tensor": completed("aten::_foreach_mul_", LIST, meta()),
    }
    for overload, found in cases.items():
        assert found is not None
        assert found.overload == overload
        assert [t.shape for t in found.outputs] == [(4, 5), (6,)]
    third = completed("aten::_foreach_addcdiv_", LIST, LIST, LIST, 1.0)
    assert third is not None
    assert len(third.inputs) == 6


def test_without_values_the_overload_is_not_known() -> None:
    op = recorded("aten::_foreach_add_", LIST, LIST)
    assert complete(op, values_recorded=False) is None


def test_a_lists_dtype_comes_from_elsewhere() -> None:
    op = recorded("aten::_foreach_sqrt", LIST)
    op = replace(op, inputs=tuple(replace(t, dtype="unknown") for t in op.inputs))
    assert complete(op, values_recorded=True) is None
    found = complete(op, values_recorded=True, dtype="float16")
    assert found is not None
    assert {t.dtype for t in found.outputs} == {"float16"}


def test_fused_adam_with_and_without_maxima() -> None:
    steps = [meta(), meta()]
    plain = completed("aten::_fused_adamw_", LIST, LIST, LIST, LIST, [], steps, 1e-3)
    assert plain is not None
    assert len(plain.outputs) == 2
    assert "amsgrad" not in plain.args
    maxima = completed("aten::_fused_adamw_", LIST, LIST, LIST, LIST, LIST, steps, 1e-3)
    assert maxima is not None
    assert maxima.args["amsgrad"] is True
    assert completed("aten::_fused_adamw_", [], [], [], [], [], [], 1e-3) is None


def test_fused_sgd_knows_its_momentum_by_the_lists() -> None:
    with_momentum = completed("aten::_fused_sgd_", LIST, LIST, LIST, 0.1)
    without = completed("aten::_fused_sgd_", LIST, LIST, [], 0.1)
    assert with_momentum is not None
    assert without is not None
    assert "momentum" in with_momentum.args
    assert "momentum" not in without.args
