"""`explain conv`: the matrix product that a convolution is, its layout, and its limits."""

from __future__ import annotations

from gpuscope.cost.types import Kernel
from gpuscope.document.blocks import (
    Bar,
    Bars,
    Block,
    Cell,
    Column,
    Explanation,
    Fact,
    Facts,
    Paragraph,
    Part,
    Role,
    Section,
    Table,
)
from gpuscope.document.quantities import Bytes, Number, Percent, Rate, Seconds
from gpuscope.document.text import Text, plural, verbatim
from gpuscope.explanation.conv_case import DTYPES, ConvCase, Filter
from gpuscope.explanation.conv_figures import choices_table, explorer, lines
from gpuscope.explanation.limits import kernel_limiter, limiter
from gpuscope.explanation.neighbours import Sizes, neighbour_table
from gpuscope.explanation.operators import (
    interval_s,
    must_fit,
    peak_flops_per_s,
    precision,
    repeated_time,
    steady,
    target,
    whole,
)
from gpuscope.explanation.registry import topic
from gpuscope.explanation.tiling import tile_blocks, time_bars
from gpuscope.explanation.traffic import flow_diagram, traffic_table
from gpuscope.hardware import Device

PASSES = {
    "forward": Text("forward"),
    "data_gradient": Text("gradient of the input"),
    "weight_gradient": Text("gradient of the weight"),
}

SOURCES = (
    "Implicit matrix product: Chetlur et al., cuDNN: Efficient Primitives for Deep Learning, 2014",
    "Layouts and channel multiples: NVIDIA, Convolutional Layers User's Guide",
    Text(
        "Time model: {file}; constants fitted to measurements (docs/calibration.md)",
        file="src/gpuscope/cost/convolution/model.py",
    ),
)


@topic("conv")
def conv(
    n: int,
    c: int,
    h: int,
    w: int,
    k: int,
    *,
    kernel: int = 3,
    stride: int = 1,
    padding: int = 1,
    dilation: int = 1,
    groups: int = 1,
    dtype: str = "bf16",
    on: str | Device = "h200",
    channels_last: bool = False,
    backward: bool = False,
) -> Explanation:
    """Explain one two-dimensional convolution.

    Args:
        n, c, h, w: images, input channels, height, width.
        k: output channels (filters).
        kernel, stride, padding, dilation: the same in both directions.
        groups: channel groups; as many as input channels is depthwise.
        dtype: bf16, fp16, tf32, fp32, fp64.
        on: a device.
        channels_last: tensors are stored NHWC; by default NCHW, as PyTorch's are.
        backward: the gradients, too.

    Raises:
        InvalidValueError: sizes that cannot be, or do not fit in memory.
        UnknownNameError, UnsupportedError: no such device or dtype, or not on this device.
    """
    for name, value, least in (
        ("kernel", kernel, 1),
        ("stride", stride, 1),
        ("padding", padding, 0),
        ("dilation", dilation, 1),
        ("groups", groups, 1),
    ):
        whole(name, value, least)
    where = target(on)
    form = Filter(
        where,
        precision(dtype, where.device, DTYPES),
        kernel,
        stride,
        padding,
        dilation,
        groups,
        channels_last,
        backward,
    )
    sizes = {"N": n, "C": c, "H": h, "W": w, "K": k}
    case = form.case(sizes)
    for op in case.ops:
        must_fit(op, where.device)
    layout = "NHWC" if channels_last else "NCHW"
    title = Text(
        "Convolution {n} x {c} x {h} x {w}, {k} of {kernel} x {kernel}, {layout}, {dtype}, "
        "{device}",
        n=n,
        c=c,
        h=h,
        w=w,
        k=k,
        kernel=kernel,
        layout=layout,
        dtype=form.dtype.name,
        device=where.device.name,
    )
    return Explanation(
        "conv",
        title,
        summary=_summary(case),
        sections=_sections(case, sizes),
        commands=_commands(case),
        sources=SOURCES,
        assumptions=_assumptions(case),
    )


def _sections(case: ConvCase, sizes: Sizes) -> tuple[Section, ...]:
    found = case.tiled
    first = Section(Text("The time"), _time(case))
    others = Section(
        Text("Other sizes"),
        (
            neighbour_table(sizes, _dims(case), case.filter.price),
            *lines(case, sizes),
            explorer(case, sizes),
        ),
    )
    layout = Section(Text("Layout and precision"), (choices_table(case),))
    if found is None:
        why = Section(Text("Why it is different"), _depthwise(case))
        return first, why, layout, others
    return (
        first,
        Section(
            Text("The matrix product inside"),
            (_product_table(case), *tile_blocks(found, case.time_s)),
        ),
        Section(Text("Bytes"), (_patches(case), traffic_table(found), flow_diagram(found))),
        layout,
        others,
    )


