"""`explain conv`: the matrix product that a convolution is, its layout, and its limits."""

from __future__ import annotations

from gpuscope.cost.types import Kernel
from gpuscope.explain.conv_case import DTYPES, Case, Filter
from gpuscope.explain.conv_figures import choices_table, explorer, lines
from gpuscope.explain.limits import limiter
from gpuscope.explain.neighbours import Sizes, neighbour_table
from gpuscope.explain.numbers import percent, rate, seconds, size, three
from gpuscope.explain.operators import (
    interval_s,
    must_fit,
    peak_flops_per_s,
    precision,
    steady,
    target,
    whole,
)
from gpuscope.explain.registry import topic
from gpuscope.explain.tiling import tile_blocks, time_bars
from gpuscope.explain.traffic import flow_diagram, traffic_table
from gpuscope.explain.types import (
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
    Words,
)
from gpuscope.hardware import Device

PASSES = {
    "forward": Words("forward", "前向"),
    "data_gradient": Words("gradient of the input", "输入梯度"),
    "weight_gradient": Words("gradient of the weight", "权重梯度"),
}

SOURCES = (
    "Implicit matrix product: Chetlur et al., cuDNN: Efficient Primitives for Deep Learning, 2014",
    "Layouts and channel multiples: NVIDIA, Convolutional Layers User's Guide",
    "Time model: src/gpuscope/cost/convolution.py; constants fitted to measurements"
    " (docs/calibration.md)",
)


@topic("conv")
def conv(
    n: int, c: int, h: int, w: int, k: int, *, kernel: int = 3, stride: int = 1,
    padding: int = 1, dilation: int = 1, groups: int = 1, dtype: str = "bf16",
    on: str | Device = "h200", channels_last: bool = False, backward: bool = False,
) -> Explanation:  # fmt: skip
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
        ("kernel", kernel, 1), ("stride", stride, 1), ("padding", padding, 0),
        ("dilation", dilation, 1), ("groups", groups, 1),
    ):  # fmt: skip
        whole(name, value, least)
    where = target(on)
    form = Filter(
        where, precision(dtype, where.device, DTYPES), kernel, stride, padding, dilation, groups,
        channels_last, backward,
    )  # fmt: skip
    sizes = {"N": n, "C": c, "H": h, "W": w, "K": k}
    case = form.case(sizes)
    for op in case.ops:
        must_fit(op, where.device)
    layout = "NHWC" if channels_last else "NCHW"
    title = (
        f"{n} x {c} x {h} x {w}, {k} of {kernel} x {kernel}, {layout}, {form.dtype.name}, "
        f"{where.device.name}"
    )
    title_zh = title.replace(f"{k} of {kernel} x {kernel}", f"{k} 个 {kernel} x {kernel}")
    return Explanation(
        "conv", Words(f"Convolution {title}", f"卷积 {title_zh}"),
        summary=_summary(case),
        sections=_sections(case, sizes),
        commands=_commands(case), sources=SOURCES, assumptions=_assumptions(case),
    )  # fmt: skip


def _sections(case: Case, sizes: Sizes) -> tuple[Section, ...]:
    found = case.tiled
    first = Section(Words("The time", "时间"), _time(case))
    others = Section(Words("Other sizes", "其他尺寸"), (
        neighbour_table(sizes, _dims(case), case.filter.price), *lines(case, sizes),
        explorer(case, sizes),
    ))  # fmt: skip
    layout = Section(Words("Layout and precision", "布局与精度"), (choices_table(case),))
    if found is None:
        why = Section(Words("Why it is different", "为何不同"), _depthwise(case))
        return first, why, layout, others
    return (
        first,
        Section(Words("The matrix product inside", "其中的矩阵乘"), (
            _product_table(case), *tile_blocks(found, case.time_s),
        )),
        Section(Words("Bytes", "字节"), (
            _patches(case), traffic_table(found), flow_diagram(found),
        )),
        layout, others,
    )  # fmt: skip


def _dims(case: Case) -> dict[str, Words]:
    names = {
        "N": Words("N, images", "N（图像数）"), "C": Words("C, input channels", "C（输入通道）"),
        "K": Words("K, filters", "K（输出通道）"), "H": Words("H", "H"),
    }  # fmt: skip
    keys = ("C", "K", "N") if case.filter.groups == 1 else ("N", "H")
    return {key: names[key] for key in keys}


def _all(case: Case) -> tuple[Kernel, ...]:
    return tuple(kernel for each in case.kernels for kernel in each)


def _conversions_s(case: Case) -> float:
    return sum(k.duration_s for k in _all(case) if "nchw" in k.name)


def _main(case: Case) -> Kernel:
    return max(case.kernels[0], key=lambda kernel: kernel.flops)


