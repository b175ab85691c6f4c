"""Claims about measured times: additions, transfers, training runs, a published case study."""

from __future__ import annotations

from gpuscope.learn.claims.catalogue_figures import catalogue, link
from gpuscope.learn.claims.expression import formula
from gpuscope.learn.claims.judging import at_least, cannot_say, equals, holds
from gpuscope.learn.claims.model_figures import attention_flops, matmul_s, measured, transfer_s
from gpuscope.learn.claims.registry import Book
from gpuscope.learn.claims.sourced_facts import fact
from gpuscope.learn.claims.types import Source

BOOK = Book("speed", "Times and speed-ups", "耗时与加速比")
add = BOOK.add

_BANDWIDTH = "memory_bandwidth_bytes_per_s"
_NOT_KNOWN = (
    "It depends on the data, the number of epochs, both machines and both programs, of which the "
    "claim names none.",
    "取决于数据、训练轮数、两台机器和两套程序，说法均未给出。",
)


def _ddr5(channels: Source | float) -> Source:
    return formula(
        "channels * bus / 8 * rate", unit="GB/s", channels=channels, bus=fact("ddr5.bus"),
        rate=fact("ddr5.rate"),
    )  # fmt: skip


def _cpu_addition_s(n: int) -> Source:
    """A thousand additions on one core: a vector register a clock, at the recorded host's clock."""
    return formula(f"{n} / lanes / 2.1e9", unit="µs", lanes=fact("avx512.lanes"))


def _gpu_addition_s() -> Source:
    """What the host pays for one small addition in PyTorch, before the GPU even begins."""
    return measured("h200", "host.op.add.plain_s", "µs")


add(
    "A-015", "Where memory sets the pace, an H200 is up to 110 times as fast as a CPU.",
    "访存受限的 HPC 中 H200 比 CPU 快 110 倍。",
    110, "x",
    equals(
        formula(
            "h200 / cpu", h200=catalogue("h200", _BANDWIDTH), cpu=_ddr5(fact("epyc.channels"))
        ),
        truth=(
            "{v0:x} by bandwidth, against a CPU with twelve channels of DDR5-5600",
            "按带宽为 {v0:x}（对 12 通道 DDR5-5600 的 CPU）",
        ),
    ),
)  # fmt: skip
add(
    "A-016", "Extracting image features is 100 times as fast as on a CPU, frame by frame.",
    "图像特征提取比 CPU 逐帧快 100 倍。",
    100, "x", cannot_say(*_NOT_KNOWN),
)  # fmt: skip
for _id, _en, _zh, _value, _unit in (
    ("A-031", "With streaming data sets, repeated access is 40 times as fast.",
     "数据集流式加载后重复访问快 40 倍。", 40, "x"),
    ("A-034", "VGG-16 trains on CIFAR-100 in 13,000 s on a GPU.",
     "GPU 上训练 VGG-16（CIFAR-100）用 13000 秒。", 13_000, "s"),
    ("A-035", "VGG-16 trains on CIFAR-100 in 130,000 s on a CPU.",
     "CPU 上训练 VGG-16（CIFAR-100）用 130000 秒。", 130_000, "s"),
    ("A-036", "ResNet-18 trains in 150 s on a GPU.", "GPU 上训练 ResNet-18 用 150 秒。", 150, "s"),
    ("A-037", "ResNet-18 trains in 1,740 s on a CPU.",
     "CPU 上训练 ResNet-18 用 1740 秒。", 1740, "s"),
):  # fmt: skip
    add(_id, _en, _zh, _value, _unit, cannot_say(*_NOT_KNOWN))
add(
    "A-032", "The share of loading data in a training falls from 35 % to under 5 %.",
    "数据加载占训练时间从 35% 降到 5% 以下。",
    (35, 5), "%", cannot_say(*_NOT_KNOWN),
)  # fmt: skip

