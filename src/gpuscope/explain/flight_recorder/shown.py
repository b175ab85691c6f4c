"""The flight recorder's finding as an explanation: who is where, what is stuck, who called it."""

from __future__ import annotations

from pathlib import Path

from gpuscope.explain.errors.types import CERTAINTY
from gpuscope.explain.flight_recorder.calls import Call, Dumps, Frame
from gpuscope.explain.flight_recorder.dump import NEWEST, read_dumps
from gpuscope.explain.flight_recorder.groups import GroupState, Progress, group_states, world
from gpuscope.explain.flight_recorder.hang import Verdict, judge, kinds_of, span
from gpuscope.explain.flight_recorder.pairs import judge_pairs
from gpuscope.explain.types import (
    Block,
    Code,
    CodeLine,
    Column,
    Explanation,
    Fact,
    Facts,
    Section,
    Table,
    Words,
)

_MOST_RANKS = 24
_MOST_SITES = 6
_STATE = {
    "scheduled": Words("called, not begun", "已调用，未开始"),
    "called": Words("called, not ended", "已调用，未结束"),
    "started": Words("begun, not ended", "已开始，未结束"),
    "completed": Words("ended", "已结束"),
    "unknown": Words("called (Gloo notes no more)", "已调用（Gloo 不记录更多）"),
}
_SOURCES = (
    "pytorch/pytorch, torch/csrc/distributed/c10d/FlightRecorder.hpp: fields of a dump.",
    "PyTorch, Flight Recorder for Debugging Stuck Jobs (docs.pytorch.org/tutorials).",
)


def explain_dumps(path: Path) -> Explanation:
    """Explain the dump of a rank, or a folder of dumps.

    Raises:
        InputFileError: as `read_dumps` does.
    """
    dumps = read_dumps(path)
    states = group_states(dumps)
    verdict = judge(states, dumps)
    pair = judge_pairs(dumps) if verdict is None or verdict.kind == "undumped" else None
    calls: dict[int, Call] = {}
    if pair is not None:
        verdict, calls = pair
    elif verdict is not None and verdict.group is not None:
        group = verdict.group
        calls = dict(group.at_parted if verdict.kind == "parted" else group.at_stuck)
    if verdict is None:
        return _nothing(dumps, states)
    return Explanation(
        "error", verdict.title, _summary(verdict), _sections(dumps, states, verdict, calls),
        (), _SOURCES, _assumptions(dumps),
    )  # fmt: skip


def _summary(verdict: Verdict) -> tuple[Words, ...]:
    sure = CERTAINTY[verdict.certainty]
    en, zh = sure.en.replace("message", "dump"), sure.zh.replace("消息", "转储")
    return (
        verdict.cause,
        Words(f"How sure: {en}.", f"可信度：{zh}。"),
        Words(f"Try first: {verdict.first.en}", f"首先尝试：{verdict.first.zh}"),
    )


def _sections(
    dumps: Dumps, states: list[GroupState], verdict: Verdict, calls: dict[int, Call]
) -> tuple[Section, ...]:
    sections: list[Section] = []
    if verdict.group is not None:
        ranks = (_rank_table(dumps, verdict.group, verdict),)
        sections.append(Section(Words("How far each rank came", "各 rank 的进度"), ranks))
    if calls:
        facts = (_call_facts(verdict, calls),)
        sections.append(Section(Words("What they wait in", "等待的调用"), facts))
    sites = _sites(dumps, verdict, calls)
    if sites:
        sections.append(Section(Words("Where it was called", "调用位置"), sites))
    others = [state for state in states if state is not verdict.group]
    if others:
        sections.append(Section(Words("Other groups", "其他通信组"), (_group_table(others),)))
    return tuple(sections)


