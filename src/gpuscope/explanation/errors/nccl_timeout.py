"""A collective that did not end in time: which ranks waited, for what, and who is missing.

Wording: pytorch/pytorch, torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from gpuscope.document.blocks import Block, Column, Fact, Table
from gpuscope.document.quantities import Number
from gpuscope.document.text import Text, joined, verbatim
from gpuscope.explanation.errors.log import Log
from gpuscope.explanation.errors.types import Certainty, Diagnosis

_WORK = re.compile(
    r"\[Rank (?P<rank>\d+)\] Watchdog caught collective operation timeout: "
    r"WorkNCCL\(SeqNum=(?P<seq>\d+), OpType=(?P<op>\w+)"
    r"(?:, NumelIn=(?P<n_in>\d+), NumelOut=(?P<n_out>\d+))?, Timeout\(ms\)=(?P<limit>\d+)\)"
    r"(?: ran for (?P<ran>\d+) milliseconds)?"
)
_BARE = re.compile(_WORK.pattern.replace(r"\[Rank (?P<rank>\d+)\] ", r"(?P<rank>)"))
_STATE = re.compile(
    r"Rank (?P<rank>\d+)\].{0,120}?last enqueued (?:NCCL )?work: (?P<queued>-?\d+), "
    r"last completed (?:NCCL )?work: (?P<done>-?\d+)"
)
_MOST = 32

Verdict = tuple[Text, Certainty, Text]
"""A cause, how sure it is, and what to look at first."""


@dataclass(frozen=True, slots=True)
class _Wait:
    """What one rank waited for."""

    rank: int | None
    sequence: int
    operation: str
    elements: int | None
    limit_s: float
    ran_s: float | None


def read_nccl_timeout(log: Log) -> Diagnosis | None:
    """Read the watchdog's lines, of all ranks that are in the text."""
    found = _WORK.search(log.text) or _BARE.search(log.text)
    found = found or log.search(r"Watchdog caught collective operation timeout")
    if found is None:
        return None
    waits = _waits(log)
    cause, certainty, first = _judged(waits)
    return Diagnosis(
        "nccl_timeout",
        Text("A collective did not end in time"),
        cause,
        certainty,
        (first, *_TRIES),
        log.line_of(found),
        60,
        _facts(waits),
        _table(log, waits),
        ("gpuscope analyze traces/   # of a slow run: who waits for whom",),
        (
            "pytorch/pytorch, torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp.",
            "PyTorch, Flight Recorder for stuck jobs (docs.pytorch.org).",
        ),
    )


_TRIES = (
    Text(
        "Read the log of every rank from the first error on: one that stopped for another reason "
        "(memory, an assertion, data) ends as this timeout on all others."
    ),
    Text(
        "Run again with TORCH_NCCL_TRACE_BUFFER_SIZE=20000 and TORCH_NCCL_DUMP_ON_TIMEOUT=1: the "
        "flight recorder then names the collective at which the ranks part."
    ),
    Text(
        "Only if one rank truly works longer (evaluation, saving, building a data set) raise the "
        "limit: init_process_group(timeout=timedelta(hours=1))."
    ),
)


def _waits(log: Log) -> list[_Wait]:
    """The first wait of each rank."""
    by_rank: dict[int | None, _Wait] = {}
    matches = list(_WORK.finditer(log.text)) or list(_BARE.finditer(log.text))
    for found in matches:
        rank = int(found["rank"]) if found["rank"] else None
        wait = _Wait(
            rank,
            int(found["seq"]),
            found["op"],
            int(found["n_in"]) if found["n_in"] else None,
            int(found["limit"]) / 1e3,
            int(found["ran"]) / 1e3 if found["ran"] else None,
        )
        by_rank.setdefault(rank, wait)
    return sorted(by_rank.values(), key=lambda wait: (wait.rank is None, wait.rank or 0))