def _dims(case: ConvCase) -> dict[str, Text]:
    names = {
        "N": Text("N, images"),
        "C": Text("C, input channels"),
        "K": Text("K, filters"),
        "H": verbatim("H"),
    }
    keys = ("C", "K", "N") if case.filter.groups == 1 else ("N", "H")
    return {key: names[key] for key in keys}


def _all(case: ConvCase) -> tuple[Kernel, ...]:
    return tuple(kernel for each in case.kernels for kernel in each)


def _conversions_s(case: ConvCase) -> float:
    return sum(k.duration_s for k in _all(case) if "nchw" in k.name)


def _main(case: ConvCase) -> Kernel:
    return max(case.kernels[0], key=lambda kernel: kernel.flops)


def _summary(case: ConvCase) -> tuple[Text, ...]:
    kernels = _all(case)
    low, high = interval_s(kernels)
    device = case.filter.on.device
    speed = case.flops / case.duration_s
    peak = peak_flops_per_s(device, case.filter.dtype.compute)
    passes = PASSES["forward"]
    if case.filter.backward:
        passes = Text("forward and backward")
    sets = kernel_limiter(_main(case), device)
    lines_ = [
        Text(
            "About {duration} on {device}, {passes} (80 % interval {low}-{high}): {speed}, "
            "{speed_2} of the peak.",
            duration=Seconds(case.duration_s),
            device=device.name,
            passes=passes,
            low=Seconds(low),
            high=Seconds(high),
            speed=Rate(speed, "FLOP/s"),
            speed_2=Percent(speed / peak),
        ),
        Text("What sets the time of the main kernel: {sets}.", sets=sets),
    ]
    lines_.append(_inside(case))
    turning = _conversions_s(case)
    if turning:
        share = Percent(turning / case.duration_s)
        lines_.append(
            Text(
                "{share} of it is turning NCHW into NHWC and back: store tensors channels-last.",
                share=share,
            )
        )
    return tuple(lines_)


def _inside(case: ConvCase) -> Text:
    """What the arithmetic is: a product, or nothing that tensor cores could do."""
    found = case.tiled
    if found is None:
        return Text(
            "It is depthwise: each channel has a filter of its own, so that nothing is shared and "
            "the tensor cores have no product to compute."
        )
    p = found.problem
    return plural(
        "It is a product of M = {m}, N = {n}, K = {k} in disguise: {grid} tiles, {waves} waves.",
        "It is {count} products of M = {m}, N = {n}, K = {k} in disguise: {grid} tiles, {waves} "
        "waves.",
        p.batch,
        m=p.m,
        n=p.n,
        k=p.k,
        grid=Number(found.plan.grid, ","),
        waves=Number(found.plan.waves, ".2f"),
    )


def _time(case: ConvCase) -> tuple[Block, ...]:
    kernels = _all(case)
    low, high = interval_s(kernels)
    device, origin = case.filter.on.device, case.filter.on.origin
    peak = peak_flops_per_s(device, case.filter.dtype.compute)
    endless = steady(case.ops, case.filter.on, case.filter.dtype.settings)
    moved = sum(k.read_bytes + k.written_bytes for k in kernels)
    speed = case.flops / case.duration_s
    facts = Facts(
        (
            Fact(Text("time by itself"), case.duration_s, "s", origin, low, high),
            repeated_time(endless, origin),
            Fact(
                Text("arithmetic"),
                case.flops,
                "flop",
                "computed",
                note=Text("2 x N x OH x OW x K x C x taps / groups, for each pass"),
            ),
            Fact(
                Text("size of the result"),
                f"{case.n} x {case.k} x {case.rows_out} x {case.columns_out}",
            ),
            Fact(Text("speed"), speed, "flop/s", origin),
            Fact(
                Text("share of the dense peak"),
                speed / peak,
                "share",
                origin,
                note=verbatim(Rate(peak, "FLOP/s")),
            ),
            Fact(
                Text("arithmetic intensity"),
                case.flops / moved if moved else None,
                "flop/byte",
                "computed",
            ),
            Fact(
                Text("ridge of the roofline"),
                peak / device.memory_bandwidth_bytes_per_s,
                "flop/byte",
                "computed",
            ),
        )
    )
    blocks: list[Block] = [facts, _kernel_bars(case)]
    if case.tiled is not None:
        title = Text("Where the forward product's time goes")
        blocks.append(time_bars(case.tiled, title))
    return tuple(blocks)


