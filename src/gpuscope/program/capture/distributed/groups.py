"""The process groups of a capture: which ranks, what for, which of them the step uses."""

from __future__ import annotations

from typing import Any

from gpuscope.document.text import Text
from gpuscope.errors import WorkloadError
from gpuscope.program.types import MeshDimension, ProcessGroup

WORLD = "world"


class Groups:
    """Groups by torch's name.

    Attributes:
        rank: of this process.
        world_size: ranks of the job.
        mesh: the largest mesh made so far.
    """

    def __init__(self) -> None:
        self.rank = 0
        self.world_size = 1
        self.mesh: tuple[MeshDimension, ...] = ()
        self._labels: dict[str, str] = {}
        self._backends: dict[str, str] = {}
        self._used: dict[str, int] = {}
        self._known: dict[str, ProcessGroup] = {}

    def begin_step(self) -> None:
        """Only groups used from now on are part of the program."""
        self._used.clear()

    def made(self, name: str, label: str, ranks: tuple[int, ...], backend: str = "") -> None:
        """A group was made by the user's code, which asked for a backend by name."""
        self._known[name] = ProcessGroup(name, label, ranks)
        self._backends[name] = backend

    def backend(self, name: str) -> str:
        """The backend that was asked for, "" if none was."""
        return self._backends.get(name, "")

    def name(self, name: str, label: str) -> None:
        """A mesh says what a group is for (the first to say so is right)."""
        if label and self._labels.get(name, WORLD) == WORLD:
            self._labels[name] = label

    def made_mesh(self, names: tuple[str, ...] | None, sizes: tuple[int, ...]) -> None:
        """A mesh was made; the largest, then the one of most dimensions, is the program's."""
        named = names or ("",) * len(sizes)
        mesh = tuple(MeshDimension(n, s) for n, s in zip(named, sizes, strict=True))
        if _order(mesh) > _order(self.mesh):
            self.mesh = mesh

    def index(self, name: str) -> int:
        """Index in `Program.groups` of the group of that name.

        Raises:
            WorkloadError: it was made before the capture.
        """
        found = self._used.get(name)
        if found is None:
            if name not in self._known:
                raise WorkloadError(
                    Text("The step uses a process group that was made before the capture."),
                    Text("It belongs to a real job, which a capture must not talk to."),
                    Text("Call init_process_group inside of build()."),
                )
            found = self._used[name] = len(self._used)
        return found

    def global_rank(self, name: str, rank: int) -> int:
        """The job's rank of a group's rank; -1 for none."""
        ranks = self._known[name].ranks
        return ranks[rank] if 0 <= rank < len(ranks) else -1

    def ranks(self, name: str) -> tuple[int, ...]:
        """The job's ranks of a group."""
        return self._known[name].ranks

    def used(self) -> tuple[ProcessGroup, ...]:
        """The groups of the step's collectives, by index."""
        out = []
        for name in self._used:
            known = self._known[name]
            out.append(ProcessGroup(name, self._labels.get(name, known.label), known.ranks))
        return tuple(out)


def _order(mesh: tuple[MeshDimension, ...]) -> tuple[int, int]:
    size = 1
    for dimension in mesh:
        size *= dimension.size
    return (size, len(mesh)) if mesh else (0, 0)


def group_name(group: Any) -> str:
    """torch's name of a group, as its collectives give it (object, script object or string)."""
    if isinstance(group, str):
        return group
    import torch

    if isinstance(group, torch.ScriptObject):
        group = torch.distributed.ProcessGroup.unbox(group)
    return str(group.group_name)
