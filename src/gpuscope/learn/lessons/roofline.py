"""Lesson: arithmetic intensity and the roofline."""

from __future__ import annotations

from gpuscope.errors import UnsupportedError
from gpuscope.explain.types import (
    Axis,
    Column,
    Explanation,
    Explorer,
    Lines,
    Mark,
    Output,
    Section,
    Series,
    Slider,
    Table,
    Words,
)
from gpuscope.hardware import Device, device
from gpuscope.learn.lessons.registry import lesson

BYTES = 2
"""Of one bfloat16 number."""


@lesson(
    "roofline",
    7,
    Words("Roofline and arithmetic intensity", "屋顶线与算术强度"),
    Words(
        "Is my kernel waiting for memory or for arithmetic?",
        "我的内核在等显存，还是在等运算？",
    ),
)
def roofline() -> Explanation:
    """Make the lesson."""
    h200 = device("h200")
    ridge = _ridge(h200)
    return Explanation(
        topic="lesson",
        title=Words("Roofline", "屋顶线"),
        summary=(
            Words(
                "Arithmetic intensity is FLOPs per byte that crosses device memory. A device "
                "can do "
                "no more than its peak, nor more than intensity times bandwidth: the lower one "
                "is the "
                "roof.",
                "算术强度是每个经过显存的字节对应的 FLOP 数。设备的速率既不能超过峰值，"
                "也不能超过强度乘以带宽：两者中较低的就是屋顶。",
            ),
            Words(
                f"The two meet at the ridge: {ridge:.0f} FLOP per byte for BF16 on an H200. "
                "Below it "
                "faster arithmetic does not help; above it faster memory does not.",
                f"两者相交于脊点：H200 上 BF16 为每字节 {ridge:.0f} FLOP。低于脊点，"
                "更快的运算没有用；"
                "高于脊点，更快的显存没有用。",
            ),
            Words(
                "A product of square matrices of side n has an intensity of n / 3: it grows "
                "with the "
                "size. Adding vectors stays at 1/6 for ever.",
                "边长为 n 的方阵乘法强度为 n / 3：随尺寸增长。向量相加永远是 1/6。",
            ),
        ),
        sections=(
            Section(Words("The roof", "屋顶"), (_roof(h200), _operators())),
            Section(Words("Try it", "动手试试"), (_explorer(),)),
        ),
        commands=(
            "gpuscope explain matmul 16 4096 4096 --on h200",
            "gpuscope predict llama-3.1-8b --task decode --on h200 --report decode.html",
        ),
        sources=(
            "S. Williams, A. Waterman, D. Patterson, Roofline: An Insightful Visual Performance "
            "Model for Multicore Architectures, CACM 52 (2009)",
        ),
    )


def _ridge(found: Device, dtype: str = "bf16") -> float:
    return found.peak_flops_per_s(dtype) / found.memory_bandwidth_bytes_per_s


def intensity(m: float, n: float, k: float, size_bytes: float = BYTES) -> float:
    """FLOP per byte of a product, each matrix crossing device memory once."""
    return 2 * m * n * k / (size_bytes * (m * k + k * n + m * n))


OPERATORS: tuple[tuple[Words, float], ...] = (
    (Words("adding two vectors", "两个向量相加"), 1 / (3 * BYTES)),
    (Words("matrix times vector", "矩阵乘向量"), intensity(1, 4096, 4096)),
    (Words("decode, batch 16", "解码，批大小 16"), intensity(16, 4096, 4096)),
    (Words("product of side 256", "边长 256 的乘法"), intensity(256, 256, 256)),
    (Words("product of side 4096", "边长 4096 的乘法"), intensity(4096, 4096, 4096)),
)


def _roof(found: Device) -> Lines:
    peak = found.peak_flops_per_s("bf16")
    xs = tuple(2.0**k for k in range(-4, 13))

    def attainable(x: float) -> float:
        return min(peak, x * found.memory_bandwidth_bytes_per_s)

    marks = tuple(Mark(name, x, attainable(x)) for name, x in OPERATORS)
    return Lines(
        title=Words("Roof of an H200 in BF16, and five operators", "H200 的 BF16 屋顶与五个算子"),
        x=Axis(Words("FLOP per byte", "每字节 FLOP"), "", True),
        y=Axis(Words("attainable", "可达速率"), "flop/s", True),
        series=(
            Series(Words("roof", "屋顶"), xs, tuple(attainable(x) for x in xs), "line", "tensor"),
        ),
        marks=marks,
    )


def _operators() -> Table:
    h200 = device("h200")
    peak = h200.peak_flops_per_s("bf16")
    return Table(
        title=Words("What they can reach", "它们能达到什么"),
        columns=(
            Column(Words("operator", "算子")),
            Column(Words("intensity", "强度"), "flop/byte"),
            Column(Words("at most", "上限"), "flop/s"),
            Column(Words("of the peak", "占峰值"), "share"),
            Column(Words("limited by", "受限于")),
        ),
        rows=tuple(
            (
                name, x, min(peak, x * h200.memory_bandwidth_bytes_per_s),
                min(1.0, x * h200.memory_bandwidth_bytes_per_s / peak),
                Words("memory", "显存") if x < _ridge(h200) else Words("arithmetic", "运算"),
            )
            for name, x in OPERATORS
        ),
    )  # fmt: skip


def _explorer() -> Explorer:
    names = ("h200", "h100", "a100", "b200", "rtx-4090", "l4", "mi300x")
    kinds = ("bf16", "fp8")
    rows = tuple(float(2**k) for k in range(14))
    widths = (1024.0, 4096.0, 16384.0)
    reached: list[float | None] = []
    limits: list[str | Words | None] = []
    for name in names:
        for kind in kinds:
            found = device(name)
            try:
                peak: float | None = found.peak_flops_per_s(kind)
            except UnsupportedError:
                peak = None
            for width in widths:
                for m in rows:
                    slope = intensity(m, width, width, 2 if kind == "bf16" else 1)
                    slope *= found.memory_bandwidth_bytes_per_s
                    reached.append(None if peak is None else min(peak, slope))
                    memory = peak is not None and slope < peak
                    limits.append(
                        None
                        if peak is None
                        else Words("memory", "显存") if memory else Words("arithmetic", "运算")
                    )
    return Explorer(
        title=Words("A layer's product: rows are tokens", "一层的乘法：行数是词元数"),
        sliders=(
            Slider("device", Words("device", "设备"), names),
            Slider("dtype", Words("format", "格式"), kinds),
            Slider("width", Words("width of the layer", "层宽"), widths, "", 1),
            Slider("rows", Words("tokens", "词元数"), rows, "", 4),
        ),
        outputs=(
            Output("rate", Words("at most", "上限"), "flop/s", tuple(reached), role="tensor"),
            Output("limit", Words("limited by", "受限于"), "", tuple(limits), plotted=False),
        ),
        x="rows",
        log_x=True,
        log_y=True,
        reading=Words(
            "{rows} tokens through a {width} x {width} layer on {device}: at most {rate}, "
            "limited by "
            "{limit}.",
            "{rows} 个词元通过 {device} 上 {width} x {width} 的层：至多 {rate}，受{limit}限制。",
        ),
    )
