"""`explain matmul`: tiles, waves, traffic, the limiter, and which sizes nearby are cheaper."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gpuscope.cost.gemm import Plan, plan
from gpuscope.cost.matmul import gemm_kernels, operand, product
from gpuscope.cost.registry import Work
from gpuscope.cost.types import Kernel
from gpuscope.errors import InvalidValueError, UnsupportedError
from gpuscope.explain.limits import limiter
from gpuscope.explain.matmul_figures import explorer, row_curve
from gpuscope.explain.neighbours import (
    Priced,
    Sizes,
    curve,
    curve_lines,
    neighbour_table,
    span,
)
from gpuscope.explain.numbers import percent, rate, seconds, three
from gpuscope.explain.operators import (
    Precision,
    Steady,
    Target,
    dense,
    interval_s,
    kernels_of,
    must_fit,
    precision,
    steady,
    target,
    total_s,
    turned,
    whole,
    work_on,
)
from gpuscope.explain.registry import topic
from gpuscope.explain.tiling import Tiled, tile_blocks, tiled, time_bars
from gpuscope.explain.traffic import flow_diagram, traffic_table
from gpuscope.explain.types import Block, Explanation, Fact, Facts, Section, Words
from gpuscope.hardware import Device
from gpuscope.program.types import Op

LAYOUTS = ("nt", "nn", "tn", "tt")
"""Storage of A and B: "n" row-major, "t" transposed; "nt" is a linear layer's."""

