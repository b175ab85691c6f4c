"""`explain matmul`: tiles, waves, traffic, the limiter, and which sizes nearby are cheaper."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gpuscope.cost.matmul.gemm import Plan, plan
from gpuscope.cost.matmul.model import gemm_kernels, operand, product
from gpuscope.cost.registry import Work
from gpuscope.cost.residual import LEARNED
from gpuscope.cost.types import Kernel
from gpuscope.document.blocks import Block, Explanation, Fact, Facts, Section
from gpuscope.document.quantities import Number, Percent, Rate, Seconds
from gpuscope.document.text import Text, verbatim
from gpuscope.errors import InvalidValueError, UnsupportedError
from gpuscope.explanation.limits import limiter
from gpuscope.explanation.matmul_figures import explorer, row_curve
from gpuscope.explanation.neighbours import Priced, Sizes, curve, curve_lines, neighbour_table, span
from gpuscope.explanation.operators import (
    Precision,
    Steady,
    Target,
    dense,
    interval_s,
    kernels_of,
    learned,
    must_fit,
    precision,
    repeated_time,
    steady,
    target,
    total_s,
    turned,
    whole,
    work_on,
)
from gpuscope.explanation.registry import topic
from gpuscope.explanation.tiling import Tiled, tile_blocks, tiled, time_bars
from gpuscope.explanation.traffic import flow_diagram, traffic_table
from gpuscope.hardware import Device
from gpuscope.program.types import Op

LAYOUTS = ("nt", "nn", "tn", "tt")
"""Storage of A and B: "n" row-major, "t" transposed; "nt" is a linear layer's."""

