"""A collective that did not end in time: which ranks waited, for what, and who is missing.

Wording: pytorch/pytorch, torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from gpuscope.explain.errors.log import Log
from gpuscope.explain.errors.registry import error_reader
from gpuscope.explain.errors.types import Certainty, Diagnosis
from gpuscope.explain.types import Block, Column, Fact, Table, Words

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

Verdict = tuple[Words, Certainty, Words]
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


@error_reader
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
        Words("A collective did not end in time", "集合通信超时"),
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
    Words(
        "Read the log of every rank from the first error on: one that stopped for another reason "
        "(memory, an assertion, data) ends as this timeout on all others.",
        "从首个错误起查看每个 rank 的日志：某个 rank 因其他原因（显存、断言、数据）停下，在其余 "
        "rank 上就表现为超时。",
    ),
    Words(
        "Run again with TORCH_NCCL_TRACE_BUFFER_SIZE=20000 and TORCH_NCCL_DUMP_ON_TIMEOUT=1: the "
        "flight recorder then names the collective at which the ranks part.",
        "用 TORCH_NCCL_TRACE_BUFFER_SIZE=20000 和 TORCH_NCCL_DUMP_ON_TIMEOUT=1 重跑：Flight "
        "Recorder 会指出各 rank 在哪个集合通信处分叉。",
    ),
    Words(
        "Only if one rank truly works longer (evaluation, saving, building a data set) raise the "
        "limit: init_process_group(timeout=timedelta(hours=1)).",
        "只有当某个 rank 确实工作更久（评估、保存、构建数据集）时，才提高上限："
        "init_process_group(timeout=timedelta(hours=1))。",
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
        Words(
            "A rank waited for others longer than allowed. The message alone does not tell which "
            "rank did not come.",
            "某个 rank 等待其他 rank 超过了时限。仅凭该消息无法得知是哪个 rank 没有到达。",
        ),
        "possible",
        Words("Find the rank without this line.", "找出没有这一行的 rank。"),
    )


def _parted(waits: list[_Wait]) -> Verdict:
    """Ranks that call different things as the same collective."""
    number = waits[0].sequence
    told = sorted({(w.operation.lower().strip("_"), w.elements or 0) for w in waits})
    calls = ", ".join(f"{op} ({n:,} elements)" if n else op for op, n in told)
    calls_zh = "、".join(f"{op}（{n:,} 个元素）" if n else op for op, n in told)
    return (
        Words(
            f"The ranks part: as their collective number {number} they call different things "
            f"({calls}), so that none can end. (If they belong to different process groups, this "
            "proves nothing.)",
            f"各 rank 分叉：第 {number} 个集合通信调用了不同的操作：{calls_zh}，"
            "因此谁也无法结束。（若它们属于不同的进程组，则不能说明问题。）",
        ),
        "likely",
        Words(
            "Look for collectives under a condition that differs between ranks: a branch on the "
            "data, an evaluation on rank 0 only, a different number of batches.",
            "查找各 rank 条件不同的集合通信：依赖数据的分支、仅 rank 0 做的评估、批次数不等。",
        ),
    )


def _apart(waits: list[_Wait], sequences: set[int]) -> Verdict:
    """Ranks that wait at different collectives."""
    low, high = min(sequences), max(sequences)
    behind = [w.rank for w in waits if w.sequence == low and w.rank is not None]
    return (
        Words(
            f"The ranks are not at the same collective: numbers {low} to {high}; behind: "
            f"{_listed(behind)}. (Numbers count within a process group.)",
            f"各 rank 不在同一个集合通信上：编号 {low} 到 {high}；落后的是 {_listed(behind)}。"
            "（编号在各进程组内计数。）",
        ),
        "likely",
        Words("Look at the ranks that are behind first.", "先查看落后的 rank。"),
    )


def _absent(missing: list[int]) -> Verdict:
    """Ranks of which the text has no line."""
    ranks = _listed(missing)
    return (
        Words(
            f"Every rank in this text waits at the same collective; of {ranks} there is no such "
            "line: they may have stopped before, and are what the others wait for.",
            f"文本中的各 rank 都在等同一个集合通信；没有 {ranks} 的记录："
            "它们可能更早停下，正是其他 rank 等待的对象。",
        ),
        "possible",
        Words(f"Look at the logs of {ranks}.", f"查看 {ranks} 的日志。"),
    )


def _missing(waits: list[_Wait]) -> list[int]:
    """Ranks below the highest one seen that have no line."""
    seen = {wait.rank for wait in waits if wait.rank is not None}
    return [rank for rank in range(max(seen, default=-1)) if rank not in seen] if seen else []


def _listed(ranks: list[int]) -> str:
    shown = ", ".join(map(str, ranks[:8]))
    return f"rank {shown}" + (f" (+{len(ranks) - 8})" if len(ranks) > 8 else "")


def _facts(waits: list[_Wait]) -> tuple[Fact, ...]:
    if not waits:
        return ()
    first = waits[0]
    return (
        Fact(Words("collective", "集合通信"), first.operation.lower().strip("_")),
        Fact(Words("its number in the group", "在组内的编号"), first.sequence, "count"),
        Fact(Words("elements", "元素数"), first.elements, "count"),
        Fact(Words("allowed", "时限"), first.limit_s, "s"),
        Fact(Words("ranks with this line", "出现该行的 rank 数"), len(waits), "count"),
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
            Words("What each rank waited for", "各 rank 在等什么"),
            (
                Column(Words("rank", "rank")),
                Column(Words("operation", "操作")),
                Column(Words("number", "编号"), "count"),
                Column(Words("elements", "元素数"), "count"),
                Column(Words("waited", "已等待"), "s"),
                Column(Words("last that ended", "最后完成"), "count"),
                Column(Words("last that began", "最后入队"), "count"),
            ),
            tuple(rows),
        ),
    )
