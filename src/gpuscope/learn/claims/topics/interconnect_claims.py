"""Claims about links: PCIe, NVLink, switches, fabrics."""

from __future__ import annotations

from gpuscope.learn.claims.catalogue_figures import (
    catalogue,
    kind_is,
    link,
    own_link,
    topology_has,
)
from gpuscope.learn.claims.expression import formula
from gpuscope.learn.claims.judging import at_least, equals, holds, inside
from gpuscope.learn.claims.model_figures import all_reduce_s, parameters
from gpuscope.learn.claims.registry import Book
from gpuscope.learn.claims.sourced_facts import fact
from gpuscope.learn.claims.types import Source

BOOK = Book("interconnect", "Links and networks", "互连与网络")
add = BOOK.add
_HOST = ("host", "coherent-host")


def _pcie(generation: int, ways: int) -> Source:
    """Usable bytes/s of 16 lanes: transfer rate x lanes x encoding / 8, for one or both ways."""
    encoding = "pcie.encoding" if generation < 6 else "pcie6.flit"
    return formula(
        "ways * 16 * rate * encoding / 8",
        unit="GB/s",
        ways=float(ways),
        rate=fact(f"pcie{generation}.rate"),
        encoding=fact(encoding),
    )


for _id, _generation, _claimed in (("C-015", 4, 32), ("C-016", 5, 64), ("C-017", 6, 128)):
    add(
        _id,
        f"PCIe {_generation}.0 x16 carries about {_claimed} GB/s, both directions together.",
        f"PCIe {_generation}.0 x16 双向合计约 {_claimed} GB/s。",
        _claimed,
        "GB/s",
        equals(
            _pcie(_generation, 2),
            truth=(
                f"{{v0:GB/s}} both ways; {_claimed} is about what it carries one way",
                f"双向 {{v0:GB/s}}；{_claimed} 大致是单向的数值",
            ),
        ),
    )