SOURCES = (
    "Tiles, waves, wave quantisation: NVIDIA, Matrix Multiplication Background User's Guide",
    "Roofline: Williams, Waterman, Patterson, CACM 52(4), 2009",
    "Time model: src/gpuscope/cost/gemm.py; constants fitted to measurements (docs/calibration.md)",
)


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked, apart from the sizes: device, precision, layout, batch, cache."""

    on: Target
    dtype: Precision
    layout: str
    batch: int
    hot: bool

    def op(self, m: int, n: int, k: int) -> Op:
        """The operator that PyTorch issues."""
        many = (self.batch,) if self.batch > 1 else ()
        stored = self.dtype.stored
        a = dense(*many, m, k, dtype=stored, storage=0)
        b = dense(*many, k, n, dtype=stored, storage=1)
        if self.layout[0] == "t":
            a = turned(dense(*many, k, m, dtype=stored, storage=0))
        if self.layout[1] == "t":
            b = turned(dense(*many, n, k, dtype=stored, storage=1))
        if self.dtype.name == "fp8":
            scale = dense(dtype="float32", storage=2)
            out = dense(m, n, dtype="bfloat16", storage=3)
            return Op(0, "aten::_scaled_mm", inputs=(a, b, scale, scale), outputs=(out,))
        name = "aten::bmm" if many else "aten::mm"
        out_dtype = stored
        if self.dtype.name == "int8":
            name, out_dtype = "aten::_int_mm", "int32"
        out = dense(*many, m, n, dtype=out_dtype, storage=3)
        return Op(0, name, inputs=(a, b), outputs=(out,))

    def work(self, m: int, n: int, k: int) -> Work:
        """The operator on the device."""
        return work_on(self.op(m, n, k), self.on, self.dtype.settings, self.hot)

    def kernels(self, m: int, n: int, k: int) -> tuple[Kernel, ...]:
        """What it launches."""
        return kernels_of(self.work(m, n, k))

    def tiled(self, m: int, n: int, k: int) -> Tiled:
        """How it is cut up, and the parts of its time."""
        work = self.work(m, n, k)
        a, b = work.op.inputs[:2]
        made = product(work, operand(work, a, 0), operand(work, b, 1))
        assert made is not None  # sizes are at least 1
        found = plan(made.problem, made.machine)
        duration = total_s(gemm_kernels(work, made.problem, made.machine, found, "gemm"))
        return tiled(self.on.device, made.problem, made.machine, found, duration)

    def time_s(self, product: Tiled, found: Plan) -> float:
        """All kernels of another plan for the same product."""
        problem = product.problem
        work = self.work(problem.m, problem.n, problem.k)
        return total_s(gemm_kernels(work, problem, product.machine, found, "gemm"))

    def price(self, sizes: Sizes) -> Priced:
        """The time of any sizes, with the product."""
        found = self.tiled(sizes["M"], sizes["N"], sizes["K"])
        return Priced(found.duration_s, found.flops, found)

    def check(self, m: int, n: int, k: int) -> None:
        """Refuse what the library's kernels of this dtype do not take.

        Raises:
            InvalidValueError: sizes that they refuse.
        """
        if self.dtype.name == "fp8" and (n % 16 or k % 16):
            raise InvalidValueError(
                f"An fp8 product needs N and K to be multiples of 16, not {n} and {k}.",
                "torch._scaled_mm refuses others.",
                f"Try N = {-(-n // 16) * 16}, K = {-(-k // 16) * 16}.",
            )
        if self.dtype.name == "int8" and (n % 8 or k % 8 or m <= 16):
            raise InvalidValueError(
                f"An int8 product needs M > 16 and N, K multiples of 8, not {m}, {n}, {k}.",
                "torch._int_mm refuses others.",
                f"Try M = {max(m, 17)}, N = {-(-n // 8) * 8}, K = {-(-k // 8) * 8}.",
            )


def question(
    dtype: str, on: str | Device, layout: str = "nt", batch: int = 1, hot: bool = False
) -> Question:
    """What is asked, checked.

    Raises:
        UnknownNameError: no such device or dtype.
        InvalidValueError: no such layout, or a batch below 1.
        UnsupportedError: the device lacks the dtype, or PyTorch the operator.
    """
    layout = layout.lower()
    if layout not in LAYOUTS:
        raise InvalidValueError(
            f"'{layout}' is no layout.",
            "One letter for A, one for B: n row-major, t transposed.",
            f"Choose one of: {', '.join(LAYOUTS)}.",
        )
    whole("batch", batch)
    where = target(on)
    found = precision(dtype, where.device)
    if batch > 1 and found.name in ("fp8", "int8"):
        raise UnsupportedError(
            f"There is no batched product in {found.name}.",
            "torch._scaled_mm and torch._int_mm take two matrices.",
            "Leave out --batch, and take that many products one after the other.",
        )
    if found.name == "fp8" and layout != "nt":
        raise UnsupportedError(
            f"An fp8 product in layout {layout} does not exist.",
            "torch._scaled_mm takes A row-major and B transposed.",
            "Type: --layout nt",
        )
    return Question(where, found, layout, batch, hot)


@topic("matmul")
def matmul(
    m: int, n: int, k: int, *, dtype: str = "bf16", on: str | Device = "h200",
    layout: str = "nt", batch: int = 1, hot: bool = False,
) -> Explanation:  # fmt: skip
    """Explain one (batched) matrix product C[M, N] = A[M, K] B[K, N].

    Args:
        m, n, k: sizes.
        dtype: bf16, fp16, tf32, fp32, fp64, fp8, int8.
        on: a device.
        layout: storage of A and B, "n" row-major or "t" transposed.
        batch: number of products.
        hot: both operands are in the L2 cache already; by default neither is.

    Raises:
        InvalidValueError: sizes that cannot be, or do not fit in memory.
        UnknownNameError, UnsupportedError: see `question`.
    """
    asked = question(dtype, on, layout, batch, hot)
    for name, value in (("M", m), ("N", n), ("K", k)):
        whole(name, value)
    asked.check(m, n, k)
    op = asked.op(m, n, k)
    must_fit(op, asked.on.device)
    found = asked.tiled(m, n, k)
    kernels = asked.kernels(m, n, k)
    endless = steady((op,), asked.on, asked.dtype.settings)
    sizes = {"M": m, "N": n, "K": k}
    near = neighbour_table(sizes, _dims(asked), asked.price)
    title = f"{m} x {n} x {k}, {asked.dtype.name}, {asked.on.device.name}"
    if batch > 1:
        title = f"{batch} x ({m} x {n} x {k}), {asked.dtype.name}, {asked.on.device.name}"
    return Explanation(
        "matmul", Words(f"Matrix product {title}", f"矩阵乘 {title}"),
        summary=_summary(asked, found, kernels, endless),
        sections=(
            Section(Words("The time", "时间"), _time(asked, found, kernels, endless)),
            Section(Words("Tiles and waves", "分块与波次"),
                    tile_blocks(found, lambda other: asked.time_s(found, other))),
            Section(Words("Bytes", "字节"), (traffic_table(found), flow_diagram(found))),
            Section(Words("Other sizes", "其他尺寸"), (
                near, *_curves(asked, sizes),
                explorer(asked, sizes),
            )),
        ),
        commands=_commands(sizes, asked),
        sources=SOURCES, assumptions=_assumptions(asked, found),
    )  # fmt: skip


def _dims(asked: Question) -> Mapping[str, Words]:
    dims = {name: Words(name, name) for name in ("M", "N", "K")}
    if asked.dtype.name in ("fp8", "int8"):
        return {"M": dims["M"]}  # N and K take multiples of 16 or 8 only
    return dims


def _summary(
    asked: Question, found: Tiled, kernels: tuple[Kernel, ...], endless: Steady
) -> tuple[Words, ...]:
    low, high = interval_s(kernels)
    speed = found.flops / found.duration_s
    share = speed / found.peak_flops_per_s
    sets = limiter(found.plan.limiter, found.device)
    time = seconds(found.duration_s)
    between = f"{seconds(low)}-{seconds(high)}"
    lines = [
        Words(
            f"About {time} on {asked.on.device.name} (80 % interval {between}): "
            f"{rate(speed, 'FLOP/s')}, {percent(share)} of the peak.",
            f"在 {asked.on.device.name} 上约 {time}（80 % 区间 {between}）："
            f"{rate(speed, 'FLOP/s')}，为峰值的 {percent(share)}。",
        ),
        Words(f"What sets the time: {sets.en}. {_intensity(found).en}",
              f"决定时间的是：{sets.zh}。{_intensity(found).zh}"),
    ]  # fmt: skip
    if not found.matrix_vector:
        lines.append(_cut(found))
    if endless.limit is not None and endless.device_s > 1.01 * found.duration_s:
        each = seconds(endless.device_s)
        lines.append(
            Words(
                f"Repeated without pause it takes {each}: {endless.limit.en}.",
                f"不停地重复时每次要 {each}：{endless.limit.zh}。",
            )
        )
    return tuple(lines)


def _intensity(found: Tiled) -> Words:
    moved = found.plan.read_bytes + found.plan.written_bytes
    ridge = found.peak_flops_per_s / found.device.memory_bandwidth_bytes_per_s
    if not moved:
        return Words("Nothing crosses device memory.", "没有显存访问。")
    own = found.flops / moved
    side = Words("above", "高于") if own >= ridge else Words("below", "低于")
    return Words(
        f"It does {three(own)} FLOP for each byte of device memory, {side.en} the ridge of "
        f"{three(ridge)}.",
        f"每字节显存访问对应 {three(own)} 次浮点运算，{side.zh}屋脊点 {three(ridge)}。",
    )


def _cut(found: Tiled) -> Words:
    plan_, unit = found.plan, found.unit
    split = f", K cut in {plan_.split}" if plan_.split > 1 else ""
    split_zh = f"，K 切成 {plan_.split} 片" if plan_.split > 1 else ""
    en = (
        f"The kernel cuts C into {plan_.grid:,} tiles of {plan_.tile.m} x {plan_.tile.n}{split}: "
        f"{plan_.waves:.2f} waves on {found.machine.units} {unit}s"
    )
    zh = (
        f"内核把 C 切成 {plan_.grid:,} 个 {plan_.tile.m} x {plan_.tile.n} 的分块{split_zh}："
        f"在 {found.machine.units} 个 {unit} 上是 {plan_.waves:.2f} 波"
    )
    if found.machine.units == 1:
        return Words(en.split(":")[0] + ".", zh.split("：")[0] + "。")
    if found.tail_idle < 0.0005:
        return Words(f"{en}, and none is idle at the end.", f"{zh}，结尾没有空闲。")
    idle = percent(found.tail_idle)
    return Words(
        f"{en}; {idle} of their time is lost because they do not divide evenly.",
        f"{zh}；因为不能整除，损失 {idle} 的时间。",
    )


def _time(
    asked: Question, found: Tiled, kernels: tuple[Kernel, ...], endless: Steady
) -> tuple[Block, ...]:
    low, high = interval_s(kernels)
    origin = asked.on.origin
    moved = found.plan.read_bytes + found.plan.written_bytes
    bandwidth = found.device.memory_bandwidth_bytes_per_s
    speed = found.flops / found.duration_s
    facts = Facts((
        Fact(Words("time of one by itself", "单独一次的时间"), found.duration_s, "s", origin,
             low, high),
        Fact(Words("time when repeated without pause", "不停重复时每次的时间"),
             endless.device_s, "s", origin, note=Words(
                 "at the clock that the power limit leaves",
                 "按功耗上限所允许的频率")),
        Fact(Words("arithmetic", "运算量"), found.flops, "flop", "computed",
             note=Words("2 x M x N x K", "2 x M x N x K")),
        Fact(Words("speed", "速度"), speed, "flop/s", origin),
        Fact(Words("share of the dense peak", "占稠密峰值"), speed / found.peak_flops_per_s,
             "share", origin, note=Words(rate(found.peak_flops_per_s, "FLOP/s"),
                                rate(found.peak_flops_per_s, "FLOP/s"))),
        Fact(Words("arithmetic intensity", "计算强度"), found.flops / moved if moved else None,
             "flop/byte", "computed", note=Words("FLOPs over bytes that cross device memory",
                                                 "浮点运算数 / 显存访问字节数")),
        Fact(Words("ridge of the roofline", "屋顶线的屋脊点"), found.peak_flops_per_s / bandwidth,
             "flop/byte", "datasheet", note=Words("below it memory is the limit",
                                                  "低于它则受显存限制")),
        Fact(Words("what sets the time", "决定时间的因素"),
             limiter(found.plan.limiter, found.device)),
        Fact(Words("kernels", "内核数"), float(len(kernels)), "count",
             note=_names(kernels)),
    ))  # fmt: skip
    return facts, time_bars(found, Words("Where the time goes", "时间花在哪里"))


def _names(kernels: tuple[Kernel, ...]) -> Words:
    text = ", ".join(kernel.name for kernel in kernels)
    return Words(text, text)


def _curves(asked: Question, sizes: Sizes) -> tuple[Block, ...]:
    blocks: list[Block] = []
    if asked.dtype.name not in ("fp8", "int8"):
        along = curve(sizes, "N", span(sizes["N"]), asked.price)
        blocks += curve_lines(along, sizes["N"], Words("N", "N"), sizes)
    blocks.append(row_curve(asked, sizes))
    return tuple(blocks)


def _commands(sizes: Sizes, asked: Question) -> tuple[str, ...]:
    m, n, k = sizes["M"], sizes["N"], sizes["K"]
    rest = f"--dtype {asked.dtype.name}"
    here = asked.on.device.id
    return (
        f"gpuscope explain matmul 16 {n} {k} {rest} --on {here}",
        f"gpuscope explain matmul {m} {n} {k} {rest} --on {here} --report matmul.html",
        f"gpuscope devices {here}",
    )


def _assumptions(asked: Question, found: Tiled) -> tuple[Words, ...]:
    state = Words("Both operands are in the L2 cache already.", "两个操作数都已在 L2 中。")
    if not asked.hot:
        state = Words(
            "Neither operand is in the L2 cache at the start (--hot: both are).",
            "开始时两个操作数都不在 L2 中（--hot：都在）。",
        )
    lines = [
        Words(
            "The library is taken to launch its fastest kernel, as its heuristics nearly do.",
            "假定库选择最快的内核；其启发式规则大体如此。",
        ),
        state,
        *asked.on.assumptions,
    ]
    if not found.matrix_vector:
        lines.append(
            Words(
                "Tiles are dealt out in order of columns; libraries walk the grid in swirls to "
                "share L2, which changes which tile lies where, not how many there are.",
                "图中分块按列依次分配；实际库会用 swizzle 次序以共享 L2，"
                "这改变分块的位置，不改变数量。",
            )
        )
    return tuple(lines)

