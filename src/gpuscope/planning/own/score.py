"""A quick score of code under changes: effects of single changes, put together.

Every change is captured alone, at the code's own batch, and the code as it stands at twice that
batch, too. Times of changes multiply, and bytes add up; what a change frees or takes grows with the
batch. This only orders candidates: no figure of the answer comes from it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from gpuscope.advice.registry import find
from gpuscope.document.quantities import Percent
from gpuscope.document.text import Text
from gpuscope.errors import GpuscopeError, MissingPackageError
from gpuscope.hardware import Cluster
from gpuscope.planning.own.simulate import Quick, Simulator
from gpuscope.planning.own.types import Changed
from gpuscope.planning.types import Rejected

__all__ = ["TECHNIQUES", "WRAPS", "Effects", "effects_of"]

TECHNIQUES = (
    "tf32",
    "bf16-autocast",
    "fused-optimizer",
    "compile",
    "checkpoint",
    "checkpoint-selective",
)
"""Changes that are combined, by the names that `gpuscope advise` has for them."""

WRAPS = ("ddp", "fsdp", "fsdp-kept")
"""Changes that share a model over devices."""

LITTLE = 0.01
"""A change that saves less than this of time and of memory, alone, is not combined."""


@dataclass(frozen=True, slots=True)
class Effects:
    """What single changes do on each device.

    Attributes:
        techniques: those that save time or memory alone.
        out: the others, and why.
        own_batch: samples of a device's step as the code stands; None: it has no argument.
        base: of each cluster, the code as it stands.
        double: with twice the batch; empty without an argument.
        alone: by cluster and change.
        complete: False where it was interrupted: changes that are not there were not tried.
    """

    techniques: tuple[str, ...]
    out: tuple[Rejected, ...]
    own_batch: int | None
    base: Mapping[Cluster, Quick]
    double: Mapping[Cluster, Quick] = field(default_factory=dict)
    alone: Mapping[tuple[Cluster, str], Quick] = field(default_factory=dict)
    complete: bool = True

    def of(self, each: Changed) -> Quick:
        """The quick score of a candidate."""
        base = self.base[each.cluster]
        times = 1.0 if each.batch is None else each.batch / (self.own_batch or each.batch)
        more = self.double.get(each.cluster, base)
        step_s = base.step_s + (more.step_s - base.step_s) * (times - 1)
        peak = base.peak_bytes + (more.peak_bytes - base.peak_bytes) * (times - 1)
        for name in each.techniques:
            alone = self.alone[each.cluster, name]
            step_s *= alone.step_s / base.step_s
            peak += (alone.peak_bytes - base.peak_bytes) * times
        if each.share:
            shared = self.alone[each.cluster, each.share]
            step_s += max(0.0, shared.step_s - base.step_s)
            peak += shared.peak_bytes - base.peak_bytes
        return Quick(max(step_s, 0.0), max(0, round(peak)))


def effects_of(
    simulator: Simulator, tell: Callable[[int, int, Changed], None] | None = None
) -> Effects:
    """Capture every change alone; interrupted, with what was captured so far.

    Args:
        simulator: of the question.
        tell: told of each before it is captured: number, how many, which.

    Raises:
        GpuscopeError: the code as it stands cannot be predicted on a device.
    """
    clusters = simulator.question.clusters
    case = simulator.case
    own = case.seen.batch if case.seen is not None else None
    base = {each: simulator.quick(Changed(each, "", own, (), own)) for each in clusters}
    double = {}
    if own is not None:
        for each in clusters:
            double[each] = simulator.quick(Changed(each, "", 2 * own, (), own))
    alone: dict[tuple[Cluster, str], Quick] = {}
    kept, out = [], []
    wraps = () if simulator.shares or not case.training else WRAPS
    names, complete = (*wraps, *TECHNIQUES), True
    for number, name in enumerate(names, start=1):
        try:
            if tell is not None:
                tell(number, len(names), _with(clusters[-1], name, own))
            why = _alone(simulator, name, own, base, alone)
        except KeyboardInterrupt:
            complete = False
            break
        if why is not None:
            out.append(why)
        elif name in TECHNIQUES:
            kept.append(name)
    return Effects(tuple(kept), tuple(out), own, base, double, alone, complete)


def _with(cluster: Cluster, name: str, own: int | None) -> Changed:
    """The code with one change."""
    share, techniques = (name, ()) if name in WRAPS else ("", (name,))
    return Changed(cluster, share, own, techniques, own)


def _alone(
    simulator: Simulator,
    name: str,
    own: int | None,
    base: Mapping[Cluster, Quick],
    alone: dict[tuple[Cluster, str], Quick],
) -> Rejected | None:
    """Find what a change does by itself; why it is not combined, where it is not."""
    wrap = name in WRAPS
    wanted = [each for each in simulator.question.clusters if each.n_devices > 1 or not wrap]
    if not wrap:
        fit = find(name).fits(simulator.case)
        if not fit.applies:
            return Rejected(name, "unfit", fit.why)
    most = 0.0
    for cluster in wanted:
        try:
            found = alone[cluster, name] = simulator.quick(_with(cluster, name, own))
        except MissingPackageError:  # no fault of the change
            raise
        except GpuscopeError as error:
            return Rejected(name, "unfit", error.what)
        before = base[cluster]
        most = max(most, 1 - found.step_s / before.step_s, 1 - found.peak_bytes / before.peak_bytes)
    if wrap or most >= LITTLE:
        return None
    return Rejected(
        name,
        "little",
        Text("Alone it saves less than {share} of time and of memory.", share=Percent(LITTLE)),
    )
