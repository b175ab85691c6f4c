"""A job of equal ranks with one taken apart, so that it can be slower than the others.

Where one rank differs, so does what the others wait for: its tensor parallel neighbours meet it in
other groups than its data parallel ones. On a mesh, ranks are alike if they differ from it in the
same dimensions: one sort for each set of dimensions, two for a plain job, four for a mesh of two.
Each sort runs the program that was captured, as a rank of its own: the groups and peers are those
at its place of the mesh.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import product

from gpuscope.document.text import Text
from gpuscope.errors import InvalidValueError, UnsupportedError
from gpuscope.program.types import Op, ProcessGroup, Program
from gpuscope.program.world import RankPrograms

__all__ = ["apart"]

Place = tuple[int, ...]


def apart(programs: RankPrograms, rank: int) -> RankPrograms:
    """The same job with `rank` as a sort of its own; it comes first.

    Args:
        programs: of a job whose ranks are all equal.
        rank: which one to take apart.

    Raises:
        InvalidValueError: no such rank.
        UnsupportedError: the ranks are not all equal, or no regular mesh.
    """
    program = programs.programs[0]
    world = programs.world_size
    if not 0 <= rank < world:
        raise InvalidValueError(
            Text("There is no rank {rank} in a job of {world}.", rank=rank, world=world),
            Text("Ranks go from 0 to {world}.", world=world - 1),
            "",
        )
    sizes = tuple(dimension.size for dimension in program.mesh) or (world,)
    if not programs.equal or math.prod(sizes) != world:
        raise UnsupportedError(
            Text("One rank can only be taken apart where all do the same on one mesh."),
            Text(
                "This job has {programs} sorts of ranks and a mesh of {mesh} for {world}.",
                programs=len(programs.programs),
                mesh=math.prod(sizes),
                world=world,
            ),
            "",
        )
    mesh = _Mesh(sizes)
    alike: dict[tuple[bool, ...], list[int]] = {}
    own = mesh.place(rank)
    for other in range(world):
        differs = tuple(a != b for a, b in zip(mesh.place(other), own, strict=True))
        alike.setdefault(differs, []).append(other)
    made, members = [], []
    for differs, ranks in sorted(alike.items()):
        place = tuple((at + d) % n for at, d, n in zip(own, differs, sizes, strict=True))
        made.append(_as_rank(program, mesh, mesh.rank(place)))
        members.append(tuple(ranks))
    return RankPrograms(tuple(made), tuple(members))


class _Mesh:
    """Ranks by place, the last dimension running fastest, as `init_device_mesh` lays them out."""

    def __init__(self, sizes: Sequence[int]) -> None:
        self.sizes = tuple(sizes)

    def place(self, rank: int) -> Place:
        """Where a rank stands."""
        found = []
        for size in reversed(self.sizes):
            found.append(rank % size)
            rank //= size
        return tuple(reversed(found))

    def rank(self, place: Place) -> int:
        """Who stands there."""
        number = 0
        for at, size in zip(place, self.sizes, strict=True):
            number = number * size + at
        return number

    def moved(self, rank: int, steps: Place) -> int:
        """The rank so many places further on in each dimension, around the end."""
        place = self.place(rank)
        return self.rank(
            tuple((at + step) % n for at, step, n in zip(place, steps, self.sizes, strict=True))
        )


def _as_rank(program: Program, mesh: _Mesh, rank: int) -> Program:
    """The program as another rank runs it."""
    if rank == program.rank:
        return program
    steps = tuple(b - a for a, b in zip(mesh.place(program.rank), mesh.place(rank), strict=True))
    groups = tuple(_moved_group(group, mesh, steps) for group in program.groups)
    return replace(
        program, rank=rank, groups=groups, ops=tuple(_moved(op, mesh, steps) for op in program.ops)
    )


def _moved(op: Op, mesh: _Mesh, steps: Place) -> Op:
    return replace(op, peer=mesh.moved(op.peer, steps)) if op.peer >= 0 else op


def _moved_group(group: ProcessGroup, mesh: _Mesh, steps: Place) -> ProcessGroup:
    """The group of the same dimensions at another place.

    Raises:
        UnsupportedError: it is no part of the mesh, all along some of its dimensions.
    """
    places = [mesh.place(rank) for rank in group.ranks]
    spans = [sorted({place[d] for place in places}) for d in range(len(mesh.sizes))]
    along = [len(span) > 1 for span in spans]
    whole = all(len(s) == n for s, n, a in zip(spans, mesh.sizes, along, strict=True) if a)
    if not whole or set(places) != set(product(*spans)):
        raise UnsupportedError(
            Text("The group '{group}' is no row of the mesh.", group=group.label or group.name),
            Text("Which group the other ranks have in its place cannot be told."),
            "",
        )
    across = tuple(0 if a else step for a, step in zip(along, steps, strict=True))
    return replace(group, ranks=tuple(mesh.moved(rank, across) for rank in group.ranks))
