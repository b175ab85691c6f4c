"""Claims about NVIDIA's devices."""

from __future__ import annotations

from gpuscope.learn.claims.catalogue_figures import catalogue, has_rate, own_link, text_is
from gpuscope.learn.claims.expression import formula
from gpuscope.learn.claims.judging import at_least, equals, holds
from gpuscope.learn.claims.registry import Book
from gpuscope.learn.claims.sourced_facts import fact
from gpuscope.learn.claims.types import Source

BOOK = Book("nvidia", "NVIDIA devices", "NVIDIA 器件")
add = BOOK.add


def _cuda_cores(name: str) -> Source:
    return formula(
        "units * lanes", units=catalogue(name, "compute_units"),
        lanes=catalogue(name, "fp32_lanes_per_unit"),
    )  # fmt: skip


def _tensor_cores(name: str, fact_name: str, label: str) -> Source:
    return formula(
        "units * of_an_sm", units=catalogue(name, "compute_units"), of_an_sm=fact(fact_name),
        label=(label, label),
    )  # fmt: skip


add(
    "A-005", "The A100 is built from 108 SMs.",
    "A100 有 108 个 SM。",
    108, "SM", equals(catalogue("a100", "compute_units")),
)  # fmt: skip
add(
    "A-006", "An A100 has 40 MB of L2 cache.",
    "A100 的 L2 缓存为 40 MB。",
    40, "MiB", equals(catalogue("a100", "l2_bytes")),
)  # fmt: skip
add(
    "A-007", "The memory of an A100 is 80 GB of HBM2.",
    "A100 配 80 GB HBM2。",
    "80 GB of HBM2", "",
    holds(
        "memory == 80 * 2**30", "is_hbm2",
        memory=catalogue("a100-sxm-80gb", "memory_bytes"),
        is_hbm2=text_is("a100-sxm-80gb", "memory_type", "HBM2"),
        small_is_hbm2=text_is("a100-sxm-40gb", "memory_type", "HBM2"),
        truth=(
            "The part with {memory:GiB} has HBM2e; HBM2 is on the 40 GB part",
            "{memory:GiB} 版用的是 HBM2e；40 GB 版才是 HBM2",
        ),
    ),
)  # fmt: skip
add(
    "A-008", "An A100 (80 GB) reads its memory at 2,039 GB/s.",
    "A100（80 GB）显存带宽 2039 GB/s。",
    2039, "GB/s", equals(catalogue("a100-sxm-80gb", "memory_bandwidth_bytes_per_s")),
)  # fmt: skip
add(
    "A-030", "An A100 (80 GB) reads memory at 2 TB/s, over twice as fast as the V100.",
    "A100（80 GB）显存带宽达 2 TB/s，是上一代的两倍多。",
    2, "TB/s",
    holds(
        "a100 >= 2e12", "a100 / v100 > 2",
        a100=catalogue("a100-sxm-80gb", "memory_bandwidth_bytes_per_s"),
        v100=catalogue("v100-sxm2-32gb", "memory_bandwidth_bytes_per_s"),
        ratio=formula(
            "a100 / v100", a100=catalogue("a100-sxm-80gb", "memory_bandwidth_bytes_per_s"),
            v100=catalogue("v100-sxm2-32gb", "memory_bandwidth_bytes_per_s"),
        ),
        truth=(
            "{a100:GB/s}, {ratio:.2f} times the V100's {v100:GB/s}",
            "{a100:GB/s}，为 V100（{v100:GB/s}）的 {ratio:.2f} 倍",
        ),
    ),
)  # fmt: skip
add(
    "D-003", "A100 and V100 have the rates and the bandwidth that large models need.",
    "A100/V100 算力和带宽高，适合大模型。",
    "both suit", "",
    holds(
        "v100_bf16", "a100_bf16", "a100_bandwidth >= h200_bandwidth / 4",
        v100_bf16=has_rate("v100", "bf16"), a100_bf16=has_rate("a100", "bf16"),
        a100_bandwidth=catalogue("a100", "memory_bandwidth_bytes_per_s"),
        h200_bandwidth=catalogue("h200", "memory_bandwidth_bytes_per_s"),
        truth=(
            "The A100 has BF16, the V100 has not; an H200 reads at {h200_bandwidth:GB/s}, "
            "an A100 at {a100_bandwidth:GB/s}",
            "A100 支持 BF16，V100 不支持；H200 带宽 {h200_bandwidth:GB/s}，"
            "A100 为 {a100_bandwidth:GB/s}",
        ),
    ),
)  # fmt: skip
add(
    "D-004", "An A100 has more tensor cores than a V100.",
    "A100 的张量核心比 V100 更多。",
    "more", "",
    holds(
        "a100 > v100", a100=_tensor_cores("a100", "a100.tensor_cores", "A100"),
        v100=_tensor_cores("v100", "v100.tensor_cores", "V100"),
        truth=(
            "Fewer: {a100:.0f} against {v100:.0f}; each is wider",
            "更少：{a100:.0f} 对 {v100:.0f}；但每个更宽",
        ),
    ),
)  # fmt: skip
add(
    "E-076", "The A100 comes with 40 GB and with 80 GB.",
    "A100 有 40 GB 和 80 GB 两个版本。",
    "40 GB and 80 GB", "",
    holds(
        "small == 40 * 2**30", "large == 80 * 2**30",
        small=catalogue("a100-sxm-40gb", "memory_bytes"),
        large=catalogue("a100-sxm-80gb", "memory_bytes"),
        truth=("{small:GiB} and {large:GiB}", "{small:GiB} 与 {large:GiB}"),
    ),
)  # fmt: skip
add(
    "B-018", "MIG cuts an A100 or H100 into up to seven GPUs.",
    "MIG 可把 A100/H100 切成最多 7 个 GPU 实例。",
    7, "instances", equals(fact("mig.instances")),
)  # fmt: skip
add(
    "C-002", "An H100 has 132 SMs or more.",
    "H100 有 132 个以上 SM。",
    132, "SM",
    at_least(
        catalogue("h100", "compute_units", ("SXM", "SXM")),
        catalogue("h100-pcie", "compute_units", ("PCIe", "PCIe")),
    ),
)  # fmt: skip
add(
    "E-062", "No H100 has more than 80 GB.",
    "H100 显存最多 80 GB。",
    80, "GiB",
    equals(
        *(
            catalogue(name, "memory_bytes", (label, label))
            for name, label in (
                ("h100", "SXM"), ("h100-pcie", "PCIe"), ("h100-nvl", "NVL"), ("gh200", "GH200"),
            )
        )
    ),
)  # fmt: skip
add(
    "E-063", "All HBM3 of an H100 together gives about 3 TB/s.",
    "H100 的 HBM3 总带宽约 3 TB/s。",
    3, "TB/s", equals(catalogue("h100", "memory_bandwidth_bytes_per_s")),
)  # fmt: skip
add(
    "E-069", "The 80 GB of an H100 are five stacks of HBM3.",
    "H100 的 80 GB 由 5 个 HBM3 堆栈组成。",
    5, "stacks", equals(formula("bus / stack", bus=fact("h100.bus"), stack=fact("hbm.stack"))),
)  # fmt: skip
add(
    "E-070", "An H100's package has six places for HBM.",
    "H100 封装上有 6 个 HBM 位置。",
    6, "sites",
    equals(formula("bus / stack", bus=fact("h100.bus_full"), stack=fact("hbm.stack"))),
)  # fmt: skip
add(
    "E-071", "An H100 NVL card has 94 GB, a pair 188 GB.",
    "H100 NVL 单卡 94 GB，一对 188 GB。",
    94, "GiB",
    equals(
        catalogue("h100-nvl", "memory_bytes"),
        truth=("{v0:GiB} a card, so twice that a pair", "单卡 {v0:GiB}，一对为其两倍"),
    ),
)  # fmt: skip
add(
    "E-072", "An H100 die measures 814 mm².",
    "H100 裸片面积 814 mm²。",
    814, "mm2", equals(fact("h100.die")),
)  # fmt: skip
add(
    "A-045", "GH200 has 96 GB of HBM for the GPU.",
    "GH200 的 GPU 配 96 GB HBM。",
    96, "GiB", equals(catalogue("gh200", "memory_bytes")),
)  # fmt: skip
add(
    "A-046", "GH200 has up to 480 GB of LPDDR for the CPU.",
    "GH200 的 CPU 配最多 480 GB LPDDR。",
    480, "GB", equals(fact("grace.memory")),
)  # fmt: skip
for _id, _en, _zh in (
    ("A-017", "Inside an RTX 4090 are 16,384 CUDA cores.", "RTX 4090 有 16384 个 CUDA 核心。"),
    ("C-031", "RTX 4090: CUDA cores in all, 16,384.", "RTX 4090 共 16384 个 CUDA 核心。"),
):  # fmt: skip
    add(_id, _en, _zh, 16384, "cores", equals(_cuda_cores("rtx-4090")))
