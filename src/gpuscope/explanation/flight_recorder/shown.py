"""The flight recorder's finding as an explanation: who is where, what is stuck, who called it."""

from __future__ import annotations

from pathlib import Path

from gpuscope.document.blocks import (
    Block,
    Code,
    CodeLine,
    Column,
    Explanation,
    Fact,
    Facts,
    Section,
    Table,
)
from gpuscope.document.text import Text, verbatim
from gpuscope.explanation.errors.types import Certainty
from gpuscope.explanation.flight_recorder.calls import Call, Dumps, Frame
from gpuscope.explanation.flight_recorder.dump import NEWEST, read_dumps
from gpuscope.explanation.flight_recorder.groups import GroupState, Progress, group_states, world
from gpuscope.explanation.flight_recorder.hang import Verdict, judge, kinds_of, span
from gpuscope.explanation.flight_recorder.pairs import judge_pairs

_MOST_RANKS = 24
_MOST_SITES = 6
_STATE = {
    "scheduled": Text("called, not begun"),
    "called": Text("called, not ended"),
    "started": Text("begun, not ended"),
    "completed": Text("ended"),
    "unknown": Text("called (Gloo notes no more)"),
}
_CERTAINTY: dict[Certainty, Text] = {
    "certain": Text("certain: the dump says so itself"),
    "likely": Text("likely: it follows from the figures in the dump"),
    "possible": Text("possible: the usual cause of this dump"),
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
        "error",
        verdict.title,
        _summary(verdict),
        _sections(dumps, states, verdict, calls),
        (),
        _SOURCES,
        _assumptions(dumps),
    )


def _summary(verdict: Verdict) -> tuple[Text, ...]:
    return (
        verdict.cause,
        Text("How sure: {certainty}.", certainty=_CERTAINTY[verdict.certainty]),
        Text("Try first: {first}", first=verdict.first),
    )


def _sections(
    dumps: Dumps, states: list[GroupState], verdict: Verdict, calls: dict[int, Call]
) -> tuple[Section, ...]:
    sections: list[Section] = []
    if verdict.group is not None:
        ranks = (_rank_table(dumps, verdict.group, verdict),)
        sections.append(Section(Text("How far each rank came"), ranks))
    if calls:
        facts = (_call_facts(verdict, calls),)
        sections.append(Section(Text("What they wait in"), facts))
    sites = _sites(dumps, verdict, calls)
    if sites:
        sections.append(Section(Text("Where it was called"), sites))
    others = [state for state in states if state is not verdict.group]
    if others:
        sections.append(Section(Text("Other groups"), (_group_table(others),)))
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
        Text(
            "Group {named}, collective {sequence}", named=_named(state), sequence=verdict.sequence
        ),
        (
            Column(verbatim("rank")),
            Column(Text("last ended")),
            Column(Text("last called")),
            Column(Text("must come next")),
            Column(Text("number {sequence}", sequence=verdict.sequence)),
        ),
        rows,
        tuple(index for index, rank in enumerate(shown) if rank in odd),
        Text("{hidden} more ranks are not shown.", hidden=hidden) if hidden else None,
    )


def _rank_row(
    rank: int, progress: Progress | None, call: Call | None, unread: dict[int, str], number: int
) -> tuple[int | str | Text | None, ...]:
    if progress is None:
        said = Text("its dump cannot be read") if rank in unread else Text("no dump")
        return rank, None, None, None, said
    if call is None:
        said = Text("never called")
    else:
        state = _STATE[call.state]
        said = Text("{operation}: {state}", operation=call.operation, state=state)
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
        rows.append(Fact(Text("process group"), _named(verdict.group)))
        members = span(verdict.group.members)
        rows.append(Fact(Text("its ranks"), members))
        rows.append(Fact(Text("number"), verdict.sequence))
    for kind, ranks in list(kinds_of(calls).items())[:_MOST_SITES]:
        call = calls[ranks[0]]
        shapes = f"{_shapes(call.input_sizes)} → {_shapes(call.output_sizes)}"
        rows.append(
            Fact(
                Text("on rank {span}", span=span(ranks)),
                f"{call.operation}  {shapes}  {'/'.join(kind[2])}".rstrip(),
            )
        )
    limits = {call.timeout_s for call in calls.values() if call.timeout_s}
    if limits:
        rows.append(Fact(Text("limit"), max(limits), "s"))
    return Facts(tuple(rows))


