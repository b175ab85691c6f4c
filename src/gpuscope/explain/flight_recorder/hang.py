"""Judges a hang: which ranks hold the others up, how sure that is, and what to try first."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from gpuscope.explain.errors.types import Certainty
from gpuscope.explain.flight_recorder.calls import Call, Dumps
from gpuscope.explain.flight_recorder.groups import GroupState
from gpuscope.explain.types import Words


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
    title: Words
    cause: Words
    certainty: Certainty
    first: Words
    culprits: tuple[int, ...] = ()
    group: GroupState | None = None
    sequence: int | None = None


def span(ranks: Iterable[int], most: int = 6) -> str:
    """Ranks as text: "0-3, 7"; beyond `most` stretches "and N more"."""
    runs: list[list[int]] = []
    for rank in sorted(ranks):
        if runs and rank == runs[-1][1] + 1:
            runs[-1][1] = rank
        else:
            runs.append([rank, rank])
    parts = [f"{a}" if a == b else f"{a}-{b}" for a, b in runs[:most]]
    rest = sum(b - a + 1 for a, b in runs[most:])
    return ", ".join(parts) + (f" +{rest}" if rest else "")


def ranks_en(ranks: tuple[int, ...]) -> str:
    """Name ranks: "Rank 2", "Ranks 0-1, 3"."""
    return f"{'Rank' if len(ranks) == 1 else 'Ranks'} {span(ranks)}"


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


_ORDER = (
    "parted", "absent", "undumped", "unstarted", "uneven", "unfinished", "queued", "unended",
)  # fmt: skip


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

    said = "; ".join(f"rank {span(ranks)}: {name(kind)}" for kind, ranks in kinds[:4])
    return Verdict(
        "parted",
        Words("The ranks do not call the same collective", "各 rank 调用的集合通信不一致"),
        Words(
            f"At collective {number} the ranks part: {said}. Each waits for a partner that never "
            "comes.",
            f"在第 {number} 个集合通信处各 rank 分叉：{said}。每一方都在等不会到来的对方。",
        ),
        "certain",
        Words(
            "Compare the call sites below: a branch on the rank, on the data or on a count of "
            "steps makes one side call something else, or leave out a call before it.",
            "比较下面的调用位置：依赖 rank、数据或步数的分支，会让一方调用别的操作，"
            "或在此之前漏掉一次调用。",
        ),
        few, state, number,
    )  # fmt: skip


def _absent(state: GroupState, number: int) -> Verdict:
    absent = state.absent
    last = {p.called for p in state.progress if p.rank in absent}
    at = span(last)
    op = next(iter(state.at_stuck.values())).operation if state.at_stuck else "?"
    return Verdict(
        "absent",
        Words(
            f"{ranks_en(absent)} never called collective {number}",
            f"rank {span(absent)} 从未调用第 {number} 个集合通信",
        ),
        Words(
            f"The others wait in {op}, number {number}; the last that "
            f"{ranks_en(absent).lower()} called is number {at}."
            if last != {0}
            else f"The others wait in {op}, number {number}; {ranks_en(absent).lower()} called no "
            "collective of this group.",
            f"其他 rank 停在第 {number} 个（{op}）；rank {span(absent)} 最后调用的是第 {at} 个。"
            if last != {0}
            else f"其他 rank 停在第 {number} 个（{op}）；rank {span(absent)} 未调用过该组的。",
        ),
        "certain",
        Words(
            f"Look at what rank {absent[0]} did after its last call (below): an exception, a "
            "branch that skips the collective, data that ran out, or host work that takes longer "
            "than the limit. py-spy dump --pid PID shows it while it hangs.",
            f"查看 rank {absent[0]} 在最后一次调用（见下）之后做了什么：异常、跳过集合通信的分支、"
            "数据耗尽，或主机工作超过时限。挂起时可用 py-spy dump --pid PID 查看。",
        ),
        absent, state, number,
    )  # fmt: skip


def _undumped(state: GroupState, number: int) -> Verdict:
    gone = state.undumped
    return Verdict(
        "undumped",
        Words(f"{ranks_en(gone)} left no dump", f"rank {span(gone)} 没有留下转储"),
        Words(
            f"All other ranks of the group came to collective {number}. A rank without a dump has "
            "mostly crashed, was killed, or its host cannot be reached.",
            f"该组其余 rank 都到达了第 {number} 个集合通信。没有转储的 rank 多半已崩溃、被杀掉，"
            "或所在主机无法连通。",
        ),
        "likely",
        Words(
            f"Read the log of rank {gone[0]} and its host's dmesg (out of memory, Xid); if it did "
            "write a dump, copy it into the folder and run this again.",
            f"查看 rank {gone[0]} 的日志和主机的 dmesg（内存不足、Xid）；若它写了转储，"
            "复制到该文件夹后重新运行。",
        ),
        gone, state, number,
    )  # fmt: skip


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
        Words(
            f"On {ranks_en(scheduled).lower()} the device did not begin collective {number}",
            f"rank {span(scheduled)} 的设备没有开始第 {number} 个集合通信",
        ),
        Words(
            "Every rank called it, but there the device is still busy with earlier work, or "
            "with a kernel that never ends; the others wait inside the collective.",
            "所有 rank 都已调用，但这些 rank 的设备还在执行更早的工作，或卡在不结束的 kernel；"
            "其他 rank 在集合通信内等待。",
        ),
        "likely",
        Words(
            f"Look at what rank {scheduled[0]} gave to its device before the call: a long or "
            "endless kernel, a wait for another stream, another group's collective.",
            f"查看 rank {scheduled[0]} 在该调用之前交给设备的工作：很长或不结束的 kernel、"
            "对另一个流的等待、另一通信组的集合通信。",
        ),
        scheduled, state, number,
    )  # fmt: skip


def _queued(state: GroupState, number: int) -> Verdict:
    """No device began it."""
    return Verdict(
        "queued",
        Words(
            f"Collective {number} began on no device",
            f"第 {number} 个集合通信在所有设备上都未开始",
        ),
        Words(
            "Every rank called it; all devices are still busy with earlier work.",
            "所有 rank 都已调用；所有设备仍在执行更早的工作。",
        ),
        "possible",
        Words(
            "Look for collectives of another group before it, called in different orders on "
            "different ranks, and for kernels that do not end (CUDA_LAUNCH_BLOCKING=1 shows "
            "them).",
            "检查在它之前其他通信组的集合通信是否在各 rank 上顺序不同，以及不结束的 kernel"
            "（CUDA_LAUNCH_BLOCKING=1 可显示）。",
        ),
        (), state, number,
    )  # fmt: skip


def _unfinished(state: GroupState, number: int, started: tuple[int, ...], done: bool) -> Verdict:
    """It began everywhere; `started` did not end, `done` says whether others did."""
    return Verdict(
        "uneven" if done else "unfinished",
        Words(
            f"Collective {number} ended on some ranks only"
            if done
            else f"Collective {number} began everywhere and ended nowhere",
            f"第 {number} 个集合通信只在部分 rank 上结束"
            if done
            else f"第 {number} 个集合通信处处开始、无处结束",
        ),
        Words(
            f"Every rank called it; it did not end on rank {span(started)}. What is left is the "
            "way between them: the network, a link, or a peer's device.",
            f"所有 rank 都已调用；在 rank {span(started)} 上没有结束。剩下的可能是它们之间的"
            "通路：网络、链路或对端设备。",
        ),
        "likely" if done else "possible",
        Words(
            "Run with NCCL_DEBUG=INFO and read the warnings on the network; test the links with "
            "`gpuscope doctor`, and look for Xid errors in dmesg.",
            "用 NCCL_DEBUG=INFO 运行并查看网络警告；用 `gpuscope doctor` 检查链路，"
            "并在 dmesg 中查找 Xid 错误。",
        ),
        started if done else (), state, number,
    )  # fmt: skip


def _unended(state: GroupState, number: int) -> Verdict:
    """Every rank called it, and whether a device began it is not noted."""
    return Verdict(
        "unended",
        Words(
            f"Every rank called collective {number}, and it ended nowhere",
            f"所有 rank 都调用了第 {number} 个集合通信，但无处结束",
        ),
        Words(
            "The dumps do not note whether it began: a device may be busy with earlier work, or "
            "the way between the ranks fails.",
            "转储没有记录它是否开始：可能某个设备还在执行更早的工作，也可能 rank 之间的通路"
            "有问题。",
        ),
        "possible",
        Words(
            "Run again with TORCH_NCCL_ENABLE_TIMING=1: the dumps then tell on which rank it did "
            "not begin. With NCCL_DEBUG=INFO, NCCL warns of the network.",
            "用 TORCH_NCCL_ENABLE_TIMING=1 重跑：转储会说明它在哪个 rank 上没有开始。"
            "用 NCCL_DEBUG=INFO 可看到 NCCL 的网络警告。",
        ),
        (), state, number,
    )  # fmt: skip
