"""Claims about AMD's, AWS's, Huawei's, Meta's and Microsoft's accelerators."""

from __future__ import annotations

from gpuscope.learn.claims.catalogue_figures import catalogue, process_nm
from gpuscope.learn.claims.expression import formula
from gpuscope.learn.claims.judging import at_least, called, cannot_say, equals, holds, inside
from gpuscope.learn.claims.registry import Book
from gpuscope.learn.claims.software_figures import rounding_error
from gpuscope.learn.claims.sourced_facts import fact
from gpuscope.learn.claims.types import Source

BOOK = Book("accelerators", "Other accelerators", "其他加速器")
add = BOOK.add

_BANDWIDTH = "memory_bandwidth_bytes_per_s"


def _ratio(new: str, old: str, field: str, en: str, zh: str) -> Source:
    """One device's figure over another's, named."""
    return formula(
        "new / old", new=catalogue(new, field), old=catalogue(old, field), label=(en, zh)
    )


add(
    "A-051", "Both RX 9070 XT and 9070 come with 16 GB.",
    "RX 9070 XT 与 9070 显存为 16 GB。",
    16, "GiB", equals(catalogue("rx-9070-xt", "memory_bytes")),
)  # fmt: skip
add(
    "A-052", "The MI350 series is made in 3 nm.",
    "MI350 系列采用 3 nm 工艺。",
    3, "nm", equals(process_nm("mi350x")),
)  # fmt: skip
add(
    "A-053", "AMD's MI350 chips hold 185 billion transistors.",
    "MI350 系列有 1850 亿个晶体管。",
    185, "billion", equals(fact("mi350.transistors")),
)  # fmt: skip
add(
    "E-074", "An MI300X has 192 GB.",
    "MI300X 有 192 GB 显存。",
    192, "GiB", equals(catalogue("mi300x", "memory_bytes")),
)  # fmt: skip
add(
    "E-075", "An MI300X needs liquid cooling.",
    "MI300X 需要液冷。",
    "liquid cooling", "",
    called("liquid", by="mi300x.cooling"),
)  # fmt: skip

# -- AWS --------------------------------------------------------------------------------------
add(
    "E-008", "Trainium is offered since 2022.",
    "Trainium（Trn1）自 2022 年起提供。",
    2022, "year", equals(catalogue("trainium1", "launch_year")),
)  # fmt: skip
add(
    "E-009", "Inferentia came in 2019.",
    "Inferentia 于 2019 年推出。",
    2019, "year", equals(catalogue("inferentia1", "launch_year")),
)  # fmt: skip
add(
    "E-010", "Trainium is made in 7 nm.",
    "Trainium 采用 7 nm 工艺。",
    7, "nm", equals(process_nm("trainium1")),
)  # fmt: skip
add(
    "E-011", "A Trainium chip has 16 NeuronCores.",
    "每颗 Trainium 芯片有 16 个 NeuronCore。",
    16, "cores",
    equals(
        catalogue("trainium1", "compute_units"),
        truth=("{v0:cores}; 16 is the chips of a server", "{v0:cores}；16 是一台服务器的芯片数"),
    ),
)  # fmt: skip
for _id, _en, _zh in (
    ("E-012", "Trainium does 30 to 40 % more for the money than GPUs.",
     "Trainium 性价比比 GPU 高 30-40%。"),
    ("E-067", "Training on Trainium saves 30 to 40 % of the cost.",
     "用 Trainium 训练可省 30-40% 的成本。"),
):  # fmt: skip
    _more = "(trn / trn_usd) / (gpu / gpu_usd) - 1"
    _saved = "1 - (trn_usd / trn) / (gpu_usd / gpu)"
    _expression = _more if _id == "E-012" else _saved
    add(
        _id, _en, _zh, (30, 40), "%",
        inside(
            *(
                formula(
                    _expression, trn=catalogue("trainium1", "bf16"),
                    trn_usd=catalogue("trainium1", "price_usd_per_hour"),
                    gpu=catalogue(gpu, "bf16"), gpu_usd=price,
                    label=(f"by peak rate, against {gpu.upper()}", f"按峰值算力，对 {gpu.upper()}"),
                )
                for gpu, price in (
                    ("h100", catalogue("h100", "price_usd_per_hour")), ("a100", fact("a100.price"))
                )
            )
        ),
    )  # fmt: skip
