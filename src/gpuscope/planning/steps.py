"""What a step takes on a machine: captured and simulated, or taken from what was kept of that."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf

from gpuscope.api import Own, recost, resolve_calibration
from gpuscope.capturing import capture_job, capture_pipeline, kept_figures
from gpuscope.document.plain import plain
from gpuscope.hardware import Cluster, calibration_for
from gpuscope.program.microbatches import without_second
from gpuscope.program.models.settings import WorkloadOptions
from gpuscope.program.pipeline.job_programs import PipelineBlocks, ranks_of
from gpuscope.program.types import Program
from gpuscope.program.world import RankPrograms
from gpuscope.timeline.recost import Recosted
from gpuscope.timeline.recost_ranks import RecostedJob, recost_ranks

__all__ = ["Steps"]


@dataclass(frozen=True, slots=True)
class _Step:
    """One of the two: of a job whose ranks do the same, or not."""

    alike: Recosted | None
    ranks: RecostedJob | None


class Steps:
    """Steps of one model; what was captured once serves every device.

    Args:
        model: name of a built-in decoder.
        calibration: constants of a machine of its own, see `gpuscope.predict`.
    """

    def __init__(self, model: str, calibration: Own | None = None) -> None:
        self.model = model
        self._calibration = calibration
        self._captured: dict[object, Program | RankPrograms] = {}
        self._stages: dict[object, PipelineBlocks] = {}

    def of(
        self,
        cluster: Cluster,
        options: WorkloadOptions,
        *,
        memory: bool,
        interval: bool = True,
        longer: WorkloadOptions | None = None,
        first: int = 0,
        most_bytes: float = inf,
    ) -> Recosted | RecostedJob:
        """One step.

        Args:
            cluster: what it runs on.
            options: of the workload.
            memory: simulate the memory.
            interval: compute the 80 % interval.
            longer: the same with one micro-batch more, recorded for the question anyway: this step
                is made of that one, without memory.
            first: so many micro-batches alone of a pipeline's step, recorded as the whole is; 0:
                all of them.
            most_bytes: of memory: of a job whose ranks differ and take more no time is simulated.

        Raises:
            GpuscopeError: it cannot be captured, or not run on this device.
        """

        def make() -> _Step:
            begin = self._begin(cluster, options, first) if first else None
            captured = begin or self._shorter(cluster, longer) or self._programs(cluster, options)
            found = self._recosted(captured, cluster, memory, interval, most_bytes)
            return _Step(found, None) if isinstance(found, Recosted) else _Step(None, found)

        if self._calibration is not None:
            step = make()
        else:
            about = {"on": plain(cluster), "memory": memory, "interval": interval}
            about["recorded"] = longer is None
            about |= {"first": first, "most_bytes": most_bytes if most_bytes < inf else None}
            step = kept_figures(_Step, self.model, options, cluster, about, make)
        found = step.alike or step.ranks
        assert found is not None
        return found

    def _recosted(
        self,
        captured: Program | RankPrograms,
        cluster: Cluster,
        memory: bool,
        interval: bool,
        most_bytes: float,
    ) -> Recosted | RecostedJob:
        own = self._calibration
        if isinstance(captured, RankPrograms) and not captured.equal:
            return recost_ranks(
                captured,
                cluster.device,
                resolve_calibration(cluster, own) or calibration_for(cluster.device),
                cluster=cluster,
                interval=interval,
                memory=memory,
                most_bytes=most_bytes,
            )
        return recost(captured, cluster, calibration=own, memory=memory, interval=interval)

    def _shorter(
        self, cluster: Cluster, longer: WorkloadOptions | None
    ) -> Program | RankPrograms | None:
        """A step without its second micro-batch; None where it has none, or none is meant."""
        if longer is None:
            return None
        captured = self._programs(cluster, longer)
        if isinstance(captured, Program):
            return without_second(captured)
        fewer = [without_second(program) for program in captured.programs]
        found = tuple(program for program in fewer if program is not None)
        return replace(captured, programs=found) if len(found) == len(fewer) else None

    def _begin(self, cluster: Cluster, options: WorkloadOptions, first: int) -> RankPrograms:
        """The first micro-batches of a pipeline's step."""
        key = options, cluster.n_devices, cluster.devices_per_node
        if key not in self._stages:
            self._stages[key] = capture_pipeline(self.model, cluster, options)
        return ranks_of(self._stages[key], first)

    def _programs(self, cluster: Cluster, options: WorkloadOptions) -> Program | RankPrograms:
        key = options, cluster.n_devices, cluster.devices_per_node
        if key not in self._captured:
            self._captured[key] = capture_job(self.model, cluster, options, keep=False)
        return self._captured[key]
