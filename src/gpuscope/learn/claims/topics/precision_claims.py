"""Claims about number formats and tensor cores."""

from __future__ import annotations

from gpuscope.learn.claims.catalogue_figures import catalogue, has_rate
from gpuscope.learn.claims.expression import formula
from gpuscope.learn.claims.judging import at_least, equals, holds, inside
from gpuscope.learn.claims.model_figures import matmul_s
from gpuscope.learn.claims.registry import Book
from gpuscope.learn.claims.software_figures import dtype_bytes, mantissa_bits
from gpuscope.learn.claims.sourced_facts import fact
from gpuscope.learn.claims.types import Source

BOOK = Book("precision", "Tensor cores and precision", "张量核心与精度")
add = BOOK.add


def _fma(name: str, cores: str) -> Source:
    """FP16 multiply-adds that one tensor core does in a clock: peak over cores and clock."""
    label = name.upper()
    return formula(
        "peak / (units * cores * clock * 2)", peak=catalogue(name, "fp16"),
        units=catalogue(name, "compute_units"), cores=fact(f"{cores}.tensor_cores"),
        clock=catalogue(name, "clock_hz"), label=(label, label),
    )  # fmt: skip


def _over_v100(name: str, dtype: str) -> Source:
    label = f"{name.upper()} in {dtype.upper()}", f"{name.upper()} 的 {dtype.upper()}"
    return formula(
        "new / v100", new=catalogue(name, dtype), v100=catalogue("v100", "fp16"), label=label
    )


def _over_h100(new: str, old: str, en: str, zh: str) -> Source:
    return formula(
        "gb200 / h100", gb200=catalogue("gb200", new), h100=catalogue("h100", old), label=(en, zh)
    )


_GENERATION = (
    _over_h100("bf16", "bf16", "BF16", "BF16"),
    _over_h100("fp4", "fp8", "FP4 against FP8", "FP4 对 FP8"),
    _over_h100(
        "memory_bandwidth_bytes_per_s", "memory_bandwidth_bytes_per_s", "memory bandwidth",
        "显存带宽",
    ),
)  # fmt: skip


def _all_formats(name: str) -> Source:
    return formula(
        "fp16 * bf16 * int8 * fp8",
        also={dtype: has_rate(name, dtype) for dtype in ("fp16", "bf16", "int8", "fp8")},
    )