add(
    "E-013", "Trainium2 was announced in 2023.",
    "Trainium2 于 2023 年公布。",
    2023, "year",
    equals(
        fact("trn2.announced"),
        truth=("{v0:year}", "{v0:year}"),
    ),
)  # fmt: skip
add(
    "E-014", "Trainium3 is four times as fast as Trainium2.",
    "Trainium3 性能是 Trainium2 的 4 倍。",
    4, "x",
    equals(
        _ratio("trainium3", "trainium2", "fp8", "a chip, FP8", "单芯片 FP8"),
        _ratio("trainium3", "trainium2", "bf16", "a chip, BF16", "单芯片 BF16"),
        _ratio("trainium3", "trainium2", _BANDWIDTH, "memory bandwidth", "显存带宽"),
        formula(
            "new_chips * new / (old_chips * old)",
            new_chips=catalogue("trainium3", "scale_up_max_devices"),
            new=catalogue("trainium3", "fp8"),
            old_chips=catalogue("trainium2", "scale_up_max_devices"),
            old=catalogue("trainium2", "fp8"), label=("a whole UltraServer", "整台 UltraServer"),
        ),
    ),
)  # fmt: skip
add(
    "E-015", "Trainium3 takes over 1,000 W and needs liquid cooling.",
    "Trainium3 功耗超过 1000 W，需要液冷。",
    1000, "W", equals(catalogue("trainium3", "tdp_w")),
)  # fmt: skip
add(
    "E-016", "An UltraCluster of Trainium2 has 100,000 chips.",
    "Trainium2 UltraCluster 有 10 万颗芯片。",
    100_000, "chips",
    equals(
        formula(
            "cluster / chip", unit="chips", cluster=fact("trn2.cluster"),
            chip=catalogue("trainium2", "bf16"),
        ),
        truth=(
            "{v0:chips}, by the compute that AWS states for it",
            "按 AWS 公布的总算力折算为 {v0:chips}",
        ),
    ),
)  # fmt: skip
add(
    "E-064", "A Trainium or Trainium2 chip reads its memory faster than an H100.",
    "Trainium、Trainium2 的单芯片显存带宽高于 H100。",
    "> H100", "",
    holds(
        "trainium1 > h100", "trainium2 > h100",
        also={
            name: catalogue(name, _BANDWIDTH)
            for name in ("trainium1", "trainium2", "trainium3", "h100")
        },
        truth=(
            "{trainium1:TB/s} and {trainium2:TB/s} against {h100:TB/s}; only Trainium3 has more, "
            "{trainium3:TB/s}",
            "{trainium1:TB/s} 与 {trainium2:TB/s}，H100 为 {h100:TB/s}；只有 Trainium3 更高，"
            "{trainium3:TB/s}",
        ),
    ),
)  # fmt: skip
add(
    "E-068", "Stochastic rounding trains in BF16 nearly as exactly as in FP32.",
    "随机舍入让 BF16 训练接近 FP32 精度。",
    "near FP32", "",
    holds(
        "stochastic < 0.01", stochastic=rounding_error(True), nearest=rounding_error(False),
        truth=(
            "A weight that takes 2,000 small steps is off by {stochastic:%} with it, by "
            "{nearest:%} without; whether a whole training ends alike, only a training can tell",
            "权重累加 2000 个小步长后偏差：随机舍入 {stochastic:%}，就近舍入 {nearest:%}；"
            "整个训练是否同样收敛仍需实测",
        ),
    ),
)  # fmt: skip
add(
    "E-090", "Even with small batches Trainium scales well to thousands of chips.",
    "Trainium 在数千颗芯片、小批量下仍保持良好扩展性。",
    1000, "chips",
    cannot_say(
        "The catalogue has no measured latency of its links, and that decides scaling at small "
        "batches.",
        "目录没有其互连的实测延迟，而小批量的扩展性正取决于它。",
    ),
)  # fmt: skip

