"""Which calls of distinct ranks are one: who meets whom, and whether they do.

Each distinct program stands for many equal ranks, its class. A group couples the classes of its
ranks; ranks of one class come at one time and need not be coupled. Groups of two representatives
are one channel if they have the same label and the same classes at the same places, so a pipeline
rank's group matches that of its neighbour, whichever replica of it was captured. Sends and receives
are coupled by class likewise. Within a channel the first call meets the first, and so on; where
they differ in sort, dtype or size the job would hang (or worse), and that is an error.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from gpuscope.cost.types import CostedOp, CostedProgram
from gpuscope.document.text import Text
from gpuscope.errors import HangError, InvalidValueError
from gpuscope.program.types import Op, ProcessGroup
from gpuscope.timeline.messages import message_of

Key = tuple[object, ...]


@dataclass(frozen=True, slots=True)
class Call:
    """One communication call of a class in a step."""

    position: int
    op: Op

    @property
    def words(self) -> Text:
        """The call with the user's line."""
        words = message_of(self.op).words
        return Text("{call} at {line}", call=words, line=self.op.site) if self.op.site else words


@dataclass(frozen=True, slots=True)
class Seat:
    """One party of a channel: a class, on the sending or receiving side where there are sides.

    Attributes:
        channel: index of the channel.
        member: index of the class.
        side: "send", "recv" or "" (collectives).
        calls: its calls of a step, in order; repeated operators as often as they are called.
    """

    channel: int
    member: int
    side: str
    calls: list[Call] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Coupling:
    """How the classes of a job meet.

    Attributes:
        seats: all parties of all channels.
        parties: how many seats each channel has.
        meetings: for each class: position of an operator -> index of its seat.
        groups: for each class: the canonical group of each of `Program.groups` (the ranks drawn
            instead of those that they stand for, the same on all classes that meet in it).
        notes: what could not be coupled.
    """

    seats: tuple[Seat, ...]
    parties: tuple[int, ...]
    meetings: tuple[Mapping[int, int], ...]
    groups: tuple[tuple[ProcessGroup, ...], ...]
    notes: tuple[str, ...] = ()


def couple(costed: Sequence[CostedProgram], members: Sequence[tuple[int, ...]]) -> Coupling:
    """Find out which calls meet.

    Args:
        costed: each distinct program.
        members: the ranks that run it, that of the program included.

    Raises:
        InvalidValueError: programs and members do not fit together.
        HangError: calls that should meet differ, or have no partner.
    """
    _check(costed, members)
    table = _Table(costed, members)
    for member, program in enumerate(costed):
        for position, item in enumerate(program.ops):
            if communicates(item):
                table.add(member, position, item.op)
    table.judge()
    return table.coupling()


def communicates(item: CostedOp) -> bool:
    """Whether an operator occupies a link."""
    return any(kernel.lane == "link" for kernel in item.kernels)


def _check(costed: Sequence[CostedProgram], members: Sequence[tuple[int, ...]]) -> None:
    if not costed or len(costed) != len(members):
        raise InvalidValueError(
            Text(
                "{costed} programs cannot be simulated as {members} sorts of ranks.",
                costed=len(costed),
                members=len(members),
            ),
            Text("Each program needs the ranks that run it."),
            "",
        )
    seen: set[int] = set()
    for program, ranks in zip(costed, members, strict=True):
        if program.program.rank not in ranks:
            raise InvalidValueError(
                Text(
                    "The program of rank {rank} is not among its own members.",
                    rank=program.program.rank,
                ),
                Text("The ranks that run a program include the one it was captured on."),
                "",
            )
        if seen & set(ranks):
            raise InvalidValueError(
                Text("Rank {seen} runs two programs.", seen=min(seen & set(ranks))),
                Text("Each rank runs one."),
                "",
            )
        seen |= set(ranks)


