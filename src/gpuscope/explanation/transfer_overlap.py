"""Copying while computing: chunks, two buffers, and what remains visible."""

from __future__ import annotations

from dataclasses import dataclass

from gpuscope.document.blocks import Bar, Bars, Code, CodeLine, Column, Part, Table
from gpuscope.document.text import Text
from gpuscope.explanation.transfer_case import TransferCase

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
        for begin, end in spans
        for n in range(chunks)
    )
    copy_only, compute_only = chunks * copy_s - both, chunks * compute_s - both
    idle = max(0.0, total - both - copy_only - compute_only)
    return Overlap(total, copy_only, both, compute_only, idle)


def in_chunks(case: TransferCase, compute_s: float, chunks: int) -> Overlap:
    """The pinned copy in so many chunks beside `compute_s` of arithmetic."""
    copy_s = case.time_s(True, case.size_bytes / chunks)
    return overlapped(copy_s, compute_s / chunks, chunks)


def chunk_counts(case: TransferCase) -> tuple[int, ...]:
    """Numbers of chunks that leave at least a byte for each."""
    return tuple(n for n in CHUNKS if n <= case.size_bytes)


def best_chunks(case: TransferCase, compute_s: float) -> int:
    """The fewest chunks that end within 1 % of the best number's time."""
    totals = {n: in_chunks(case, compute_s, n).total_s for n in chunk_counts(case)}
    return min(n for n, total in totals.items() if total <= 1.01 * min(totals.values()))


def side_by_side(case: TransferCase, compute_s: float) -> Bars:
    """Pageable, pinned, and pinned in chunks, with arithmetic as long as the pinned copy."""
    chunks = best_chunks(case, compute_s)
    found = in_chunks(case, compute_s, chunks)
    copy, both = Text("copying"), Text("both at once")
    compute = Text("computing")

    def in_turn(pinned: bool) -> tuple[Part, ...]:
        return Part(copy, case.time_s(pinned), "copy"), Part(compute, compute_s, "compute")

    return Bars(
        Text("A copy and arithmetic that lasts as long as the pinned copy"),
        "s",
        (
            Bar(Text("pageable, then compute"), in_turn(False)),
            Bar(Text("pinned, then compute"), in_turn(True)),
            Bar(
                Text("pinned, {chunks} chunks, two buffers", chunks=chunks),
                (
                    Part(copy, found.copy_only_s, "copy"),
                    Part(both, found.both_s, "good"),
                    Part(compute, found.compute_only_s, "compute"),
                ),
            ),
        ),
        limit=max(case.time_s(True), compute_s),
        limit_label=Text("the longer of the two"),
        note=Text("Only the first chunk's copy and the last chunk's kernel stand alone.")
        if chunks > 1
        else None,
    )


def chunk_table(case: TransferCase, compute_s: float) -> Table:
    """The whole time over the number of chunks."""
    counts = chunk_counts(case)
    best = best_chunks(case, compute_s)
    rows = []
    for n in counts:
        found = in_chunks(case, compute_s, n)
        hidden = found.both_s / (n * case.time_s(True, case.size_bytes / n))
        rows.append((n, case.size_bytes / n, found.total_s, found.copy_only_s, hidden))
    return Table(
        Text("In how many chunks"),
        (
            Column(Text("chunks"), "count"),
            Column(Text("each"), "bytes"),
            Column(Text("whole time"), "s"),
            Column(Text("copying alone"), "s"),
            Column(Text("of the copy hidden"), "share"),
        ),
        tuple(rows),
        (counts.index(best),),
        Text(
            "More chunks hide more, until each copy's latency counts; launching kernels for each "
            "chunk costs the host time that is not counted here."
        ),
    )


def how_to() -> Code:
    """The loop in PyTorch."""
    lines = (
        (
            "loader = DataLoader(data, batch_size=64, pin_memory=True)",
            Text("batches arrive in page-locked memory, which the copy engine can read by itself"),
            "good",
        ),
        ("batches = iter(loader)", None, "plain"),
        ("copies = torch.cuda.Stream()", None, "plain"),
        ("def fetch(batch):", None, "plain"),
        (
            "    with torch.cuda.stream(copies):",
            Text("a stream of its own: copies do not queue behind kernels"),
            "plain",
        ),
        (
            '        return batch.to("cuda", non_blocking=True)',
            Text("returns at once only if `batch` is pinned; pageable memory makes the host wait"),
            "warning",
        ),
        ("ahead = fetch(next(batches))", None, "plain"),
        ("for batch in batches:", None, "plain"),
        (
            "    torch.cuda.current_stream().wait_stream(copies)",
            Text("the step begins when its data are there"),
            "plain",
        ),
        (
            "    now, ahead = ahead, fetch(batch)",
            Text("the next copy runs under this step: two buffers"),
            "good",
        ),
        (
            "    now.record_stream(torch.cuda.current_stream())",
            Text("keeps the allocator from reusing the buffer too soon"),
            "plain",
        ),
        ("    step(now)", None, "plain"),
        ("torch.cuda.current_stream().wait_stream(copies)", None, "plain"),
        ("step(ahead)", Text("the last batch"), "plain"),
    )
    return Code(
        Text("Double buffering in PyTorch"),
        "python",
        tuple(
            CodeLine(n, text, note, tone)  # type: ignore[arg-type]
            for n, (text, note, tone) in enumerate(lines, start=1)
        ),
    )