# -- Huawei, Meta, Microsoft, OpenAI ----------------------------------------------------------
add(
    "E-003", "A card with Ascend 910B is the equal of an A100.",
    "昇腾 910B 单卡与 A100 相当。",
    1, "x",
    equals(
        _ratio("ascend-910b", "a100", "fp16", "FP16 peak", "FP16 峰值"),
        _ratio("ascend-910b", "a100", _BANDWIDTH, "memory bandwidth", "显存带宽"),
    ),
)  # fmt: skip
add(
    "E-044", "Ascend 910 gives 256 TFLOPS in FP16.",
    "昇腾 910 的 FP16 算力为 256 TFLOPS。",
    256, "TFLOPS", equals(catalogue("ascend-910", "fp16")),
)  # fmt: skip
add(
    "E-045", "Ascend 910 has 32 GB of HBM2.",
    "昇腾 910 配 32 GB HBM2。",
    32, "GiB", equals(catalogue("ascend-910", "memory_bytes")),
)  # fmt: skip
add(
    "E-046", "Ascend 910 takes 310 W.",
    "昇腾 910 功耗 310 W。",
    310, "W", equals(catalogue("ascend-910", "tdp_w")),
)  # fmt: skip
add(
    "E-047", "Ascend 910, 7 nm, came in 2019 against the A100.",
    "昇腾 910 采用 7 nm，2019 年发布，对标 A100。",
    2019, "year",
    holds(
        "ascend == 2019", "round_nm == 7e-9", "ascend == a100",
        ascend=catalogue("ascend-910", "launch_year"), round_nm=process_nm("ascend-910"),
        a100=catalogue("a100", "launch_year"),
        truth=(
            "{ascend:year} and {round_nm:nm}, yes; the A100 came in {a100:year}",
            "{ascend:year}、{round_nm:nm} 无误；但 A100 于 {a100:year}发布",
        ),
    ),
)  # fmt: skip
add(
    "E-048", "Ascend 910B came in 2022.",
    "昇腾 910B 于 2022 年推出。",
    2022, "year", equals(catalogue("ascend-910b", "launch_year")),
)  # fmt: skip
add(
    "E-049", "Half of China's 70 or more large models ran on Ascend by the end of 2022.",
    "到 2022 年底，70 多个中国大模型中有一半使用昇腾。",
    50, "%",
    cannot_say("A count of users; nothing to compute.", "属于用户统计，无法计算。"),
)  # fmt: skip
add(
    "E-050", "Ascend 910C was in tests from September 2024.",
    "昇腾 910C 自 2024 年 9 月起送测。",
    2024, "year",
    equals(
        catalogue("ascend-910c", "launch_year"),
        truth=(
            "It came in {v0:year}, says the catalogue; it does not know the month",
            "目录记载于 {v0:year}推出，未载月份",
        ),
    ),
)  # fmt: skip
add(
    "E-051", "Ascend 910C infers about 60 % as fast as an H100.",
    "昇腾 910C 推理性能约为 H100 的 60%。",
    60, "%",
    equals(
        formula(
            "2 * die / h100", die=catalogue("ascend-910c", "bf16"), h100=catalogue("h100", "bf16"),
            label=("BF16 peak of both dies", "双芯粒 BF16 峰值"),
        ),
        formula(
            "2 * die / h100", die=catalogue("ascend-910c", _BANDWIDTH),
            h100=catalogue("h100", _BANDWIDTH), label=("memory bandwidth", "显存带宽"),
        ),
    ),
)  # fmt: skip
add(
    "E-025", "Meta announced MTIA v1 in 2022.",
    "MTIA v1 于 2022 年公布。",
    2022, "year", equals(catalogue("mtia-v1", "launch_year")),
)  # fmt: skip
add(
    "E-026", "MTIA v2 has over twice the compute and memory bandwidth of v1.",
    "MTIA v2 的算力和内存带宽都是 v1 的两倍以上。",
    2, "x",
    at_least(
        _ratio("mtia-v2", "mtia-v1", "int8", "INT8", "INT8"),
        _ratio("mtia-v2", "mtia-v1", "on_chip_sram_bytes", "SRAM size", "SRAM 容量"),
        _ratio("mtia-v2", "mtia-v1", _BANDWIDTH, "memory bandwidth", "内存带宽"),
    ),
)  # fmt: skip
add(
    "E-005", "Maia 100 is made by TSMC in 5 nm.",
    "Maia 100 采用台积电 5 nm 工艺。",
    5, "nm", equals(process_nm("maia-100")),
)  # fmt: skip
add(
    "E-006", "Maia 100 has 105 billion transistors.",
    "Maia 100 有 1050 亿个晶体管。",
    105, "billion", equals(fact("maia100.transistors")),
)  # fmt: skip
add(
    "E-007", "Maia was developed from 2019 and is deployed from 2024.",
    "Maia 自 2019 年研发，2024 年起部署。",
    "2019; 2024", "",
    cannot_say(
        "Dates inside a company; the catalogue has only the year of announcement, {year:year}.",
        "属于公司内部日期；目录只有公布年份：{year:year}。",
        year=catalogue("maia-100", "launch_year"),
    ),
)  # fmt: skip
add(
    "E-004", "OpenAI's chip team has about 20 people; its first chip comes in 2026.",
    "OpenAI 芯片团队约 20 人，首颗芯片 2026 年问世。",
    "20; 2026", "",
    cannot_say("News about people and plans.", "属于人员与计划的新闻。"),
)  # fmt: skip