class _Table:
    """Channels and seats as they are found."""

    def __init__(self, costed: Sequence[CostedProgram], members: Sequence[tuple[int, ...]]) -> None:
        self.costed, self.members = costed, members
        self.rank = [item.program.rank for item in costed]
        self.class_of = {rank: n for n, ranks in enumerate(members) for rank in ranks}
        self.keys = [self._group_keys(item.program.groups) for item in costed]
        self.channels: dict[Key, int] = {}
        self.literal: dict[int, set[int]] = {}
        self.label: dict[int, str] = {}
        self.seats: dict[tuple[int, int, str], Seat] = {}
        self.free: set[int] = set()
        self.notes: list[str] = []

    def _classes(self, ranks: Sequence[int]) -> tuple[int, ...]:
        return tuple(self.class_of[rank] for rank in ranks if rank in self.class_of)

    def _group_keys(self, groups: Sequence[ProcessGroup]) -> list[Key]:
        """What a group has in common with the same one on other ranks."""
        count: dict[Key, int] = {}
        keys = []
        for group in groups:
            key: Key = (group.label, self._classes(group.ranks))
            keys.append((*key, count.get(key, 0)))
            count[key] = count.get(key, 0) + 1
        return keys

    def add(self, member: int, position: int, op: Op) -> None:
        """Take one communication operator of a class."""
        groups = self.costed[member].program.groups
        known = 0 <= op.group < len(groups)
        if op.peer >= 0:
            other = self.class_of.get(op.peer)
            if other is None:
                return
            side = "recv" if "recv" in op.name else "send"
            ends = (member, other) if side == "send" else (other, member)
            label = groups[op.group].label or "sends" if known else "sends"
            self._sit(("pair", label, *ends), label, {op.peer}, member, side, position, op)
        elif known:
            key, group = self.keys[member][op.group], groups[op.group]
            if len(set(self._classes(group.ranks))) > 1:
                label = group.label or group.name
                self._sit(("group", *key), label, set(group.ranks), member, "", position, op)

    def _sit(
        self, key: Key, label: str, ranks: set[int], member: int, side: str, position: int, op: Op
    ) -> None:
        channel = self.channels.setdefault(key, len(self.channels))
        self.literal.setdefault(channel, set()).update(ranks & set(self.rank))
        self.label[channel] = label
        seat = self.seats.setdefault((channel, member, side), Seat(channel, member, side))
        seat.calls.extend([Call(position, op)] * op.repeat)

    def judge(self) -> None:
        """Compare what meets; channels that only equal classes could tell of are left free.

        Raises:
            HangError: calls differ, or have no partner.
        """
        for key, channel in self.channels.items():
            if key[0] == "pair":
                self._judge_pair(key, channel)
            else:
                self._judge_group(key, channel)

    def _judge_group(self, key: Key, channel: int) -> None:
        classes = key[2] if isinstance(key[2], tuple) else ()
        seats = []
        for member in dict.fromkeys(classes):
            seat = self.seats.get((channel, member, ""))
            if seat is not None:
                seats.append(seat)
            elif self.rank[member] not in self.literal[channel]:
                self._release(channel, self.rank[member])
                return
            else:
                seats.append(Seat(channel, member, ""))
        for seat in seats[1:]:
            self._compare(channel, seats[0], seat)

    def _judge_pair(self, key: Key, channel: int) -> None:
        sender, receiver = (int(str(n)) for n in key[2:4])
        sends = self.seats.get((channel, sender, "send"), Seat(channel, sender, "send"))
        receives = self.seats.get((channel, receiver, "recv"), Seat(channel, receiver, "recv"))
        present = self.literal[channel]
        certain = (
            sender == receiver
            or (
                self.rank[receiver] in present
                and (self.rank[sender] in present or not receives.calls)
            )
            or (self.rank[sender] in present and not sends.calls)
        )
        sent = len(sends.calls) * len(self.members[sender])
        even = sent == len(receives.calls) * len(self.members[receiver])
        if len(sends.calls) != len(receives.calls) and (even or not certain):
            self._release(channel, self.rank[receiver])
            return
        self._compare(channel, sends, receives)

    def _release(self, channel: int, rank: int) -> None:
        """Leave a channel uncoupled: which ranks meet cannot be told from those captured."""
        self.free.add(channel)
        self.notes.append(
            Text(
                "Communication ({group}) with ranks like {rank} is taken to wait for nobody: the "
                "ranks captured do not show who meets whom.",
                group=self.label[channel],
                rank=rank,
            )
        )

    def _compare(self, channel: int, one: Seat, other: Seat) -> None:
        """Two parties must make the same calls in the same order."""
        for number in range(max(len(one.calls), len(other.calls))):
            first = one.calls[number] if number < len(one.calls) else None
            second = other.calls[number] if number < len(other.calls) else None
            if first is None or second is None or _shared(first) != _shared(second):
                raise self._parted(channel, number, (one, first), (other, second))

    def _parted(
        self,
        channel: int,
        number: int,
        one: tuple[Seat, Call | None],
        other: tuple[Seat, Call | None],
    ) -> HangError:
        """The error where two parties part."""
        said = tuple(
            (self.rank[seat.member], call.words if call else _absent(seat))
            for seat, call in (one, other)
        )
        label = self.label[channel]
        return HangError(
            Text(
                "Ranks {first} and {second} would wait for each other for ever: call {number} of a "
                "step in group '{label}' differs.",
                first=said[0][0],
                second=said[1][0],
                number=number + 1,
                label=label,
            ),
            Text(
                "Rank {first}: {first_call}. Rank {second}: {second_call}.",
                first=said[0][0],
                first_call=said[0][1],
                second=said[1][0],
                second_call=said[1][1],
            ),
            Text(
                "Let all ranks of a group make the same calls, with the same sizes, in the same "
                "order."
            ),
            said,
        )

    def coupling(self) -> Coupling:
        """What was found."""
        seats = [seat for seat in self.seats.values() if seat.channel not in self.free]
        meetings: list[dict[int, int]] = [{} for _ in self.costed]
        parties = [0] * len(self.channels)
        for number, seat in enumerate(seats):
            parties[seat.channel] += 1
            meetings[seat.member].update((call.position, number) for call in seat.calls)
        return Coupling(
            tuple(seats),
            tuple(parties),
            tuple(meetings),
            self._canonical(),
            tuple(dict.fromkeys(self.notes)),
        )

    def _canonical(self) -> tuple[tuple[ProcessGroup, ...], ...]:
        """The groups under the name and ranks that the first class has for them."""
        first: dict[Key, ProcessGroup] = {}
        for item, keys in zip(self.costed, self.keys, strict=True):
            for group, key in zip(item.program.groups, keys, strict=True):
                first.setdefault(key, group)
        return tuple(
            tuple(
                first[key] if len(set(self._classes(group.ranks))) > 1 else group
                for group, key in zip(item.program.groups, keys, strict=True)
            )
            for item, keys in zip(self.costed, self.keys, strict=True)
        )


def _shared(call: Call) -> tuple[object, ...]:
    """What two calls that meet have in common; a send and its receive are one."""
    message = message_of(call.op)
    if message.sort in ("send", "recv"):
        return ("send", message.dtype, message.in_elements)
    return message.shared


def _absent(seat: Seat) -> Text:
    if seat.side == "send":
        return Text("sends nothing there")
    if seat.side == "recv":
        return Text("receives nothing there")
    return Text("makes no such call")
