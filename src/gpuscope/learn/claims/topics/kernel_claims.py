"""Claims about roofline, tiles, thread blocks and occupancy."""

from __future__ import annotations

from gpuscope.learn.claims.catalogue_figures import catalogue
from gpuscope.learn.claims.expression import formula
from gpuscope.learn.claims.judging import equals, holds
from gpuscope.learn.claims.model_figures import (
    matmul_busy_units,
    matmul_s,
    matmul_tile,
    resident_blocks,
)
from gpuscope.learn.claims.registry import Book
from gpuscope.learn.claims.software_figures import block_load_spread
from gpuscope.learn.claims.sourced_facts import fact
from gpuscope.learn.claims.types import Source

BOOK = Book("kernels", "Kernels, tiles and occupancy", "算子、分块与占用率")
add = BOOK.add

_ROOFLINE = "Williams, Waterman and Patterson, Roofline, CACM 52 (4), 2009"


def _ridge(name: str) -> Source:
    """FLOP/byte above which arithmetic limits a device."""
    return formula(
        "peak / bandwidth", unit="FLOP/byte", sources=(_ROOFLINE,), peak=catalogue(name, "fp16"),
        bandwidth=catalogue(name, "memory_bandwidth_bytes_per_s"),
    )  # fmt: skip


def _layer() -> Source:
    """Arithmetic intensity of a linear layer of 1,024 to 4,096 for 512 rows in FP16."""
    return formula(
        "2 * 512 * 4096 * 1024 / (2 * (512 * 1024 + 1024 * 4096 + 512 * 4096))", unit="FLOP/byte",
        sources=(_ROOFLINE,),
    )  # fmt: skip


def _utilisation(bandwidth: str) -> Source:
    """Share of an RTX 4090's peak that reading 4-bit weights for one sequence can feed."""
    return formula(
        f"(2 / 0.5) * {bandwidth} / peak", unit="%", sources=(_ROOFLINE,),
        peak=catalogue("rtx-4090", "fp16"),
    )  # fmt: skip


def _occupancy(threads: int, registers: int) -> Source:
    return formula(
        "threads * blocks / most", unit="%", threads=float(threads),
        blocks=resident_blocks("h100", threads, registers, 0),
        most=catalogue("h100", "max_threads_per_unit"),
    )  # fmt: skip


add(
    "A-027", "A linear layer of 1,024 to 4,096 at batch 512 does 315 FLOP for each byte.",
    "1024→4096 线性层（批量 512）强度为 315 FLOP/B。",
    315, "FLOP/byte", equals(_layer()),
)  # fmt: skip
add(
    "A-028", "On V100 and A100 arithmetic limits a layer of 1,024 to 4,096 at batch 512.",
    "在 V100、A100 上，1024→4096 线性层（批量 512）受限于算力。",
    "compute-bound", "",
    holds(
        "layer > v100", "layer > a100", "layer > h100", layer=_layer(), v100=_ridge("v100"),
        a100=_ridge("a100"), h100=_ridge("h100"), l40s=_ridge("l40s"),
        truth=(
            "Yes: {layer:FLOP/byte} is above {v100:.0f} (V100), {a100:.0f} (A100), {h100:.0f} "
            "(H100); an L40S would want {l40s:.0f}",
            "是：{layer:FLOP/byte} 高于 V100 的 {v100:.0f}、A100 的 {a100:.0f}、"
            "H100 的 {h100:.0f}；L40S 则需 {l40s:.0f}",
        ),
    ),
)  # fmt: skip
add(
    "A-029", "A ReLU does 0.25 FLOP for each byte.",
    "ReLU 的算术强度为 0.25 FLOP/B。",
    0.25, "FLOP/byte",
    equals(
        formula("1 / (2 + 2)"),
        truth=(
            "{v0:FLOP/byte} in FP16: one operation, two bytes read, two written",
            "FP16 下 {v0:FLOP/byte}：一次运算，读写各 2 字节",
        ),
    ),
)  # fmt: skip
for _id, _en, _zh, _claimed, _rate in (
    ("C-046", "At 400 GB/s a 14B INT4 model (one sequence) uses 70 % of the arithmetic.",
     "400 GB/s 时 14B INT4 单序列利用率约 70%。", 70, "400e9"),
    ("C-047", "At 1,000 GB/s a 14B INT4 model (one sequence) uses nearly 90 % of it.",
     "1000 GB/s 时 14B INT4 单序列利用率接近 90%。", 90, "1000e9"),
):  # fmt: skip
    add(
        _id, _en, _zh, _claimed, "%",
        equals(
            _utilisation(_rate),
            truth=(
                "At most {v0:%} on an RTX 4090: each byte read feeds four operations",
                "RTX 4090 上至多 {v0:%}：每读 1 字节只做 4 次运算",
            ),
        ),
    )  # fmt: skip
