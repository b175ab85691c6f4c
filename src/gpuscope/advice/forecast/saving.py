"""What was predicted, kept whole for trials: with the sets that a search is likely to ask for."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from gpuscope.advice.forecast.combinations import allowed
from gpuscope.advice.forecast.known_changes import KnownChanges, in_order, with_unforeseen, work_of
from gpuscope.advice.forecast.store import KeptAdvice, advice_of_target, write_advice
from gpuscope.advice.registry import find
from gpuscope.advice.results import Advice
from gpuscope.advice.source.locating import locate
from gpuscope.document.text import Text
from gpuscope.errors import InvalidValueError

if TYPE_CHECKING:
    from gpuscope.advice.forecast.forecaster import Forecaster
    from gpuscope.capturing import Workload
    from gpuscope.program.workload import WorkloadOptions

__all__ = ["keep_advice", "likely_sets"]

Names = tuple[str, ...]


def keep_advice(
    path: str | Path,
    workload: Workload,
    forecaster: Forecaster,
    advice: Advice,
    options: WorkloadOptions | None,
    allow: Sequence[str] = (),
    only: Sequence[str] = (),
) -> KeptAdvice:
    """Write advice with all its forecasts to a file.

    Args:
        path: where to.
        workload: what was predicted.
        forecaster: that made the forecasts.
        advice: what came out.
        options: of the workload.
        allow, only: numerics and names that were asked for.

    Raises:
        InvalidValueError: a captured program or the like, which no trial could find again.
        InputFileError: it cannot be written.
        WorkloadError: the function cannot be found from another process.
    """
    if not isinstance(workload, str) and not callable(workload):
        raise InvalidValueError(
            Text("Advice can be kept only for code that another process finds."),
            Text("Trials run it."),
            Text("Give file.py:build."),
        )
    case, cluster, located = advice.case, forecaster.cluster, locate(workload, options)
    free = tuple(
        f
        for f in advice.singles
        if find(f.names[0]).work_factor(case) == 1 and allowed(f.names[0], case, (*allow, *only))
    )
    chosen = with_unforeseen(in_order(advice.path), free, case)
    forecaster.prepare(likely_sets(chosen))
    unit, per_step = work_of(case.run.samples, case.run.tokens)
    of = advice_of_target(
        located, cluster.device.id, cluster.n_devices, forecaster.objective, tuple(allow)
    )
    kept = KeptAdvice(
        of,
        chosen,
        advice.singles,
        forecaster.forecasts,
        tuple(f.names[0] for f in free),
        case.seen,
        unit,
        per_step,
        advice.refused,
        advice.notes,
    )
    write_advice(path, kept, located.file)
    return kept


def likely_sets(path: Names) -> list[Names]:
    """What a search asks for first: its steps up to the path, what compiles last; its halves; and
    the path without one."""
    rules = KnownChanges()
    ordered = tuple(sorted(path, key=rules.compiles))
    sets = [ordered[:count] for count in range(1, len(ordered) + 1)]
    sets.append(path[: (len(path) + 1) // 2])
    sets += [tuple(n for n in path if n != name) for name in path]
    return [names for names in dict.fromkeys(sets) if names]
