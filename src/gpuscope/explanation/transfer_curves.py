"""Curves of a copy: rate over size, whole time in pieces, copying against computing."""

from __future__ import annotations

from gpuscope.document.blocks import (
    Axis,
    Column,
    Explorer,
    Lines,
    Mark,
    Output,
    Series,
    Slider,
    Table,
)
from gpuscope.document.text import Text, verbatim
from gpuscope.errors import GpuscopeError
from gpuscope.explanation.equal_work import ITEM_BYTES, square_product
from gpuscope.explanation.transfer_case import DIRECTIONS, TransferCase
from gpuscope.hardware import device as device_named

_SIZES = tuple(float(2**n) for n in range(10, 35))
_SIDES = (256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536)
_PIECES = (2**12, 2**16, 2**20, 2**24, 2**28)
_OTHERS = ("h200", "a100", "l40s", "rtx-4090", "mi300x", "gb200")

PINNED = Text("pinned")
PAGEABLE = Text("pageable")


def rate_over_size(case: TransferCase) -> Lines:
    """Rate of pinned and pageable copies over size, against the link."""
    sizes = tuple(sorted({*_SIZES, float(case.size_bytes)}))
    here = float(case.size_bytes)
    marks = [
        Mark(Text("this copy, pinned"), here, case.rate(True), "good"),
        Mark(Text("this copy, pageable"), here, case.rate(False), "bad"),
        Mark(verbatim(case.link_name), y=case.link_bytes_per_s),
        Mark(Text("half the rate: latency = moving"), x=case.even_bytes()),
    ]
    return Lines(
        Text("Rate over the size of a copy"),
        Axis(Text("size of one copy"), "bytes", log=True),
        Axis(Text("rate"), "bytes/s"),
        (
            Series(PINNED, sizes, tuple(case.rate(True, n) for n in sizes), role="copy"),
            Series(PAGEABLE, sizes, tuple(case.rate(False, n) for n in sizes), role="host"),
        ),
        tuple(marks),
        Text(
            "Small copies pay latency. Pageable copies above 1 MiB go through a staging buffer, "
            "and the CPU's copy into it sets the pace."
        ),
    )


def in_pieces(case: TransferCase) -> Table | None:
    """The same bytes in many small copies; None where they are but one small piece."""
    pieces = [float(p) for p in _PIECES if p < case.size_bytes] + [float(case.size_bytes)]
    if len(pieces) < 2:
        return None
    rows = []
    for piece in pieces:
        count = case.size_bytes / piece
        total = count * case.time_s(True, piece)
        rows.append((piece, count, total, case.size_bytes / total))
    return Table(
        Text("The same bytes in many copies (pinned)"),
        (
            Column(Text("each"), "bytes"),
            Column(Text("copies"), "count"),
            Column(Text("whole time"), "s"),
            Column(Text("rate"), "bytes/s"),
        ),
        tuple(rows),
        (len(rows) - 1,),
        Text("Time on the copy engine only: the host also needs some microseconds to issue each."),
    )


def break_even(case: TransferCase, dtype: str) -> Table | None:
    """Square products: operands up, result back, against the arithmetic; None without a rate."""
    up, down = case.towards("h2d"), case.towards("d2h")
    rows = []
    for side in _SIDES:
        found = square_product(case.device, case.constants, dtype, side)
        if found is None:
            return None
        each = float(side) * side * ITEM_BYTES[dtype]
        if 3 * each > case.device.memory_usable_bytes:
            break
        copying = 2 * up.time_s(True, each) + down.time_s(True, each)
        rows.append(
            (
                side,
                3 * each,
                found.flops / (3 * each),
                copying,
                found.time_s,
                copying / found.time_s,
            )
        )
    first = next((n for n, row in enumerate(rows) if row[-1] <= 1), None)
    return Table(
        Text(
            "One {dtype} product of square matrices: operands up, result back (pinned)", dtype=dtype
        ),
        (
            Column(Text("side")),
            Column(Text("bytes copied"), "bytes"),
            Column(Text("arithmetic per byte copied"), "flop/byte"),
            Column(Text("copying"), "s"),
            Column(Text("computing"), "s"),
            Column(Text("copying / computing"), "ratio"),
        ),
        tuple(rows),
        () if first is None else (first,),
        (
            Text("Marked: the first that computes longer than it copies.")
            if first is not None
            else Text("Even the largest copies longer than it computes.")
        ),
    )


def explorer(case: TransferCase) -> Explorer:
    """Size, memory, direction and device as sliders."""
    sizes = tuple(sorted({float(2**n) for n in range(10, 37, 2)} | {float(case.size_bytes)}))
    cases = [case]
    for name in _OTHERS:
        try:
            other = case.on(device_named(name))
        except GpuscopeError:
            continue
        if other.device.id != case.device.id:
            cases.append(other)
    times: list[float] = []
    rates: list[float] = []
    for one in cases:
        for way in DIRECTIONS:
            for pinned in (True, False):
                for nbytes in sizes:
                    found = one.towards(way).time_s(pinned, nbytes)
                    times.append(found)
                    rates.append(nbytes / found)
    return Explorer(
        Text("Size, memory, direction, device"),
        (
            Slider("device", Text("device"), tuple(c.device.name for c in cases)),
            Slider(
                "way", Text("direction"), tuple(DIRECTIONS), start=tuple(DIRECTIONS).index(case.way)
            ),
            Slider("memory", Text("host memory"), ("pinned", "pageable")),
            Slider("size", Text("size"), sizes, "bytes", sizes.index(float(case.size_bytes))),
        ),
        (
            Output("time", Text("time"), "s", tuple(times), role="copy"),
            Output("rate", Text("rate"), "bytes/s", tuple(rates), plotted=False),
        ),
        "size",
        log_x=True,
        log_y=True,
        reading=Text("{size} {way} from {memory} memory on {device}: {time}, {rate}."),
    )