def _summary(case: Case) -> tuple[Words, ...]:
    kernels = _all(case)
    low, high = interval_s(kernels)
    device = case.filter.on.device
    speed = case.flops / case.duration_s
    peak = peak_flops_per_s(device, case.filter.dtype.compute)
    passes = PASSES["forward"]
    if case.filter.backward:
        passes = Words("forward and backward", "前向加反向")
    sets = limiter(_main(case).limiter, device)
    lines_ = [
        Words(
            f"About {seconds(case.duration_s)} on {device.name}, {passes.en} (80 % interval "
            f"{seconds(low)}-{seconds(high)}): {rate(speed, 'FLOP/s')}, {percent(speed / peak)} of"
            " the peak.",
            f"在 {device.name} 上{passes.zh}约 {seconds(case.duration_s)}（80 % 区间 "
            f"{seconds(low)}-{seconds(high)}）：{rate(speed, 'FLOP/s')}，为峰值的 "
            f"{percent(speed / peak)}。",
        ),
        Words(f"What sets the time of the main kernel: {sets.en}.",
              f"决定主内核时间的是：{sets.zh}。"),
    ]  # fmt: skip
    lines_.append(_inside(case))
    turning = _conversions_s(case)
    if turning:
        share = percent(turning / case.duration_s)
        lines_.append(
            Words(
                f"{share} of it is turning NCHW into NHWC and back: store tensors channels-last.",
                f"其中 {share} 用于 NCHW 与 NHWC 的来回转换：请用 channels_last 存放张量。",
            )
        )
    return tuple(lines_)


def _inside(case: Case) -> Words:
    """What the arithmetic is: a product, or nothing that tensor cores could do."""
    found = case.tiled
    if found is None:
        return Words(
            "It is depthwise: each channel has a filter of its own, so that nothing is shared"
            " and the tensor cores have no product to compute.",
            "这是深度卷积：每个通道有自己的滤波器，没有可共享的数据，张量核心无矩阵乘可做。",
        )
    p = found.problem
    many = f"{p.batch} products of " if p.batch > 1 else "a product of "
    many_zh = f"{p.batch} 个" if p.batch > 1 else ""
    return Words(
        f"It is {many}M = {p.m}, N = {p.n}, K = {p.k} in disguise: {found.plan.grid:,}"
        f" tiles, {found.plan.waves:.2f} waves.",
        f"它其实是{many_zh}矩阵乘 M = {p.m}、N = {p.n}、K = {p.k}："
        f"{found.plan.grid:,} 个分块，{found.plan.waves:.2f} 波。",
    )


def _time(case: Case) -> tuple[Block, ...]:
    kernels = _all(case)
    low, high = interval_s(kernels)
    device, origin = case.filter.on.device, case.filter.on.origin
    peak = peak_flops_per_s(device, case.filter.dtype.compute)
    endless = steady(case.ops, case.filter.on, case.filter.dtype.settings)
    moved = sum(k.read_bytes + k.written_bytes for k in kernels)
    speed = case.flops / case.duration_s
    facts = Facts((
        Fact(Words("time by itself", "单独一次的时间"), case.duration_s, "s", origin, low, high),
        Fact(Words("time when repeated without pause", "不停重复时每次的时间"),
             endless.device_s, "s", origin, note=Words(
                 "at the clock that the power limit leaves", "按功耗上限所允许的频率")),
        Fact(Words("arithmetic", "运算量"), case.flops, "flop", "computed", note=Words(
            "2 x N x OH x OW x K x C x taps / groups, for each pass",
            "每个方向 2 x N x OH x OW x K x C x 核元素数 / 组数")),
        Fact(Words("size of the result", "结果尺寸"),
             f"{case.n} x {case.k} x {case.rows_out} x {case.columns_out}"),
        Fact(Words("speed", "速度"), speed, "flop/s", origin),
        Fact(Words("share of the dense peak", "占稠密峰值"), speed / peak, "share", origin,
             note=Words(rate(peak, "FLOP/s"), rate(peak, "FLOP/s"))),
        Fact(Words("arithmetic intensity", "计算强度"), case.flops / moved if moved else None,
             "flop/byte", "computed"),
        Fact(Words("ridge of the roofline", "屋顶线的屋脊点"),
             peak / device.memory_bandwidth_bytes_per_s, "flop/byte", "datasheet"),
    ))  # fmt: skip
    blocks: list[Block] = [facts, _kernel_bars(case)]
    if case.tiled is not None:
        title = Words("Where the forward product's time goes", "前向矩阵乘的时间花在哪里")
        blocks.append(time_bars(case.tiled, title))
    return tuple(blocks)


