"""Claims about power, cost and the market."""

from __future__ import annotations

from gpuscope.learn.claims.catalogue_figures import catalogue
from gpuscope.learn.claims.expression import formula
from gpuscope.learn.claims.judging import at_least, cannot_say, equals, holds
from gpuscope.learn.claims.registry import Book
from gpuscope.learn.claims.sourced_facts import fact
from gpuscope.learn.claims.types import Source

_HOURS = formula("365 * 24 / 12")
"""Of a month."""

BOOK = Book("energy", "Power, cost and market", "功耗、成本与市场")
add = BOOK.add


def _power(*names: tuple[str, str]) -> tuple[Source, ...]:
    return tuple(catalogue(name, "tdp_w", (label, label)) for name, label in names)


def _per_watt(name: str, label: str) -> Source:
    return formula(
        "peak / power", unit="TFLOPS/W", peak=catalogue(name, "fp16"),
        power=catalogue(name, "tdp_w"), label=(label, label),
    )  # fmt: skip


add(
    "A-065", "Under load an A100 takes about 250 W.",
    "A100 满载约 250 W。",
    250, "W",
    equals(
        *_power(
            ("a100-pcie-40gb", "PCIe 40 GB"), ("a100-pcie-80gb", "PCIe 80 GB"),
            ("a100-sxm-80gb", "SXM"),
        )
    ),
)  # fmt: skip
add(
    "A-066", "An H100 draws up to 700 W.",
    "H100 功耗最高 700 W。",
    700, "W", equals(*_power(("h100", "SXM"))),
)  # fmt: skip
add(
    "A-067", "An H100 draws almost three times as much as an A100.",
    "H100 功耗接近 A100 的 3 倍。",
    3, "x",
    equals(
        formula(
            "h100 / a100", h100=catalogue("h100", "tdp_w"), a100=catalogue("a100", "tdp_w"),
            label=("SXM to SXM", "SXM 对 SXM"),
        ),
        formula(
            "h100 / a100", h100=catalogue("h100-pcie", "tdp_w"),
            a100=catalogue("a100-pcie-80gb", "tdp_w"), label=("PCIe to PCIe", "PCIe 对 PCIe"),
        ),
    ),
)  # fmt: skip
add(
    "A-068", "One Blackwell GPU takes about 2,000 W.",
    "Blackwell GPU 功耗约 2000 W。",
    2000, "W",
    equals(*_power(("b200", "B200"), ("gb200", "GB200"), ("b300", "B300"), ("gb300", "GB300"))),
)  # fmt: skip
add(
    "A-069", "At full load a Blackwell costs 300 USD of power a month (2 kW at 150 USD a kW).",
    "Blackwell 满载每月电费 300 美元（2 kW × 150 美元/kW）。",
    300, "USD/month",
    holds(
        "2 * 150 == 300", "abs(power / 2000 - 1) < 0.25", power=catalogue("b200", "tdp_w"),
        cost=formula("power / 1000 * 150", unit="USD/month", power=catalogue("b200", "tdp_w")),
        truth=(
            "The product is right, its 2 kW is not: a B200 draws {power:W}, so {cost:USD/month}",
            "乘法没错，但 2 kW 不对：B200 为 {power:W}，即 {cost:USD/month}",
        ),
    ),
)  # fmt: skip
add(
    "A-070", "Power costs 150 USD a month for each kW.",
    "电价为每 kW 每月 150 美元。",
    150, "USD/month",
    cannot_say(
        "A price between two parties; over {hours:.0f} hours it is {kwh:.3f} USD a kWh.",
        "属于双方约定的价格；按每月 {hours:.0f} 小时折合每度 {kwh:.3f} 美元。",
        hours=_HOURS, kwh=formula("150 / hours", hours=_HOURS),
    ),
)  # fmt: skip
add(
    "A-071", "From Ampere to Kyber, racks grow to 100 times the power.",
    "从安培到 Kyber，机架功率提高 100 倍。",
    100, "x",
    equals(
        formula("kyber / dgx_a100", kyber=fact("kyber.power"), dgx_a100=fact("dgx_a100.power")),
        truth=("{v0:x}, a whole rack over one server", "{v0:x}，且是整机架对一台服务器"),
    ),
)  # fmt: skip
add(
    "A-072", "GPU time for one AI model may cost millions of USD a month (1,000 H100).",
    "运行一个 AI 模型每月 GPU 费用可达数百万美元（1000 块 H100）。",
    1, "million USD",
    at_least(
        formula(
            "1000 * hours * price", unit="million USD", hours=_HOURS,
            price=catalogue("h100", "price_usd_per_hour"),
        )
    ),
)  # fmt: skip
add(
    "E-065", "Ascend 910B gives 5.2 TFLOPS for each watt in FP16.",
    "昇腾 910B 的 FP16 能效为 5.2 TFLOPS/W。",
    5.2, "TFLOPS/W", equals(_per_watt("ascend-910b", "910B")),
)  # fmt: skip
add(
    "E-066", "An A100 gives 4.7 TFLOPS for each watt in FP16.",
    "A100 的 FP16 能效为 4.7 TFLOPS/W。",
    4.7, "TFLOPS/W",
    equals(_per_watt("a100-sxm-80gb", "SXM"), _per_watt("a100-pcie-80gb", "PCIe")),
)  # fmt: skip
add(
    "E-082", "NVIDIA is worth over a trillion USD.",
    "英伟达市值超过 1 万亿美元。",
    1e6, "million USD",
    cannot_say("A price at an exchange; nothing to compute.", "属于股价，无法计算。"),
)  # fmt: skip
add(
    "D-019", "GPUs must become still more efficient.",
    "GPU 的效率仍需提高。",
    "must", "", cannot_say("A wish.", "属于期望，无法计算。"),
)  # fmt: skip
