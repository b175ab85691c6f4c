"""The largest batch that fits safely, and the best one: they differ.

Memory and time of a step are nearly linear in the batch, so two captures tell where the memory
ends, and a third confirms it. What has to fit is what the caching allocator holds, with a margin:
fragmentation grows over hours, and other libraries take memory of their own. The best batch is the
smallest that reaches the highest rate but for 2 %: a larger one gains nothing, and changes how the
model learns.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from gpuscope import api
from gpuscope.advice.forecast.changed_programs import ChangedPrograms
from gpuscope.capturing import with_file
from gpuscope.document.blocks import (
    Axis,
    Cell,
    Column,
    Lines,
    Mark,
    Paragraph,
    Section,
    Series,
    Table,
)
from gpuscope.document.quantities import Bytes, Count, Number, Percent
from gpuscope.document.text import Text
from gpuscope.errors import GpuscopeError, InvalidValueError
from gpuscope.hardware import calibration_for

if TYPE_CHECKING:
    from gpuscope.capturing import Workload
    from gpuscope.program.onnx.workload import OnnxBuild
    from gpuscope.program.workload import WorkloadOptions

__all__ = ["MARGIN", "BatchAdvice", "BatchPoint", "advise_batch", "batch_section"]

MARGIN = 0.08
"""Share of the device's usable memory that is left free: reserved memory is predicted within a few
per cent (docs/accuracy.md), and fragmentation grows in long runs."""

FLAT = 0.02
"""A larger batch is worth it if it raises the rate by more than this."""

_MOST = 2**20
_CAPTURES = 12

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class BatchPoint:
    """A step with one batch.

    Attributes:
        batch: samples of a step.
        step_s, low_s, high_s: its time and 80 % interval.
        peak_memory_bytes, reserved_memory_bytes: most allocated, most held by the allocator.
        safe: it fits with the margin.
    """

    batch: int
    step_s: float
    low_s: float
    high_s: float
    peak_memory_bytes: int
    reserved_memory_bytes: int
    safe: bool

    @property
    def rate(self) -> float:
        """Samples a second."""
        return self.batch / self.step_s


@dataclass(frozen=True, slots=True)
class BatchAdvice:
    """Batches that were predicted, and what follows.

    Attributes:
        points: by rising batch.
        now: the batch as it stands.
        largest: the largest that fits with the margin; None if not even one sample does.
        best: the smallest that reaches the highest rate but for 2 %; None likewise.
        capacity_bytes: usable memory of the device.
        changes: names of the changes that were made before.
    """

    points: tuple[BatchPoint, ...]
    now: int
    largest: BatchPoint | None
    best: BatchPoint | None
    capacity_bytes: int
    changes: tuple[str, ...] = ()


def advise_batch(
    workload: Workload,
    on: api.Target = "h200",
    *,
    options: WorkloadOptions | None = None,
    calibration: api.Own | None = None,
    changes: Collection[str] = (),
    say: Say = lambda text: None,
) -> BatchAdvice:
    """Find the largest safe and the best batch with a few captures.

    Args:
        workload, on, options, calibration: see `gpuscope.predict`. A file's function (or a build)
            needs an argument `batch` or `batch_size` with a default.
        changes: names of changes to make first, such as those of `Advice.best`.
        say: told what is being done.

    Raises:
        InvalidValueError: the workload has no batch to vary.
        GpuscopeError: as `gpuscope.predict`.
    """
    sized = _sizes(workload, options)
    cluster = api.resolve_target(on)
    constants = api.resolve_calibration(on, calibration) or calibration_for(cluster.device)
    capacity = cluster.device.memory_usable_bytes

    def point(batch: int) -> BatchPoint:
        say(Text("Predicting a batch of {batch} …", batch=batch))
        made, with_options = sized.at(batch)
        captured = ChangedPrograms(made, cluster, with_options).of(changes)
        run = api.predict(captured, cluster, calibration=constants)
        peak, reserved = run.peak_memory_bytes or 0, run.reserved_memory_bytes or 0
        return BatchPoint(
            batch,
            run.step_time_s,
            *run.step_time_interval_s,
            peak,
            reserved,
            reserved <= capacity * (1 - MARGIN),
        )

    points = _Points(point, int(capacity * (1 - MARGIN)))
    largest = points.largest(sized.now)
    if largest is not None:
        points.up_to(sized.now, largest.batch)
    found = tuple(points.known[b] for b in sorted(points.known))
    return BatchAdvice(found, sized.now, largest, _best(found), capacity, tuple(changes))


class _Points:
    """Predicted batches, and the search over them."""

    def __init__(self, predict: Callable[[int], BatchPoint], room_bytes: int) -> None:
        self.known: dict[int, BatchPoint] = {}
        self._predict, self._room = predict, room_bytes

    def at(self, batch: int) -> BatchPoint:
        if batch not in self.known:
            self.known[batch] = self._predict(batch)
        return self.known[batch]

    def largest(self, now: int) -> BatchPoint | None:
        """The largest that fits: by the line through two points, confirmed; None if none does."""
        self.at(now)
        self.at(2 * now if self.at(now).safe else max(1, now // 2))
        low, high = 0, _MOST
        while len(self.known) < _CAPTURES:
            low = max((b for b, p in self.known.items() if p.safe), default=0)
            high = min((b for b, p in self.known.items() if not p.safe), default=_MOST)
            guess = _rounded(self._guess(), low, high)
            if guess <= low or guess >= high:
                break
            self.at(guess)
        return self.known.get(low) if low else None

    def _guess(self) -> float:
        """Where the line through the two points nearest to the room meets it."""
        near = sorted(self.known.values(), key=lambda p: abs(p.reserved_memory_bytes - self._room))
        one, other = near[0], near[1] if len(near) > 1 else near[0]
        rise = other.reserved_memory_bytes - one.reserved_memory_bytes
        if one.batch == other.batch or rise * (other.batch - one.batch) <= 0:
            return max(p.batch for p in near) * 2.0
        per_sample = rise / (other.batch - one.batch)
        return one.batch + (self._room - one.reserved_memory_bytes) / per_sample

    def up_to(self, now: int, largest: int) -> None:
        """Doublings up to the largest, until the rate is flat."""
        batch, before = now, self.at(min(now, largest)).rate
        while batch * 2 < largest and len(self.known) < 2 * _CAPTURES:
            batch *= 2
            rate = self.at(batch).rate
            if rate < before * (1 + FLAT):
                return
            before = rate


def _rounded(guess: float, low: int, high: int) -> int:
    """A whole number below the guess, a multiple of 8 where that is at most a tenth less.

    Between a batch that fits and one that does not; `low` where nothing in between is worth it.
    """
    batch = int(min(max(guess, 0), _MOST))
    step = next((s for s in (64, 32, 16, 8, 4, 2) if batch >= 10 * s), 1)
    batch = batch // step * step
    if batch >= high:
        batch = (high - 1) // step * step
    if high - low <= step or (low and high < _MOST and (high - low) / low < 0.03):
        return low
    return batch if batch > low else (low + step if low + step < high else low)


def _best(points: Collection[BatchPoint]) -> BatchPoint | None:
    safe = [p for p in points if p.safe]
    if not safe:
        return None
    top = max(p.rate for p in safe)
    return next(p for p in sorted(safe, key=lambda p: p.batch) if p.rate * (1 + FLAT) >= top)


# -- which argument the batch is -------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Sized:
    """A workload whose batch can be set."""

    now: int
    at: Callable[[int], tuple[Any, WorkloadOptions | None]]


def _sizes(workload: Workload, options: WorkloadOptions | None) -> _Sized:
    from gpuscope.program.workload import WorkloadOptions, resolve

    base = options or WorkloadOptions()
    if isinstance(workload, str) and ".py" not in workload:
        found = resolve(workload, base)
        if found.job is not None or found.batch is None:
            raise _no_batch("Its size is the job's; vary --global-batch or --microbatch.")
        if found.onnx is not None:
            return _of_graph(workload, found.onnx, base)
        return _Sized(found.batch, lambda batch: (workload, replace(base, batch=batch)))
    if isinstance(workload, str):
        file = resolve(workload, replace(base, batch=None), load=False).file
        default = None if file is None else with_file(file, _default)
        if default is None:
            raise _no_batch(_NO_ARGUMENT)
        return _Sized(base.batch or default, lambda batch: (workload, replace(base, batch=batch)))
    if not callable(workload):
        raise _no_batch("It was captured before, with one batch.")
    argument = _argument(workload)
    if argument is None:
        raise _no_batch(_NO_ARGUMENT)
    name = argument[0]

    def at(batch: int) -> tuple[Any, None]:
        bound = functools.partial(workload, **{name: batch})
        functools.update_wrapper(bound, workload)
        return bound, None

    return _Sized(base.batch or argument[1], at)


def _of_graph(path: str, graph: OnnxBuild, base: WorkloadOptions) -> _Sized:
    from gpuscope.advice.changes.evidence.graphs import batch_axis

    axis = batch_axis(graph)
    if axis is None:
        raise InvalidValueError(
            Text("This workload has no batch to vary."),
            Text("The file fixes it."),
            Text("Export it with a dynamic axis called 'batch'."),
        )

    def at(batch: int) -> tuple[str, WorkloadOptions]:
        return path, replace(base, batch=None, axes=tuple({**graph.sizes, axis: batch}.items()))

    return _Sized(graph.sizes[axis], at)


_NO_ARGUMENT = "Its function has no argument 'batch' or 'batch_size' with a number."


def _default(build: Callable[..., Any]) -> int | None:
    argument = _argument(build)
    return argument and argument[1]


def _argument(build: Callable[..., Any]) -> tuple[str, int] | None:
    """The argument that is the batch, and its default; None without one."""
    parameters = inspect.signature(build).parameters
    name = next((n for n in ("batch", "batch_size") if n in parameters), None)
    default = parameters[name].default if name else None
    return (name, default) if name and isinstance(default, int) else None


def _no_batch(why: str) -> GpuscopeError:
    return InvalidValueError(
        Text("This workload has no batch to vary."),
        why,
        Text("Write for example: def build(batch=8): and use it for the data."),
    )


# -- telling ---------------------------------------------------------------------------------------


def batch_section(found: BatchAdvice) -> Section:
    """The batches as a table and a curve."""
    rows: tuple[tuple[Cell, ...], ...] = tuple(
        (
            p.batch,
            p.rate,
            p.step_s,
            p.peak_memory_bytes,
            p.reserved_memory_bytes,
            Text("yes") if p.safe else Text("no"),
        )
        for p in found.points
    )
    best = found.best
    table = Table(
        Text("Batches, predicted"),
        (
            Column(Text("batch"), "count"),
            Column(Text("samples/s")),
            Column(Text("step"), "s"),
            Column(Text("peak memory"), "bytes"),
            Column(Text("held by the allocator"), "bytes"),
            Column(Text("fits safely")),
        ),
        rows,
        marked=tuple(at for at, p in enumerate(found.points) if p is best),
    )
    blocks: tuple[Any, ...] = (Paragraph(_verdict(found), "key"), table)
    if len(found.points) > 2:
        blocks = (*blocks, _curve(found))
    return Section(Text("The batch"), blocks)


def _verdict(found: BatchAdvice) -> Text:
    room = Text(
        "{margin} of {capacity}", margin=Percent(MARGIN), capacity=Bytes(found.capacity_bytes)
    )
    if found.largest is None or found.best is None:
        return Text("No batch fits with {room} left free.", room=room)
    large, best = found.largest, found.best
    return Text(
        "Largest that fits safely: {largest} ({its_rate} samples/s), with {room} left free. Best: "
        "{best} ({rate} samples/s): a larger one gains less than {flat}. Another batch is "
        "another recipe: check the loss.",
        largest=Count(large.batch),
        its_rate=Number(large.rate),
        room=room,
        best=Count(best.batch),
        rate=Number(best.rate),
        flat=Percent(FLAT),
    )


def _curve(found: BatchAdvice) -> Lines:
    safe = [p for p in found.points if p.safe] or list(found.points)
    marks = [Mark(Text("now"), x=float(found.now))]
    if found.best is not None:
        marks.append(Mark(Text("best"), x=float(found.best.batch), role="good"))
    return Lines(
        Text("Rate over batch"),
        Axis(Text("batch"), "count", log=True),
        Axis(Text("samples/s")),
        (
            Series(
                Text("predicted"),
                tuple(float(p.batch) for p in safe),
                tuple(p.rate for p in safe),
                low=tuple(p.batch / p.high_s for p in safe),
                high=tuple(p.batch / p.low_s for p in safe),
                role="compute",
            ),
        ),
        tuple(marks),
    )
