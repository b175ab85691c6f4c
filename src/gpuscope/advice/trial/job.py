"""What a worker process is asked to do, as one line of JSON."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace

from gpuscope.advice.results import Target

__all__ = ["Job"]


@dataclass(frozen=True, slots=True)
class Job:
    """One variant of a workload in one process.

    Attributes:
        target: what runs.
        names: changes made to it.
        device: "cuda", "cuda:1", "cpu"; None takes this machine's GPU.
        seed: of every random generator before anything is built.
        observe: steps whose results are collected; 0 prepares for timing instead.
        perturb: relative noise that weights get before the first step (see `tolerances`).
        noise: which draw of that noise.
        share: path of the file of those who share the device (see `advice.sharing`); "" alone.
        memory_bytes: device memory that the process may take; None for all of it.
        own_changes: paths of Python files that register further changes.
        allow_writes: what a script writes is real, else it goes to a copy of the files.
        rank, processes: of a distributed workload.
        beside: the process whose private copy of the files this one shares (`guard.enter`).
        last_pass: of a script: the pass over its loader that begins again as often as needed; 0:
            loaders end as they do.
    """

    target: Target
    names: tuple[str, ...] = ()
    device: str | None = None
    seed: int = 0
    observe: int = 0
    perturb: float = 0.0
    noise: int = 0
    share: str = ""
    memory_bytes: int | None = None
    own_changes: tuple[str, ...] = ()
    allow_writes: bool = False
    rank: int = 0
    processes: int = 1
    beside: int | None = None
    last_pass: int = 0

    def line(self) -> str:
        """As one line of JSON."""
        return json.dumps(asdict(self), ensure_ascii=False)

    @classmethod
    def of_line(cls, line: str) -> Job:
        """The job of a line that `line` wrote."""
        raw = json.loads(line)
        target = raw.pop("target")
        target = Target(
            target["kind"], target["name"], dict(target["options"]), tuple(target["arguments"])
        )
        job = cls(target, **raw)
        return replace(job, names=tuple(job.names), own_changes=tuple(job.own_changes))