add(
    "C-018",
    "PCIe 5.0 doubles the rate of PCIe 4.0.",
    "PCIe 5.0 的速率是 4.0 的两倍。",
    2,
    "x",
    equals(formula("v5 / v4", v5=link("pcie-5.0-x16"), v4=link("pcie-4.0-x16"))),
)
add(
    "B-006",
    "For several GPUs, sixteen lanes of PCIe 4.0 or 5.0 each are preferred (32 to 64 GB/s).",
    "多 GPU 时每卡宜用 PCIe 4.0/5.0 x16（32 至 64 GB/s）。",
    (32, 64),
    "GB/s",
    inside(
        link("pcie-4.0-x16", label=("PCIe 4.0", "PCIe 4.0")),
        link("pcie-5.0-x16", label=("PCIe 5.0", "PCIe 5.0")),
    ),
)
add(
    "D-018",
    "PCIe gives a GPU a higher bandwidth and a lower latency.",
    "PCIe 带宽更高、延迟更低。",
    "better than what is left open",
    "",
    holds(
        "pcie5 > pcie4",
        "pcie5 > nvlink4",
        "pcie5_latency < nvlink4_latency",
        pcie5=link("pcie-5.0-x16"),
        pcie4=link("pcie-4.0-x16"),
        nvlink4=link("nvlink-4"),
        pcie5_latency=link("pcie-5.0-x16", "latency_s"),
        nvlink4_latency=link("nvlink-4", "latency_s"),
        truth=(
            "Than older PCIe ({pcie4:GB/s} to {pcie5:GB/s}), not than NVLink ({nvlink4:GB/s})",
            "只比旧版 PCIe 快（{pcie4:GB/s} 到 {pcie5:GB/s}），不及 NVLink（{nvlink4:GB/s}）",
        ),
    ),
)
add(
    "A-043",
    "The bandwidth of NVLink-C2C is 900 GB/s.",
    "NVLink-C2C 带宽为 900 GB/s。",
    900,
    "GB/s",
    equals(
        formula("2 * one_way", unit="GB/s", one_way=link("nvlink-c2c")),
        truth=("{v0:GB/s}, both directions together", "双向合计 {v0:GB/s}"),
    ),
)
add(
    "A-044",
    "NVLink-C2C is seven times PCIe 5.0 x16.",
    "NVLink-C2C 是 PCIe 5.0 x16 的七倍。",
    7,
    "x",
    equals(formula("c2c / pcie5", c2c=link("nvlink-c2c"), pcie5=link("pcie-5.0-x16"))),
)
add(
    "E-061",
    "In Grace Hopper, GPU and CPU are joined at 900 GB/s.",
    "Grace Hopper 中 GPU 与 CPU 的连接为 900 GB/s。",
    900,
    "GB/s",
    equals(
        formula("2 * one_way", unit="GB/s", one_way=own_link("gh200", "host_link")),
        truth=("{v0:GB/s}, both directions together", "双向合计 {v0:GB/s}"),
    ),
)
add(
    "C-021",
    "NVLink gives a GPU 600 to 900 GB/s.",
    "NVLink 为每块 GPU 提供 600 到 900 GB/s。",
    (600, 900),
    "GB/s",
    inside(
        formula("2 * nvlink3", nvlink3=link("nvlink-3"), label=("A100", "A100")),
        formula("2 * nvlink4", nvlink4=link("nvlink-4"), label=("H100", "H100")),
    ),
)
add(
    "C-022",
    "NVLink is ten times as fast as PCIe 5.0, or more.",
    "NVLink 比 PCIe 5.0 快十倍以上。",
    10,
    "x",
    at_least(
        formula(
            "nvlink4 / pcie5",
            nvlink4=link("nvlink-4"),
            pcie5=link("pcie-5.0-x16"),
            label=("H100, both links one way", "H100，两者都取单向"),
        ),
    ),
)
add(
    "D-001",
    "NVLink is the link between a GPU and main memory.",
    "NVLink 连接 GPU 与主存。",
    "GPU to main memory",
    "",
    holds(
        *(f"nvlink{n}_joins_host" for n in (1, 2, 3, 4, 5)),
        also={f"nvlink{n}_joins_host": kind_is(f"nvlink-{n}", _HOST) for n in (1, 2, 3, 4, 5)},
        nvlink_c2c=kind_is("nvlink-c2c", _HOST),
        truth=(
            "It connects GPUs with each other; only NVLink-C2C (Grace) reaches a CPU's memory",
            "它连接 GPU 与 GPU；只有 NVLink-C2C（Grace）通到 CPU 内存",
        ),
    ),
)
add(
    "E-052",
    "One NVLink 4 link carries 50 GB/s.",
    "NVLink 4 每条链路 50 GB/s。",
    50,
    "GB/s",
    equals(
        formula(
            "2 * one_way", unit="GB/s", one_way=link("nvlink-4", "bandwidth_per_link_bytes_per_s")
        ),
        truth=("{v0:GB/s}, both directions together", "双向合计 {v0:GB/s}"),
    ),
)
add(
    "E-053",
    "An H100 has 18 NVLink links.",
    "H100 有 18 条 NVLink。",
    18,
    "links",
    equals(link("nvlink-4", "links_per_device")),
)
add(
    "E-054",
    "All NVLinks of an H100 together carry 900 GB/s.",
    "H100 全部 NVLink 合计 900 GB/s。",
    900,
    "GB/s",
    equals(
        formula(
            "2 * links * one_way",
            unit="GB/s",
            links=link("nvlink-4", "links_per_device"),
            one_way=link("nvlink-4", "bandwidth_per_link_bytes_per_s"),
        )
    ),
)
add(
    "E-055",
    "NVSwitch joins 8 or 16 GPUs of a server.",
    "NVSwitch 连接服务器内的 8 或 16 块 GPU。",
    (8, 16),
    "GPUs",
    inside(
        *(
            link(f"nvswitch-gen{n}", "max_devices", (f"generation {n}", f"第 {n} 代"))
            for n in (1, 2, 3)
        ),
        truth=(
            "{v0:.0f} (DGX-2), {v1:.0f} (A100), {v2:.0f} (H100); more since NVL72",
            "{v0:.0f}（DGX-2）、{v1:.0f}（A100）、{v2:.0f}（H100）；NVL72 起更多",
        ),
    ),
)
add(
    "E-056",
    "NVSwitch is a switch inside the GPU chip.",
    "NVSwitch 是 GPU 片内的交换机。",
    "on the chip",
    "",
    holds(
        "not separate_chip",
        separate_chip=kind_is("nvswitch-gen3", ("switch",)),
        truth=(
            "It is a chip of its own beside the GPUs, as the catalogue lists it",
            "它是 GPU 之外的独立芯片，目录中单列",
        ),
    ),
)
add(
    "C-023",
    "CXL 3.0 lets hosts pool memory.",
    "CXL 3.0 支持内存池化。",
    "pooling",
    "",
    holds(
        "joins_memories",
        joins_memories=kind_is("cxl-3.0", ("memory-fabric",)),
        rate=link("cxl-3.0"),
        truth=(
            "Yes: it is a memory fabric on PCIe 6.0's wires, {rate:GB/s} each way",
            "是：它是基于 PCIe 6.0 物理层的内存网络，单向 {rate:GB/s}",
        ),
    ),
)
add(
    "B-007",
    "Distributed training uses 100 or 200 Gb/s Ethernet or InfiniBand.",
    "分布式训练使用 100G/200G 以太网或 InfiniBand。",
    (100, 200),
    "Gb/s",
    inside(
        own_link("a100", "scale_out", ("A100", "A100")),
        own_link("h100", "scale_out", ("H100", "H100")),
        own_link("b300", "scale_out", ("B300", "B300")),
    ),
)
add(
    "E-057",
    "A DGX H100 has 400 Gb/s of network for each GPU.",
    "DGX H100 每块 GPU 有 400 Gb/s 网络。",
    400,
    "Gb/s",
    equals(own_link("h100", "scale_out")),
)
add(
    "E-059",
    "The network adapter of a Trainium server carries 800 Gb/s.",
    "Trainium 服务器的 EFA 网络为 800 Gb/s。",
    800,
    "Gb/s",
    equals(
        formula(
            "chips * a_chip",
            unit="Gb/s",
            chips=catalogue("trainium1", "devices_per_node"),
            a_chip=link("efa-trn1"),
        )
    ),
)
add(
    "E-021",
    "A TPU v5p chip has 4,800 Gb/s to its neighbours.",
    "每颗 TPU v5p 的片间互连为 4800 Gb/s。",
    4800,
    "Gb/s",
    equals(own_link("tpu-v5p", "scale_up")),
)
add(
    "E-022",
    "TPU v5p chips form a 3-D torus.",
    "TPU v5p 组成三维环面。",
    "3-D torus",
    "",
    holds(
        "torus_in_3d",
        torus_in_3d=topology_has("ici-v5p", "3D torus"),
        truth=("Yes, a 3-D torus", "是，三维环面"),
    ),
)
add(
    "A-033",
    "An all-reduce sends all gradients to one GPU, which sends the sum back to all.",
    "All-Reduce 把所有梯度发给一块 GPU，求和后再广播。",
    "one server",
    "",
    holds(
        "ring_time >= 0.9 * server_time",
        ring_time=all_reduce_s("8xh200", 1e9),
        server_time=formula(
            "2 * (8 - 1) * size / link", unit="ms", size=1e9, link=link("nvlink-4")
        ),
        truth=(
            "Every GPU sends 2 (n - 1) / n of the data to its neighbours: 1 GB on 8 H200 takes "
            "{ring_time:ms}; one server's link alone would need {server_time:ms}",
            "每块 GPU 向邻居发送 2(n-1)/n 的数据：8×H200 上 1 GB 用 {ring_time:ms}；"
            "若经一个服务器，仅其链路就要 {server_time:ms}",
        ),
        sources=("Thakur, Rabenseifner and Gropp, IJHPCA 19 (1), 2005",),
    ),
)
add(
    "C-020",
    "How fast a 70B model loads is set by the GPU's PCIe.",
    "70B 模型的加载速度直接受限于 GPU 的 PCIe。",
    "PCIe",
    "",
    holds(
        "gpu < memory",
        "gpu < disk",
        gpu=_pcie(4, 1),
        disk=formula(
            "4 * rate * encoding / 8",
            unit="GB/s",
            rate=fact("pcie4.rate"),
            encoding=fact("pcie.encoding"),
        ),
        memory=formula(
            "2 * bus / 8 * rate", unit="GB/s", bus=fact("ddr5.bus"), rate=fact("ddr5.rate")
        ),
        size=formula("2 * parameters", unit="GB", parameters=parameters("llama-3.1-70b")),
        truth=(
            "Only from the host's memory: {size:GB} come over the GPU's sixteen lanes at "
            "{gpu:GB/s}, but from a disk with four lanes at {disk:GB/s} at most",
            "仅当已在主机内存中时成立：{size:GB} 经 GPU 的 16 通道可达 {gpu:GB/s}，"
            "但 4 通道的固态硬盘至多 {disk:GB/s}",
        ),
    ),
)