# -- additions --------------------------------------------------------------------------------
add(
    "C-032", "A CPU takes 0.00 ms for 1,000 additions.",
    "CPU 做 1000 次加法用 0.00 ms。",
    0, "ms",
    equals(
        formula("66.67 * 0.0012e-3", unit="ms"),
        truth=(
            "{v0:ms} by the same article's own speed-up: a time rounded to nothing",
            "按同文的加速比反推为 {v0:ms}：只是被四舍五入成零",
        ),
    ),
)  # fmt: skip
add(
    "C-033", "A GPU takes 0.0012 ms for 1,000 additions.",
    "GPU 做 1000 次加法用 0.0012 ms。",
    0.0012, "ms",
    equals(
        _gpu_addition_s(),
        truth=(
            "{v0:ms} pass on the host for the call alone, before the GPU begins",
            "仅主机端的调用就要 {v0:ms}，GPU 还没开始",
        ),
    ),
)  # fmt: skip
add(
    "C-034", "For 1,000 additions a GPU is 66.67 times as fast.",
    "1000 次加法 GPU 快 66.67 倍。",
    66.67, "x",
    equals(
        formula("cpu / gpu", cpu=_cpu_addition_s(1000), gpu=_gpu_addition_s()),
        truth=(
            "{v0:.3f} times: the launch alone takes longer than the CPU's additions",
            "{v0:.3f} 倍：仅启动开销就超过 CPU 做完这些加法",
        ),
    ),
)  # fmt: skip
add(
    "C-035", "For a million additions a GPU is over 1,000 times as fast.",
    "一百万次加法 GPU 快 1000 倍以上。",
    1000, "x",
    at_least(
        formula("gpu / cpu", gpu=catalogue("rtx-4090", _BANDWIDTH), cpu=_ddr5(2.0)),
        truth=(
            "At most {v0:x}: additions are as fast as memory (RTX 4090 against two channels of "
            "DDR5-5600)",
            "至多 {v0:x}：加法的速度取决于内存（RTX 4090 对双通道 DDR5-5600）",
        ),
    ),
)  # fmt: skip

# -- transfers --------------------------------------------------------------------------------
add(
    "B-015", "Pinned memory makes copies between host and GPU faster.",
    "锁页内存可提高 H2D/D2H 带宽。",
    "faster", "",
    holds(
        "h2d_pinned > h2d_pageable", "d2h_pinned > d2h_pageable",
        also={
            name: measured("h200", f"transfer.{name}.efficiency", "%")
            for name in ("h2d_pinned", "h2d_pageable", "d2h_pinned", "d2h_pageable")
        },
        truth=(
            "Yes: {h2d_pinned:%} of the link's rate instead of {h2d_pageable:%} (H200)",
            "是：达到链路速率的 {h2d_pinned:%}，可分页内存只有 {h2d_pageable:%}（H200）",
        ),
    ),
)  # fmt: skip
add(
    "C-064", "to(device, non_blocking=True) of ordinary memory overlaps with other work.",
    "普通内存用 to(device, non_blocking=True) 也能与其他工作重叠。",
    "overlaps", "",
    holds(
        "pageable >= 0.9 * pinned", pageable=measured("h200", "transfer.h2d_pageable.efficiency"),
        pinned=measured("h200", "transfer.h2d_pinned.efficiency"),
        sources=("NVIDIA CUDA Runtime API, API synchronization behavior: pageable memory",),
        truth=(
            "It does not: the CPU stages a pageable copy itself ({pageable:%} of the link's rate "
            "against {pinned:%}) and returns late; pin the memory",
            "不能：可分页内存由 CPU 亲自中转（链路速率的 {pageable:%}，锁页为 {pinned:%}），"
            "调用迟迟才返回；应使用锁页内存",
        ),
    ),
)  # fmt: skip
add(
    "C-054", "The scores QK^T go back to the CPU over PCIe in every attention layer.",
    "每个注意力层的 QK^T 结果都经 PCIe 返回 CPU。",
    "each layer", "",
    holds(
        "copying < computing",
        copying=formula("40 * 2048**2 * 2 / link", unit="ms", link=link("pcie-4.0-x16")),
        computing=formula(
            "flops / peak", unit="ms", flops=attention_flops(1, 40, 2048, 2048, 128),
            peak=catalogue("rtx-4090", "fp16"),
        ),
        truth=(
            "They stay on the GPU: for 2,048 tokens and 40 heads the copy would take "
            "{copying:ms} a layer, the attention itself takes {computing:ms} or so",
            "结果留在 GPU 上：2048 个 token、40 个头时每层拷贝要 {copying:ms}，"
            "而注意力本身只需约 {computing:ms}",
        ),
    ),
)  # fmt: skip

