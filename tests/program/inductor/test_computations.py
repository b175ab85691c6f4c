"""How often a generated kernel computes its operators, as recorded kernels do."""

from __future__ import annotations

from fusion_programs import Steps

from gpuscope.program.fusion import FUSED, fuse
from gpuscope.program.types import Op, Program

LENGTH, HALF = 1024, 32


def kernels(program: Program) -> list[Op]:
    return [op for op in program.ops if op.name == FUSED]


def rotary(s: Steps, x_name: str = "mm"):  # type: ignore[no-untyped-def]
    """Cosines and sines of a table of numbers, and halves of what a library made turned by them."""
    x = s.tensor(64 * LENGTH, 64)
    made = s.call(x_name, x, s.tensor(64, 64))
    half = (64, LENGTH, HALF)
    place = s.call("arange", shape=(LENGTH, HALF), dtype="float32")
    angle = s.call("mul", place, place)
    cos, sin = s.call("cos", angle), s.call("sin", angle)
    part = made.__class__(half, (LENGTH * 64, 64, 1), "float32", "device", made.storage)
    first = s.call("sub", s.call("mul", part, cos), s.call("mul", part, sin), shape=half)
    second = s.call("add", s.call("mul", part, cos), s.call("mul", part, sin), shape=half)
    return s.call("cat", first, second, shape=(64, LENGTH, 64)), cos


def test_a_table_of_numbers_is_computed_by_each_piece_and_never_stored() -> None:
    s = Steps()
    turned, cos = rotary(s)
    s.keep(s.call("mm", turned, s.tensor(64, 64)))
    fused = fuse(s.program())
    (kernel,) = kernels(fused)
    computed = dict(kernel.args["computed"])
    # Two pieces, each with a cosine and a sine of the same angle.
    assert (computed["cos"], computed["sin"], computed["arange"]) == (2, 2, 2)
    assert cos.storage not in {t.storage for op in fused.ops for t in op.outputs}


def test_equal_expressions_of_one_element_are_computed_once() -> None:
    s = Steps()
    x = s.tensor(4096, 4096)
    e = s.call("exp", x)
    s.keep(s.call("add", s.call("mul", e, x), s.call("sub", e, x)))
    (kernel,) = kernels(fuse(s.program()))
    assert dict(kernel.args["computed"]) == {"add": 1, "exp": 1, "mul": 1, "sub": 1}


def test_a_division_by_a_number_is_a_multiplication() -> None:
    s = Steps()
    x, y = s.tensor(4096, 4096), s.tensor(4096, 4096)
    s.keep(s.call("div", s.call("div", x, args={"other": 8.0}), y))
    (kernel,) = kernels(fuse(s.program()))
    assert dict(kernel.args["computed"]) == {"div": 1, "mul": 1}
