"""Judges a hang: which ranks hold the others up, how sure that is, and what to try first."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from gpuscope.document.text import Text, joined, plural
from gpuscope.explanation.errors.types import Certainty
from gpuscope.explanation.flight_recorder.calls import Call, Dumps
from gpuscope.explanation.flight_recorder.groups import GroupState


@dataclass(frozen=True, slots=True)
class Verdict:
    """What holds the ranks up.

    Attributes:
        kind: a stable word ("absent", "parted", "undumped", "unstarted", "queued", "unfinished",
            "uneven", "unended", "unpaired").
        title: in a few words.
        cause: one or two sentences.
        certainty: how sure it is.
        first: what to try first.
        culprits: the ranks to look at; () if none stands out.
        group: where; None for none.
        sequence: number of the collective; None for none.
    """

    kind: str
    title: Text
    cause: Text
    certainty: Certainty
    first: Text
    culprits: tuple[int, ...] = ()
    group: GroupState | None = None
    sequence: int | None = None


def span(ranks: Iterable[int], most: int = 6) -> str:
    """Ranks as text: "0-3, 7"; beyond `most` stretches "+N"."""
    runs: list[list[int]] = []
    for rank in sorted(ranks):
        if runs and rank == runs[-1][1] + 1:
            runs[-1][1] = rank
        else:
            runs.append([rank, rank])
    parts = [f"{a}" if a == b else f"{a}-{b}" for a, b in runs[:most]]
    rest = sum(b - a + 1 for a, b in runs[most:])
    return ", ".join(parts) + (f" +{rest}" if rest else "")


def named(ranks: tuple[int, ...], begins: bool = False) -> Text:
    """Name ranks: "rank 2", "ranks 0-1, 3"; "Rank 2" where a sentence begins."""
    if begins:
        return plural("Rank {ranks}", "Ranks {ranks}", len(ranks), ranks=span(ranks))
    return plural("rank {ranks}", "ranks {ranks}", len(ranks), ranks=span(ranks))


def judge(states: list[GroupState], dumps: Dumps) -> Verdict | None:
    """Judge all groups, the one that explains the others first; None if nothing is stuck."""
    verdicts = [verdict for state in states if (verdict := _judge(state)) is not None]
    if not verdicts:
        return None
    waiting = {p.rank: s.group.name for s in states for p in s.progress if p.waiting is not None}

    def blocked(verdict: Verdict) -> bool:
        """Whether its culprits wait in another group themselves: then the root is there."""
        assert verdict.group is not None
        name = verdict.group.group.name
        elsewhere = [waiting.get(rank, name) != name for rank in verdict.culprits]
        return verdict.kind == "absent" and all(elsewhere)

    return min(verdicts, key=lambda v: (blocked(v), _ORDER.index(v.kind)))


_ORDER = ("parted", "absent", "undumped", "unstarted", "uneven", "unfinished", "queued", "unended")


def _judge(state: GroupState) -> Verdict | None:
    if state.parted is not None and (state.stuck is None or state.parted <= state.stuck):
        return _parted(state, state.parted)
    if state.stuck is None:
        if state.undumped and any(p.completed is None for p in state.progress):
            return _undumped(state, max(p.called for p in state.progress))
        return None
    if state.absent:
        return _absent(state, state.stuck)
    if state.undumped:
        return _undumped(state, state.stuck)
    return _by_state(state, state.stuck)


def kinds_of(calls: dict[int, Call]) -> dict[tuple[str, int, tuple[str, ...]], list[int]]:
    """Ranks by what they called: operation, elements, dtypes."""
    kinds: dict[tuple[str, int, tuple[str, ...]], list[int]] = {}
    for rank, call in calls.items():
        kinds.setdefault((call.operation, call.elements, call.dtypes), []).append(rank)
    return kinds


def _parted(state: GroupState, number: int) -> Verdict:
    kinds = sorted(kinds_of(dict(state.at_parted)).items(), key=lambda item: -len(item[1]))
    few = tuple(rank for _, ranks in kinds[1:] for rank in ranks)
    several = len({operation for (operation, _, _), _ in kinds}) > 1

    def name(kind: tuple[str, int, tuple[str, ...]]) -> str:
        dtypes = "/".join(kind[2])
        return kind[0] if several else f"{kind[0]}({kind[1]:,} {dtypes})"

    said = joined(
        [
            Text("rank {ranks}: {call}", ranks=span(ranks), call=name(kind))
            for kind, ranks in kinds[:4]
        ],
        "; ",
    )
    return Verdict(
        "parted",
        Text("The ranks do not call the same collective"),
        Text(
            "At collective {number} the ranks part: {said}. Each waits for a partner that never "
            "comes.",
            number=number,
            said=said,
        ),
        "certain",
        Text(
            "Compare the call sites below: a branch on the rank, on the data or on a count of "
            "steps makes one side call something else, or leave out a call before it."
        ),
        few,
        state,
        number,
    )


def _absent(state: GroupState, number: int) -> Verdict:
    absent = state.absent
    last = {p.called for p in state.progress if p.rank in absent}
    at = span(last)
    op = next(iter(state.at_stuck.values())).operation if state.at_stuck else "?"
    return Verdict(
        "absent",
        Text(
            "{ranks} never called collective {number}",
            ranks=named(absent, begins=True),
            number=number,
        ),
        (
            Text(
                "The others wait in {op}, number {number}; the last that {ranks} called is number "
                "{at}.",
                op=op,
                number=number,
                ranks=named(absent),
                at=at,
            )
            if last != {0}
            else Text(
                "The others wait in {op}, number {number}; {ranks} called no collective of this "
                "group.",
                op=op,
                number=number,
                ranks=named(absent),
            )
        ),
        "certain",
        Text(
            "Look at what rank {absent} did after its last call (below): an exception, a branch "
            "that skips the collective, data that ran out, or host work that takes longer than the "
            "limit. py-spy dump --pid PID shows it while it hangs.",
            absent=absent[0],
        ),
        absent,
        state,
        number,
    )


def _undumped(state: GroupState, number: int) -> Verdict:
    gone = state.undumped
    return Verdict(
        "undumped",
        Text("{ranks} left no dump", ranks=named(gone, begins=True)),
        Text(
            "All other ranks of the group came to collective {number}. A rank without a dump has "
            "mostly crashed, was killed, or its host cannot be reached.",
            number=number,
        ),
        "likely",
        Text(
            "Read the log of rank {gone} and its host's dmesg (out of memory, Xid); if it did "
            "write a dump, copy it into the folder and run this again.",
            gone=gone[0],
        ),
        gone,
        state,
        number,
    )


def _by_state(state: GroupState, number: int) -> Verdict:
    """Every rank called it: what the states of the calls say."""
    by: dict[str, list[int]] = {}
    for rank, call in state.at_stuck.items():
        by.setdefault(call.state, []).append(rank)
    scheduled, started = tuple(by.get("scheduled", ())), tuple(by.get("started", ()))
    done = "completed" in by
    if "called" in by and (scheduled or not done):
        return _unended(state, number)
    if scheduled:
        some = bool(started) or done
        return _unstarted(state, number, scheduled) if some else _queued(state, number)
    return _unfinished(state, number, (*started, *by.get("called", ())), done)


def _unstarted(state: GroupState, number: int, scheduled: tuple[int, ...]) -> Verdict:
    """The devices of some ranks did not begin it."""
    return Verdict(
        "unstarted",
        Text(
            "On {ranks} the device did not begin collective {number}",
            ranks=named(scheduled),
            number=number,
        ),
        Text(
            "Every rank called it, but there the device is still busy with earlier work, or with a "
            "kernel that never ends; the others wait inside the collective."
        ),
        "likely",
        Text(
            "Look at what rank {scheduled} gave to its device before the call: a long or endless "
            "kernel, a wait for another stream, another group's collective.",
            scheduled=scheduled[0],
        ),
        scheduled,
        state,
        number,
    )


def _queued(state: GroupState, number: int) -> Verdict:
    """No device began it."""
    return Verdict(
        "queued",
        Text("Collective {number} began on no device", number=number),
        Text("Every rank called it; all devices are still busy with earlier work."),
        "possible",
        Text(
            "Look for collectives of another group before it, called in different orders on "
            "different ranks, and for kernels that do not end (CUDA_LAUNCH_BLOCKING=1 shows them)."
        ),
        (),
        state,
        number,
    )


def _unfinished(state: GroupState, number: int, started: tuple[int, ...], done: bool) -> Verdict:
    """It began everywhere; `started` did not end, `done` says whether others did."""
    return Verdict(
        "uneven" if done else "unfinished",
        (
            Text("Collective {number} ended on some ranks only", number=number)
            if done
            else Text("Collective {number} began everywhere and ended nowhere", number=number)
        ),
        Text(
            "Every rank called it; it did not end on rank {span}. What is left is the way between "
            "them: the network, a link, or a peer's device.",
            span=span(started),
        ),
        "likely" if done else "possible",
        Text(
            "Run with NCCL_DEBUG=INFO and read the warnings on the network; test the links with "
            "`gpuscope doctor`, and look for Xid errors in dmesg."
        ),
        started if done else (),
        state,
        number,
    )


def _unended(state: GroupState, number: int) -> Verdict:
    """Every rank called it, and whether a device began it is not noted."""
    return Verdict(
        "unended",
        Text("Every rank called collective {number}, and it ended nowhere", number=number),
        Text(
            "The dumps do not note whether it began: a device may be busy with earlier work, or "
            "the way between the ranks fails."
        ),
        "possible",
        Text(
            "Run again with TORCH_NCCL_ENABLE_TIMING=1: the dumps then tell on which rank it did "
            "not begin. With NCCL_DEBUG=INFO, NCCL warns of the network."
        ),
        (),
        state,
        number,
    )