# -- the case study: batch 32 of 512 x 128 by 128 x 512 on an RTX 4090 ------------------------
add(
    "C-055", "Case study: copying the operands (8.39 MB) to the GPU takes 2.35 ms.",
    "案例：把操作数（8.39 MB）拷到 GPU 用 2.35 ms。",
    2.35, "ms",
    equals(
        transfer_s("rtx-4090", 8.39e6, "h2d", pinned=False),
        transfer_s("rtx-4090", 8.39e6, "h2d", pinned=True),
        truth=(
            "{v0:ms} once its memory was touched before, {v1:ms} from pinned memory",
            "内存预先访问过时 {v0:ms}，锁页内存 {v1:ms}",
        ),
    ),
)  # fmt: skip
add(
    "C-056", "Case study: 32 products of 512 x 128 by 128 x 512 keep the GPU busy for 4.52 ms.",
    "案例：32 个 512×128 乘 128×512，GPU 计算用 4.52 ms。",
    4.52, "ms",
    equals(
        matmul_s("rtx-4090", 512, 512, 128, "fp16", batch=32),
        truth=(
            "{v0:ms} once warm; the rest is the library's start",
            "预热后 {v0:ms}；其余是库的初始化",
        ),
    ),
)  # fmt: skip
add(
    "C-057", "Case study: copying the result (16.8 MB) back takes 1.49 ms.",
    "案例：结果（16.8 MB）拷回用 1.49 ms。",
    1.49, "ms",
    equals(
        transfer_s("rtx-4090", 16.8e6, "d2h", pinned=False),
        transfer_s("rtx-4090", 16.8e6, "d2h", pinned=True),
    ),
)  # fmt: skip
add(
    "C-058", "Case study: all in all that is 8.36 ms (2.35 + 4.52 + 1.49).",
    "案例：总计 8.36 ms（2.35 + 4.52 + 1.49）。",
    8.36, "ms", equals(formula("(2.35 + 4.52 + 1.49) / 1000")),
)  # fmt: skip
add(
    "C-059", "Case study: the time is mostly transfer (2.35 + 1.49 ms beside 4.52 ms).",
    "案例：时间主要花在传输上（2.35 + 1.49 ms，计算 4.52 ms）。",
    "mostly transfer", "",
    holds(
        "transfer > 0.5", transfer=formula("(2.35 + 1.49) / (2.35 + 4.52 + 1.49)", unit="%"),
        truth=(
            "By its own figures transfers are {transfer:%}, less than computing",
            "按其自身数据，传输只占 {transfer:%}，少于计算",
        ),
    ),
)  # fmt: skip
add(
    "C-060", "Case study: transfers take nearly half of the time (46 %).",
    "案例：传输占近一半（46%）。",
    46, "%", equals(formula("(2.35 + 1.49) / (2.35 + 4.52 + 1.49)")),
)  # fmt: skip

# -- models of time ---------------------------------------------------------------------------
add(
    "D-008", "The time of a training is the GPU's time plus the CPU's.",
    "训练时间 T = T_GPU + T_CPU。",
    "sum", "",
    holds(
        "waiting == 100 * (host + gpu)", "overlapped == 100 * (host + gpu)", host=8e-3, gpu=10e-3,
        waiting=formula("100 * (0.008 + 0.010)", unit="s"),
        overlapped=formula("0.008 + 100 * max(0.008, 0.010)", unit="s"),
        truth=(
            "Only if each waits for the other: 100 steps of 8 ms on the host and 10 ms on the GPU "
            "take {waiting:s} then, and {overlapped:s} where they overlap",
            "仅当二者互相等待时成立：主机 8 ms、GPU 10 ms 的 100 步需 {waiting:s}；"
            "重叠执行只需 {overlapped:s}",
        ),
    ),
)  # fmt: skip
add(
    "D-009", "A GPU's time is a fixed share of what its peak allows.",
    "GPU 耗时与峰值成固定比例。",
    "fixed share", "",
    holds(
        "0.75 < middle / large < 1.33", "0.75 < small / large < 1.33",
        also={
            name: formula(
                f"2 * {n}**3 / time / peak", unit="%", time=matmul_s("h200", n, n, n, "bf16"),
                peak=catalogue("h200", "bf16"),
            )
            for name, n in (("small", 256), ("middle", 4096), ("large", 8192))
        },
        truth=(
            "A BF16 product on an H200 reaches {large:%} of peak at 8,192³, {middle:%} at 4,096³, "
            "{small:%} at 256³",
            "H200 上 BF16 矩阵乘：8192³ 达峰值 {large:%}，4096³ 为 {middle:%}，256³ 仅 {small:%}",
        ),
    ),
)  # fmt: skip