add(
    "A-020", "A tensor core does 64 multiply-adds a clock (4 x 4 x 4).",
    "一个张量核心每周期完成 4×4×4 即 64 次乘加。",
    64, "FMA", equals(_fma("v100", "v100"), _fma("rtx-4090", "ada"), _fma("a100", "a100")),
)  # fmt: skip
add(
    "C-036", "One operation of a tensor core is a product of 4 x 4 matrices.",
    "张量核心一次运算是 4×4 乘 4×4。",
    64, "FMA",
    equals(
        _fma("v100", "v100"), _fma("rtx-4090", "ada"), _fma("a100", "a100"),
        truth=(
            "{v0:.0f} multiply-adds a clock on a V100 (4 x 4 x 4), {v1:.0f} on an RTX 4090 and "
            "{v2:.0f} on an A100",
            "V100 每周期 {v0:.0f} 次乘加（4×4×4），RTX 4090 为 {v1:.0f}，A100 为 {v2:.0f}",
        ),
    ),
)  # fmt: skip
add(
    "A-021", "The latest tensor cores are 60 times as fast as the first.",
    "最新张量核心比第一代快 60 倍。",
    60, "x",
    equals(_over_v100("h100", "fp16"), _over_v100("h100", "fp8"), _over_v100("b300", "fp4")),
)  # fmt: skip
add(
    "A-022", "Models of a trillion parameters train four times as fast (GB200 against H100).",
    "万亿参数模型训练快 4 倍（GB200 对 H100）。",
    4, "x", equals(*_GENERATION),
)  # fmt: skip
add(
    "A-023", "Inference is 30 times as fast (GB200 against H100, one against one).",
    "推理快 30 倍（GB200 对 H100，单卡对单卡）。",
    30, "x", equals(*_GENERATION),
)  # fmt: skip
add(
    "B-005", "Tensor cores compute in FP16, BF16, INT8 and FP8.",
    "张量核心支持 FP16、BF16、INT8、FP8。",
    "all four", "",
    holds(
        "v100_has_all", "a100_has_all", "h100_has_all", v100_has_all=_all_formats("v100"),
        a100_has_all=_all_formats("a100"), h100_has_all=_all_formats("h100"),
        truth=(
            "Since Hopper and Ada; an A100 has no FP8, a V100 no BF16 either",
            "Hopper/Ada 起才全部支持；A100 没有 FP8，V100 连 BF16 也没有",
        ),
    ),
)  # fmt: skip
add(
    "C-005", "In matrix work tensor cores are 10 to 20 times as fast as CUDA cores.",
    "矩阵运算中张量核心比 CUDA 核心快 10-20 倍。",
    (10, 20), "x",
    inside(
        *(
            formula(
                "fp16 / fp32", fp16=catalogue(name, "fp16"), fp32=catalogue(name, "fp32"),
                label=(name.upper(), name.upper()),
            )
            for name in ("a100", "h100", "rtx-4090")
        )
    ),
)  # fmt: skip
add(
    "C-038", "For a product of 1 x 128 by 128 x 128, tensor cores are tens of times as fast.",
    "对 1×128 乘 128×128，张量核心快数十倍。",
    10, "x",
    at_least(
        formula(
            "vector / tensor", vector=matmul_s("h200", 1, 128, 128, "fp32"),
            tensor=matmul_s("h200", 1, 128, 128, "bf16"),
        ),
        truth=(
            "{v0:x}: so small a product is over before arithmetic matters",
            "{v0:x}：这么小的乘法，还轮不到算力成为瓶颈",
        ),
    ),
)  # fmt: skip
add(
    "C-039", "1·5 + 2·6 + 3·7 + 4·8 is 70: four products, three sums.",
    "1·5 + 2·6 + 3·7 + 4·8 = 70，共 4 次乘、3 次加。",
    70, "", equals(formula("1 * 5 + 2 * 6 + 3 * 7 + 4 * 8")),
)  # fmt: skip
add(
    "D-006", "FP16 is less exact and faster.",
    "FP16 降低精度、提高速度。",
    "both", "",
    holds(
        "fp16_bits < fp32_bits", "v100_fp16 > v100_fp32", "a100_fp16 > a100_fp32",
        fp16_bits=mantissa_bits("float16"), fp32_bits=mantissa_bits("float32"),
        v100_fp16=catalogue("v100", "fp16"), v100_fp32=catalogue("v100", "fp32"),
        a100_fp16=catalogue("a100", "fp16"), a100_fp32=catalogue("a100", "fp32"),
        truth=(
            "{fp16_bits:.0f} fraction bits instead of {fp32_bits:.0f}; on an A100 "
            "{a100_fp16:TFLOPS} instead of {a100_fp32:TFLOPS}",
            "尾数 {fp16_bits:.0f} 位（FP32 为 {fp32_bits:.0f} 位）；A100 上 {a100_fp16:TFLOPS}"
            "（FP32 为 {a100_fp32:TFLOPS}）",
        ),
    ),
)  # fmt: skip
add(
    "D-007", "Vector operations run on tensor cores.",
    "张量核心执行向量运算。",
    "vectors", "",
    holds(
        "rows == 1", rows=fact("mma.rows"),
        truth=(
            "Matrix products only: their smallest instruction has {rows:.0f} rows and columns",
            "只做矩阵乘加：最小指令也有 {rows:.0f} 行 {rows:.0f} 列",
        ),
    ),
)  # fmt: skip
add(
    "A-040", "Stored in FP16, numbers take half of what they take in FP32.",
    "FP16 占用显存是 FP32 的一半。",
    0.5, "x",
    equals(formula("half / whole", half=dtype_bytes("float16"), whole=dtype_bytes("float32"))),
)  # fmt: skip
add(
    "A-073", "GPUs compute faster in 16 bits than in 32.",
    "16 位运算比 32 位快。",
    "faster", "",
    holds(
        "a100_16 > a100_32", "rtx4090_16 > rtx4090_32", "mi300x_16 > mi300x_32",
        a100_16=catalogue("a100", "fp16"), a100_32=catalogue("a100", "fp32"),
        rtx4090_16=catalogue("rtx-4090", "fp16"), rtx4090_32=catalogue("rtx-4090", "fp32"),
        mi300x_16=catalogue("mi300x", "fp16"), mi300x_32=catalogue("mi300x", "fp32"),
        truth=(
            "{a100_16:TFLOPS} against {a100_32:TFLOPS} on an A100, {rtx4090_16:TFLOPS} against "
            "{rtx4090_32:TFLOPS} on an RTX 4090",
            "A100 为 {a100_16:TFLOPS} 对 {a100_32:TFLOPS}，RTX 4090 为 {rtx4090_16:TFLOPS} 对 "
            "{rtx4090_32:TFLOPS}",
        ),
    ),
)  # fmt: skip
add(
    "E-088", "Hardware for sparse matrices began with Ampere.",
    "硬件稀疏从安培架构开始。",
    "Ampere", "",
    holds(
        "a100 == 2", "v100 == 1", a100=catalogue("a100", "structured_sparsity_multiplier"),
        v100=catalogue("v100", "structured_sparsity_multiplier"),
        truth=(
            "Yes: {a100:x} the rate on an A100, nothing on a V100",
            "是：A100 为 {a100:x}，V100 没有",
        ),
    ),
)  # fmt: skip