add(
    "A-018", "The tensor cores of an RTX 4090 give 83 TFLOPS.",
    "RTX 4090 的张量算力为 83 TFLOPS。",
    83, "TFLOPS",
    equals(
        catalogue("rtx-4090", "bf16"),
        truth=(
            "{v0:TFLOPS} dense in BF16; 83 is the FP32 rate of the vector lanes",
            "BF16 稠密 {v0:TFLOPS}；83 是向量通路的 FP32 算力",
        ),
    ),
)  # fmt: skip
add(
    "A-019", "An RTX 4090 computes in FP8, FP16 and BF16 natively.",
    "RTX 4090 原生支持 FP8、FP16、BF16。",
    "FP8, FP16, BF16", "",
    holds(
        "fp8", "fp16", "bf16", fp8=has_rate("rtx-4090", "fp8"), fp16=has_rate("rtx-4090", "fp16"),
        bf16=has_rate("rtx-4090", "bf16"), rate=catalogue("rtx-4090", "fp8"),
        truth=("Yes; FP8 at {rate:TFLOPS}", "是；FP8 为 {rate:TFLOPS}"),
    ),
)  # fmt: skip
add(
    "C-001", "128 SMs make up an RTX 4090.",
    "RTX 4090 有 128 个 SM。",
    128, "SM", equals(catalogue("rtx-4090", "compute_units")),
)  # fmt: skip
add(
    "C-028", "An RTX 4090 is four times as fast in INT8 as in FP32.",
    "RTX 4090 的 INT8 算力是 FP32 的 4 倍。",
    4, "x",
    equals(
        formula(
            "int8 / fp32", int8=catalogue("rtx-4090", "int8"), fp32=catalogue("rtx-4090", "fp32")
        )
    ),
)  # fmt: skip
add(
    "C-029", "An RTX 4090 peaks at 83 TFLOPS in FP32.",
    "RTX 4090 的 FP32 峰值为 83 TFLOPS。",
    83, "TFLOPS",
    equals(
        formula(
            "2 * units * lanes * clock", unit="TFLOPS",
            units=catalogue("rtx-4090", "compute_units"),
            lanes=catalogue("rtx-4090", "fp32_lanes_per_unit"),
            clock=catalogue("rtx-4090", "clock_hz"),
        )
    ),
)  # fmt: skip
add(
    "C-041", "The 24 GB of an RTX 4090 hold a 14B model in INT4 (about 7 GB).",
    "RTX 4090 的 24 GB 放得下 14B INT4 模型（约 7 GB）。",
    7, "GB",
    holds(
        "memory > weights", memory=catalogue("rtx-4090", "memory_bytes"),
        weights=formula("14e9 * 4 / 8", unit="GB"),
        free=formula(
            "memory - 14e9 * 4 / 8", unit="GB", memory=catalogue("rtx-4090", "memory_bytes")
        ),
        truth=(
            "Yes: {weights:GB} of weights leave {free:GB} for the KV cache and the rest",
            "放得下：权重 {weights:GB}，剩 {free:GB} 给 KV 缓存等",
        ),
    ),
)  # fmt: skip
add(
    "C-042", "An RTX 4090 reads its memory at 1,008 GB/s.",
    "RTX 4090 显存带宽 1008 GB/s。",
    1008, "GB/s", equals(catalogue("rtx-4090", "memory_bandwidth_bytes_per_s")),
)  # fmt: skip
add(
    "A-024", "An SM of Blackwell has four tensor cores of the fifth generation.",
    "Blackwell 每个 SM 有 4 个第五代张量核心。",
    4, "cores", equals(fact("blackwell.tensor_cores")),
)  # fmt: skip
add(
    "A-025", "A Blackwell GPU holds 640 tensor cores.",
    "Blackwell 有 640 个张量核心。",
    640, "cores",
    equals(
        _tensor_cores("b200", "blackwell.tensor_cores", "B200"),
        _tensor_cores("gb300", "blackwell.tensor_cores", "GB300"),
    ),
)  # fmt: skip
add(
    "A-026", "Blackwell gives 15 PFLOPS in dense NVFP4.",
    "Blackwell 的 NVFP4 稠密算力为 15 PFLOPS。",
    15, "PFLOPS",
    equals(
        *(
            catalogue(name, "fp4", (name.upper(), name.upper()))
            for name in ("b200", "gb200", "b300", "gb300")
        )
    ),
)  # fmt: skip
add(
    "A-048", "NV-HBI joins the two dies of Blackwell at 10 TB/s.",
    "NV-HBI 以 10 TB/s 连接 Blackwell 的两个芯粒。",
    10, "TB/s", equals(fact("nv_hbi")),
)  # fmt: skip
add(
    "A-049", "Blackwell Ultra has 208 billion transistors.",
    "Blackwell Ultra 有 2080 亿个晶体管。",
    208, "billion", equals(fact("blackwell.transistors")),
)  # fmt: skip
add(
    "A-050", "Blackwell Ultra has 2.6 times the transistors of an H100.",
    "Blackwell Ultra 的晶体管数是 H100 的 2.6 倍。",
    2.6, "x",
    equals(
        formula("ultra / h100", ultra=fact("blackwell.transistors"), h100=fact("h100.transistors"))
    ),
)  # fmt: skip
add(
    "E-083", "A800 and H800 are A100 and H100 with something taken away, made for China.",
    "A800/H800 是面向中国的削减版。",
    "cut down", "",
    holds(
        "a800 < a100", "h800 < h100",
        also={name: own_link(name, "scale_up") for name in ("a800", "a100", "h800", "h100")},
        truth=(
            "Yes, in NVLink: {a800:GB/s} instead of {a100:GB/s}, {h800:GB/s} instead of "
            "{h100:GB/s} each way",
            "是，减的是 NVLink：单向 {a800:GB/s}（原 {a100:GB/s}），{h800:GB/s}（原 {h100:GB/s}）",
        ),
    ),
)  # fmt: skip
add(
    "E-084", "L20 and L40 are cheaper parts cut down for China.",
    "L20/L40 是面向中国的廉价裁剪版。",
    "both cut down", "",
    holds(
        "l20 < full", "l40 < full", l20=catalogue("l20", "compute_units"),
        l40=catalogue("l40", "compute_units"), full=catalogue("rtx-6000-ada", "compute_units"),
        truth=(
            "L20 has {l20:.0f} of {full:.0f} SMs; L40 has all {l40:.0f}",
            "L20 只有 {l20:.0f}/{full:.0f} 个 SM；L40 是完整的 {l40:.0f} 个",
        ),
    ),
)  # fmt: skip
