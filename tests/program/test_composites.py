"""Operators that C++ makes of others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from gpuscope.program.capture import capture
from gpuscope.program.capture.composites import cumprod_backward, logsumexp


def _program(of: Callable[[Any], Any], grad: bool) -> Any:
    def build() -> Callable[[], object]:
        x = torch.randn(64, 96, device="cuda", requires_grad=grad)
        return lambda: of(x)

    return capture(build)


def test_a_sum_in_logarithms_is_nine_operators_and_a_temporary() -> None:
    program = _program(lambda x: torch.logsumexp(x, 1), False)
    names = [op.name.removeprefix("aten::") for op in program.ops if not op.view]
    assert names == "amax abs eq masked_fill_ sub exp_ sum log_ add_".split()
    assert max(s.nbytes for s in program.storages if s.born >= 0) == 64 * 96 * 4


def test_its_values() -> None:
    x = torch.randn(3, 4, 5)
    for dim, keep in ((1, False), ([0, 2], True), (-1, True)):
        assert torch.allclose(logsumexp(x, dim, keep), torch.logsumexp(x, dim, keep))


def test_the_gradient_of_cumprod_takes_the_short_way_and_waits() -> None:
    program = _program(lambda x: torch.cumprod(x, 1).sum().backward(), True)
    back = [op for op in program.ops if op.phase == "backward" and not op.view]
    names = [op.name.removeprefix("aten::") for op in back]
    assert (names.count("cumsum"), names.count("flip")) == (1, 2)
    assert any(op.sync == "item" for op in program.ops)
    # Its product, the mask of zeros and all that is turned live at once, as locals of C++ do: an
    # H200's allocator held 5,033 MiB where 4,673 were predicted.
    last = [op.index for op in back if op.name == "aten::flip"][1]
    alive = [s for s in program.storages if s.born <= last and (s.died is None or s.died > last)]
    made = {op.name for op in back for t in op.outputs if any(s.id == t.storage for s in alive)}
    assert made >= {"aten::mul", "aten::eq", "aten::flip", "aten::cumsum"}


def test_the_short_way_is_right() -> None:
    x = torch.rand(4, 6, dtype=torch.float64, requires_grad=True)
    grad = torch.rand(4, 6, dtype=torch.float64)
    (wanted,) = torch.autograd.grad(torch.cumprod(x, 1), x, grad)
    import gpuscope.program.capture.composites as composites

    composites_device = composites.on_device
    try:
        composites.on_device = lambda _: True  # type: ignore[assignment]
        found = cumprod_backward(grad, x.detach(), 1, torch.cumprod(x.detach(), 1))
    finally:
        composites.on_device = composites_device  # type: ignore[assignment]
    assert torch.allclose(found, wanted)


def waits(program: Any) -> int:
    return sum(bool(op.sync) for op in program.ops)


def by_channel(dtype: torch.dtype) -> Any:
    def build() -> Callable[[], object]:
        weight = torch.randn(64, 32, device="cuda")
        scale, zero = torch.ones(64, device="cuda"), torch.zeros(64, dtype=dtype, device="cuda")
        return lambda: torch.fake_quantize_per_channel_affine(weight, scale, zero, 0, -128, 127)

    return capture(build)


def test_rounding_by_channel_waits_for_its_least_and_greatest_zero_point() -> None:
    """As recorded: min, a copy to the host, max, a copy, then the rounding
    (validation/recordings/h200/fourth/quantisation-aware.csv.gz)."""
    names = [op.name.removeprefix("aten::") for op in by_channel(torch.int32).ops]
    item = "_local_scalar_dense"
    assert names[:4] == ["min", item, "max", item]
    assert names[4].startswith("fake_quantize_per_channel")


def test_zero_points_that_are_no_whole_numbers_are_not_looked_at() -> None:
    assert waits(by_channel(torch.int32)) == 2
    assert waits(by_channel(torch.float32)) == 0


@pytest.mark.parametrize(("bounds", "count"), [((0.0, 1.0), 0), ((0.0, 0.0), 2), ((), 2)])
def test_a_histogram_looks_for_its_range_only_where_none_is_given(
    bounds: tuple[float, ...], count: int
) -> None:
    def build() -> Callable[[], object]:
        x = torch.randn(100, device="cuda")
        return lambda: torch.histc(x, 16, *bounds)

    program = capture(build)
    assert waits(program) == count


def test_nothing_waits_for_numbers_in_host_memory() -> None:
    def build() -> Callable[[], object]:
        ids = torch.randint(0, 9, (100,))
        return lambda: (torch.histc(ids.float(), 9), torch.ones(1, device="cuda"))

    assert waits(capture(build)) == 0


def test_drawing_with_given_deviations_asks_twice_whether_one_is_negative() -> None:
    def build() -> Callable[[], object]:
        mean, spread = torch.zeros(8, device="cuda"), torch.ones(8, device="cuda")
        return lambda: torch.distributions.Normal(mean, spread, validate_args=False).sample()

    assert waits(capture(build)) == 2


def test_a_matrix_exponential_waits_and_sizes_nothing() -> None:
    def build() -> Callable[[], object]:
        x = torch.eye(16, device="cuda")
        return lambda: torch.linalg.matrix_exp(x)

    (wait,) = (op.sync for op in capture(build).ops if op.sync)
    assert wait == "item"
