"""How long a kernel would take if its tensors were smaller or larger: one curve from its model.

A kernel that streams through memory has three regimes: as long as any launch while it is small,
paced by caches and by how much is under way in the middle, and paced by bandwidth when it is large.
The curve shows where this one stands.
"""

from __future__ import annotations

from dataclasses import replace

from gpuscope.cost.registry import model_for
from gpuscope.cost.types import Kernel
from gpuscope.errors import GpuscopeError
from gpuscope.explain.numbers import percent, three
from gpuscope.explain.operators import Target, work_on
from gpuscope.explain.types import Axis, Block, Lines, Mark, Series, Words
from gpuscope.program.types import Op, TensorSpec

KINDS = frozenset({"pointwise", "copy", "reduction", "normalization", "gather", "random", "other"})
"""Families whose work grows with the rows of their tensors."""

_WITHOUT_OPTIONS = frozenset({"pointwise", "copy"})
"""Families whose operators need no options; a stored run keeps shapes, not options."""

AGREES = 1.5
"""Ratio of times up to which the model's kernel is taken for the run's."""

_STOPS = tuple(2.0**power for power in range(-9, 4))
"""Sizes, as multiples of the kernel's own."""


def size_blocks(op: Op, kernel: Kernel, on: Target) -> tuple[Block, ...]:
    """Return the curve of a kernel's time over its size; () where its model does not fit it.

    Args:
        op: the operator, with its results.
        kernel: as the run has it.
        on: the device.
    """
    lead = _leading(op)
    told = bool(op.args) or kernel.kind in _WITHOUT_OPTIONS
    if kernel.kind not in KINDS or not told or lead is None or lead < 2:
        return ()
    now = _kernel_at(op, kernel, on, lead, lead)
    if now is None or not _agree(now.duration_s, kernel.duration_s):
        return ()
    points: dict[int, Kernel] = {}
    for stop in _STOPS:
        rows = max(1, round(lead * stop))
        found = now if rows == lead else _kernel_at(op, kernel, on, lead, rows)
        if found is not None:
            points[rows] = found
    return (_lines(points, lead, now, on),) if len(points) > 3 else ()


def _agree(a: float, b: float) -> bool:
    return min(a, b) > 0 and max(a, b) <= AGREES * min(a, b)


def _leading(op: Op) -> int | None:
    """The first dimension of the largest tensor."""
    shaped = [spec for spec in (*op.inputs, *op.outputs) if spec.shape]
    return max(shaped, key=lambda spec: spec.numel).shape[0] if shaped else None


def _scaled(spec: TensorSpec, lead: int, rows: int) -> TensorSpec:
    """A tensor with as many rows; one with another first dimension stays as it is."""
    if not spec.shape or spec.shape[0] != lead:
        return spec
    return replace(spec, shape=(rows, *spec.shape[1:]))


def _kernel_at(op: Op, kernel: Kernel, on: Target, lead: int, rows: int) -> Kernel | None:
    """The same kernel of the operator with another number of rows; None if it becomes another."""
    model = model_for(op.name)
    if model is None:
        return None
    scaled = replace(
        op, inputs=tuple(_scaled(spec, lead, rows) for spec in op.inputs),
        outputs=tuple(_scaled(spec, lead, rows) for spec in op.outputs),
    )  # fmt: skip
    try:
        made = model(work_on(scaled, on))
    except (GpuscopeError, ValueError, IndexError, ZeroDivisionError, TypeError):
        return None  # a model was not made for this shape: no point there
    same = [each for each in made if each.name == kernel.name]
    alike = same or [each for each in made if each.kind == kernel.kind]
    return max(alike, key=lambda each: each.duration_s) if alike else None


def _lines(points: dict[int, Kernel], lead: int, now: Kernel, on: Target) -> Lines:
    rate = on.device.memory_bandwidth_bytes_per_s
    rows = sorted(points)
    made = [points[at] for at in rows]
    moved = [kernel.read_bytes + kernel.written_bytes for kernel in made]
    x = tuple(float(at) for at in rows)
    floor = made[0].duration_s
    reached = (now.read_bytes + now.written_bytes) / now.duration_s / rate
    return Lines(
        Words("Time against size, by the model", "时间随尺寸的变化（按模型）"),
        Axis(Words("rows (first dimension)", "行数（第一维）"), "count", log=True),
        Axis(Words("time of a launch", "每次启动的时间"), "s", log=True),
        (
            Series(Words("this kernel", "该内核"), x, tuple(k.duration_s for k in made),
                   role="compute", low=tuple(k.low_s for k in made),
                   high=tuple(k.high_s for k in made)),
            Series(Words("its bytes at the datasheet's bandwidth", "按标称带宽搬运其字节"), x,
                   tuple(b / rate if b > 0 else None for b in moved), role="reference"),
        ),
        (Mark(Words("here", "当前"), float(lead), now.duration_s, "good"),),
        Words(
            f"Here it moves bytes at {percent(reached)} of the datasheet's bandwidth. With few"
            f" rows any launch takes about {three(floor * 1e6)} µs; then the line bends towards"
            " the bandwidth.",
            f"当前以标称带宽的 {percent(reached)} 搬运字节。行数很少时，每次启动都要约"
            f" {three(floor * 1e6)} µs；随后曲线逐渐靠近带宽线。",
        ),
    )  # fmt: skip