def _judged(waits: list[_Wait]) -> Verdict:
    """Ranks that part, ranks that are missing, or nothing but the fact."""
    sequences = {wait.sequence for wait in waits}
    if len(sequences) > 1:
        return _apart(waits, sequences)
    if len({(wait.operation, wait.elements) for wait in waits}) > 1:
        return _parted(waits)
    missing = _missing(waits) if len(waits) > 1 else []
    if missing:
        return _absent(missing)
    return (
        Text(
            "A rank waited for others longer than allowed. The message alone does not tell which "
            "rank did not come."
        ),
        "possible",
        Text("Find the rank without this line."),
    )


def _parted(waits: list[_Wait]) -> Verdict:
    """Ranks that call different things as the same collective."""
    number = waits[0].sequence
    known = sorted({(w.operation.lower().strip("_"), w.elements or 0) for w in waits})
    calls = joined(
        Text("{op} ({n} elements)", op=op, n=Number(n, ",")) if n else op for op, n in known
    )
    return (
        Text(
            "The ranks part: as their collective number {number} they call different things "
            "({calls}), so that none can end. (If they belong to different process groups, this "
            "proves nothing.)",
            number=number,
            calls=calls,
        ),
        "likely",
        Text(
            "Look for collectives under a condition that differs between ranks: a branch on the "
            "data, an evaluation on rank 0 only, a different number of batches."
        ),
    )


def _apart(waits: list[_Wait], sequences: set[int]) -> Verdict:
    """Ranks that wait at different collectives."""
    low, high = min(sequences), max(sequences)
    behind = [w.rank for w in waits if w.sequence == low and w.rank is not None]
    return (
        Text(
            "The ranks are not at the same collective: numbers {low} to {high}; behind: {listed}. "
            "(Numbers count within a process group.)",
            low=low,
            high=high,
            listed=_listed(behind),
        ),
        "likely",
        Text("Look at the ranks that are behind first."),
    )


def _absent(missing: list[int]) -> Verdict:
    """Ranks of which the text has no line."""
    ranks = _listed(missing)
    return (
        Text(
            "Every rank in this text waits at the same collective; of {ranks} there is no such "
            "line: they may have stopped before, and are what the others wait for.",
            ranks=ranks,
        ),
        "possible",
        Text("Look at the logs of {ranks}.", ranks=ranks),
    )


def _missing(waits: list[_Wait]) -> list[int]:
    """Ranks below the highest one seen that have no line."""
    seen = {wait.rank for wait in waits if wait.rank is not None}
    return [rank for rank in range(max(seen, default=-1)) if rank not in seen] if seen else []


def _listed(ranks: list[int]) -> Text:
    shown = ", ".join(map(str, ranks[:8])) + (f" (+{len(ranks) - 8})" if len(ranks) > 8 else "")
    return Text("rank {listed}", listed=shown)


def _facts(waits: list[_Wait]) -> tuple[Fact, ...]:
    if not waits:
        return ()
    first = waits[0]
    return (
        Fact(Text("collective"), first.operation.lower().strip("_")),
        Fact(Text("its number in the group"), first.sequence, "count"),
        Fact(Text("elements"), first.elements, "count"),
        Fact(Text("allowed"), first.limit_s, "s"),
        Fact(Text("ranks with this line"), len(waits), "count"),
    )


def _table(log: Log, waits: list[_Wait]) -> tuple[Block, ...]:
    if len(waits) < 2:
        return ()
    state = {int(m["rank"]): (int(m["queued"]), int(m["done"])) for m in _STATE.finditer(log.text)}
    rows = []
    for wait in waits[:_MOST]:
        queued, done = state.get(-1 if wait.rank is None else wait.rank, (None, None))
        rows.append(
            (wait.rank, wait.operation, wait.sequence, wait.elements, wait.ran_s, done, queued)
        )
    return (
        Table(
            Text("What each rank waited for"),
            (
                Column(verbatim("rank")),
                Column(Text("operation")),
                Column(Text("number"), "count"),
                Column(Text("elements"), "count"),
                Column(Text("waited"), "s"),
                Column(Text("last that ended"), "count"),
                Column(Text("last that began"), "count"),
            ),
            tuple(rows),
        ),
    )