add(
    "B-009", "For blocks of 256 threads the grid is (n + 255) / 256, in integers.",
    "线程块为 256 时，网格大小为 (n+255)/256。",
    "ceil(n / 256)", "",
    holds(
        "(1 + 255) // 256 == ceil(1 / 256)", "(256 + 255) // 256 == ceil(256 / 256)",
        "(257 + 255) // 256 == ceil(257 / 256)",
        blocks=formula("(1000 + 255) // 256", unit="blocks"),
        truth=(
            "Yes: 1,000 elements take {blocks:blocks}; the last needs a test for its end",
            "是：1000 个元素用 {blocks:blocks}；最后一块要判断边界",
        ),
    ),
)  # fmt: skip
add(
    "B-012", "Blocks of 128, 256 or 512 threads are usual, a multiple of 32.",
    "线程块常取 128/256/512，并对齐到 32。",
    (128, 512), "threads",
    holds(
        "of_128 == 1", "of_256 == 1", "of_512 == 1",
        "128 % warp == 0 and 256 % warp == 0 and 512 % warp == 0",
        of_128=_occupancy(128, 32), of_256=_occupancy(256, 32), of_512=_occupancy(512, 32),
        of_32=_occupancy(32, 32), warp=catalogue("h100", "warp_size"),
        truth=(
            "Yes: on an H100 each fills an SM (blocks of 32 only {of_32:%})",
            "是：在 H100 上都能占满 SM（32 线程的块只到 {of_32:%}）",
        ),
    ),
)  # fmt: skip
add(
    "B-013", "Occupancy follows from threads, registers and shared memory of a block.",
    "占用率由线程数、寄存器和共享内存决定。",
    "three limits", "",
    holds(
        "more_threads < few", "more_registers < few", "more_shared < few",
        few=resident_blocks("h100", 256, 32, 0), more_threads=resident_blocks("h100", 1024, 32, 0),
        more_registers=resident_blocks("h100", 256, 128, 0),
        more_shared=resident_blocks("h100", 256, 32, 98304),
        slots=catalogue("h100", "max_blocks_per_unit"),
        truth=(
            "Yes, and from the {slots:.0f} blocks that an SM takes at most: {few:.0f} blocks fall "
            "to {more_threads:.0f}, {more_registers:.0f} or {more_shared:.0f}",
            "是，还有每 SM 最多 {slots:.0f} 块的限制：{few:.0f} 块会分别降到 {more_threads:.0f}、"
            "{more_registers:.0f}、{more_shared:.0f}",
        ),
    ),
)  # fmt: skip
add(
    "D-005", "Fewer threads make a kernel faster.",
    "减少线程数可以提速。",
    "fewer", "",
    holds(
        "of_256 > of_768", "of_32 > of_256", of_768=_occupancy(768, 64),
        of_256=_occupancy(256, 64), of_32=_occupancy(32, 64),
        truth=(
            "At times: with 64 registers a thread, blocks of 768 fill {of_768:%} of an H100's SM, "
            "of 256 {of_256:%}, of 32 {of_32:%}",
            "不一定：每线程 64 个寄存器时，H100 占用率在 768 线程块为 {of_768:%}，"
            "256 为 {of_256:%}，32 为 {of_32:%}",
        ),
    ),
)  # fmt: skip
add(
    "B-016", "Cut the product into tiles of 32 x 32 in shared memory.",
    "用共享内存把矩阵乘切成 32×32 的分块。",
    "32 x 32", "",
    holds(
        "reuse > 1", "library_tile <= 1024", reuse=formula("32", unit="x"),
        intensity=formula("2 * 32 * 32 / (4 * (32 + 32))", unit="FLOP/byte"),
        library_tile=matmul_tile("h200", 4096, 4096, 4096, "bf16"), ridge=_ridge("h200"),
        truth=(
            "It saves traffic ({intensity:FLOP/byte} in FP32), but tensor cores want {ridge:.0f}: "
            "libraries take tiles of {library_tile:,.0f} results, not 1,024",
            "能减少访存（FP32 达 {intensity:FLOP/byte}），但张量核心需要 {ridge:.0f}："
            "库的分块有 {library_tile:,.0f} 个结果，而非 1024 个",
        ),
    ),
)  # fmt: skip
add(
    "B-017", "An FP32 product of 8,192 x 8,192 is a fit first test of a GPU.",
    "8192×8192 的 FP32 矩阵乘适合做 GPU 初测。",
    8192, "",
    holds(
        "3 * matrix < memory", "time > 1e-3", matrix=formula("4 * 8192**2", unit="MB"),
        memory=catalogue("rtx-4090", "memory_bytes"),
        time=matmul_s("rtx-4090", 8192, 8192, 8192, "fp32"),
        truth=(
            "Yes: three matrices of {matrix:MB} fit, and {time:ms} (RTX 4090, estimated) is long "
            "enough to time",
            "是：三个 {matrix:MB} 的矩阵放得下，{time:ms}（RTX 4090 估计）也足以计时",
        ),
    ),
)  # fmt: skip
add(
    "C-049", "A 128 x 128 matrix splits into 32 tiles of 4 x 4.",
    "128×128 矩阵可切成 32 个 4×4 分块。",
    32, "tiles", equals(formula("(128 / 4)**2")),
)  # fmt: skip
add(
    "C-050", "32 tiles are computed at once, one on each tensor core (RTX 4090).",
    "32 个分块同时计算，每个张量核心一个（RTX 4090）。",
    32, "cores",
    equals(
        formula(
            "units * of_an_sm", units=catalogue("rtx-4090", "compute_units"),
            of_an_sm=fact("ada.tensor_cores"),
        ),
        truth=(
            "It has {v0:.0f} of them, and all can work at once",
            "它有 {v0:.0f} 个张量核心，可同时工作",
        ),
    ),
)  # fmt: skip
add(
    "C-051", "A product of 128 x 128 keeps all 128 SMs of an RTX 4090 busy.",
    "128×128 矩阵乘让 RTX 4090 的 128 个 SM 全部工作。",
    128, "SM",
    equals(
        matmul_busy_units("rtx-4090", 128, 128, 128, "fp16"),
        truth=(
            "{v0:.0f} of them at most: a library makes no more thread blocks of it",
            "至多 {v0:.0f} 个：库只会为它生成这么多线程块",
        ),
    ),
)  # fmt: skip
add(
    "C-052", "Tiles of 4 x 4 are the best size.",
    "4×4 是最优分块粒度。",
    16, "",
    equals(
        matmul_tile("h200", 4096, 4096, 4096, "bf16"),
        truth=(
            "Thread blocks of libraries take {v0:,.0f} results each (4,096³, BF16, H200)",
            "库的每个线程块计算 {v0:,.0f} 个结果（4096³、BF16、H200）",
        ),
    ),
)  # fmt: skip
add(
    "C-053", "The CPU splits a product into tiles and hands them out.",
    "由 CPU 把矩阵乘切块并分发。",
    "CPU", "",
    holds(
        "launches >= blocks", launches=formula("1"),
        blocks=formula(
            "ceil(4096 * 4096 / tile)", unit="blocks",
            tile=matmul_tile("h200", 4096, 4096, 4096, "bf16"),
        ),
        truth=(
            "The CPU launches one kernel; its grid on the GPU has {blocks:blocks} (4,096³, H200)",
            "CPU 只发起一次内核启动；GPU 上的网格有 {blocks:blocks}（4096³、H200）",
        ),
    ),
)  # fmt: skip
add(
    "C-062", "A 128 x 128 matrix is 16 x 16 blocks of 8 x 8.",
    "128×128 可分成 16×16 个 8×8 块。",
    256, "tiles", equals(formula("(128 / 8)**2")),
)  # fmt: skip
add(
    "C-063", "Blocks in the middle of an attention matrix have more to do than those at the edge.",
    "注意力矩阵中间的块负载更高。",
    "more in the middle", "",
    holds(
        "dense > 1.01", dense=block_load_spread(False), causal=block_load_spread(True),
        truth=(
            "All blocks of a dense product have the same work; under a causal mask the busiest "
            "have {causal:x} the mean",
            "稠密乘法每块工作量相同；带因果掩码时最忙的块是平均的 {causal:x}",
        ),
    ),
)  # fmt: skip
