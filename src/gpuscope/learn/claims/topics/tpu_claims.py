"""Claims about Google's TPUs."""

from __future__ import annotations

from gpuscope.learn.claims.catalogue_figures import catalogue, link, topology_has
from gpuscope.learn.claims.expression import formula
from gpuscope.learn.claims.judging import at_least, cannot_say, equals, holds, spans
from gpuscope.learn.claims.registry import Book
from gpuscope.learn.claims.sourced_facts import fact
from gpuscope.learn.claims.types import Source

BOOK = Book("tpu", "Google TPU", "谷歌 TPU")
add = BOOK.add

_FROM, _TO = ("from", "从"), ("to", "到")
_BANDWIDTH = "memory_bandwidth_bytes_per_s"


def _ratio(new: str, old: str, field: str, en: str, zh: str) -> Source:
    """One device's figure over another's, named."""
    return formula(
        "new / old", new=catalogue(new, field), old=catalogue(old, field), label=(en, zh)
    )


add(
    "A-054", "For the same power a TPU infers several times as fast as a GPU.",
    "同等功耗下 TPU 推理比 GPU 快数倍。",
    2, "x",
    at_least(
        formula(
            "(tpu / tpu_w) / (gpu / gpu_w)", tpu=catalogue("tpu-v4", "bf16"),
            tpu_w=catalogue("tpu-v4", "tdp_w"), gpu=catalogue("a100", "bf16"),
            gpu_w=catalogue("a100", "tdp_w"), label=("TPU v4 to A100", "TPU v4 对 A100"),
        ),
        formula(
            "(tpu / tpu_w) / (gpu / gpu_w)", tpu=catalogue("tpu-v4", "bf16"),
            tpu_w=catalogue("tpu-v4", "tdp_w"), gpu=catalogue("h100", "bf16"),
            gpu_w=catalogue("h100", "tdp_w"), label=("TPU v4 to H100", "TPU v4 对 H100"),
        ),
    ),
)  # fmt: skip
add(
    "A-055", "TPU v5 is twice as fast as v4.",
    "TPU v5 性能是 v4 的 2 倍。",
    2, "x",
    equals(
        _ratio("tpu-v5p", "tpu-v4", "bf16", "v5p, BF16", "v5p，BF16"),
        _ratio("tpu-v5e", "tpu-v4", "bf16", "v5e, BF16", "v5e，BF16"),
    ),
)  # fmt: skip
add(
    "A-056", "By 2028 Google will have made seven million TPUs.",
    "谷歌到 2028 年将生产 700 万颗 TPU。",
    7e6, "chips",
    cannot_say("A forecast; nothing to compute.", "属于预测，无法计算。"),
)  # fmt: skip
add(
    "A-057", "Some inference takes ten times less power on an NPU than on a GPU.",
    "某些推理任务上 NPU 功耗只有 GPU 的十分之一。",
    10, "x",
    cannot_say(
        "Which NPU, which GPU and which task are left open; the catalogue has no NPU of a phone or "
        "laptop to compute with.",
        "未说明是哪种 NPU、GPU 与任务；目录中没有手机或笔记本的 NPU 可供计算。",
    ),
)  # fmt: skip
add(
    "E-001", "At similar system size TPU v4 is 1.2 to 1.7 times as fast as the A100.",
    "系统规模相近时 TPU v4 比 A100 快 1.2 到 1.7 倍。",
    (1.2, 1.7), "x", spans(fact("tpu4.low", _FROM), fact("tpu4.high", _TO)),
)  # fmt: skip
add(
    "E-002", "TPU v4 uses 1.3 to 1.9 times less power than the A100.",
    "TPU v4 功耗比 A100 低 1.3 到 1.9 倍。",
    (1.3, 1.9), "x", spans(fact("tpu4.power_low", _FROM), fact("tpu4.power_high", _TO)),
)  # fmt: skip
add(
    "E-017", "The first TPU came in 2016, v2 in 2017, then one about every two years.",
    "第一代 TPU 2016 年公布，v2 在 2017 年，此后约两年一代。",
    (2016, 2017), "year",
    holds(
        "first == 2016", "v2 == 2017", "1.5 <= years_a_generation <= 2.5",
        first=fact("tpu.first"), v2=catalogue("tpu-v2", "launch_year"),
        years_a_generation=formula(
            "(v7 - v2) / (7 - 2)", v7=catalogue("tpu-v7", "launch_year"),
            v2=catalogue("tpu-v2", "launch_year"),
        ),
        truth=(
            "{first:year}, {v2:year}, then one every {years_a_generation:.1f} years",
            "{first:year}、{v2:year}，此后每 {years_a_generation:.1f} 年一代",
        ),
    ),
)  # fmt: skip
add(
    "E-018", "TPU v5p computes more than twice as fast as v4.",
    "TPU v5p 算力是 v4 的两倍以上。",
    2, "x",
    at_least(
        _ratio("tpu-v5p", "tpu-v4", "bf16", "BF16", "BF16"),
        _ratio("tpu-v5p", "tpu-v4", "int8", "INT8", "INT8"),
    ),
)  # fmt: skip
add(
    "E-019", "TPU v5p has three times the memory of v4.",
    "TPU v5p 的 HBM 容量是 v4 的 3 倍。",
    3, "x", equals(_ratio("tpu-v5p", "tpu-v4", "memory_bytes", "", "")),
)  # fmt: skip
add(
    "E-020", "A pod of TPU v5p has 8,960 chips.",
    "一个 TPU v5p Pod 有 8960 颗芯片。",
    8960, "chips", equals(link("ici-v5p", "max_devices")),
)  # fmt: skip
add(
    "E-023", "TPU v5p trains language models 2.8 times as fast as v4.",
    "TPU v5p 训练大模型比 v4 快 2.8 倍。",
    2.8, "x",
    equals(
        _ratio("tpu-v5p", "tpu-v4", "bf16", "BF16 peak", "BF16 峰值"),
        _ratio("tpu-v5p", "tpu-v4", "int8", "INT8 peak", "INT8 峰值"),
        _ratio("tpu-v5p", "tpu-v4", _BANDWIDTH, "memory bandwidth", "显存带宽"),
    ),
)  # fmt: skip
add(
    "E-024", "TPU v5p gives 2.3 times as much for the money as v4.",
    "TPU v5p 性价比是 v4 的 2.3 倍。",
    2.3, "x",
    equals(
        formula(
            "2.8 / (new / old)", new=catalogue("tpu-v5p", "price_usd_per_hour"),
            old=catalogue("tpu-v4", "price_usd_per_hour"),
        ),
        truth=(
            "{v0:x} if it is 2.8 times as fast, as its maker says",
            "若按厂商所称快 2.8 倍，则为 {v0:x}",
        ),
    ),
)  # fmt: skip
add(
    "E-058", "TPU v4 joins 4,096 chips by optical switches.",
    "TPU v4 通过光交换连接 4096 颗芯片。",
    4096, "chips",
    holds(
        "chips == 4096", "optical", chips=link("ici-v4", "max_devices"),
        optical=topology_has("ici-v4", "OCS"),
        truth=(
            "{chips:chips}, through optical circuit switches", "{chips:chips}，经光路交换机相连"
        ),
    ),
)  # fmt: skip
add(
    "E-077", "A TPU v4 chip has 32 GB.",
    "每颗 TPU v4 有 32 GB。",
    32, "GiB", equals(catalogue("tpu-v4", "memory_bytes")),
)  # fmt: skip

