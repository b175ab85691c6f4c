"""Claims about Dojo and other large machines."""

from __future__ import annotations

from gpuscope.learn.claims.catalogue_figures import catalogue, own_link, process_nm
from gpuscope.learn.claims.expression import formula
from gpuscope.learn.claims.judging import at_least, cannot_say, equals, holds
from gpuscope.learn.claims.registry import Book
from gpuscope.learn.claims.sourced_facts import fact
from gpuscope.learn.claims.types import Source

BOOK = Book("clusters", "Dojo and large machines", "Dojo 与大型集群")
add = BOOK.add


def _pod(expression: str, unit: str) -> Source:
    """A figure of an ExaPOD: `tiles`, `chips` of a tile, and a D1's `nodes`, `rate`, `sram`."""
    return formula(
        expression, unit=unit, tiles=catalogue("dojo-tile", "scale_up_max_devices"),
        chips=fact("tile.chips"), nodes=catalogue("dojo-d1", "compute_units"),
        rate=catalogue("dojo-d1", "bf16"), sram=catalogue("dojo-d1", "on_chip_sram_bytes"),
    )  # fmt: skip


_NEWS = (
    "News about a site. So many have a peak of {peak:EFLOPS} in BF16 and may draw {power:MW}.",
    "属于新闻。这么多 GPU 的 BF16 峰值合计 {peak:EFLOPS}，功耗上限 {power:MW}。",
)
_PEAK = formula("100000 * h100", h100=catalogue("h100", "bf16"))
_POWER = formula("100000 * h100", h100=catalogue("h100", "tdp_w"))

