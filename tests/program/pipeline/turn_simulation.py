"""A tiny simulation of scripts, for tests: passes take fixed times, transfers none or a fixed one.

Independent of the program's own simulation. A rank's stream runs passes in order; a transfer starts
when both ends have been issued and completes after `transfer_s`; waits hold the stream.
"""

from __future__ import annotations

from collections.abc import Mapping

from gpuscope.program.pipeline.script import Turn


def simulate(
    scripts: tuple[tuple[Turn, ...], ...], cost_s: Mapping[str, float], transfer_s: float = 0.0
) -> list[float]:
    """When each rank is done. Raises RuntimeError where the ranks hang."""
    at = [0] * len(scripts)
    clock = [0.0] * len(scripts)
    issued: dict[tuple[int, int, str, int], dict[str, float]] = {}
    done: list[dict[int, float]] = [{} for _ in scripts]

    def key(rank: int, turn: Turn) -> tuple[int, int, str, int]:
        source, sink = (rank, turn.peer) if turn.kind == "send" else (turn.peer, rank)
        return source, sink, turn.payload, number[rank][turn_at]

    number = _numbers(scripts)
    moved = True
    while moved:
        moved = False
        for rank, turns in enumerate(scripts):
            while at[rank] < len(turns):
                turn_at = at[rank]
                turn = turns[turn_at]
                ends = [
                    _end(done[rank], scripts[rank], rank, w, issued, number, transfer_s)
                    for w in turn.waits
                ]
                if any(end is None for end in ends):
                    break
                clock[rank] = max([clock[rank], *[e for e in ends if e is not None]])
                if turn.transfer:
                    issued.setdefault(key(rank, turn), {})[turn.kind] = clock[rank]
                else:
                    clock[rank] += cost_s.get(turn.kind, 0.0)
                at[rank] += 1
                moved = True
    if any(at[rank] < len(turns) for rank, turns in enumerate(scripts)):
        raise RuntimeError("the ranks hang")
    return clock


def _numbers(scripts: tuple[tuple[Turn, ...], ...]) -> list[dict[int, int]]:
    """How many transfers of its kind, peer and payload went before each: they match in order."""
    out = []
    for turns in scripts:
        seen: dict[tuple[str, int, str], int] = {}
        numbers = {}
        for i, turn in enumerate(turns):
            if turn.transfer:
                what = (turn.kind, turn.peer, turn.payload)
                numbers[i] = seen[what] = seen.get(what, -1) + 1
        out.append(numbers)
    return out


def _end(done, turns, rank, w, issued, number, transfer_s):  # type: ignore[no-untyped-def]
    turn = turns[w]
    source, sink = (rank, turn.peer) if turn.kind == "send" else (turn.peer, rank)
    both = issued.get((source, sink, turn.payload, number[rank][w]), {})
    return max(both.values()) + transfer_s if len(both) == 2 else None
