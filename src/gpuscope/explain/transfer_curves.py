"""Curves of a copy: rate over size, whole time in pieces, copying against computing."""

from __future__ import annotations

from gpuscope.errors import GpuscopeError
from gpuscope.explain.equal_work import ITEM_BYTES, square_product
from gpuscope.explain.transfer_case import DIRECTIONS, Case
from gpuscope.explain.types import (
    Axis,
    Column,
    Explorer,
    Lines,
    Mark,
    Output,
    Series,
    Slider,
    Table,
    Words,
)
from gpuscope.hardware import device as device_named

_SIZES = tuple(float(2**n) for n in range(10, 35))
_SIDES = (256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536)
_PIECES = (2**12, 2**16, 2**20, 2**24, 2**28)
_OTHERS = ("h200", "a100", "l40s", "rtx-4090", "mi300x", "gb200")

PINNED = Words("pinned", "锁页")
PAGEABLE = Words("pageable", "可分页")


def rate_over_size(case: Case) -> Lines:
    """Rate of pinned and pageable copies over size, against the link."""
    sizes = tuple(sorted({*_SIZES, float(case.size_bytes)}))
    here = float(case.size_bytes)
    marks = [
        Mark(Words("this copy, pinned", "本次拷贝，锁页"), here, case.rate(True), "good"),
        Mark(Words("this copy, pageable", "本次拷贝，可分页"), here, case.rate(False), "bad"),
        Mark(Words(case.link_name, case.link_name), y=case.link_bytes_per_s),
        Mark(
            Words("half the rate: latency = moving", "速率减半：延迟 = 搬运时间"),
            x=case.even_bytes(),
        ),
    ]
    return Lines(
        Words("Rate over the size of a copy", "速率随拷贝大小变化"),
        Axis(Words("size of one copy", "单次拷贝大小"), "bytes", log=True),
        Axis(Words("rate", "速率"), "bytes/s"),
        (
            Series(PINNED, sizes, tuple(case.rate(True, n) for n in sizes), role="copy"),
            Series(PAGEABLE, sizes, tuple(case.rate(False, n) for n in sizes), role="host"),
        ),
        tuple(marks),
        Words(
            "Small copies pay latency. Pageable copies above 1 MiB go through a staging buffer, "
            "and the CPU's copy into it sets the pace.",
            "小拷贝主要是延迟。超过 1 MiB 的可分页拷贝要经过暂存缓冲区，"
            "速度由 CPU 拷入缓冲区决定。",
        ),
    )  # fmt: skip


def in_pieces(case: Case) -> Table | None:
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
        Words("The same bytes in many copies (pinned)", "同样的字节分多次拷贝（锁页）"),
        (
            Column(Words("each", "每次"), "bytes"), Column(Words("copies", "次数"), "count"),
            Column(Words("whole time", "总时间"), "s"), Column(Words("rate", "速率"), "bytes/s"),
        ),
        tuple(rows), (len(rows) - 1,),
        Words(
            "Time on the copy engine only: the host also needs some microseconds to issue each.",
            "仅计拷贝引擎的时间：主机发出每次拷贝还需要几微秒。",
        ),
    )  # fmt: skip


def break_even(case: Case, dtype: str) -> Table | None:
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
        rows.append((side, 3 * each, found.flops / (3 * each), copying, found.time_s,
                     copying / found.time_s))  # fmt: skip
    first = next((n for n, row in enumerate(rows) if row[-1] <= 1), None)
    return Table(
        Words(
            f"One {dtype} product of square matrices: operands up, result back (pinned)",
            f"一次 {dtype} 方阵乘：上传两个操作数，取回结果（锁页）",
        ),
        (
            Column(Words("side", "边长")), Column(Words("bytes copied", "拷贝字节"), "bytes"),
            Column(Words("arithmetic per byte copied", "每拷贝字节的运算"), "flop/byte"),
            Column(Words("copying", "拷贝"), "s"), Column(Words("computing", "计算"), "s"),
            Column(Words("copying / computing", "拷贝 / 计算"), "ratio"),
        ),
        tuple(rows), () if first is None else (first,),
        Words(
            "Marked: the first that computes longer than it copies."
            if first is not None else "Even the largest copies longer than it computes.",
            "标出：第一个计算时间超过拷贝时间的大小。"
            if first is not None else "即使最大的也是拷贝时间更长。",
        ),
    )  # fmt: skip


def explorer(case: Case) -> Explorer:
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
        Words("Size, memory, direction, device", "大小、内存、方向与设备"),
        (
            Slider("device", Words("device", "设备"), tuple(c.device.name for c in cases)),
            Slider("way", Words("direction", "方向"), tuple(DIRECTIONS),
                   start=tuple(DIRECTIONS).index(case.way)),
            Slider("memory", Words("host memory", "主机内存"), ("pinned", "pageable")),
            Slider("size", Words("size", "大小"), sizes, "bytes",
                   sizes.index(float(case.size_bytes))),
        ),
        (
            Output("time", Words("time", "时间"), "s", tuple(times), role="copy"),
            Output("rate", Words("rate", "速率"), "bytes/s", tuple(rates), plotted=False),
        ),
        "size", log_x=True, log_y=True,
        reading=Words(
            "{size} {way} from {memory} memory on {device}: {time}, {rate}.",
            "{device} 上 {memory} 内存 {way} 拷贝 {size}：{time}，{rate}。",
        ),
    )  # fmt: skip