add(
    "E-028", "Tesla's D1 is made in 7 nm.",
    "特斯拉 D1 采用 7 nm 工艺。",
    7, "nm", equals(process_nm("dojo-d1")),
)  # fmt: skip
add(
    "E-029", "A D1 has 354 training nodes.",
    "每颗 D1 有 354 个训练节点。",
    354, "cores", equals(catalogue("dojo-d1", "compute_units")),
)  # fmt: skip
add(
    "E-030", "50 billion transistors are on a D1.",
    "D1 有 500 亿个晶体管。",
    50, "billion", equals(fact("dojo.transistors")),
)  # fmt: skip
add(
    "E-031", "A D1 takes 400 W.",
    "每颗 D1 功耗 400 W。",
    400, "W", equals(catalogue("dojo-d1", "tdp_w")),
)  # fmt: skip
add(
    "E-032", "A training tile holds 25 D1.",
    "一个训练瓦片含 25 颗 D1。",
    25, "chips",
    equals(
        formula(
            "tile / chip", tile=catalogue("dojo-tile", "compute_units"),
            chip=catalogue("dojo-d1", "compute_units"),
        )
    ),
)  # fmt: skip
add(
    "E-033", "Inside a tile, chips talk at 36 TB/s over optical fibres.",
    "瓦片内部通过光纤以 36 TB/s 互连。",
    36, "TB/s",
    holds(
        "leaving_the_tile != 36e12", leaving_the_tile=own_link("dojo-tile", "scale_up"),
        leaving_a_chip=own_link("dojo-d1", "scale_up"),
        truth=(
            "{leaving_the_tile:TB/s} is what leaves the tile; inside, each chip has "
            "{leaving_a_chip:TB/s} at its edges",
            "{leaving_the_tile:TB/s} 是瓦片对外带宽；瓦片内每颗芯片边缘为 {leaving_a_chip:TB/s}",
        ),
    ),
)  # fmt: skip
add(
    "E-034", "A tile has 11 GB of SRAM.",
    "每个瓦片有 11 GB SRAM。",
    11, "GB",
    equals(
        formula(
            "chips * nodes * of_a_node", unit="GB", chips=fact("tile.chips"),
            nodes=catalogue("dojo-d1", "compute_units"), of_a_node=fact("node.sram"),
        )
    ),
)  # fmt: skip
add(
    "E-035", "An ExaPOD has 120 tiles, that is 3,000 D1.",
    "一台 ExaPOD 有 120 个瓦片，即 3000 颗 D1。",
    3000, "chips", equals(_pod("tiles * chips", "chips")),
)  # fmt: skip
add(
    "E-036", "An ExaPOD has 1.062 million cores.",
    "ExaPOD 共有 106.2 万个核心。",
    1_062_000, "cores", equals(_pod("tiles * chips * nodes", "cores")),
)  # fmt: skip
add(
    "E-037", "An ExaPOD reaches 1 EFLOPS in BF16.",
    "ExaPOD 的 BF16 算力达 1 EFLOPS。",
    1, "EFLOPS", at_least(_pod("tiles * chips * rate", "EFLOPS")),
)  # fmt: skip
add(
    "E-038", "An ExaPOD has 1.3 TB of SRAM.",
    "ExaPOD 有 1.3 TB SRAM。",
    1.3, "TB", equals(_pod("tiles * chips * sram", "TB")),
)  # fmt: skip
add(
    "E-039", "An ExaPOD has 13 TB of HBM.",
    "ExaPOD 有 13 TB HBM。",
    13, "TB",
    equals(
        fact("pod.hbm"),
        truth=("{v0:TB}, on its interface cards, none on the D1", "{v0:TB}，位于接口卡而非 D1"),
    ),
)  # fmt: skip
add(
    "E-060", "A D1 has 8 TB/s at its edges.",
    "D1 四边合计带宽 8 TB/s。",
    8, "TB/s",
    equals(
        own_link("dojo-d1", "scale_up", ("one way", "单向")),
        formula("2 * one_way", one_way=own_link("dojo-d1", "scale_up"), label=("both", "双向")),
    ),
)  # fmt: skip
add(
    "E-040", "In 2024 Dojo costs Tesla over a billion USD.",
    "特斯拉 2024 年在 Dojo 上投入超过 10 亿美元。",
    1000, "million USD", cannot_say("News about spending.", "属于支出新闻，无法计算。"),
)  # fmt: skip
add(
    "E-041", "Tesla has a cluster of 5,760 A100.",
    "特斯拉拥有 5760 块 A100 的集群。",
    5760, "GPUs", equals(formula("8 * nodes", nodes=fact("tesla.nodes"))),
)  # fmt: skip
add(
    "E-085", "Tesla aims at 100 EFLOPS of ExaPODs.",
    "特斯拉计划用 ExaPOD 达到 100 EFLOPS。",
    100, "EFLOPS",
    cannot_say(
        "A plan. An ExaPOD has {pod:EFLOPS}, so it would take {pods:.0f}.",
        "属于规划。一台 ExaPOD 为 {pod:EFLOPS}，需 {pods:.0f} 台。",
        pod=_pod("tiles * chips * rate", "EFLOPS"),
        pods=_pod("100e18 / (tiles * chips * rate)", ""),
    ),
)  # fmt: skip
add(
    "E-042", "For Twitter about 10,000 GPUs were bought.",
    "为推特采购了约 1 万块 GPU。",
    10_000, "GPUs", cannot_say("News about a purchase.", "属于采购新闻，无法计算。"),
)  # fmt: skip
add(
    "E-043", "xAI runs a cluster of 100,000 H100 (July 2024).",
    "xAI 于 2024 年 7 月启用 10 万块 H100 的集群。",
    100_000, "GPUs",
    cannot_say(*_NEWS, peak=_PEAK, power=_POWER),
)  # fmt: skip
add(
    "E-027", "Meta trains Llama on over 100,000 H100.",
    "Meta 用超过 10 万块 H100 训练 Llama。",
    100_000, "GPUs",
    cannot_say(*_NEWS, peak=_PEAK, power=_POWER),
)  # fmt: skip
add(
    "E-086", "Within ten years machines reach a zettaFLOPS.",
    "十年内算力将达到 ZettaFLOPS 级。",
    1e21 / 1e18, "EFLOPS",
    cannot_say(
        "A forecast; by dense BF16 peak it takes {h100s:GPUs} like the H100.",
        "属于预测；按 BF16 稠密峰值需 {h100s:,.0f} 块 H100。",
        h100s=formula("1e21 / h100", h100=catalogue("h100", "bf16")),
    ),
)  # fmt: skip
add(
    "E-087", "Chips will have more than a hundred billion transistors.",
    "单颗芯片晶体管数将超过千亿。",
    100, "billion",
    at_least(
        fact("blackwell.transistors", ("Blackwell", "Blackwell")),
        fact("mi350.transistors", ("MI350", "MI350")),
        fact("wse3.transistors", ("WSE-3 (a wafer)", "WSE-3（整片晶圆）")),
    ),
)  # fmt: skip
