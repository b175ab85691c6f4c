"""Claims about memory chips: HBM, GDDR, capacity, bandwidth, how it is reached."""

from __future__ import annotations

from gpuscope.learn.claims.catalogue_figures import catalogue, most
from gpuscope.learn.claims.expression import formula
from gpuscope.learn.claims.judging import (
    at_least,
    cannot_say,
    equals,
    holds,
    inside,
    spans,
)
from gpuscope.learn.claims.model_figures import measured
from gpuscope.learn.claims.registry import Book
from gpuscope.learn.claims.sourced_facts import fact
from gpuscope.learn.claims.types import Source

BOOK = Book("memory", "Device memory", "显存")
add = BOOK.add

_BANDWIDTH = "memory_bandwidth_bytes_per_s"


def _pin_rate(name: str, bus: str) -> Source:
    """Transfers/s of a pin, from a device's bandwidth and bus."""
    label = name.upper()
    return formula(
        "8 * bandwidth / bus", unit="GT/s", bandwidth=catalogue(name, _BANDWIDTH), bus=fact(bus),
        label=(label, label),
    )  # fmt: skip


def _issued(clocks: str, **constants: str) -> Source:
    """Bytes/s that the SMs of an H200 can ask for when they add float32 tensors.

    Args:
        clocks: that one element keeps an SM busy: an expression of measured constants.
        constants: its names, and what they are called after "pointwise.".
    """
    return formula(
        f"12 * units * clock / ({clocks})", unit="TB/s", units=catalogue("h200", "compute_units"),
        clock=catalogue("h200", "clock_hz"),
        also={name: measured("h200", f"pointwise.{key}") for name, key in constants.items()},
    )  # fmt: skip


def _two_channels_of_ddr5() -> Source:
    return formula(
        "2 * bus / 8 * rate", unit="GB/s", bus=fact("ddr5.bus"), rate=fact("ddr5.rate")
    )


