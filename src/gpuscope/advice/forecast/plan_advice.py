"""Another split of a ready-made parallel job: one decision at a time, each predicted.

The batch of the whole job stays, so step times compare directly. From the plan that was asked for,
every neighbour is predicted; the best becomes the next plan, and from there only kinds of decisions
that came near to gaining are looked at again, until nothing gains.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gpuscope import api
from gpuscope.advice.forecast.plan_neighbours import neighbours
from gpuscope.document.blocks import Cell, Column, Explanation, Paragraph, Section, Table
from gpuscope.document.quantities import Bytes, Number, Ratio
from gpuscope.document.text import Text, joined
from gpuscope.errors import GpuscopeError, UnsupportedError
from gpuscope.hardware import Cluster

if TYPE_CHECKING:
    from gpuscope.program.workload import WorkloadOptions

__all__ = ["PlanAdvice", "PlanPoint", "advise_plan", "explained_plan"]

GAIN = 1.01
"""A plan must be predicted faster by more than this to be the next one."""

NEAR = 0.97
"""A kind of decision that came no nearer than this is not looked at again."""

ROUNDS = 4

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class PlanPoint:
    """One plan, predicted.

    Attributes:
        name: of the decision that made it of the plan before ("plan:tp-4"); "" for the first.
        title: the same in words.
        options: of the workload.
        step_time_s, low_s, high_s: of the whole job, with its 80 % interval; None where it failed.
        peak_memory_bytes: of the fullest rank; fits: whether it fits the device.
        why: where it failed: the reason.
    """

    name: str
    title: Text
    options: WorkloadOptions
    step_time_s: float | None = None
    low_s: float | None = None
    high_s: float | None = None
    peak_memory_bytes: int | None = None
    fits: bool | None = None
    why: str = ""

    def pace(self) -> float:
        """Steps a second; 0 where it fails or does not fit."""
        return 1 / self.step_time_s if self.step_time_s and self.fits is not False else 0.0


@dataclass(frozen=True, slots=True)
class PlanAdvice:
    """What another split would bring: the plan as asked for, its neighbours, the way to the best.

    Attributes:
        name: of the model.
        cluster: what it runs on.
        start: the plan as asked for.
        neighbours: one decision away from it, the fastest first.
        path: the plans that were gone to, one decision each; () where nothing gains.
    """

    name: str
    cluster: Cluster
    start: PlanPoint
    neighbours: tuple[PlanPoint, ...]
    path: tuple[PlanPoint, ...]


def advise_plan(
    name: str,
    on: str,
    options: WorkloadOptions,
    *,
    calibration: Any = None,
    say: Say = lambda text: None,
) -> PlanAdvice:
    """Look for a better split of a ready-made job.

    Args:
        name: a built-in model's.
        on: a cluster, such as "64xh200".
        options: with a parallel job.
        calibration: see `gpuscope.api.predict`.
        say: told each plan.

    Raises:
        UnknownNameError: no such model or device.
        GpuscopeError: the plan as asked for cannot be.
    """
    from gpuscope.capturing import for_cluster
    from gpuscope.program.models import find
    from gpuscope.program.models.parallel.published import published_model

    cluster = api.resolve_target(on)
    laid = for_cluster(options, cluster) or options
    model = published_model(name) or find(name)
    if model.size is None:
        raise UnsupportedError(
            Text("{name} has no ready-made parallel plans.", name=name),
            Text("They exist for decoders."),
            Text(
                "Write the job yourself, and predict that: gpuscope predict file.py:build --on "
                "8xh200"
            ),
        )
    dimensions = model.size()

    def predicted(title: str, words: Text, changed: WorkloadOptions) -> PlanPoint:
        say(Text("Predicting: {plan} …", plan=words))
        return _predicted(name, cluster, title, words, changed, calibration)

    start = predicted("", Text("as asked for"), laid)
    if start.step_time_s is None:
        api.predict(name, cluster, options=laid, calibration=calibration)  # says why

    def around(plan: PlanPoint, kinds: frozenset[str] | None = None) -> list[PlanPoint]:
        plans = neighbours(plan.options, cluster, dimensions)
        return [predicted(*each) for each in plans if kinds is None or _kind(each[0]) in kinds]

    first = around(start)
    path = _way(start, first, around)
    return PlanAdvice(name, cluster, start, tuple(sorted(first, key=lambda p: -p.pace())), path)


def _way(
    start: PlanPoint,
    first: list[PlanPoint],
    around: Callable[[PlanPoint, frozenset[str]], list[PlanPoint]],
) -> tuple[PlanPoint, ...]:
    """The plans from the first to where nothing gains any more."""
    path: list[PlanPoint] = []
    now, found, kinds = start, first, frozenset(_kind(p.name) for p in first)
    for _ in range(ROUNDS):
        best = max(found, key=PlanPoint.pace, default=None)
        if best is None or best.pace() <= now.pace() * GAIN:
            break
        kinds &= {_kind(p.name) for p in found if p.pace() >= NEAR * now.pace()}
        path.append(best)
        now, found = best, around(best, kinds)
    return tuple(path)


def _kind(name: str) -> str:
    """ "plan:tp-4" -> "plan:tp"."""
    return name.rpartition("-")[0] or name


def _predicted(
    name: str, cluster: Cluster, plan: str, title: Text, options: WorkloadOptions, calibration: Any
) -> PlanPoint:
    try:
        found: Any = api.recost(name, cluster, options=options, calibration=calibration)
    except GpuscopeError as error:
        return PlanPoint(plan, title, options, why=error.what)
    fullest = getattr(found, "fullest", None) or found
    return PlanPoint(
        plan,
        title,
        options,
        found.step_time_s,
        found.low_s,
        found.high_s,
        fullest.peak_memory_bytes,
        fullest.fits,
    )


def explained_plan(advice: PlanAdvice) -> Explanation:
    """The advice for a reader."""
    start, best = advice.start, (advice.path or (advice.start,))[-1]
    sections = []
    if advice.path:
        sections.append(
            Section(
                Text("The best plan found"),
                (
                    _table(
                        Text("One decision after the other"),
                        start,
                        (start, *advice.path),
                        marked=len(advice.path),
                    ),
                ),
            )
        )
    one = _table(
        Text("Plans that differ in one decision"), start, (start, *advice.neighbours), marked=0
    )
    sections.append(Section(Text("Each decision alone"), (one, *_failed(advice))))
    return Explanation(
        topic="plan",
        title=Text(
            "{advice} on {n_devices} × {device}: how to split it",
            advice=advice.name,
            n_devices=advice.cluster.n_devices,
            device=advice.cluster.device.name,
        ),
        summary=(_verdict(advice, best), *_SAID),
        sections=tuple(sections),
    )


_SAID = (
    Text("All of it is predicted; nothing was run. The batch of the whole job stays the same."),
)


def _verdict(advice: PlanAdvice, best: PlanPoint) -> Text:
    start = advice.start
    if best is start or start.step_time_s is None or best.step_time_s is None:
        return Text(
            "No plan that differs in one decision is predicted more than 1 % faster: keep it."
        )
    if start.fits is False:
        return Text(
            "The plan as asked for does not fit; this one does: {names}.", names=_names(advice)
        )
    gain = Ratio(start.step_time_s / best.step_time_s)
    return Text("{gain} as fast: {names}.", gain=gain, names=_names(advice))


def _names(advice: PlanAdvice) -> Text:
    return joined([point.title for point in advice.path], "; ")


def _table(title: Text, start: PlanPoint, points: tuple[PlanPoint, ...], marked: int) -> Table:
    rows = tuple(_row(start, point) for point in points if point.step_time_s is not None)
    return Table(
        title,
        (
            Column(Text("decision")),
            Column(Text("speed-up"), "ratio"),
            Column(Text("step"), "s"),
            Column(Text("80 % interval")),
            Column(Text("peak memory"), "bytes"),
            Column(Text("fits")),
        ),
        rows,
        marked=(marked,) if marked < len(rows) else (),
    )


def _row(start: PlanPoint, point: PlanPoint) -> tuple[Cell, ...]:
    assert point.step_time_s is not None
    ratio = start.step_time_s / point.step_time_s if start.step_time_s else None
    interval = (
        f"{Number(point.low_s * 1e3)} – {Number(point.high_s * 1e3)} ms"
        if point.low_s is not None and point.high_s is not None
        else None
    )
    return (
        point.title,
        ratio,
        point.step_time_s,
        interval,
        point.peak_memory_bytes,
        Text("yes") if point.fits else Text("no"),
    )


def _failed(advice: PlanAdvice) -> tuple[Paragraph, ...]:
    bad = [p for p in advice.neighbours if p.step_time_s is None]
    room = [p for p in advice.neighbours if p.fits is False and p.peak_memory_bytes]
    said = []
    if bad:
        named = joined([joined([p.title, p.why], ": ") for p in bad], "; ")
        said.append(Paragraph(Text("Not possible: {named}", named=named), "doubt"))
    if room:
        usable = advice.cluster.device.memory_usable_bytes
        least = min(p.peak_memory_bytes or 0 for p in room)
        said.append(
            Paragraph(
                Text(
                    "{room} of them need more than the {usable} of a device ({least} or more).",
                    room=len(room),
                    usable=Bytes(usable),
                    least=Bytes(least),
                ),
                "warning",
            )
        )
    return tuple(said)
