"""Sends and receives that wait: whether the other side called its part."""

from __future__ import annotations

import re

from gpuscope.explain.flight_recorder.calls import Call, Dumps, Key
from gpuscope.explain.flight_recorder.groups import pending_sends
from gpuscope.explain.flight_recorder.hang import Verdict
from gpuscope.explain.types import Words

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
    verb, other = ("send", "recv") if is_send else ("recv", "send")
    way_en, way_zh = ("to", "发往") if is_send else ("from", "来自")
    gone = peer not in dumps.ranks
    said_en = "left no dump" if gone else f"did not call the {other} that belongs to it"
    said_zh = "没有留下转储" if gone else f"没有调用对应的 {other}"
    return Verdict(
        "unpaired",
        Words(
            f"Rank {rank} waits alone in {verb} {way_en} rank {peer}",
            f"rank {rank} 独自等在 {verb}（{way_zh} rank {peer}）",
        ),
        Words(
            f"Rank {peer} {said_en}.",
            f"rank {peer} {said_zh}。",
        ),
        "likely",
        Words(
            f"Look at where rank {peer} is (py-spy dump --pid PID): it stopped, works longer than "
            "the limit, or its order of sends and receives is another one.",
            f"查看 rank {peer} 停在何处（py-spy dump --pid PID）：它已停止、工作超过时限，"
            "或其收发顺序不同。",
        ),
        (peer,),
    )  # fmt: skip
