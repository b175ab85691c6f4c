"""A kernel's name, read: its pieces and what each of them tells."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gpuscope.explain.types import Words

FIELDS: Mapping[str, Words] = {
    "library": Words("library", "库"),
    "operation": Words("operation", "操作"),
    "architecture": Words("written for", "面向架构"),
    "unit": Words("arithmetic unit", "计算单元"),
    "instruction": Words("matrix instruction", "矩阵指令"),
    "inputs": Words("inputs", "输入类型"),
    "accumulator": Words("adds up in", "累加类型"),
    "output": Words("output", "输出类型"),
    "dtype": Words("dtype", "数据类型"),
    "tile": Words("tile of a block", "线程块的分块"),
    "depth": Words("depth of a pass, stages", "每次的 K 深度与流水级数"),
    "cluster": Words("cluster of blocks", "线程块簇"),
    "split": Words("split over K", "沿 K 切分"),
    "layout": Words("layout", "布局"),
    "alignment": Words("alignment", "对齐"),
    "epilogue": Words("done with the result", "尾处理"),
    "warps": Words("warps of a block", "每块的 warp"),
    "threads": Words("threads of a block", "每块线程数"),
    "vector": Words("values at once", "每次处理的元素"),
    "order": Words("order of the tiles", "分块的遍历顺序"),
    "head": Words("size of a head", "头维度"),
    "mask": Words("masking", "掩码"),
    "dropout": Words("dropout", "dropout"),
    "algorithm": Words("algorithm", "算法"),
    "protocol": Words("protocol", "协议"),
    "route": Words("route", "路径"),
    "fused": Words("fused operators", "融合的算子"),
    "variant": Words("variant", "变体"),
    "number": Words("number", "编号"),
    "index": Words("index type", "索引类型"),
    "other": Words("other", "其他"),
}
"""What a piece can be about, in the order in which it is shown."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a name and what it means.

    Attributes:
        text: as it stands in the symbol.
        field: a key of `FIELDS`.
        value: the meaning in a few words.
        certain: False where the library documents nothing and the meaning was inferred.
    """

    text: str
    field: str
    value: Words
    certain: bool = True


@dataclass(frozen=True, slots=True)
class KernelName:
    """A symbol, read.

    Attributes:
        symbol: as it was given.
        library: whose kernel it is.
        what: what it does, one sentence.
        pieces: in the order of the symbol.
        unread: parts whose meaning is not known.
        tile: block tile of a matrix kernel, (M, N) or (M, N, K), in the library's own view.
        stages: tiles of inputs in flight; None if unknown.
        input_bits: bits of an input element; None if unknown.
        threads: threads of a block; None if unknown.
        note: what else to know; None if nothing.
        source: where the naming is documented, or that it is not.
    """

    symbol: str
    library: Words
    what: Words
    pieces: tuple[Piece, ...]
    unread: tuple[str, ...] = ()
    tile: tuple[int, ...] = ()
    stages: int | None = None
    input_bits: int | None = None
    threads: int | None = None
    note: Words | None = None
    source: str = ""

    @property
    def complete(self) -> bool:
        """Whether every part of the name was understood."""
        return not self.unread


def same(text: str) -> Words:
    """A text that reads the same in both languages: a number, a dtype, a name."""
    return Words(text, text)
