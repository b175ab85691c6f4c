"""Figures about number formats and PyTorch itself, as sources for checks."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from gpuscope.explain.types import Words
from gpuscope.hardware import device
from gpuscope.learn.claims.scales import both
from gpuscope.learn.claims.types import Figure, NoFigureError, Source


def dtype_bytes(name: str) -> Source:
    """Bytes of one element of a dtype, as torch names it."""

    def compute() -> Figure:
        from gpuscope.program.types import DTYPE_BYTES

        size = float(DTYPE_BYTES[name])
        return Figure(
            size, Words(f"{size:g} bytes of a {name}", f"{name} 占 {size:g} 字节"),
            Words(name, name), "formula",
        )  # fmt: skip

    return compute


def mantissa_bits(name: str) -> Source:
    """Explicit fraction bits of an IEEE 754 format that numpy knows."""

    def compute() -> Figure:
        import numpy as np

        bits = float(np.finfo(np.dtype(name)).nmant)
        return Figure(
            bits, Words(f"{bits:.0f} fraction bits of a {name}", f"{name} 的 {bits:.0f} 位尾数"),
            Words(name, name), "formula", ("IEEE 754-2019, table 3.5",),
        )  # fmt: skip

    return compute


def product_columns(left: tuple[int, int], right: tuple[int, int]) -> Source:
    """Columns of a matrix product, by making it."""

    def compute() -> Figure:
        import numpy as np

        rows, columns = (np.ones(left, np.int32) @ np.ones(right, np.int32)).shape
        a, b = "×".join(map(str, left)), "×".join(map(str, right))
        said = f"{a} · {b} = {rows}×{columns}"
        return Figure(float(columns), Words(said, said), Words("", ""), "formula")

    return compute


def block_load_spread(causal: bool) -> Source:
    """Work of the busiest 8 x 8 block of a 128 x 128 product over the mean, counted.

    A product of matrices of ones has the number of multiply-adds of each element as its result.
    """

    def compute() -> Figure:
        import numpy as np

        ones = np.ones((128, 128), np.int64)
        work = (np.tril(ones) if causal else ones) * (ones @ ones)
        blocks = work.reshape(16, 8, 16, 8).sum(axis=(1, 3))
        spread = float(blocks.max() / blocks.mean())
        kind = ("with a causal mask", "带因果掩码") if causal else ("dense", "稠密")
        shown = both(spread, "x")
        return Figure(
            spread,
            Words(
                f"{kind[0]}: the busiest block has {shown.en} the mean work",
                f"{kind[1]}：最忙的块是平均工作量的 {shown.zh}",
            ),
            Words(*kind), "formula",
        )  # fmt: skip

    return compute


def in_torch(path: str, text: str = "") -> Source:
    """1 if the installed PyTorch has a file, and the text in it; else 0. Does not import it.

    The source raises:
        NoFigureError: PyTorch is not installed.
    """

    def compute() -> Figure:
        found = importlib.util.find_spec("torch")
        if found is None or found.origin is None:
            raise NoFigureError(
                "PyTorch is not installed here, so it cannot be looked up.",
                "此处没有安装 PyTorch，无法查看。",
            )
        file = Path(found.origin).parent / path
        present = file.exists() and (not text or text in file.read_text("utf-8"))
        what = f"'{text}' in torch/{path}" if text else f"torch/{path}"
        said = ("present", "存在") if present else ("absent", "不存在")
        return Figure(
            float(present), Words(f"{what} is {said[0]}", f"{what} {said[1]}"), Words("", ""),
            "catalogue", ("source of the installed PyTorch",),
        )  # fmt: skip

    return compute


def on_tensor_cores(name: str, dtype: str) -> Source:
    """1 if the cost model runs products of a dtype on the device's matrix units, else 0."""

    def compute() -> Figure:
        from gpuscope.cost.gemm_machine import rate_and_unit

        found = device(name)
        rate, unit = rate_and_unit(found, dtype)
        shown = both(rate, "TFLOPS")
        units = {"matrix": ("tensor cores", "张量核心"), "vector": ("vector lanes", "向量通路")}
        en, zh = units[unit]
        return Figure(
            float(unit == "matrix"),
            Words(
                f"{dtype} on {found.name}: {en}, {shown.en}",
                f"{found.name} 上的 {dtype}：{zh}，{shown.zh}",
            ),
            Words(found.name, found.name), "model",
        )  # fmt: skip

    return compute


def kept_after_free(size_bytes: int) -> Source:
    """Bytes that PyTorch's caching allocator keeps reserved after a tensor was freed."""

    def compute() -> Figure:
        from gpuscope.timeline.allocator import CachingAllocator

        allocator = CachingAllocator()
        allocator.free(allocator.allocate(size_bytes))
        kept = float(sum(allocator.cached_segments()))
        asked, shown = both(float(size_bytes), "MiB"), both(kept, "MiB")
        return Figure(
            kept,
            Words(
                f"a tensor of {asked.en} made and freed: {shown.en} stay reserved",
                f"创建并释放一个 {asked.zh} 张量后：仍预留 {shown.zh}",
            ),
            Words("", ""), "model",
        )  # fmt: skip

    return compute


def rounding_error(stochastic: bool) -> Source:
    """Relative error of a BF16 weight that takes 2,000 small steps, by simulation.

    The weight starts at 1 and gets 2,000 additions of 0.0005, each less than half of the spacing
    of BF16 there (2^-7), so that rounding to the nearest loses them all. The seed is fixed.
    """

    def compute() -> Figure:
        import numpy as np

        steps, step = 2000, np.float32(0.0005)
        rng = np.random.default_rng(0)
        weights = np.ones(1000, np.float32)
        for _ in range(steps):
            bits = (weights + step).view(np.uint32)
            # BF16 is the upper half of a float32: add noise, or half, below it and cut.
            below = rng.integers(0, 2**16, bits.size, np.uint32) if stochastic else 2**15
            weights = ((bits + np.uint32(1) * below) & np.uint32(0xFFFF0000)).view(np.float32)
        true = 1 + steps * float(step)
        error = float(abs(weights.mean() / true - 1))
        kind = ("stochastic", "随机舍入") if stochastic else ("nearest", "就近舍入")
        shown = both(error, "%")
        return Figure(
            error,
            Words(
                f"2,000 steps of 0.0005 in BF16, {kind[0]} rounding: mean {shown.en} off",
                f"BF16 累加 2,000 次 0.0005，{kind[1]}：均值偏差 {shown.zh}",
            ),
            Words("", ""), "model",
        )  # fmt: skip

    return compute
