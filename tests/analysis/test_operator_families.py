"""One name for an operator, whoever names it."""

import pytest

from gpuscope.analysis.operator_families import operator_family


@pytest.mark.parametrize(
    ("name", "family"),
    [
        ("aten::add_", "aten::add"),
        ("aten::mm", "aten::mm"),
        ("aten::cudnn_convolution", "aten::convolution"),
        ("aten::miopen_convolution", "aten::convolution"),
        ("aten::_flash_attention_backward", "aten::attention_backward"),
        ("gpuscope::attention", "aten::attention"),
        ("aten::_foreach_add_", "aten::_foreach_add_"),
        ("c10d::allreduce_", "aten::all_reduce"),
        ("_c10d_functional::all_reduce", "aten::all_reduce"),
        ("aten::copy_", "aten::copy"),
        ("idle", "idle"),
        ("unknown", "unknown"),
        ("vllm::silu_and_mul", "vllm::silu_and_mul"),
    ],
)
def test_family(name: str, family: str) -> None:
    assert operator_family(name) == family
    assert operator_family(operator_family(name)) == family
