"""Sends and receives that wait: whether the other side called its part."""

from __future__ import annotations

import re

from gpuscope.document.text import Text
from gpuscope.explanation.flight_recorder.calls import Call, Dumps, Key
from gpuscope.explanation.flight_recorder.groups import pending_sends
from gpuscope.explanation.flight_recorder.hang import Verdict

_NAME = re.compile(r"(send|recv) (\d+)(?:->|<-)(\d+)")


def judge_pairs(dumps: Dumps) -> tuple[Verdict, dict[int, Call]] | None:
    """Judge the first send or receive that waits for a side that did not call; None if none does.

    Returns:
        The verdict, and each concerned rank's call.
    """
    pending = pending_sends(dumps)
    alone: list[tuple[int, int, Call]] = []
    for rank, waits in sorted(pending.items()):
        key, call = waits[0]
        peer = _peer(dumps, rank, key, call)
        if peer is None or _answers(dumps, pending.get(peer, []), peer, rank, key, call):
            continue
        alone.append((rank, peer, call))
    # A rank that waits itself is held up by another one: the root is a peer that does not wait.
    alone.sort(key=lambda item: (item[1] in pending, item[0]))
    if not alone:
        return None
    rank, peer, call = alone[0]
    return _verdict(dumps, rank, peer, call), {rank: call}


def _peer(dumps: Dumps, rank: int, key: Key, call: Call) -> int | None:
    """The other side's rank; names hold ranks within the group."""
    match = _NAME.fullmatch(call.operation)
    if match is None:
        return None
    local = int(match[3])
    group = dumps.ranks[rank].groups.get(key.group)
    members = group.ranks if group else None
    if members is None:
        return local
    return members[local] if local < len(members) else None


def _answers(
    dumps: Dumps, waits: list[tuple[Key, Call]], peer: int, rank: int, key: Key, call: Call
) -> bool:
    """Whether the peer waits in the matching call of the same group."""
    wanted = "recv" if call.operation.startswith("send") else "send"
    return any(
        other_key.group == key.group
        and other.operation.startswith(wanted)
        and _peer(dumps, peer, other_key, other) == rank
        for other_key, other in waits
    )


def _verdict(dumps: Dumps, rank: int, peer: int, call: Call) -> Verdict:
    is_send = call.operation.startswith("send")
    other = "recv" if is_send else "send"
    title = Text("Rank {rank} waits alone in recv from rank {peer}", rank=rank, peer=peer)
    if is_send:
        title = Text("Rank {rank} waits alone in send to rank {peer}", rank=rank, peer=peer)
    cause = Text("Rank {peer} did not call the {other} that belongs to it.", peer=peer, other=other)
    if peer not in dumps.ranks:
        cause = Text("Rank {peer} left no dump.", peer=peer)
    return Verdict(
        "unpaired",
        title,
        cause,
        "likely",
        Text(
            "Look at where rank {peer} is (py-spy dump --pid PID): it stopped, works longer than "
            "the limit, or its order of sends and receives is another one.",
            peer=peer,
        ),
        (peer,),
    )