def _kernel_bars(case: ConvCase) -> Bars:
    bars = []
    for kernel in _all(case):
        role: Role = "tensor" if kernel.flops else "waste"
        words = verbatim(kernel.name)
        bars.append(Bar(words, (Part(words, kernel.duration_s, role),)))
    return Bars(
        Text("Kernels, in launch order"),
        "s",
        tuple(bars),
        note=Text("Kernels without arithmetic only move or turn data."),
    )


def _product_table(case: ConvCase) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for at, (_, product, _) in enumerate(case.products):
        problem = product.problem
        found = case.tiled_at(at)
        rows.append(
            (
                PASSES[product.which],
                float(problem.batch),
                float(problem.m),
                float(problem.n),
                float(problem.k),
                found.plan.tile.name,
                round(found.plan.waves, 2),
                found.duration_s,
                limiter(found.limiter, found.device),
            )
        )
    return Table(
        Text("Each pass as a matrix product"),
        (
            Column(Text("pass")),
            Column(Text("products"), "count"),
            Column(verbatim("M")),
            Column(verbatim("N")),
            Column(verbatim("K")),
            Column(Text("tile")),
            Column(Text("waves")),
            Column(Text("time"), "s"),
            Column(Text("set by")),
        ),
        tuple(rows),
        note=Text(
            "Forward: M = images x output positions, N = filters, K = channels x filter positions. "
            "The gradient of the weight sums over all positions: its K is the large one."
        ),
    )


def _patches(case: ConvCase) -> Paragraph:
    shape = case.shape
    item = case.ops[0].inputs[0].itemsize
    depth = shape.channels_in * shape.taps
    patches = shape.images * shape.positions_out * depth * item
    own = case.ops[0].inputs[0].nbytes
    return Paragraph(
        Text(
            "Written out, the patches would be a matrix of {patches}, {patches_2} times the input "
            "of {own}. They never are: the kernel reads each patch where it lies (an implicit "
            "product).",
            patches=Bytes(patches),
            patches_2=Number(patches / own),
            own=Bytes(own),
        )
    )


def _depthwise(case: ConvCase) -> tuple[Block, ...]:
    main = _main(case)
    device = case.filter.on.device
    moved = main.read_bytes + main.written_bytes
    own = main.flops / moved
    vector = peak_flops_per_s(device, "float32")
    bars = Bars(
        Text("What the forward kernel would take if only one thing counted"),
        "s",
        (
            Bar(Text("device memory"), (Part(Text("memory"), main.memory_s, "memory"),)),
            Bar(
                Text("arithmetic and indexing"),
                (Part(Text("arithmetic"), main.compute_s, "compute"),),
            ),
            Bar(Text("predicted"), (Part(Text("time"), main.duration_s, "other"),)),
        ),
    )
    return (
        Paragraph(
            Text(
                "It does {own} FLOP for each byte, far below the ridge of {vector} even of the "
                "vector lanes. No operand is shared between channels, so that tiles would re-use "
                "nothing: bytes and index arithmetic set the time, not FLOPs.",
                own=Number(own),
                vector=Number(vector / device.memory_bandwidth_bytes_per_s),
            ),
            "key",
        ),
        bars,
    )


def _commands(case: ConvCase) -> tuple[str, ...]:
    f = case.filter
    base = (
        f"gpuscope explain conv {case.n} {case.c} {case.h} {case.w} {case.k} --kernel {f.kernel}"
        f" --stride {f.stride} --padding {f.padding} --dtype {f.dtype.name} --on {f.on.device.id}"
    )
    if f.groups_of(case.c) > 1:
        base += f" --groups {f.groups_of(case.c)}"
    other = "--channels-first" if f.nhwc else "--channels-last"
    own = "--channels-last" if f.nhwc else "--channels-first"
    return f"{base} {other}", f"{base} {own} --backward", f"{base} {own} --report conv.html"


def _assumptions(case: ConvCase) -> tuple[Text, ...]:
    lines_ = [
        Text("No input is in the L2 cache at the start."),
        Text(
            "cuDNN's choice among its algorithms is taken to be an implicit product; Winograd and "
            "FFT, which it sometimes prefers in single precision, are not modelled."
        ),
        Text(
            "Rows of channels that are no multiple of 16 bytes are padded by kernels of their own, "
            "as recorded on an H200; for such sizes times may be too low by up to half."
        ),
        *case.filter.on.assumptions,
    ]
    return tuple(lines_)