add(
    "A-010", "The bus of an HBM stack is 1,024 or 2,048 bits wide.",
    "每个 HBM 堆栈的位宽为 1024 或 2048 位。",
    (1024, 2048), "bit",
    inside(fact("hbm.stack", ("to HBM3E", "HBM3E 及以前")), fact("hbm4.stack", ("HBM4", "HBM4"))),
)  # fmt: skip
add(
    "A-011", "A pin of HBM runs above 6.4 GT/s.",
    "HBM 引脚速率高于 6.4 GT/s。",
    6.4, "GT/s",
    at_least(
        _pin_rate("a100", "a100.bus"), _pin_rate("h100", "h100.bus"), _pin_rate("b200", "b200.bus")
    ),
)  # fmt: skip
add(
    "A-012", "Bandwidth of HBM2 is clock x 2 x 1,024 bits x stacks.",
    "HBM2 带宽 = 时钟 × 2 × 1024 位 × 堆栈数。",
    "a formula", "",
    holds(
        "abs(formula_gives / a100 - 1) < 0.02",
        formula_gives=formula(
            "clock * 2 * stack * (bus / stack) / 8", unit="GB/s", stack=fact("hbm.stack"),
            bus=fact("a100.bus"), clock=fact("a100.memory_clock"),
        ),
        a100=catalogue("a100-sxm-40gb", _BANDWIDTH),
        truth=(
            "Yes, divided by 8 for bytes: {formula_gives:GB/s} for the A100 40 GB, whose "
            "datasheet says {a100:GB/s}",
            "是，除以 8 即字节数：A100 40 GB 算得 {formula_gives:GB/s}，数据手册为 {a100:GB/s}",
        ),
    ),
)  # fmt: skip
add(
    "A-013", "GDDR6 moves about 0.064 TB/s.",
    "GDDR6 带宽约 0.064 TB/s。",
    64, "GB/s",
    equals(
        formula(
            "chip * pin / 8", chip=fact("gddr6.chip"), pin=fact("gddr6.pin"),
            label=("one chip", "单颗芯片"),
        ),
        catalogue("l40s", _BANDWIDTH, ("a card, L40S", "整卡，L40S")),
        catalogue("t4", _BANDWIDTH, ("a card, T4", "整卡，T4")),
    ),
)  # fmt: skip
add(
    "A-014", "The bandwidth of HBM2 is 256 GB/s.",
    "HBM2 带宽可达 256 GB/s。",
    256, "GB/s",
    equals(
        formula(
            "stack * pin / 8", stack=fact("hbm.stack"), pin=fact("hbm2.pin"),
            label=("one stack", "单个堆栈"),
        ),
        catalogue("v100", _BANDWIDTH, ("a card, V100", "整卡，V100")),
    ),
)  # fmt: skip
add(
    "B-004", "GDDR6 and HBM3 are far faster than DDR.",
    "GDDR6/HBM3 带宽远高于 DDR。",
    "far", "",
    holds(
        "gddr > 4 * ddr5", "hbm3 > 4 * ddr5", gddr=catalogue("rtx-4090", _BANDWIDTH),
        hbm3=catalogue("h100", _BANDWIDTH), ddr5=_two_channels_of_ddr5(),
        truth=(
            "{gddr:GB/s} (RTX 4090) and {hbm3:GB/s} (H100) against {ddr5:GB/s} of two channels "
            "of DDR5-5600",
            "{gddr:GB/s}（RTX 4090）、{hbm3:GB/s}（H100），双通道 DDR5-5600 为 {ddr5:GB/s}",
        ),
    ),
)  # fmt: skip
add(
    "C-006", "GPUs of the upper class have from 24 GB (consumer) to 80 GB (data centre).",
    "高端 GPU 显存为 24 GB（消费级）到 80 GB（数据中心）。",
    (24, 80), "GiB",
    spans(
        catalogue("rtx-5090", "memory_bytes", ("consumer, RTX 5090", "消费级，RTX 5090")),
        most("memory_bytes", "NVIDIA"),
    ),
)  # fmt: skip
add(
    "C-007", "With GDDR6X a card gets to 1 TB/s.",
    "GDDR6X 带宽可达 1 TB/s。",
    1, "TB/s",
    equals(
        formula(
            "bus * pin / 8", unit="GB/s", bus=fact("rtx4090.bus"), pin=fact("rtx4090.pin"),
        )
    ),
)  # fmt: skip
add(
    "C-008", "With HBM3 a card gets 3 TB/s or more.",
    "HBM3 带宽可达 3 TB/s 以上。",
    3, "TB/s", at_least(catalogue("h100", _BANDWIDTH), catalogue("mi300x", _BANDWIDTH)),
)  # fmt: skip
add(
    "C-011", "HBM3 is easier on power than GDDR6X.",
    "HBM3 比 GDDR6X 省电。",
    "less", "",
    holds(
        "hbm2e < gddr6x", hbm2e=fact("hbm2e.energy"), gddr6x=fact("gddr6x.energy"),
        truth=(
            "Already HBM2E does: {hbm2e:pJ} a bit against {gddr6x:pJ}",
            "HBM2E 已更省：每比特 {hbm2e:pJ}，GDDR6X 为 {gddr6x:pJ}",
        ),
    ),
)  # fmt: skip
add(
    "C-012", "A GPU's memory controller has 8 to 12 independent channels.",
    "GPU 显存控制器有 8 到 12 个独立通道。",
    (8, 12), "channels",
    inside(
        formula(
            "bus / chip", bus=fact("rtx4090.bus"), chip=fact("gddr6.chip"),
            label=("RTX 4090", "RTX 4090"),
        ),
        formula(
            "bus / stack * of_a_stack", bus=fact("h100.bus"), stack=fact("hbm.stack"),
            of_a_stack=fact("hbm.channels"), label=("H100", "H100"),
        ),
    ),
)  # fmt: skip
add(
    "C-013", "A good controller reaches 90 % of the theoretical bandwidth and more.",
    "好的控制器可达理论带宽的 90% 以上。",
    90, "%",
    at_least(
        measured("h200", "bandwidth.read_efficiency", "%", ("reading, H200", "读，H200")),
        measured("h200", "bandwidth.write_efficiency", "%", ("writing, H200", "写，H200")),
    ),
)  # fmt: skip
add(
    "C-014", "ECC takes a little bandwidth.",
    "ECC 会略微降低带宽。",
    "a little", "",
    cannot_say(
        "Nobody recorded the same device with ECC on and off; HBM keeps its check bits beside the "
        "data, GDDR6 among them.",
        "没有同一器件开关 ECC 的对比记录；HBM 的校验位另存，GDDR6 则占用数据空间。",
    ),
)  # fmt: skip
add(
    "B-014", "Loads of vector types (float4, int4) use the bandwidth better.",
    "使用 float4/int4 等向量类型可提高带宽利用率。",
    "better", "",
    holds(
        "with_vectors > memory", "without < memory",
        with_vectors=_issued("3 * vectorized", vectorized="vectorized.cycles"),
        without=_issued(
            "base + 3 * operand", base="unrolled.cycles", operand="unrolled.cycles_per_operand"
        ),
        memory=catalogue("h200", _BANDWIDTH),
        truth=(
            "Yes: adding float32 tensors, an H200's SMs ask for {with_vectors:TB/s} with vector "
            "loads, for {without:TB/s} without; its memory gives {memory:TB/s}",
            "是：float32 张量相加时，H200 的 SM 用向量加载可请求 {with_vectors:TB/s}，"
            "否则只有 {without:TB/s}，而显存可供 {memory:TB/s}",
        ),
    ),
)  # fmt: skip
add(
    "E-073", "Four to six stacks of HBM are about what fits a package.",
    "4 到 6 个 HBM 堆栈接近物理极限。",
    (4, 6), "stacks",
    inside(
        *(
            formula(
                "bus / stack", bus=fact(f"{name}.bus"), stack=fact("hbm.stack"),
                label=(name.upper(), name.upper()),
            )
            for name in ("mi300x", "b200")
        )
    ),
)  # fmt: skip
add(
    "E-078", "Eight to twelve stacks of 24 GB make 256 to 512 GB.",
    "8 到 12 个 24 GB 堆栈可达 256-512 GB。",
    (256, 512), "GB",
    spans(
        formula("8 * 24e9", label=("eight", "8 个")),
        formula("12 * 24e9", label=("twelve", "12 个")),
    ),
)  # fmt: skip
add(
    "C-043", "14 billion weights of 4 bits take 7 GB.",
    "14B 参数 × 4 位 = 7 GB。",
    7, "GB", equals(formula("14e9 * 4 / 8")),
)  # fmt: skip
for _id, _rate, _seconds in (("C-044", 500, 0.014), ("C-045", 1000, 0.007)):
    add(
        _id, f"Reading 7 GB of weights at {_rate:,} GB/s takes {_seconds} s.",
        f"带宽 {_rate} GB/s 时读取 7 GB 权重需 {_seconds} 秒。",
        _seconds, "s",
        equals(
            formula(f"7e9 / {_rate}e9"),
            truth=(
                "{v0:s}: so one token of a single sequence takes at least that",
                "{v0:s}，即单序列生成一个 token 的下限",
            ),
        ),
    )  # fmt: skip
