"""Copying while computing: chunks, two buffers, and what remains visible."""

from __future__ import annotations

from dataclasses import dataclass

from gpuscope.explain.transfer_case import Case
from gpuscope.explain.types import (
    Bar,
    Bars,
    Code,
    CodeLine,
    Column,
    Part,
    Table,
    Words,
)

CHUNKS = (1, 2, 4, 8, 16, 32, 64, 128, 256)


@dataclass(frozen=True, slots=True)
class Overlap:
    """Copies and kernels in turns.

    Attributes:
        total_s: from the first copy's begin to the last kernel's end.
        copy_only_s, both_s, compute_only_s: parts of it; with `idle_s` they add up to it.
        idle_s: neither works (a copy waits for a buffer, then its kernel for the copy).
    """

    total_s: float
    copy_only_s: float
    both_s: float
    compute_only_s: float
    idle_s: float


def overlapped(copy_s: float, compute_s: float, chunks: int, buffers: int = 2) -> Overlap:
    """What `chunks` copies and as many kernels take, one copy engine and one stream.

    A kernel begins when its chunk is there and the kernel before has ended; a copy begins when the
    copy before has ended and the kernel that used its buffer, too.

    Args:
        copy_s: of one chunk.
        compute_s: of one chunk's kernel.
        chunks: how many.
        buffers: on the device; with 1 nothing overlaps.
    """
    copied, computed = [0.0] * chunks, [0.0] * chunks
    spans: list[tuple[float, float]] = []
    for n in range(chunks):
        free = computed[n - buffers] if n >= buffers else 0.0
        begin = max(copied[n - 1] if n else 0.0, free)
        copied[n] = begin + copy_s
        spans.append((begin, copied[n]))
        computed[n] = max(copied[n], computed[n - 1] if n else 0.0) + compute_s
    total = computed[-1]
    both = sum(
        max(0.0, min(end, computed[n]) - max(begin, computed[n] - compute_s))
        for begin, end in spans for n in range(chunks)
    )  # fmt: skip
    copy_only, compute_only = chunks * copy_s - both, chunks * compute_s - both
    idle = max(0.0, total - both - copy_only - compute_only)
    return Overlap(total, copy_only, both, compute_only, idle)


def in_chunks(case: Case, compute_s: float, chunks: int) -> Overlap:
    """The pinned copy in so many chunks beside `compute_s` of arithmetic."""
    copy_s = case.time_s(True, case.size_bytes / chunks)
    return overlapped(copy_s, compute_s / chunks, chunks)


def chunk_counts(case: Case) -> tuple[int, ...]:
    """Numbers of chunks that leave at least a byte for each."""
    return tuple(n for n in CHUNKS if n <= case.size_bytes)


def best_chunks(case: Case, compute_s: float) -> int:
    """The fewest chunks that end within 1 % of the best number's time."""
    totals = {n: in_chunks(case, compute_s, n).total_s for n in chunk_counts(case)}
    return min(n for n, total in totals.items() if total <= 1.01 * min(totals.values()))


def side_by_side(case: Case, compute_s: float) -> Bars:
    """Pageable, pinned, and pinned in chunks, with arithmetic as long as the pinned copy."""
    chunks = best_chunks(case, compute_s)
    found = in_chunks(case, compute_s, chunks)
    copy, both = Words("copying", "拷贝"), Words("both at once", "拷贝与计算同时")
    compute = Words("computing", "计算")

    def in_turn(pinned: bool) -> tuple[Part, ...]:
        return Part(copy, case.time_s(pinned), "copy"), Part(compute, compute_s, "compute")

    return Bars(
        Words(
            "A copy and arithmetic that lasts as long as the pinned copy",
            "拷贝，加上与锁页拷贝同样长的计算",
        ), "s",
        (
            Bar(Words("pageable, then compute", "可分页，先拷后算"), in_turn(False)),
            Bar(Words("pinned, then compute", "锁页，先拷后算"), in_turn(True)),
            Bar(
                Words(f"pinned, {chunks} chunks, two buffers", f"锁页，{chunks} 块，双缓冲"),
                (
                    Part(copy, found.copy_only_s, "copy"),
                    Part(both, found.both_s, "good"),
                    Part(compute, found.compute_only_s, "compute"),
                ),
            ),
        ),
        limit=max(case.time_s(True), compute_s),
        limit_label=Words("the longer of the two", "两者中较长者"),
        note=Words(
            "Only the first chunk's copy and the last chunk's kernel stand alone.",
            "只有第一块的拷贝和最后一块的计算是单独进行的。",
        ) if chunks > 1 else None,
    )  # fmt: skip