SOURCES = (
    "Tiles, waves, wave quantisation: NVIDIA, Matrix Multiplication Background User's Guide",
    "Roofline: Williams, Waterman, Patterson, CACM 52(4), 2009",
    Text(
        "Time model: {file}; constants fitted to measurements (docs/calibration.md)",
        file="src/gpuscope/cost/matmul/gemm.py",
    ),
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
        planned_s = total_s(gemm_kernels(work, made.problem, made.machine, found, "gemm"))
        return tiled(
            self.on.device, made.problem, made.machine, found, planned_s, learned=learned(work)
        )

    def time_s(self, product: Tiled, found: Plan) -> float:
        """All kernels of another plan for the same product."""
        return product.learned * self.planned_s(product, found)

    def planned_s(self, product: Tiled, found: Plan) -> float:
        """The same as the models plan it, without what was learned."""
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
                Text(
                    "An fp8 product needs N and K to be multiples of 16, not {n} and {k}.", n=n, k=k
                ),
                Text("torch._scaled_mm refuses others."),
                Text("Try N = {n}, K = {k}.", n=-(-n // 16) * 16, k=-(-k // 16) * 16),
            )
        if self.dtype.name == "int8" and (n % 8 or k % 8 or m <= 16):
            raise InvalidValueError(
                Text(
                    "An int8 product needs M > 16 and N, K multiples of 8, not {m}, {n}, {k}.",
                    m=m,
                    n=n,
                    k=k,
                ),
                Text("torch._int_mm refuses others."),
                Text(
                    "Try M = {m}, N = {n}, K = {k}.",
                    m=max(m, 17),
                    n=-(-n // 8) * 8,
                    k=-(-k // 8) * 8,
                ),
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
            Text("'{layout}' is no layout.", layout=layout),
            Text("One letter for A, one for B: n row-major, t transposed."),
            Text("Choose one of: {layouts}.", layouts=", ".join(LAYOUTS)),
        )
    whole("batch", batch)
    where = target(on)
    found = precision(dtype, where.device)
    if batch > 1 and found.name in ("fp8", "int8"):
        raise UnsupportedError(
            Text("There is no batched product in {found}.", found=found.name),
            Text("torch._scaled_mm and torch._int_mm take two matrices."),
            Text("Leave out --batch, and take that many products one after the other."),
        )
    if found.name == "fp8" and layout != "nt":
        raise UnsupportedError(
            Text("An fp8 product in layout {layout} does not exist.", layout=layout),
            Text("torch._scaled_mm takes A row-major and B transposed."),
            Text("Type: --layout nt"),
        )
    return Question(where, found, layout, batch, hot)


@topic("matmul")
def matmul(
    m: int,
    n: int,
    k: int,
    *,
    dtype: str = "bf16",
    on: str | Device = "h200",
    layout: str = "nt",
    batch: int = 1,
    hot: bool = False,
) -> Explanation:
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
        "matmul",
        Text("Matrix product {title}", title=title),
        summary=_summary(asked, found, kernels, endless),
        sections=(
            Section(Text("The time"), _time(asked, found, kernels, endless)),
            Section(
                Text("Tiles and waves"),
                tile_blocks(found, lambda other: asked.time_s(found, other)),
            ),
            Section(Text("Bytes"), (traffic_table(found), flow_diagram(found))),
            Section(Text("Other sizes"), (near, *_curves(asked, sizes), explorer(asked, sizes))),
        ),
        commands=_commands(sizes, asked),
        sources=SOURCES,
        assumptions=_assumptions(asked, found),
    )


def _dims(asked: Question) -> Mapping[str, Text]:
    dims = {name: verbatim(name) for name in ("M", "N", "K")}
    if asked.dtype.name in ("fp8", "int8"):
        return {"M": dims["M"]}  # N and K take multiples of 16 or 8 only
    return dims


def _summary(
    asked: Question, found: Tiled, kernels: tuple[Kernel, ...], endless: Steady
) -> tuple[Text, ...]:
    low, high = interval_s(kernels)
    speed = found.flops / found.duration_s
    share = speed / found.peak_flops_per_s
    sets = limiter(found.limiter, found.device)
    time = Seconds(found.duration_s)
    between = f"{Seconds(low)}-{Seconds(high)}"
    lines = [
        Text(
            "About {time} on {device} (80 % interval {between}): {speed}, {share} of the peak.",
            time=time,
            device=asked.on.device.name,
            between=between,
            speed=Rate(speed, "FLOP/s"),
            share=Percent(share),
        ),
        Text("What sets the time: {sets}. {intensity}", sets=sets, intensity=_intensity(found)),
    ]
    if not found.matrix_vector:
        lines.append(_cut(found))
    if endless.limit is not None and endless.device_s > 1.01 * found.duration_s:
        each = Seconds(endless.device_s)
        lines.append(
            Text("Repeated without pause it takes {each}: {limit}.", each=each, limit=endless.limit)
        )
    return tuple(lines)


def _intensity(found: Tiled) -> Text:
    moved = found.plan.read_bytes + found.plan.written_bytes
    ridge = found.peak_flops_per_s / found.device.memory_bandwidth_bytes_per_s
    if not moved:
        return Text("Nothing crosses device memory.")
    own = found.flops / moved
    side = Text("above") if own >= ridge else Text("below")
    return Text(
        "It does {own} FLOP for each byte of device memory, {side} the ridge of {ridge}.",
        own=Number(own),
        side=side,
        ridge=Number(ridge),
    )


def _cut(found: Tiled) -> Text:
    plan_, unit = found.plan, found.unit
    cut = Text(
        "The kernel cuts C into {grid} tiles of {m} x {n}{split}",
        grid=Number(plan_.grid, ","),
        m=plan_.tile.m,
        n=plan_.tile.n,
        split=Text(", K cut in {pieces}", pieces=plan_.split) if plan_.split > 1 else "",
    )
    if found.machine.units == 1:
        return Text("{said}.", said=cut)
    waves = Text(
        "{cut}: {waves} waves on {units} {unit}s",
        cut=cut,
        waves=Number(plan_.waves, ".2f"),
        units=found.machine.units,
        unit=unit,
    )
    if found.tail_idle < 0.0005:
        return Text("{waves}, and none is idle at the end.", waves=waves)
    idle = Percent(found.tail_idle)
    if plan_.grid < found.machine.units:
        return Text(
            "{waves}; there are fewer tiles than {unit}s, and {idle} of their time is idle.",
            waves=waves,
            unit=unit,
            idle=idle,
        )
    return Text(
        "{waves}; {idle} of their time is idle, because the tiles do not divide evenly among them.",
        waves=waves,
        idle=idle,
    )


def _time(
    asked: Question, found: Tiled, kernels: tuple[Kernel, ...], endless: Steady
) -> tuple[Block, ...]:
    low, high = interval_s(kernels)
    origin = asked.on.origin
    moved = found.plan.read_bytes + found.plan.written_bytes
    bandwidth = found.device.memory_bandwidth_bytes_per_s
    speed = found.flops / found.duration_s
    facts = Facts(
        (
            Fact(Text("time of one by itself"), found.duration_s, "s", origin, low, high),
            repeated_time(endless, origin),
            Fact(
                Text("arithmetic"), found.flops, "flop", "computed", note=verbatim("2 x M x N x K")
            ),
            Fact(Text("speed"), speed, "flop/s", origin),
            Fact(
                Text("share of the dense peak"),
                speed / found.peak_flops_per_s,
                "share",
                origin,
                note=verbatim(Rate(found.peak_flops_per_s, "FLOP/s")),
            ),
            Fact(
                Text("arithmetic intensity"),
                found.flops / moved if moved else None,
                "flop/byte",
                "computed",
                note=Text("FLOPs over bytes that cross device memory"),
            ),
            Fact(
                Text("ridge of the roofline"),
                found.peak_flops_per_s / bandwidth,
                "flop/byte",
                "computed",
                note=Text("below it memory is the limit"),
            ),
            Fact(Text("what sets the time"), limiter(found.limiter, found.device)),
            Fact(Text("kernels"), float(len(kernels)), "count", note=_names(kernels)),
        )
    )
    return facts, time_bars(found, Text("Where the time goes"))


def _names(kernels: tuple[Kernel, ...]) -> Text:
    text = ", ".join(kernel.name for kernel in kernels)
    return verbatim(text)


def _curves(asked: Question, sizes: Sizes) -> tuple[Block, ...]:
    blocks: list[Block] = []
    if asked.dtype.name not in ("fp8", "int8"):
        along = curve(sizes, "N", span(sizes["N"]), asked.price)
        blocks += curve_lines(along, sizes["N"], verbatim("N"), sizes)
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


def _assumptions(asked: Question, found: Tiled) -> tuple[Text, ...]:
    state = Text("Both operands are in the L2 cache already.")
    if not asked.hot:
        state = Text("Neither operand is in the L2 cache at the start (--hot: both are).")
    lines = [
        Text("The library is taken to launch its fastest kernel, as its heuristics nearly do."),
        state,
        *asked.on.assumptions,
    ]
    if found.learned != 1.0:
        lines.append(LEARNED)
    if not found.matrix_vector:
        lines.append(
            Text(
                "Tiles are dealt out in order of columns; libraries walk the grid in swirls to "
                "share L2, which changes which tile lies where, not how many there are."
            )
        )
    return tuple(lines)
