"""The job that one rank is part of: how many ranks, which one, on nodes of how many devices.

A `World` is what `torchrun` tells a process; `RankPrograms` is what several of its ranks do, each
distinct one captured once. Pure data; knows no torch.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from gpuscope.document.text import Text
from gpuscope.errors import InvalidValueError
from gpuscope.program.types import Program

if TYPE_CHECKING:
    from gpuscope.program.pipeline.job_programs import PipelineBlocks


@dataclass(frozen=True, slots=True)
class World:
    """One process of a job, as `torchrun` starts it.

    Attributes:
        size: ranks of the job.
        rank: this process.
        local_size: processes (devices) of a node; ranks fill node after node.
    """

    size: int = 1
    rank: int = 0
    local_size: int = 8

    def __post_init__(self) -> None:
        """Refuse what cannot be.

        Raises:
            InvalidValueError: no ranks, or a rank outside of the job.
        """
        if self.size < 1 or self.local_size < 1:
            raise InvalidValueError(
                Text(
                    "A job of {size} ranks on nodes of {local_size} cannot be.",
                    size=self.size,
                    local_size=self.local_size,
                ),
                Text("Both are one or more."),
                Text("Type for example: --on 8xh200"),
            )
        if not 0 <= self.rank < self.size:
            raise InvalidValueError(
                Text("There is no rank {rank} in a job of {size}.", rank=self.rank, size=self.size),
                Text("Ranks go from 0 to {size}.", size=self.size - 1),
                "",
            )

    @property
    def local_rank(self) -> int:
        """The device of the node that this rank uses."""
        return self.rank % self.local_size

    @property
    def node(self) -> int:
        """Which node it runs on."""
        return self.rank // self.local_size

    def at(self, rank: int) -> World:
        """The same job seen from another rank."""
        return replace(self, rank=rank)

    def environment(self) -> dict[str, str]:
        """The variables that `torchrun` sets for this process."""
        local = min(self.local_size, self.size - self.node * self.local_size)
        return {
            "RANK": str(self.rank),
            "WORLD_SIZE": str(self.size),
            "LOCAL_RANK": str(self.local_rank),
            "LOCAL_WORLD_SIZE": str(local),
            "GROUP_RANK": str(self.node),
            "GROUP_WORLD_SIZE": str(-(-self.size // self.local_size)),
            "ROLE_RANK": str(self.rank),
            "ROLE_WORLD_SIZE": str(self.size),
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": "29500",
        }


@dataclass(frozen=True, slots=True)
class RankPrograms:
    """What the ranks of a job do: each distinct program once, and which ranks run it.

    Attributes:
        programs: captured programs, by rising rank (`Program.rank` is the rank captured).
        members: for each program, the ranks that run an equal one, the captured one included.
            Together they are all ranks of the job.
        pipeline: where the programs would be too long, the stages that they are made of: each pass
            of a microbatch is then one operator in `programs`, without work of its own, and
            `gpuscope.timeline.pipeline_anew.ranks_anew` costs them. None elsewhere.
    """

    programs: tuple[Program, ...]
    members: tuple[tuple[int, ...], ...]
    pipeline: PipelineBlocks | None = None

    @property
    def world_size(self) -> int:
        """Ranks of the job."""
        return sum(len(ranks) for ranks in self.members)

    @property
    def equal(self) -> bool:
        """Whether all ranks do the same."""
        return len(self.programs) == 1

    def of(self, rank: int) -> Program:
        """The program that `rank` runs, as its representative was captured.

        Raises:
            InvalidValueError: no such rank.
        """
        for program, ranks in zip(self.programs, self.members, strict=True):
            if rank in ranks:
                return program
        raise InvalidValueError(
            Text("There is no rank {rank}.", rank=rank),
            Text("The job has {world_size}.", world_size=self.world_size),
            "",
        )


def with_note(captured: Program | RankPrograms, note: Text) -> Program | RankPrograms:
    """What was captured, with a sentence for its reader after those that it has."""
    if isinstance(captured, Program):
        return replace(captured, assumptions=(*captured.assumptions, note))
    noted = (replace(p, assumptions=(*p.assumptions, note)) for p in captured.programs)
    return replace(captured, programs=tuple(noted))
