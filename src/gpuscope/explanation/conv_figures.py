"""Figures of `explain conv` over layouts, precisions and sizes."""

from __future__ import annotations

from dataclasses import replace

from gpuscope.document.blocks import (
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
)
from gpuscope.document.text import Text
from gpuscope.explanation.conv_case import DTYPES, ConvCase
from gpuscope.explanation.limits import kernel_limiter
from gpuscope.explanation.neighbours import Sizes, curve, octaves
from gpuscope.explanation.operators import peak_flops_per_s, precision

LAYOUTS = {True: Text("channels-last (NHWC)"), False: Text("channels-first (NCHW)")}


def choices_table(case: ConvCase) -> Table:
    """The same convolution in either layout and in each precision of the device."""
    rows: list[tuple[Cell, ...]] = []
    marked = []
    device = case.filter.on.device
    for name in DTYPES:
        if not device.supports(name):
            continue
        for nhwc in (True, False):
            form = replace(case.filter, dtype=precision(name, device, DTYPES), nhwc=nhwc)
            other = replace(case, filter=form)
            kernels = [kernel for each in other.kernels for kernel in each]
            turning = sum(k.duration_s for k in kernels if "nchw" in k.name)
            if form == case.filter:
                marked.append(len(rows))
            rows.append(
                (
                    name,
                    LAYOUTS[nhwc],
                    float(len(kernels)),
                    turning,
                    other.duration_s,
                    other.duration_s / case.duration_s,
                )
            )
    return Table(
        Text("The same convolution in other layouts and precisions"),
        (
            Column(Text("dtype")),
            Column(Text("layout")),
            Column(Text("kernels"), "count"),
            Column(Text("converting"), "s"),
            Column(Text("time"), "s"),
            Column(Text("time, now = 1"), "ratio"),
        ),
        tuple(rows),
        tuple(marked),
        Text("Tensor-core kernels want channels innermost; NCHW tensors are converted first."),
    )


def lines(case: ConvCase, sizes: Sizes) -> tuple[Block, ...]:
    """Speed over the channels (where they are free) and time over the images."""
    blocks: list[Block] = []
    if case.filter.groups == 1:
        blocks.append(_channels(case, sizes))
    blocks.append(_images(case, sizes))
    return tuple(blocks)


def _channels(case: ConvCase, sizes: Sizes) -> Lines:
    """Speed over the input channels: multiples of 8 as a line, the others as points."""
    now = sizes["C"]
    low, high = max(now - 96, 1), now + 96
    even = curve(sizes, "C", range(-(-low // 8) * 8, high + 1, 8), case.filter.price)
    odd = curve(sizes, "C", [c for c in range(low, high + 1, 3) if c % 8], case.filter.price)
    fixed = f"N = {sizes['N']}, H = {sizes['H']}, K = {sizes['K']}"
    return Lines(
        Text("Speed over C, input channels ({fixed})", fixed=fixed),
        Axis(Text("C, input channels")),
        Axis(Text("speed"), "flop/s"),
        (
            Series(
                Text("multiples of 8"),
                tuple(map(float, even.sizes)),
                tuple(p.flops_per_s for p in even.prices),
                "line",
                "tensor",
            ),
            Series(
                Text("others"),
                tuple(map(float, odd.sizes)),
                tuple(p.flops_per_s for p in odd.prices),
                "points",
                "bad",
            ),
        ),
        (Mark(Text("now"), float(now), case.flops / case.duration_s, "good"),),
        Text("Tensor-core kernels want rows of whole 16 bytes: other channels are padded first."),
    )


def _images(case: ConvCase, sizes: Sizes) -> Lines:
    images = octaves(sizes["N"], 1, max(256, 2 * sizes["N"]), 2)
    room = case.filter.on.device.memory_usable_bytes
    each = sum(t.nbytes for op in case.ops for t in (*op.inputs, *op.outputs)) / sizes["N"]
    images = tuple(n for n in images if n == sizes["N"] or n * each <= room)
    found = curve(sizes, "N", images, case.filter.price)
    now = case.flops / case.duration_s
    return Lines(
        Text("Speed over the images of a batch"),
        Axis(Text("images"), "count", log=True),
        Axis(Text("speed"), "flop/s"),
        (
            Series(
                Text("predicted"),
                tuple(float(n) for n in found.sizes),
                tuple(p.flops_per_s for p in found.prices),
                role="tensor",
            ),
        ),
        (Mark(Text("now"), float(sizes["N"]), now, "good"),),
        Text("Few images leave multiprocessors without a tile, and fixed costs weigh."),
    )


def explorer(case: ConvCase, sizes: Sizes) -> Explorer:
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
            points.append(
                (time, other.flops / time, other.flops / time / peak, kernel_limiter(main, device))
            )
    times, speeds, shares, limits = zip(*points, strict=True)
    layouts = ("NHWC", "NCHW")
    sliders = [
        Slider("layout", Text("layout"), layouts, start=0 if case.filter.nhwc else 1),
        _slider("n", Text("N, images"), images, sizes["N"]),
        _slider("k", Text("K, filters"), filters, sizes["K"]),
        _slider("c", Text("C, input channels"), channels, sizes["C"]),
    ]
    if not free:
        sliders = sliders[:2]
    reading = Text(
        "{n} images, {c} to {k} channels, {layout}: {time}, {speed}, {share} of the peak; set by "
        "{limit}."
    )
    if not free:
        reading = Text("{n} images, {layout}: {time}, {speed}; set by {limit}.")
    return Explorer(
        Text("Move the sizes"),
        tuple(sliders),
        (
            Output("time", Text("time"), "s", times, role="tensor"),
            Output("speed", Text("speed"), "flop/s", speeds, plotted=False),
            Output("share", Text("share of the peak"), "share", shares, plotted=False),
            Output("limit", Text("set by"), "", limits, plotted=False),
        ),
        x="c" if free else "n",
        reading=reading,
    )


def _stops(size: int) -> tuple[int, ...]:
    """Channels from few to many: multiples of 8, of 64, odd ones, and the asked one."""
    return tuple(sorted({3, 8, 16, 32, 60, 64, 65, 96, 128, 256, size}))


def _slider(key: str, label: Text, stops: tuple[int, ...], now: int) -> Slider:
    return Slider(key, label, tuple(float(s) for s in stops), start=stops.index(now))
