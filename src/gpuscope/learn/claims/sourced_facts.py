"""Facts that no model computes and the catalogue does not hold, each with its document.

Only what a maker or a standard states: numbers of transistors, widths of buses, sizes of caches of
processors. All figures in SI units.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gpuscope.errors import UnknownNameError
from gpuscope.explain.types import Words
from gpuscope.learn.claims.scales import both
from gpuscope.learn.claims.types import Figure, Source


@dataclass(frozen=True, slots=True)
class Fact:
    """One figure: its value in SI units, the unit to show it in, what it is, its document."""

    value: float
    unit: str
    en: str
    zh: str
    source: str


_V100 = "NVIDIA Tesla V100 GPU Architecture whitepaper (WP-08608-001), table 1"
_A100 = "NVIDIA A100 Tensor Core GPU Architecture whitepaper, comparison of data centre GPUs"
_H100 = "NVIDIA H100 Tensor Core GPU Architecture whitepaper, comparison of data centre GPUs"
_ADA = "NVIDIA Ada GPU Architecture whitepaper, appendix A (GeForce RTX 4090)"
_BLACKWELL = "NVIDIA Blackwell Architecture Technical Brief, A New Class of AI Superchip"
_ULTRA = "NVIDIA technical blog, Inside NVIDIA Blackwell Ultra: table 1, dual-die design"
_JEDEC = {
    "hbm2": "JEDEC JESD235 (HBM, HBM2)",
    "hbm3": "JEDEC JESD238 (HBM3)",
    "hbm4": "JEDEC JESD270-4 (HBM4)",
    "ddr5": "JEDEC JESD79-5 (DDR5)",
}
_PCI = "PCI-SIG, PCI Express Base Specification, revisions 3.0 to 6.0: transfer rate and encoding"
_DOJO = (
    "Talpes et al., The Microarchitecture of DOJO, Tesla's Exa-Scale Computer, IEEE Micro 43 (3), "
    "2023; Tesla AI Day 2021 and 2022"
)
_EPYC = "AMD EPYC 9005 and 9004 series product specifications (amd.com)"
_GPT3 = "Brown et al., Language Models are Few-Shot Learners, 2020, table 2.1 (arXiv:2005.14165)"
_TPU4 = (
    "Jouppi et al., TPU v4: An Optically Reconfigurable Supercomputer, ISCA 2023, abstract "
    "(arXiv:2304.01433)"
)

FACTS: Mapping[str, Fact] = {
    "h100.transistors": Fact(80e9, "billion", "H100 transistors", "H100 晶体管数", _H100),
    "blackwell.transistors": Fact(
        208e9, "billion", "Blackwell transistors", "Blackwell 晶体管数", _BLACKWELL,
    ),
    "mi350.transistors": Fact(
        185e9, "billion", "MI350 series transistors", "MI350 系列晶体管数",
        "AMD CDNA 4 Architecture whitepaper, introduction",
    ),
    "maia100.transistors": Fact(
        105e9, "billion", "Maia 100 transistors", "Maia 100 晶体管数",
        "Microsoft, Inside Maia 100, Hot Chips 2024",
    ),
    "dojo.transistors": Fact(50e9, "billion", "D1 transistors", "D1 晶体管数", _DOJO),
    "wse3.transistors": Fact(
        4e12, "billion", "WSE-3 transistors", "WSE-3 晶体管数", "Cerebras WSE-3 datasheet"
    ),
    "h100.die": Fact(814, "mm2", "H100 die", "H100 裸片面积", _H100),
    "v100.tensor_cores": Fact(8, "", "tensor cores an SM, V100", "V100 每 SM 张量核心数", _V100),
    "a100.tensor_cores": Fact(4, "", "tensor cores an SM, A100", "A100 每 SM 张量核心数", _A100),
    "ada.tensor_cores": Fact(4, "", "tensor cores an SM, Ada", "Ada 每 SM 张量核心数", _ADA),
    "blackwell.tensor_cores": Fact(
        4, "", "tensor cores an SM, Blackwell", "Blackwell 每 SM 张量核心数", _ULTRA
    ),
    "sm.schedulers": Fact(
        4, "", "warp schedulers of an SM (Volta on)", "每 SM 线程束调度器数", _V100
    ),
    "mig.instances": Fact(
        7, "instances", "MIG instances of an A100 or H100", "A100/H100 的 MIG 实例数",
        "NVIDIA Multi-Instance GPU User Guide, supported profiles",
    ),
    "nv_hbi": Fact(10e12, "TB/s", "NV-HBI between the two dies", "双芯粒间 NV-HBI", _ULTRA),
    "grace.memory": Fact(
        480e9, "GB", "LPDDR5X of a Grace CPU, at most", "Grace CPU 的 LPDDR5X 上限",
        "NVIDIA GH200 Grace Hopper Superchip datasheet",
    ),
    "h100.bus": Fact(5120, "bit", "H100 memory bus", "H100 显存位宽", _H100),
    "a100.memory_clock": Fact(
        1215e6, "GHz", "A100 40 GB memory clock", "A100 40 GB 显存时钟", _A100
    ),
    "a100.bus": Fact(5120, "bit", "A100 memory bus", "A100 显存位宽", _A100),
    "h100.bus_full": Fact(
        6144, "bit", "memory bus of the full GH100", "完整 GH100 的显存位宽", _H100
    ),
    "rtx4090.bus": Fact(384, "bit", "RTX 4090 memory bus", "RTX 4090 显存位宽", _ADA),
    "rtx4090.pin": Fact(21e9, "GT/s", "RTX 4090 rate of a pin", "RTX 4090 每引脚速率", _ADA),
    "mi300x.bus": Fact(
        8192, "bit", "MI300X memory bus", "MI300X 显存位宽",
        "AMD CDNA 3 Architecture whitepaper, memory",
    ),
    "b200.bus": Fact(8192, "bit", "B200 memory bus", "B200 显存位宽", _BLACKWELL),
    "hbm.stack": Fact(
        1024, "bit", "bus of an HBM to HBM3E stack", "HBM 至 HBM3E 每堆栈位宽", _JEDEC["hbm3"]
    ),
    "hbm4.stack": Fact(2048, "bit", "bus of an HBM4 stack", "HBM4 每堆栈位宽", _JEDEC["hbm4"]),
    "hbm2.pin": Fact(2e9, "GT/s", "rate of an HBM2 pin", "HBM2 每引脚速率", _JEDEC["hbm2"]),
    "hbm.channels": Fact(
        16, "channels", "channels of an HBM3 stack", "HBM3 每堆栈通道数", _JEDEC["hbm3"]
    ),
    "gddr6.pin": Fact(
        16e9, "GT/s", "rate of a common GDDR6 pin", "常见 GDDR6 每引脚速率",
        "JEDEC JESD250 (GDDR6)",
    ),
    "gddr6.chip": Fact(32, "bit", "bus of a GDDR6 chip", "GDDR6 单颗位宽", "JEDEC JESD250 (GDDR6)"),
    "ddr5.rate": Fact(
        5.6e9, "GT/s", "rate of DDR5-5600", "DDR5-5600 速率", _JEDEC["ddr5"]
    ),
    "ddr5.bus": Fact(64, "bit", "bus of a DDR5 module", "DDR5 内存条位宽", _JEDEC["ddr5"]),
    **{
        f"pcie{generation}.rate": Fact(
            rate, "GT/s", f"PCIe {generation}.0 rate of a lane", f"PCIe {generation}.0 单通道速率",
            _PCI,
        )
        for generation, rate in ((3, 8e9), (4, 16e9), (5, 32e9), (6, 64e9))
    },
    "pcie.encoding": Fact(128 / 130, "", "128b/130b encoding", "128b/130b 编码", _PCI),
    "pcie6.flit": Fact(
        242 / 256, "", "packets' share of a flit", "flit 中数据包的比例", _PCI
    ),
    "epyc.cores": Fact(192, "cores", "AMD EPYC 9965", "AMD EPYC 9965", _EPYC),
    "epyc.cache": Fact(
        1152 * 2**20, "MiB", "AMD EPYC 9684X, L3 cache", "AMD EPYC 9684X 的 L3 缓存", _EPYC
    ),
    "avx512.lanes": Fact(
        16, "", "float32 lanes of an AVX-512 register", "AVX-512 寄存器的 float32 通路数",
        "Intel 64 and IA-32 Architectures Software Developer's Manual, volume 1, chapter 15",
    ),
    "gpt3.parameters": Fact(175e9, "billion", "GPT-3 parameters", "GPT-3 参数量", _GPT3),
    "gpt3.layers": Fact(96, "", "GPT-3 layers", "GPT-3 层数", _GPT3),
    "gpt3.width": Fact(12288, "", "GPT-3 width", "GPT-3 隐藏维度", _GPT3),
    "scout.parameters": Fact(
        109e9, "billion", "Llama 4 Scout, all parameters", "Llama 4 Scout 总参数量",
        "Meta, Llama 4 model card",
    ),
    "cifar.test": Fact(
        10_000, "", "CIFAR-10 test images", "CIFAR-10 测试图像数",
        "Krizhevsky, Learning Multiple Layers of Features from Tiny Images, 2009, section 3",
    ),
    "tpu4.low": Fact(
        1.2, "x", "TPU v4 over A100, speed, low end", "TPU v4 对 A100 速度比下限",
        _TPU4,
    ),
    "tpu4.high": Fact(
        1.7, "x", "TPU v4 over A100, speed, high end", "TPU v4 对 A100 速度比上限",
        _TPU4,
    ),
    "tpu4.power_low": Fact(
        1.3, "x", "TPU v4 against A100, power saved, low end", "TPU v4 对 A100 省电倍数下限", _TPU4
    ),
    "tpu4.power_high": Fact(
        1.9, "x", "TPU v4 against A100, power saved, high end", "TPU v4 对 A100 省电倍数上限", _TPU4
    ),
    "tpu.first": Fact(
        2016, "year", "first TPU announced", "第一代 TPU 公布",
        "Jouppi et al., In-Datacenter Performance Analysis of a Tensor Processing Unit, ISCA 2017",
    ),
    "tile.chips": Fact(25, "chips", "D1 chips of a training tile", "每个训练瓦片的 D1 数", _DOJO),
    "node.sram": Fact(1.25e6, "MB", "SRAM of a D1 node", "D1 单节点 SRAM", _DOJO),
    "pod.hbm": Fact(13e12, "TB", "HBM of an ExaPOD", "ExaPOD 的 HBM", _DOJO),
    "dgx_a100.power": Fact(
        6500, "kW", "DGX A100 system power, at most", "DGX A100 整机最大功耗",
        "NVIDIA DGX A100 datasheet",
    ),
    "kyber.power": Fact(
        600e3, "kW", "planned power of a Kyber rack", "Kyber 机架规划功耗",
        "NVIDIA GTC 2025 keynote, Rubin Ultra NVL576",
    ),
    "cuda.ampere": Fact(
        11.0, "", "first CUDA toolkit with sm_80", "首个支持 sm_80 的 CUDA 版本",
        "NVIDIA CUDA Toolkit 11.0 release notes",
    ),
    "cuda.ada": Fact(
        11.8, "", "first CUDA toolkit with sm_89 and sm_90", "首个支持 sm_89、sm_90 的 CUDA 版本",
        "NVIDIA CUDA Toolkit 11.8 release notes",
    ),
    "driver.rtx4090": Fact(
        522.25, "", "first Windows driver of the RTX 4090", "RTX 4090 首个 Windows 驱动",
        "NVIDIA GeForce Game Ready Driver 522.25 release notes",
    ),
    "a100.price": Fact(
        32.7726 / 8, "USD", "price of an A100 an hour (AWS p4d)", "A100 每小时价格（AWS p4d）",
        "AWS EC2 on-demand price list, p4d.24xlarge, us-east-1, until June 2025: 32.7726 USD / 8",
    ),
    "trn2.announced": Fact(
        2023, "year", "Trainium2 announced", "Trainium2 公布",
        "AWS press release of 28 November 2023, Graviton4 and Trainium2",
    ),
    "trn2.cluster": Fact(
        65e18, "EFLOPS", "Trn2 UltraCluster, compute", "Trn2 UltraCluster 算力",
        "AWS press release of 28 November 2023: up to 65 exaflops",
    ),
    "tesla.nodes": Fact(
        720, "", "nodes of eight A100 in Tesla's cluster", "特斯拉集群的 8 卡 A100 节点数",
        "Karpathy, keynote of the CVPR 2021 Workshop on Autonomous Driving",
    ),
    "ryzen.cores": Fact(
        16, "cores", "AMD Ryzen 9 9950X", "AMD Ryzen 9 9950X", "AMD Ryzen 9 9950X specifications",
    ),
    "ryzen.cache": Fact(
        64 * 2**20, "MiB", "AMD Ryzen 9 9950X, L3 cache", "AMD Ryzen 9 9950X 的 L3 缓存",
        "AMD Ryzen 9 9950X specifications",
    ),
    "epyc.channels": Fact(
        12, "channels", "memory channels of an EPYC 9005", "EPYC 9005 内存通道数", _EPYC
    ),
    "gddr6x.energy": Fact(
        7.25e-12, "pJ", "GDDR6X, energy of a bit", "GDDR6X 每比特能耗",
        "Micron, Ultra-Bandwidth Solutions, memory comparison (micron.com)",
    ),
    "hbm2e.energy": Fact(
        6.0e-12, "pJ", "HBM2E, energy of a bit", "HBM2E 每比特能耗",
        "Micron, Ultra-Bandwidth Solutions, memory comparison (micron.com)",
    ),
    "mma.rows": Fact(
        8, "", "least rows of a tensor-core instruction", "张量核心指令的最小行数",
        "NVIDIA PTX ISA, warp-level matrix instructions: smallest shape m8n8k4",
    ),
    "cuda12_1.driver": Fact(
        530.3, "", "driver that CUDA 12.1 was built with (Linux)", "CUDA 12.1 对应的 Linux 驱动",
        "NVIDIA CUDA Toolkit 12.1 release notes, table of driver versions",
    ),
}  # fmt: skip
"""By a stable name."""


def fact(name: str, label: tuple[str, str] | None = None) -> Source:
    """A stated fact as a source.

    The source raises:
        UnknownNameError: no such fact.
    """

    def compute() -> Figure:
        if name not in FACTS:
            raise UnknownNameError("fact", name, FACTS)
        found = FACTS[name]
        shown = both(found.value, found.unit)
        return Figure(
            found.value,
            Words(f"{found.en}: {shown.en}", f"{found.zh}：{shown.zh}"),
            Words(*(label or (found.en, found.zh))),
            "catalogue",
            (found.source,),
        )

    return compute


@dataclass(frozen=True, slots=True)
class Terms:
    """What a document calls something: all its terms in English, how to say it, the document."""

    terms: frozenset[str]
    en: str
    zh: str
    source: str


TERMS: Mapping[str, Terms] = {
    "cuda.purpose": Terms(
        frozenset({"general-purpose computing"}),
        "a platform for general-purpose parallel computing", "通用并行计算平台",
        "NVIDIA CUDA C++ Programming Guide, section 1.2",
    ),
    "tensorboard.maker": Terms(
        frozenset({"Google"}), "part of TensorFlow, which Google began",
        "属于谷歌发起的 TensorFlow",
        "Abadi et al., TensorFlow, 2015, section 9.1 (arXiv:1603.04467)",
    ),
    "mi300x.cooling": Terms(
        frozenset({"air"}), "sold in servers cooled by air, eight in 8U",
        "有风冷服务器销售（8U 8 卡）", "Supermicro AS-8125GS-TNMR2 datasheet",
    ),
    "model_parallelism.kinds": Terms(
        frozenset({"layers apart", "each layer split"}),
        "two kinds: layers apart (pipeline parallelism), each layer split (tensor parallelism)",
        "分两种：按层切分（流水线并行）和切分每一层（张量并行）",
        "Shoeybi et al., Megatron-LM, 2019, section 2.3 (arXiv:1909.08053)",
    ),
}  # fmt: skip
"""By a stable name."""


def terms(name: str) -> Terms:
    """A stated term.

    Raises:
        UnknownNameError: no such term.
    """
    if name not in TERMS:
        raise UnknownNameError("term", name, TERMS)
    return TERMS[name]