def chunk_table(case: Case, compute_s: float) -> Table:
    """The whole time over the number of chunks."""
    counts = chunk_counts(case)
    best = best_chunks(case, compute_s)
    rows = []
    for n in counts:
        found = in_chunks(case, compute_s, n)
        hidden = found.both_s / (n * case.time_s(True, case.size_bytes / n))
        rows.append((n, case.size_bytes / n, found.total_s, found.copy_only_s, hidden))
    return Table(
        Words("In how many chunks", "分成多少块"),
        (
            Column(Words("chunks", "块数"), "count"), Column(Words("each", "每块"), "bytes"),
            Column(Words("whole time", "总时间"), "s"),
            Column(Words("copying alone", "未被掩盖的拷贝"), "s"),
            Column(Words("of the copy hidden", "被掩盖的比例"), "share"),
        ),
        tuple(rows), (counts.index(best),),
        Words(
            "More chunks hide more, until each copy's latency counts; launching kernels for each "
            "chunk costs the host time that is not counted here.",
            "块越多掩盖得越多，直到每次拷贝的延迟变得重要；主机启动每块算子的时间未计入。",
        ),
    )  # fmt: skip


def how_to() -> Code:
    """The loop in PyTorch."""
    lines = (
        ('loader = DataLoader(data, batch_size=64, pin_memory=True)', Words(
            "batches arrive in page-locked memory, which the copy engine can read by itself",
            "批数据放在锁页内存里，拷贝引擎可以直接读取"), "good"),
        ('batches = iter(loader)', None, "plain"),
        ('copies = torch.cuda.Stream()', None, "plain"),
        ('def fetch(batch):', None, "plain"),
        ('    with torch.cuda.stream(copies):', Words(
            "a stream of its own: copies do not queue behind kernels",
            "单独的流：拷贝不会排在算子后面"), "plain"),
        ('        return batch.to("cuda", non_blocking=True)', Words(
            "returns at once only if `batch` is pinned; pageable memory makes the host wait",
            "只有 `batch` 是锁页内存时才立即返回；可分页内存会让主机等待"), "warning"),
        ('ahead = fetch(next(batches))', None, "plain"),
        ('for batch in batches:', None, "plain"),
        ('    torch.cuda.current_stream().wait_stream(copies)', Words(
            "the step begins when its data are there", "数据到齐后再开始这一步"), "plain"),
        ('    now, ahead = ahead, fetch(batch)', Words(
            "the next copy runs under this step: two buffers",
            "下一批的拷贝与这一步同时进行：双缓冲"), "good"),
        ('    now.record_stream(torch.cuda.current_stream())', Words(
            "keeps the allocator from reusing the buffer too soon",
            "避免分配器过早复用这块显存"), "plain"),
        ('    step(now)', None, "plain"),
        ('torch.cuda.current_stream().wait_stream(copies)', None, "plain"),
        ('step(ahead)', Words("the last batch", "最后一批"), "plain"),
    )  # fmt: skip
    return Code(
        Words("Double buffering in PyTorch", "PyTorch 中的双缓冲"), "python",
        tuple(
            CodeLine(n, text, note, tone)  # type: ignore[arg-type]
            for n, (text, note, tone) in enumerate(lines, start=1)
        ),
    )  # fmt: skip
