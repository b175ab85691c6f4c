"""What would answer a predicted run's findings, for its report: changes of the user's own code."""

from __future__ import annotations

from collections.abc import Callable

from gpuscope.advice.forecast.answers import answers
from gpuscope.advice.forecast.forecaster import Forecaster
from gpuscope.errors import GpuscopeError
from gpuscope.hardware import Calibration, Cluster
from gpuscope.outcomes import simulated
from gpuscope.program.models.settings import WorkloadOptions
from gpuscope.run import Remedy, Run


def answered(
    workload: str,
    run: Run,
    cluster: Cluster,
    *,
    options: WorkloadOptions,
    calibration: Calibration | None,
    say: Callable[[str], None],
) -> tuple[Remedy, ...] | None:
    """Return changes that answer findings, then those that only a changed program answers.

    Args:
        workload: as it was named.
        run: its prediction.
        cluster, options, calibration: of the prediction.
        say: told what is being done.

    Returns:
        None where the code cannot be changed: the report stands without.
    """
    try:
        with Forecaster(
            workload, cluster, options=options, calibration=calibration, say=say
        ) as forecaster:
            if forecaster.door != "torch":  # their changes take a compilation each: `advise` has it
                return None
            found = answers(forecaster, run)
    except GpuscopeError:
        return None
    told = {at for each in found for at in each.findings}
    return (*found, *(each for each in simulated(run) if not told.intersection(each.findings)))
