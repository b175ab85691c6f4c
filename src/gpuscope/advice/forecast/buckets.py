"""Buckets for lengths that vary: how many sizes to pad sequences to, which, and what that gains.

Engines and XLA make a program for each size: a graph recorded, an engine built, a step compiled. So
sequences are padded to a few sizes. With one, all are padded to the longest, and the device works
on padding; with more, less so. Steps of candidate sizes are predicted; which of them are the best
for so many buckets is found exactly, by dynamic programming over the sorted lengths.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from gpuscope import api
from gpuscope.advice.forecast.changed_programs import ChangedPrograms
from gpuscope.document.text import Text, sentences
from gpuscope.errors import InvalidValueError, WorkloadError
from gpuscope.hardware import calibration_for
from gpuscope.prediction import predict_captured

if TYPE_CHECKING:
    from gpuscope.capturing import Workload
    from gpuscope.program.workload import WorkloadOptions

__all__ = [
    "BucketAdvice",
    "Buckets",
    "advise_buckets",
    "best_buckets",
    "candidates",
    "check_longest",
]

FLAT = 0.02
"""A further bucket is worth it if it shortens the mean step by more than this."""

_MULTIPLE = 64
"""Sizes are multiples of this, where sequences are long: tiles of products are filled."""

_CAPTURED, _COMPILED = 12, 5
"""Candidate sizes at most, where a capture takes a second, and where XLA compiles each."""

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Buckets:
    """A choice of sizes.

    Attributes:
        sizes: rising; the last holds the longest sequence.
        mean_step_s: of a step on a sequence (or on a batch of equal ones), padded.
        padding: share of all tokens worked on that are padding.
    """

    sizes: tuple[int, ...]
    mean_step_s: float
    padding: float


@dataclass(frozen=True, slots=True)
class BucketAdvice:
    """What padding to so many sizes costs.

    Attributes:
        lengths: sequences that the choice was made for, and how many different lengths they have.
        different: lengths.
        steps: (size, predicted step in seconds) of every candidate.
        choices: the best for one bucket, for two, ...
        best: the fewest buckets within 2 % of the shortest mean step.
        compiles: XLA compiles a step for each size.
    """

    lengths: int
    different: int
    steps: tuple[tuple[int, float], ...]
    choices: tuple[Buckets, ...]
    best: Buckets
    compiles: bool = False

    @property
    def gain(self) -> float:
        """Mean step with all padded to the longest over that with the best buckets."""
        return self.choices[0].mean_step_s / self.best.mean_step_s


def advise_buckets(
    workload: Workload,
    lengths: str | Sequence[int],
    on: api.Target = "h200",
    *,
    options: WorkloadOptions | None = None,
    calibration: api.Own | None = None,
    changes: Collection[str] = (),
    say: Say = lambda text: None,
) -> BucketAdvice:
    """Find the sizes to pad sequences to, with a few predictions.

    Args:
        workload: a graph with a dynamic axis of the sequence, or code whose build function has an
            argument `seq`.
        lengths: of sequences, see `gpuscope.program.models.rows.lengths_of`.
        on, options, calibration: see `gpuscope.predict`.
        changes: names of changes to make first, such as those of `Advice.best`.
        say: told what is being done.

    Raises:
        InvalidValueError: these are no lengths, or the workload has no sequence to vary.
        GpuscopeError: as `gpuscope.predict`.
    """
    from gpuscope.program.jax.workload import is_jax
    from gpuscope.program.models.rows import lengths_of
    from gpuscope.program.workload import WorkloadOptions

    found, base = lengths_of(lengths), options or WorkloadOptions()
    compiles = is_jax(workload)
    sizes = candidates(found, _COMPILED if compiles else _CAPTURED)
    cluster = api.resolve_target(on)
    constants = api.resolve_calibration(on, calibration) or calibration_for(cluster.device)

    def step_s(size: int) -> float:
        say(Text("Predicting sequences of {size} …", size=size))
        sized = with_sequence(workload, base, size)
        try:
            captured = ChangedPrograms(workload, cluster, sized).of(changes)
        except WorkloadError as error:
            raise _too_long(size, error) from error
        return predict_captured(captured, cluster, constants, outcomes=False).step_time_s

    steps = [(size, step_s(size)) for size in reversed(sizes)][::-1]  # the longest may be too long
    choices = best_buckets(found, steps)
    shortest = min(each.mean_step_s for each in choices)
    best = next(each for each in choices if each.mean_step_s <= shortest * (1 + FLAT))
    return BucketAdvice(len(found), len(set(found)), tuple(steps), choices, best, compiles)


def check_longest(
    workload: Workload, lengths: str | Sequence[int], options: WorkloadOptions, on: api.Target
) -> int:
    """The longest size that sequences are padded to; a graph is tried with it, which takes seconds.

    Raises:
        InvalidValueError: as `advise_buckets`.
    """
    from gpuscope.program.models.rows import lengths_of

    longest = candidates(lengths_of(lengths), 1)[-1]
    sized = with_sequence(workload, options, longest)
    if sized.axes:
        try:
            ChangedPrograms(workload, api.resolve_target(on), sized).of()
        except WorkloadError as error:
            raise _too_long(longest, error) from error
    return longest


def _too_long(size: int, error: WorkloadError) -> InvalidValueError:
    return InvalidValueError(
        Text("Sequences of {size} cannot be predicted.", size=size),
        sentences(error.what, error.why),
        Text("Give lengths that the model takes: --lengths 64..512"),
    )


def with_sequence(workload: Any, options: WorkloadOptions, size: int) -> WorkloadOptions:
    """The same with sequences of that length.

    Raises:
        InvalidValueError: a graph whose sequence has no axis that is known as one.
    """
    if not (isinstance(workload, str) and workload.lower().endswith(".onnx")):
        return replace(options, seq=size)
    from pathlib import Path

    from gpuscope.program.onnx.axes import axes_of, axis_for
    from gpuscope.program.onnx.graph import read

    model = read(Path(workload))
    axis = axis_for(model, "seq")
    if axis is None:
        names = ", ".join(axes_of(model))
        raise InvalidValueError(
            Text("{path} has no dynamic axis for --lengths.", path=workload),
            Text("Its dynamic axes: {names}.", names=names) if names else "",
            Text("Export it with a dynamic axis called 'seq'."),
        )
    kept = tuple(each for each in options.axes if each[0] != axis)
    return replace(options, axes=(*kept, (axis, size)), seq=None)


def candidates(lengths: Sequence[int], most: int) -> tuple[int, ...]:
    """Sizes that could be buckets: rounded up, each with about as many sequences below it.

    Args:
        lengths: sorted.
        most: sizes at most; the last holds the longest.
    """
    multiple = _MULTIPLE if lengths[-1] >= 4 * _MULTIPLE else 8 if lengths[-1] >= 32 else 1
    ends = (lengths[-(-len(lengths) * n // most) - 1] for n in range(1, most + 1))
    return tuple(sorted({-(-end // multiple) * multiple for end in ends if end > 0}))


def best_buckets(lengths: Sequence[int], steps: Sequence[tuple[int, float]]) -> tuple[Buckets, ...]:
    """The best choice of one size, of two, ... up to all; each holds the longest.

    Args:
        lengths: of sequences, sorted.
        steps: (size, seconds) by rising size; the last size holds the longest.
    """
    below = [sum(length <= size for length in lengths) for size, _ in steps]
    count = len(steps)
    # least[k][j]: seconds of all sequences up to size j in k + 1 buckets, the last being j.
    least = [[below[j] * steps[j][1] for j in range(count)]]
    before: list[list[int]] = [[-1] * count]
    for k in range(1, count):
        row, places = [], []
        for j in range(count):
            found = [
                (least[k - 1][i] + (below[j] - below[i]) * steps[j][1], i) for i in range(k - 1, j)
            ]
            total, place = min(found, default=(float("inf"), -1))
            row.append(total)
            places.append(place)
        least.append(row)
        before.append(places)
    return tuple(
        _chosen(lengths, steps, below, before[: k + 1], least[k][-1]) for k in range(count)
    )


def _chosen(
    lengths: Sequence[int],
    steps: Sequence[tuple[int, float]],
    below: Sequence[int],
    before: Sequence[Sequence[int]],
    total_s: float,
) -> Buckets:
    place, places = len(steps) - 1, []
    for row in reversed(before):
        places.append(place)
        place = row[place]
    places.reverse()
    ends = [below[place] for place in places]
    worked = sum(
        (end - start) * steps[place][0]
        for place, start, end in zip(places, [0, *ends], ends, strict=False)
    )
    sizes = tuple(steps[place][0] for place in places)
    return Buckets(sizes, total_s / len(lengths), 1 - sum(lengths) / worked)
