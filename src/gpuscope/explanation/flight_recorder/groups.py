"""Puts the calls of all ranks side by side: per process group, how far each rank came."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gpuscope.explanation.flight_recorder.calls import OPEN, Call, Dumps, Group, Key

_ALIKE = frozenset(
    {
        "all_reduce",
        "allreduce",
        "reduce",
        "broadcast",
        "reduce_scatter",
        "_reduce_scatter_base",
        "all_gather",
        "_all_gather_base",
        "all_gather_into_tensor",
        "reduce_scatter_tensor",
        "barrier",
    }
)
"""Operations whose input has the same number of elements on every rank."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far one rank came in one group, by sequence number.

    Attributes:
        rank: the rank.
        first: its oldest collective that is still noted; older ones were overwritten.
        called: its last collective; 0 for none.
        completed: the last that ended; None if the backend does not note it.
        waiting: its first collective that did not end; None if there is none.
    """

    rank: int
    first: int
    called: int
    completed: int | None
    waiting: int | None


@dataclass(frozen=True, slots=True)
class GroupState:
    """A process group at the time of the dump.

    Attributes:
        group: its name and description.
        members: its ranks, as far as is known.
        undumped: members whose dump is missing or unreadable.
        progress: one for each member with a dump.
        stuck: the first collective that not every rank ended; None if all did.
        parted: the first collective at which ranks called different things; None if none.
        at_stuck, at_parted: each rank's call of it; ranks that made none are left out.
    """

    group: Group
    members: tuple[int, ...]
    undumped: tuple[int, ...]
    progress: tuple[Progress, ...]
    stuck: int | None
    parted: int | None
    at_stuck: Mapping[int, Call]
    at_parted: Mapping[int, Call]

    @property
    def absent(self) -> tuple[int, ...]:
        """Ranks that never called the stuck collective."""
        if self.stuck is None:
            return ()
        return tuple(p.rank for p in self.progress if p.called < self.stuck)


def group_states(dumps: Dumps) -> list[GroupState]:
    """Every group with collectives in it, by name."""
    by_group: dict[str, dict[int, dict[int, Call]]] = {}
    for rank, dump in dumps.ranks.items():
        for key, call in dump.calls.items():
            if not key.is_p2p:
                by_group.setdefault(key.group, {}).setdefault(rank, {})[key.sequence] = call
    return [_state(dumps, name, calls) for name, calls in sorted(by_group.items())]


def pending_sends(dumps: Dumps) -> dict[int, list[tuple[Key, Call]]]:
    """Sends and receives that did not end, by rank, the oldest first."""
    return {
        rank: pending
        for rank, dump in dumps.ranks.items()
        if (
            pending := [
                (key, call)
                for key, call in dump.calls.items()
                if key.is_p2p and call.state in ("scheduled", "started")
            ]
        )
    }


def world(dumps: Dumps) -> tuple[int, ...]:
    """All ranks that any dump speaks of, and those before the highest of them."""
    known = set(dumps.ranks) | {unread.rank for unread in dumps.unread}
    for dump in dumps.ranks.values():
        for group in dump.groups.values():
            known.update(group.ranks or ())
    return tuple(sorted(known))


def _state(dumps: Dumps, name: str, calls: dict[int, dict[int, Call]]) -> GroupState:
    group = _group(dumps, name)
    members = group.ranks or tuple(sorted(calls))
    present = [rank for rank in members if rank in dumps.ranks]
    progress = tuple(_progress(rank, calls.get(rank, {})) for rank in present)
    stuck = _stuck(progress, calls)
    parted = _parted(calls)
    return GroupState(
        group,
        members,
        tuple(rank for rank in members if rank not in dumps.ranks),
        progress,
        stuck,
        parted,
        _at(calls, stuck),
        _at(calls, parted),
    )


def _group(dumps: Dumps, name: str) -> Group:
    """The group as the first dump that lists its ranks tells it."""
    known = [dump.groups[name] for dump in dumps.ranks.values() if name in dump.groups]
    listed = [group for group in known if group.ranks]
    return (listed or known or [Group(name, "", None)])[0]


def _progress(rank: int, calls: dict[int, Call]) -> Progress:
    if not calls:
        return Progress(rank, 1, 0, 0, None)
    noted = any(call.state != "unknown" for call in calls.values())
    ended = [number for number, call in calls.items() if call.state == "completed"]
    waiting = [n for n, call in calls.items() if call.state in OPEN]
    first = min(calls)
    completed = max(ended, default=first - 1) if noted else None
    return Progress(rank, first, max(calls), completed, min(waiting, default=None))


def _stuck(progress: tuple[Progress, ...], calls: dict[int, dict[int, Call]]) -> int | None:
    """The first number that waits, or that some rank lacks after its last call.

    What ended on every rank that notes it is no hang: on the others it was overwritten.
    """
    candidates = [p.waiting for p in progress if p.waiting is not None]
    fewest = min((p.called for p in progress), default=0)
    open_numbers = (
        number
        for of_rank in calls.values()
        for number, call in of_rank.items()
        if number > fewest and call.state != "completed"
    )
    first = min(open_numbers, default=None)
    if first is not None:
        candidates.append(first)
    return min(candidates, default=None)


def _parted(calls: dict[int, dict[int, Call]]) -> int | None:
    """The first number at which two ranks' calls cannot belong together."""
    reference: dict[int, Call] = {}
    found: int | None = None
    for of_rank in calls.values():
        for number, call in of_rank.items():
            first = reference.setdefault(number, call)
            if first is not call and _differ(first, call) and (found is None or number < found):
                found = number
    return found


def _differ(a: Call, b: Call) -> bool:
    """Whether two calls cannot be one collective; two that ended were one."""
    if a.state == b.state == "completed":
        return False
    if a.operation != b.operation:
        return True
    if a.operation not in _ALIKE:
        return False
    return a.elements != b.elements or a.dtypes != b.dtypes


def _at(calls: dict[int, dict[int, Call]], number: int | None) -> dict[int, Call]:
    if number is None:
        return {}
    return {rank: of[number] for rank, of in sorted(calls.items()) if number in of}
