"""Capture a job: which ranks differ, each distinct one once, and which ranks it stands for.

Ranks that send to each other (pipelines) are followed until nobody is missing; without sends the
first and the last rank are compared, and where they differ some of each coordinate of the mesh.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from math import prod

from gpuscope.document.text import Text, plural
from gpuscope.errors import CaptureError, WorkloadError
from gpuscope.program.types import MeshDimension, Op, Program
from gpuscope.program.world import RankPrograms, World

__all__ = ["capture_ranks", "same_work"]

Build = Callable[[], Callable[[], object]]

FEW = 16
"""Up to so many ranks (or coordinates of a dimension of the mesh) are all captured."""

MOST = 64
"""No more ranks than this are captured."""


def capture_ranks(
    build: Build,
    world: World,
    *,
    name: str = "",
    task: str = "",
    samples: int | None = None,
    tokens: int | None = None,
    strict: bool = False,
) -> RankPrograms:
    """Record one steady step of every distinct rank of a job.

    Args:
        build: as `gpuscope.program.capture.capture` takes it; runs once or more for each rank.
        world: the job; its rank is of no account.
        name, task, samples, tokens, strict: as for `capture`.

    Raises:
        WorkloadError: the code fails, on which rank is said where not on all; or ranks wait for
            objects that none sends.
        CaptureError: an operator cannot be captured and `strict` is set, or too many ranks differ.
    """
    options: dict[str, object] = {
        "name": name,
        "task": task,
        "samples": samples,
        "tokens": tokens,
        "strict": strict,
    }
    captures = _Captures(build, world, options)
    captures.take([0])
    if world.size == 1:
        return RankPrograms((captures.done[0],), ((0,),))
    everyone = tuple(range(world.size))
    if not captures.done[0].groups and not captures.peers():  # it talks to nobody
        return RankPrograms((captures.done[0],), (everyone,))
    if captures.peers():
        return _follow_peers(captures)
    captures.take([world.size - 1])
    first, last = captures.done[0], captures.done[world.size - 1]
    if same_work(first, last):
        return RankPrograms((first,), (everyone,))
    return _by_coordinates(captures)


@dataclass
class _Captures:
    """The ranks captured so far."""

    build: Build
    world: World
    options: dict[str, object]
    done: dict[int, Program] = field(default_factory=dict)

    def __post_init__(self) -> None:
        from gpuscope.program.capture.distributed.mail import Mail

        self._mail = Mail()

    def take(self, ranks: Sequence[int]) -> None:
        """Capture these ranks, and those whose objects they need."""
        from gpuscope.program.capture.distributed.mail import PeerFirstError

        pending = [rank for rank in ranks if rank not in self.done]
        while pending:
            before = self._mail.count, len(self.done), len(pending)
            missing: PeerFirstError | None = None
            for rank in sorted(pending):
                try:
                    self._take(rank)
                    pending.remove(rank)
                except PeerFirstError as error:
                    missing = error
                    if error.rank not in pending and error.rank not in self.done:
                        pending.append(error.rank)
            if missing is not None and before == (self._mail.count, len(self.done), len(pending)):
                raise missing

    def _take(self, rank: int) -> None:
        from gpuscope.program.capture import capture
        from gpuscope.program.capture.distributed.mail import PeerFirstError, delivered
        from gpuscope.program.capture.patches import alone

        if len(self.done) >= MOST:
            raise CaptureError(
                Text("More than {most} ranks of this job differ.", most=MOST),
                Text("Each of them would have to be captured on its own."),
                Text("Predict a smaller job of the same kind."),
            )
        try:
            with alone(), delivered(self._mail, rank):
                self.done[rank] = capture(
                    self.build,
                    world=self.world.at(rank),
                    **self.options,  # type: ignore[arg-type]
                )
        except PeerFirstError:
            raise
        except WorkloadError as error:
            if not self.done:
                raise
            which = Text(
                "On rank {rank} (rank {first} ran): {what}",
                rank=rank,
                first=min(self.done),
                what=error.what,
            )
            raise type(error)(which, error.why, error.next_step) from error

    def peers(self) -> set[int]:
        """Ranks that the captured ones send to or receive from."""
        return {op.peer for program in self.done.values() for op in program.ops if op.peer >= 0}


def _follow_peers(captures: _Captures) -> RankPrograms:
    """Capture whoever is sent to, until nobody is missing; other ranks do as one of these."""
    while missing := sorted(captures.peers() - set(captures.done)):
        captures.take(missing)
    world, chain = captures.world, sorted(captures.done)
    members = _like_the_chain(chain, world.size, captures.done[chain[0]].mesh)
    if members is None:
        captures.take(range(min(world.size, MOST + 1)))
        chain = sorted(captures.done)
        members = [(rank,) for rank in chain]
    programs = tuple(
        _told(captures.done[rank], ranks, Text("as its neighbours in the pipeline's place"))
        for rank, ranks in zip(chain, members, strict=True)
    )
    return RankPrograms(programs, tuple(members))


def _like_the_chain(
    chain: Sequence[int], size: int, mesh: Sequence[MeshDimension]
) -> list[tuple[int, ...]] | None:
    """Which ranks do as each rank of a chain of peers; None where nothing tells.

    With a mesh: those with the same coordinates in the dimensions along which the chain goes.
    Without: those at the same place of a chain of the same stride.
    """
    if len(chain) == size:
        return [(rank,) for rank in chain]
    sizes = tuple(d.size for d in mesh)
    if prod(sizes) == size and sizes:
        places = [_coordinates(rank, sizes) for rank in range(size)]
        along = [d for d in range(len(sizes)) if len({places[r][d] for r in chain}) > 1]
        keys = [tuple(places[rank][d] for d in along) for rank in range(size)]
    else:
        stride = chain[1] - chain[0] if len(chain) > 1 else 0
        regular = list(range(chain[0], chain[0] + stride * len(chain), stride)) if stride else []
        if list(chain) != regular or size % (stride * len(chain)):
            return None
        keys = [(rank // stride % len(chain),) for rank in range(size)]
    members: dict[tuple[int, ...], list[int]] = {}
    for rank in range(size):
        members.setdefault(keys[rank], []).append(rank)
    if len({keys[rank] for rank in chain}) != len(chain) or len(members) != len(chain):
        return None
    return [tuple(members[keys[rank]]) for rank in chain]


def _coordinates(rank: int, sizes: Sequence[int]) -> tuple[int, ...]:
    out = []
    for size in reversed(sizes):
        out.append(rank % size)
        rank //= size
    return tuple(reversed(out))


def _by_coordinates(captures: _Captures) -> RankPrograms:
    """Find out along which dimensions of the mesh ranks differ, and capture what differs."""
    world = captures.world
    sizes = tuple(d.size for d in captures.done[0].mesh)
    if prod(sizes) != world.size or not sizes:
        sizes = (world.size,)
    strides = [prod(sizes[d + 1 :]) for d in range(len(sizes))]
    sampled = [_some(size) for size in sizes]
    for d, stride in enumerate(strides):
        captures.take([at * stride for at in sampled[d]])
    first = captures.done[0]
    differ = [
        d
        for d, stride in enumerate(strides)
        if any(not same_work(first, captures.done[at * stride]) for at in sampled[d])
    ] or list(range(len(sizes)))
    corners = list(product(*(sampled[d] for d in differ)))
    captures.take([sum(at * strides[d] for at, d in zip(c, differ, strict=True)) for c in corners])
    classes: list[tuple[Program, list[int]]] = []
    for rank in range(world.size):
        place = _coordinates(rank, sizes)
        like = sum(_nearest(place[d], sampled[d]) * strides[d] for d in differ)
        program = captures.done[rank] if rank in captures.done else captures.done[like]
        known = next((c for c in classes if same_work(c[0], program)), None)
        if known is None:
            classes.append((program, [rank]))
        else:
            known[1].append(rank)
    guessed = any(len(chosen) < size for chosen, size in zip(sampled, sizes, strict=True))
    why = Text("as the nearest rank that was captured") if guessed else Text("")
    return RankPrograms(
        tuple(_told(program, ranks, why) for program, ranks in classes),
        tuple(tuple(ranks) for _, ranks in classes),
    )


def _some(size: int) -> list[int]:
    return list(range(size)) if size <= FEW else [0, 1, size - 1]


def _nearest(at: int, sampled: Sequence[int]) -> int:
    """What stands for a coordinate that was not captured: one from the middle."""
    return at if at in sampled else sampled[1]


def _told(program: Program, ranks: Sequence[int], why: Text) -> Program:
    if not why or len(ranks) == 1:
        return program
    sentence = plural(
        "Rank {rank} was captured; {count} more rank is taken to run {why}.",
        "Rank {rank} was captured; {count} more ranks are taken to run {why}.",
        len(ranks) - 1,
        rank=program.rank,
        why=why,
    )
    return replace(program, assumptions=(*program.assumptions, sentence))


def same_work(one: Program, other: Program) -> bool:
    """Whether two ranks do the same: operator by operator, collective by collective.

    Groups count by their label and size, not by their ranks; peers and storages' numbers do not.
    """
    return len(one.ops) == len(other.ops) and all(
        _work(a, one) == _work(b, other) for a, b in zip(one.ops, other.ops, strict=True)
    )


def _work(op: Op, program: Program) -> tuple[object, ...]:
    group = program.groups[op.group] if op.group >= 0 else None
    shapes = tuple((s.shape, s.stride, s.dtype, s.device) for s in (*op.inputs, *op.outputs))
    return (
        op.name,
        op.overload,
        shapes,
        op.stream,
        op.waits,
        op.phase,
        op.repeat,
        None if group is None else (group.label, group.size),
        op.peer >= 0,
    )