def _rank_table(dumps: Dumps, state: GroupState, verdict: Verdict) -> Table:
    """The ranks to look at first, then the others."""
    odd = set(verdict.culprits)
    of_rank: dict[int, Progress] = {p.rank: p for p in state.progress}
    members = sorted(state.members, key=lambda rank: (rank not in odd, rank))
    shown = sorted(members[:_MOST_RANKS])
    unread = {one.rank: one.reason for one in dumps.unread}
    calls = state.at_parted if verdict.kind == "parted" else state.at_stuck
    number = verdict.sequence or 0
    rows = tuple(
        _rank_row(rank, of_rank.get(rank), calls.get(rank), unread, number) for rank in shown
    )
    hidden = len(members) - len(shown)
    return Table(
        Words(
            f"Group {_named(state)}, collective {verdict.sequence}",
            f"通信组 {_named(state)}，第 {verdict.sequence} 个集合通信",
        ),
        (
            Column(Words("rank", "rank")), Column(Words("last ended", "最后结束")),
            Column(Words("last called", "最后调用")), Column(Words("must come next", "下一个应为")),
            Column(Words(f"number {verdict.sequence}", f"第 {verdict.sequence} 个")),
        ),
        rows,
        tuple(index for index, rank in enumerate(shown) if rank in odd),
        Words(f"{hidden} more ranks are not shown.", f"另有 {hidden} 个 rank 未显示。")
        if hidden
        else None,
    )  # fmt: skip


def _rank_row(
    rank: int, progress: Progress | None, call: Call | None, unread: dict[int, str], number: int
) -> tuple[int | str | Words | None, ...]:
    if progress is None:
        said = (
            Words("its dump cannot be read", "转储无法读取")
            if rank in unread
            else Words("no dump", "没有转储")
        )
        return rank, None, None, None, said
    if call is None:
        said = Words("never called", "从未调用")
    else:
        state = _STATE[call.state]
        said = Words(f"{call.operation}: {state.en}", f"{call.operation}：{state.zh}")
    expected = progress.waiting or progress.called + 1
    if progress.completed is None:  # it may not have left the one that is stuck
        expected = min(expected, number)
    return rank, progress.completed, progress.called, expected, said


def _named(state: GroupState) -> str:
    group = state.group
    return f"{group.name} ({group.description})" if group.description else group.name


def _call_facts(verdict: Verdict, calls: dict[int, Call]) -> Facts:
    rows: list[Fact] = []
    if verdict.group is not None:
        rows.append(Fact(Words("process group", "通信组"), _named(verdict.group)))
        members = span(verdict.group.members)
        rows.append(Fact(Words("its ranks", "其中的 rank"), members))
        rows.append(Fact(Words("number", "序号"), verdict.sequence))
    for kind, ranks in list(kinds_of(calls).items())[:_MOST_SITES]:
        call = calls[ranks[0]]
        shapes = f"{_shapes(call.input_sizes)} → {_shapes(call.output_sizes)}"
        rows.append(
            Fact(
                Words(f"on rank {span(ranks)}", f"rank {span(ranks)} 上"),
                f"{call.operation}  {shapes}  {'/'.join(kind[2])}".rstrip(),
            )
        )
    limits = {call.timeout_s for call in calls.values() if call.timeout_s}
    if limits:
        rows.append(Fact(Words("limit", "时限"), max(limits), "s"))
    return Facts(tuple(rows))


def _shapes(sizes: tuple[tuple[int, ...], ...]) -> str:
    shown = ["×".join(map(str, shape)) or "scalar" for shape in sizes[:3]]
    return ", ".join(shown) + (f" +{len(sizes) - 3}" if len(sizes) > 3 else "") or "-"


def _sites(dumps: Dumps, verdict: Verdict, calls: dict[int, Call]) -> tuple[Block, ...]:
    """The call sites of the stuck call, and of the last calls of the ranks that never made it."""
    blocks = _site_blocks(calls, Words("called by rank", "调用者：rank"))
    last: dict[int, Call] = {}
    for rank in verdict.culprits:
        if rank in dumps.ranks and rank not in calls:
            made = list(dumps.ranks[rank].calls.values())
            if made:
                last[rank] = made[-1]
    return (*blocks, *_site_blocks(last, Words("last call of rank", "最后一次调用：rank")))


