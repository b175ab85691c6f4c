"""How long a kernel would take if its tensors were smaller or larger: one curve from its model.

A kernel that streams through memory has three regimes: as long as any launch while it is small,
paced by caches and by how much is under way in the middle, and paced by bandwidth when it is large.
The curve shows where this one stands.
"""

from __future__ import annotations

from dataclasses import replace

from gpuscope.cost.types import Kernel
from gpuscope.document.blocks import Axis, Block, Lines, Mark, Series
from gpuscope.document.quantities import Number, Percent
from gpuscope.document.text import Text
from gpuscope.errors import GpuscopeError
from gpuscope.explanation.operators import Target, kernels_of, work_on
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
    given = bool(op.args) or kernel.kind in _WITHOUT_OPTIONS
    if kernel.kind not in KINDS or not given or lead is None or lead < 2:
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
    scaled = replace(
        op,
        inputs=tuple(_scaled(spec, lead, rows) for spec in op.inputs),
        outputs=tuple(_scaled(spec, lead, rows) for spec in op.outputs),
    )
    try:
        made = kernels_of(work_on(scaled, on))
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
        Text("Time against size, by the model"),
        Axis(Text("rows (first dimension)"), "count", log=True),
        Axis(Text("time of a launch"), "s", log=True),
        (
            Series(
                Text("this kernel"),
                x,
                tuple(k.duration_s for k in made),
                role="compute",
                low=tuple(k.low_s for k in made),
                high=tuple(k.high_s for k in made),
            ),
            Series(
                Text("its bytes at the datasheet's bandwidth"),
                x,
                tuple(b / rate if b > 0 else None for b in moved),
                role="reference",
            ),
        ),
        (Mark(Text("here"), float(lead), now.duration_s, "good"),),
        Text(
            "Here it moves bytes at {reached} of the datasheet's bandwidth. With few rows any "
            "launch takes about {floor} µs; then the line bends towards the bandwidth.",
            reached=Percent(reached),
            floor=Number(floor * 1e6),
        ),
    )