def _shapes(sizes: tuple[tuple[int, ...], ...]) -> str:
    shown = ["×".join(map(str, shape)) or "scalar" for shape in sizes[:3]]
    return ", ".join(shown) + (f" +{len(sizes) - 3}" if len(sizes) > 3 else "") or "-"


def _sites(dumps: Dumps, verdict: Verdict, calls: dict[int, Call]) -> tuple[Block, ...]:
    """The call sites of the stuck call, and of the last calls of the ranks that never made it."""
    blocks = _site_blocks(calls, Text("called by rank"))
    last: dict[int, Call] = {}
    for rank in verdict.culprits:
        if rank in dumps.ranks and rank not in calls:
            made = list(dumps.ranks[rank].calls.values())
            if made:
                last[rank] = made[-1]
    return (*blocks, *_site_blocks(last, Text("last call of rank")))


def _site_blocks(calls: dict[int, Call], said: Text) -> list[Block]:
    by_site: dict[tuple[str, tuple[Frame, ...]], list[int]] = {}
    for rank, call in calls.items():
        if call.sites:
            by_site.setdefault((call.operation, call.sites), []).append(rank)
    return [
        Code(
            Text(
                "{operation}, {said} {span}: {file}:{line}",
                operation=operation,
                said=said,
                span=span(ranks),
                file=sites[0].file,
                line=sites[0].line,
            ),
            "text",
            tuple(
                CodeLine(
                    site.line,
                    f"{site.function}()   {site.file}",
                    tone="plain" if index else "warning",
                )
                for index, site in enumerate(sites)
            ),
        )
        for (operation, sites), ranks in list(by_site.items())[:_MOST_SITES]
    ]


def _group_table(states: list[GroupState]) -> Table:
    shown = sorted(states, key=lambda state: (state.stuck is None, state.group.name))[:_MOST_RANKS]
    nowhere = Text("in none")
    return Table(
        Text("What they were in"),
        (Column(Text("group")), Column(Text("ranks")), Column(Text("waits in number"))),
        tuple((_named(state), span(state.members), state.stuck or nowhere) for state in shown),
        note=Text("{states} more groups are not shown.", states=len(states) - len(shown))
        if len(states) > len(shown)
        else None,
    )


def _assumptions(dumps: Dumps) -> tuple[Text, ...]:
    said: list[Text] = []
    newest = max((dump.version for dump in dumps.ranks.values()), default=NEWEST)
    if newest > NEWEST:
        said.append(
            Text(
                "The dump is of version {version}; the newest that gpuscope knows is {newest}.",
                version=f"{newest[0]}.{newest[1]}",
                newest=f"{NEWEST[0]}.{NEWEST[1]}",
            )
        )
    for one in dumps.unread[:_MOST_SITES]:
        said.append(Text("Rank {rank} is left out: {reason}", rank=one.rank, reason=one.reason))
    gone = tuple(rank for rank in world(dumps) if rank not in dumps.ranks)
    if gone:
        said.append(
            Text(
                "{ranks} of {world} ranks are read; there is nothing of rank {span}.",
                ranks=len(dumps.ranks),
                world=len(world(dumps)),
                span=span(gone),
            )
        )
    return tuple(said)


def _nothing(dumps: Dumps, states: list[GroupState]) -> Explanation:
    """No rank is behind, as far as the dumps say."""
    unknown = any(p.completed is None for state in states for p in state.progress)
    said = (
        Text("Every rank called the same collectives. Gloo does not note whether they ended.")
        if unknown
        else Text("Every collective that is noted ended on every rank that is dumped.")
    )
    hint = Text(
        "If the job hangs, it hangs outside of collectives: py-spy dump --pid PID shows where."
    )
    blocks = (_group_table(states),) if states else ()
    sections = (Section(Text("Process groups"), blocks),) if blocks else ()
    return Explanation(
        "error",
        Text("No collective hangs in these dumps"),
        (said, hint),
        sections,
        (),
        _SOURCES,
        _assumptions(dumps),
    )