def _site_blocks(calls: dict[int, Call], said: Words) -> list[Block]:
    by_site: dict[tuple[str, tuple[Frame, ...]], list[int]] = {}
    for rank, call in calls.items():
        if call.sites:
            by_site.setdefault((call.operation, call.sites), []).append(rank)
    return [
        Code(
            Words(
                f"{operation}, {said.en} {span(ranks)}: {sites[0].file}:{sites[0].line}",
                f"{operation}，{said.zh} {span(ranks)}：{sites[0].file}:{sites[0].line}",
            ),
            "text",
            tuple(
                CodeLine(site.line, f"{site.function}()   {site.file}",
                         tone="plain" if index else "warning")
                for index, site in enumerate(sites)
            ),
        )
        for (operation, sites), ranks in list(by_site.items())[:_MOST_SITES]
    ]  # fmt: skip


def _group_table(states: list[GroupState]) -> Table:
    shown = sorted(states, key=lambda state: (state.stuck is None, state.group.name))[:_MOST_RANKS]
    nowhere = Words("in none", "无")
    return Table(
        Words("What they were in", "它们的状态"),
        (
            Column(Words("group", "通信组")), Column(Words("ranks", "rank")),
            Column(Words("waits in number", "停在序号")),
        ),
        tuple((_named(state), span(state.members), state.stuck or nowhere) for state in shown),
        note=Words(
            f"{len(states) - len(shown)} more groups are not shown.",
            f"另有 {len(states) - len(shown)} 个通信组未显示。",
        )
        if len(states) > len(shown)
        else None,
    )  # fmt: skip


def _assumptions(dumps: Dumps) -> tuple[Words, ...]:
    said: list[Words] = []
    newest = max((dump.version for dump in dumps.ranks.values()), default=NEWEST)
    if newest > NEWEST:
        said.append(
            Words(
                f"The dump is of version {newest[0]}.{newest[1]}; the newest that gpuscope knows "
                f"is {NEWEST[0]}.{NEWEST[1]}.",
                f"转储版本为 {newest[0]}.{newest[1]}；gpuscope 已知的最新版本是 "
                f"{NEWEST[0]}.{NEWEST[1]}。",
            )
        )
    for one in dumps.unread[:_MOST_SITES]:
        said.append(
            Words(
                f"Rank {one.rank} is left out: {one.reason}", f"略去 rank {one.rank}：{one.reason}"
            )
        )
    gone = tuple(rank for rank in world(dumps) if rank not in dumps.ranks)
    if gone:
        said.append(
            Words(
                f"{len(dumps.ranks)} of {len(world(dumps))} ranks are read; there is nothing of "
                f"rank {span(gone)}.",
                f"读取了 {len(world(dumps))} 个 rank 中的 {len(dumps.ranks)} 个；缺少 rank "
                f"{span(gone)}。",
            )
        )
    return tuple(said)


def _nothing(dumps: Dumps, states: list[GroupState]) -> Explanation:
    """No rank is behind, as far as the dumps say."""
    unknown = any(p.completed is None for state in states for p in state.progress)
    said = Words(
        "Every rank called the same collectives. Gloo does not note whether they ended."
        if unknown
        else "Every collective that is noted ended on every rank that is dumped.",
        "各 rank 调用了相同的集合通信。Gloo 不记录它们是否结束。"
        if unknown
        else "记录的集合通信在所有已转储的 rank 上都已结束。",
    )
    hint = Words(
        "If the job hangs, it hangs outside of collectives: py-spy dump --pid PID shows where.",
        "如果作业仍挂起，则卡在集合通信之外：py-spy dump --pid PID 可显示位置。",
    )
    blocks = (_group_table(states),) if states else ()
    sections = (Section(Words("Process groups", "通信组"), blocks),) if blocks else ()
    return Explanation(
        "error", Words("No collective hangs in these dumps", "这些转储中没有挂起的集合通信"),
        (said, hint), sections, (), _SOURCES, _assumptions(dumps),
    )  # fmt: skip
