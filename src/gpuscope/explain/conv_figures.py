"""Figures of `explain conv` over layouts, precisions and sizes."""

from __future__ import annotations

from dataclasses import replace

from gpuscope.explain.conv_case import DTYPES, Case
from gpuscope.explain.limits import limiter
from gpuscope.explain.neighbours import Sizes, curve, octaves
from gpuscope.explain.operators import peak_flops_per_s, precision
from gpuscope.explain.types import (
    Axis,
    Block,
    Cell,
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

LAYOUTS = {True: Words("channels-last (NHWC)", "channels-last（NHWC）"),
           False: Words("channels-first (NCHW)", "channels-first（NCHW）")}  # fmt: skip


def choices_table(case: Case) -> Table:
    """The same convolution in either layout and in each precision of the device."""
    rows: list[tuple[Cell, ...]] = []
    marked = []
    device = case.filter.on.device
    for name in DTYPES:
        if not device.supports(name):
            continue
        for nhwc in (True, False):
            form = replace(
                case.filter, dtype=precision(name, device, DTYPES), nhwc=nhwc
            )
            other = replace(case, filter=form)
            kernels = [kernel for each in other.kernels for kernel in each]
            turning = sum(k.duration_s for k in kernels if "nchw" in k.name)
            if form == case.filter:
                marked.append(len(rows))
            rows.append((
                name, LAYOUTS[nhwc], float(len(kernels)), turning, other.duration_s,
                other.duration_s / case.duration_s,
            ))  # fmt: skip
    return Table(
        Words("The same convolution in other layouts and precisions", "同一卷积的其他布局与精度"),
        (
            Column(Words("dtype", "精度")), Column(Words("layout", "布局")),
            Column(Words("kernels", "内核数"), "count"),
            Column(Words("converting", "转换"), "s"), Column(Words("time", "时间"), "s"),
            Column(Words("time, now = 1", "时间，当前 = 1"), "ratio"),
        ),
        tuple(rows), tuple(marked),
        Words("Tensor-core kernels want channels innermost; NCHW tensors are converted first.",
              "张量核心内核要求通道在最内层；NCHW 张量要先转换。"),
    )  # fmt: skip


def lines(case: Case, sizes: Sizes) -> tuple[Block, ...]:
    """Speed over the channels (where they are free) and time over the images."""
    blocks: list[Block] = []
    if case.filter.groups == 1:
        blocks.append(_channels(case, sizes))
    blocks.append(_images(case, sizes))
    return tuple(blocks)


def _channels(case: Case, sizes: Sizes) -> Lines:
    """Speed over the input channels: multiples of 8 as a line, the others as points."""
    now = sizes["C"]
    low, high = max(now - 96, 1), now + 96
    even = curve(sizes, "C", range(-(-low // 8) * 8, high + 1, 8), case.filter.price)
    odd = curve(sizes, "C", [c for c in range(low, high + 1, 3) if c % 8], case.filter.price)
    fixed = f"N = {sizes['N']}, H = {sizes['H']}, K = {sizes['K']}"
    return Lines(
        Words(f"Speed over C, input channels ({fixed})", f"速度随输入通道 C 变化（{fixed}）"),
        Axis(Words("C, input channels", "C（输入通道）")), Axis(Words("speed", "速度"), "flop/s"),
        (
            Series(Words("multiples of 8", "8 的倍数"), tuple(map(float, even.sizes)),
                   tuple(p.flops_per_s for p in even.prices), "line", "tensor"),
            Series(Words("others", "其他"), tuple(map(float, odd.sizes)),
                   tuple(p.flops_per_s for p in odd.prices), "points", "bad"),
        ),
        (Mark(Words("now", "当前"), float(now), case.flops / case.duration_s, "good"),),
        Words("Tensor-core kernels want rows of whole 16 bytes: other channels are padded first.",
              "张量核心内核要求每行为 16 字节的整数倍：其他通道数要先补齐。"),
    )  # fmt: skip


def _images(case: Case, sizes: Sizes) -> Lines:
    images = octaves(sizes["N"], 1, max(256, 2 * sizes["N"]), 2)
    room = case.filter.on.device.memory_usable_bytes
    each = sum(t.nbytes for op in case.ops for t in (*op.inputs, *op.outputs)) / sizes["N"]
    images = tuple(n for n in images if n == sizes["N"] or n * each <= room)
    found = curve(sizes, "N", images, case.filter.price)
    now = case.flops / case.duration_s
    return Lines(
        Words("Speed over the images of a batch", "速度随批内图像数变化"),
        Axis(Words("images", "图像数"), "count", log=True), Axis(Words("speed", "速度"), "flop/s"),
        (Series(Words("predicted", "预测"), tuple(float(n) for n in found.sizes),
                tuple(p.flops_per_s for p in found.prices), role="tensor"),),
        (Mark(Words("now", "当前"), float(sizes["N"]), now, "good"),),
        Words("Few images leave multiprocessors without a tile, and fixed costs weigh.",
              "图像太少时有的单元分不到分块，固定开销占比也高。"),
    )  # fmt: skip


def explorer(case: Case, sizes: Sizes) -> Explorer:
    """Sliders for channels, filters, images and the layout."""
    device = case.filter.on.device
    peak = peak_flops_per_s(device, case.filter.dtype.compute)
    images = tuple(sorted({1, 2, 4, 8, 16, 32, 64, 128, sizes["N"]}))
    free = case.filter.groups == 1
    channels = _stops(sizes["C"]) if free else (sizes["C"],)
    filters = _stops(sizes["K"]) if free else (sizes["K"],)
    points = []
    for nhwc in (True, False):
        form = replace(case.filter, nhwc=nhwc)
        for n, k, c in ((n, k, c) for n in images for k in filters for c in channels):
            other = form.case({**sizes, "N": n, "C": c, "K": k})
            time = other.duration_s
            main = max(other.kernels[0], key=lambda kernel: kernel.flops)
            points.append((
                time, other.flops / time, other.flops / time / peak,
                limiter(main.limiter, device),
            ))  # fmt: skip
    times, speeds, shares, limits = zip(*points, strict=True)
    layouts = ("NHWC", "NCHW")
    sliders = [
        Slider("layout", Words("layout", "布局"), layouts, start=0 if case.filter.nhwc else 1),
        _slider("n", Words("N, images", "N（图像数）"), images, sizes["N"]),
        _slider("k", Words("K, filters", "K（输出通道）"), filters, sizes["K"]),
        _slider("c", Words("C, input channels", "C（输入通道）"), channels, sizes["C"]),
    ]
    if not free:
        sliders = sliders[:2]
    reading = Words(
        "{n} images, {c} to {k} channels, {layout}: {time}, {speed}, {share} of the peak; set by"
        " {limit}.",
        "{n} 张图像，{c} 到 {k} 通道，{layout}：{time}，{speed}，峰值的 {share}；受限于{limit}。",
    )
    if not free:
        reading = Words("{n} images, {layout}: {time}, {speed}; set by {limit}.",
                        "{n} 张图像，{layout}：{time}，{speed}；受限于{limit}。")  # fmt: skip
    return Explorer(
        Words("Move the sizes", "拖动尺寸试试"), tuple(sliders),
        (
            Output("time", Words("time", "时间"), "s", times, role="tensor"),
            Output("speed", Words("speed", "速度"), "flop/s", speeds, plotted=False),
            Output("share", Words("share of the peak", "占峰值"), "share", shares, plotted=False),
            Output("limit", Words("set by", "受限于"), "", limits, plotted=False),
        ),
        x="c" if free else "n", reading=reading,
    )  # fmt: skip


def _stops(size: int) -> tuple[int, ...]:
    """Channels from few to many: multiples of 8, of 64, odd ones, and the asked one."""
    return tuple(sorted({3, 8, 16, 32, 60, 64, 65, 96, 128, 256, size}))


def _slider(key: str, label: Words, stops: tuple[int, ...], now: int) -> Slider:
    return Slider(key, label, tuple(float(s) for s in stops), start=stops.index(now))