def _kernel_bars(case: Case) -> Bars:
    bars = []
    for kernel in _all(case):
        role: Role = "tensor" if kernel.flops else "waste"
        words = Words(kernel.name, kernel.name)
        bars.append(Bar(kernel.name, (Part(words, kernel.duration_s, role),)))
    return Bars(
        Words("Kernels, in launch order", "内核，按启动次序"), "s", tuple(bars),
        note=Words("Kernels without arithmetic only move or turn data.",
                   "没有运算的内核只是搬运或转换数据。"),
    )  # fmt: skip


def _product_table(case: Case) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for at, (_, product, _) in enumerate(case.products):
        problem = product.problem
        found = case.tiled_at(at)
        rows.append((
            PASSES[product.which], float(problem.batch), float(problem.m), float(problem.n),
            float(problem.k), found.plan.tile.name, round(found.plan.waves, 2),
            found.duration_s, limiter(found.plan.limiter, found.device),
        ))  # fmt: skip
    return Table(
        Words("Each pass as a matrix product", "每个方向对应的矩阵乘"),
        (
            Column(Words("pass", "方向")), Column(Words("products", "个数"), "count"),
            Column(Words("M", "M")), Column(Words("N", "N")),
            Column(Words("K", "K")), Column(Words("tile", "分块")),
            Column(Words("waves", "波次")), Column(Words("time", "时间"), "s"),
            Column(Words("set by", "受限于")),
        ),
        tuple(rows),
        note=Words(
            "Forward: M = images x output positions, N = filters, K = channels x filter positions."
            " The gradient of the weight sums over all positions: its K is the large one.",
            "前向：M = 图像 x 输出位置，N = 输出通道，K = 输入通道 x 核元素。"
            "权重梯度对所有位置求和：其 K 很大。",
        ),
    )  # fmt: skip


def _patches(case: Case) -> Paragraph:
    shape = case.shape
    item = case.ops[0].inputs[0].itemsize
    depth = shape.channels_in * shape.taps
    patches = shape.images * shape.positions_out * depth * item
    own = case.ops[0].inputs[0].nbytes
    return Paragraph(
        Words(
            f"Written out, the patches would be a matrix of {size(patches)}, "
            f"{three(patches / own)} times the input of {size(own)}. They never are: the kernel"
            " reads each patch where it lies (an implicit product).",
            f"若把所有图像块展开（im2col），矩阵有 {size(patches)}，是输入 {size(own)} 的 "
            f"{three(patches / own)} 倍。实际并不展开：内核就地读取每个图像块（隐式矩阵乘）。",
        )
    )


def _depthwise(case: Case) -> tuple[Block, ...]:
    main = _main(case)
    device = case.filter.on.device
    moved = main.read_bytes + main.written_bytes
    own = main.flops / moved
    vector = peak_flops_per_s(device, "float32")
    bars = Bars(
        Words("What the forward kernel would take if only one thing counted",
              "若只计一项，前向内核的时间"), "s",
        (
            Bar(Words("device memory", "显存"),
                (Part(Words("memory", "显存"), main.memory_s, "memory"),)),
            Bar(Words("arithmetic and indexing", "运算与下标计算"),
                (Part(Words("arithmetic", "运算"), main.compute_s, "compute"),)),
            Bar(Words("predicted", "预测"),
                (Part(Words("time", "时间"), main.duration_s, "other"),)),
        ),
    )  # fmt: skip
    return (
        Paragraph(
            Words(
                f"It does {three(own)} FLOP for each byte, far below the ridge of"
                f" {three(vector / device.memory_bandwidth_bytes_per_s)} even of the vector lanes."
                " No operand is shared between channels, so that tiles would re-use nothing:"
                " bytes and index arithmetic set the time, not FLOPs.",
                f"每字节只有 {three(own)} 次浮点运算，连向量单元的屋脊点"
                f" {three(vector / device.memory_bandwidth_bytes_per_s)} 也远未达到。"
                "通道间没有共享的操作数，分块无可复用：时间取决于字节和下标计算，而非浮点运算。",
            ),
            "key",
        ),
        bars,
    )


def _commands(case: Case) -> tuple[str, ...]:
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


def _assumptions(case: Case) -> tuple[Words, ...]:
    lines_ = [
        Words("No input is in the L2 cache at the start.", "开始时输入都不在 L2 中。"),
        Words(
            "cuDNN's choice among its algorithms is taken to be an implicit product; Winograd and"
            " FFT, which it sometimes prefers in single precision, are not modelled.",
            "假定 cuDNN 选择隐式矩阵乘；单精度时它有时偏好的 Winograd 与 FFT 未建模。",
        ),
        Words(
            "Rows of channels that are no multiple of 16 bytes are padded by kernels of their own,"
            " as recorded on an H200; for such sizes times may be too low by up to half.",
            "通道行不是 16 字节的整数倍时，由单独的内核补齐（依据 H200 上的记录）；"
            "对这类尺寸，时间最多可能低估一半。",
        ),
        *case.filter.on.assumptions,
    ]
    return tuple(lines_)

