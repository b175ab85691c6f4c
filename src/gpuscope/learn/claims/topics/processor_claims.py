"""Claims about what a GPU is beside a CPU: cores, threads, SMs, caches, area."""

from __future__ import annotations

from gpuscope.learn.claims.catalogue_figures import catalogue, most
from gpuscope.learn.claims.expression import formula
from gpuscope.learn.claims.judging import at_least, cannot_say, equals, holds, inside
from gpuscope.learn.claims.registry import Book
from gpuscope.learn.claims.sourced_facts import fact
from gpuscope.learn.claims.types import Source

BOOK = Book("processors", "CPU and GPU", "CPU 与 GPU")
add = BOOK.add


def _threads(name: str) -> Source:
    label = name.upper()
    return formula(
        "units * of_a_unit", unit="threads", units=catalogue(name, "compute_units"),
        of_a_unit=catalogue(name, "max_threads_per_unit"), label=(label, label),
    )  # fmt: skip


def _lanes(name: str) -> Source:
    label = name.upper()
    return formula(
        "units * of_a_unit", units=catalogue(name, "compute_units"),
        of_a_unit=catalogue(name, "fp32_lanes_per_unit"), label=(label, label),
    )  # fmt: skip


for _id, _low in (("A-001", 2), ("C-024", 4)):
    add(
        _id, f"CPUs come with {_low} to 64 cores.",
        f"CPU 一般有 {_low} 到 64 个核心。",
        (_low, 64), "cores",
        inside(
            fact("ryzen.cores", ("desktop (Ryzen 9 9950X)", "台式机（Ryzen 9 9950X）")),
            fact("epyc.cores", ("server (EPYC 9965)", "服务器（EPYC 9965）")),
        ),
    )  # fmt: skip
add(
    "A-002", "More than 80 % of a GPU's die are arithmetic units.",
    "GPU 裸片面积 80% 以上是运算单元。",
    80, "%",
    cannot_say(
        "No maker states it and no program can measure it; it takes a photograph of the die.",
        "没有厂商公布，也无法用程序测量，只能看裸片照片。",
    ),
)  # fmt: skip
add(
    "A-003", "Less than 30 % of a CPU's die are arithmetic units.",
    "CPU 裸片面积中运算单元通常不到 30%。",
    30, "%",
    cannot_say(
        "No maker states it and no program can measure it; it takes a photograph of the die.",
        "没有厂商公布，也无法用程序测量，只能看裸片照片。",
    ),
)  # fmt: skip
add(
    "A-004", "Tens of thousands of threads run on a GPU at the same time.",
    "GPU 可同时运行数万个线程。",
    10_000, "threads", at_least(_threads("t4"), _threads("a100"), _threads("h100")),
)  # fmt: skip
add(
    "B-002", "A GPU's stream processors number from thousands to over ten thousand.",
    "GPU 有数千到上万个流处理器。",
    "10^3 to over 10^4", "",
    holds(
        "least > 1000", "most > 10000",
        least=_lanes("t4"), most=_lanes("b200"), h100=_lanes("h100"),
        truth=(
            "{least:,.0f} (T4), {h100:,.0f} (H100), {most:,.0f} (B200)",
            "{least:,.0f}（T4）、{h100:,.0f}（H100）、{most:,.0f}（B200）",
        ),
    ),
)  # fmt: skip
add(
    "C-003", "GPUs are made of tens to over a hundred SMs.",
    "GPU 有几十到一百多个 SM。",
    "10 to over 100", "",
    holds(
        "10 <= least < 100", "most > 100",
        least=most("compute_units", "NVIDIA", least=True), most=most("compute_units", "NVIDIA"),
        truth=(
            "From {least:.0f} to {most:.0f} in the catalogue's NVIDIA devices",
            "目录中的 NVIDIA 器件为 {least:.0f} 到 {most:.0f} 个",
        ),
    ),
)  # fmt: skip
add(
    "C-004", "An SM has 64 to 128 CUDA cores.",
    "每个 SM 有 64 到 128 个 CUDA 核心。",
    (64, 128), "cores",
    inside(
        *(
            catalogue(name, "fp32_lanes_per_unit", (name.upper(), name.upper()))
            for name in ("v100", "t4", "a100", "rtx-3090", "rtx-4090", "h100", "b200")
        )
    ),
)  # fmt: skip
add(
    "A-009", "Threads of NVIDIA GPUs go in warps of 32.",
    "一个线程束（warp）有 32 个线程。",
    32, "threads",
    equals(
        catalogue("v100", "warp_size"), catalogue("a100", "warp_size"),
        catalogue("b200", "warp_size"),
    ),
)  # fmt: skip
add(
    "B-003", "A warp (NVIDIA) has 32 threads, a wavefront (AMD) 64, in lock-step.",
    "线程束 32 线程（NVIDIA）、波前 64 线程（AMD），锁步执行。",
    (32, 64), "threads",
    holds(
        "nvidia == 32", "cdna == 64", "rdna == 64", nvidia=catalogue("h100", "warp_size"),
        cdna=catalogue("mi300x", "warp_size"), rdna=catalogue("rx-9070-xt", "warp_size"),
        truth=(
            "{nvidia:.0f} on NVIDIA; on AMD {cdna:.0f} in data centres, {rdna:.0f} on Radeon RX",
            "NVIDIA 为 {nvidia:.0f}；AMD 数据中心卡为 {cdna:.0f}，Radeon RX 为 {rdna:.0f}",
        ),
    ),
)  # fmt: skip
add(
    "C-025", "A CPU's caches have MB to GB, a GPU's KB to MB.",
    "CPU 缓存为 MB 到 GB 级，GPU 缓存为 KB 到 MB 级。",
    "CPU more", "",
    holds(
        "server_cpu > b200", "desktop_cpu > h100", "desktop_cpu > b200",
        server_cpu=fact("epyc.cache"), desktop_cpu=fact("ryzen.cache"),
        h100=catalogue("h100", "l2_bytes"), b200=catalogue("b200", "l2_bytes"),
        truth=(
            "CPU: {desktop_cpu:MiB} to {server_cpu:MiB}; GPU: {h100:MiB} (H100) to {b200:MiB} "
            "(B200), more than a desktop CPU",
            "CPU：{desktop_cpu:MiB} 到 {server_cpu:MiB}；GPU：{h100:MiB}（H100）到 {b200:MiB}"
            "（B200），已超过台式 CPU",
        ),
    ),
)  # fmt: skip
add(
    "C-026", "A CPU works on one or two data at a time, a GPU on thousands.",
    "CPU 一次处理 1-2 个数据，GPU 一次处理上千个。",
    (1, 2), "",
    inside(
        formula(
            "cores * lanes", cores=fact("epyc.cores"), lanes=fact("avx512.lanes"),
            label=("192-core CPU with AVX-512", "192 核 AVX-512 CPU"),
        ),
        formula(
            "cores * lanes", cores=fact("ryzen.cores"), lanes=fact("avx512.lanes"),
            label=("16-core CPU with AVX-512", "16 核 AVX-512 CPU"),
        ),
        truth=(
            "{v1:,.0f} float32 values in a 16-core CPU with AVX-512, {v0:,.0f} in one of 192 cores",
            "16 核 AVX-512 CPU 一次 {v1:,.0f} 个 float32，192 核为 {v0:,.0f} 个",
        ),
    ),
)  # fmt: skip
add(
    "C-027", "In an SM, every CUDA core does the same instruction at a time.",
    "一个 SM 内所有 CUDA 核心执行同一条指令。",
    "one instruction", "",
    holds(
        "schedulers == 1", schedulers=fact("sm.schedulers"),
        truth=(
            "{schedulers:.0f} schedulers of an SM issue for different warps in each clock",
            "SM 的 {schedulers:.0f} 个调度器每周期为不同线程束发射指令",
        ),
    ),
)  # fmt: skip
