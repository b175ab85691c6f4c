"""Bytes of a matrix product at each level of the machine, and how often each is used."""

from __future__ import annotations

from gpuscope.explain.limits import matrix_unit
from gpuscope.explain.numbers import percent, rate, size
from gpuscope.explain.tiling import Tiled
from gpuscope.explain.types import Column, Diagram, Link, Node, Table, Words


def traffic_table(product: Tiled) -> Table:
    """What moves at each level, against what the arithmetic uses and the least possible."""
    problem, plan, machine = product.problem, product.plan, product.machine
    wanted = product.flops * problem.item_bytes
    loads = product.parts.tile_loads_bytes
    l2 = machine.l2_bytes_per_s * machine.units
    memory = product.memory_bytes_per_s
    duration = plan.duration_s

    def row(label: Words, moved: float, limit: float | None, reused: bool) -> tuple[
        Words, float, float | None, float | None, float | None, float | None
    ]:  # fmt: skip
        alone = moved / limit if limit else None
        return (
            label, moved, wanted / moved if reused and moved else None, limit, alone,
            alone / duration if alone is not None else None,
        )  # fmt: skip

    return Table(
        Words("Bytes at each level", "各级的字节数"),
        (
            Column(Words("level", "层级")), Column(Words("bytes", "字节"), "bytes"),
            Column(Words("uses of each byte", "每字节使用次数"), "ratio"),
            Column(Words("usable rate", "可用速率"), "bytes/s"),
            Column(Words("time by itself", "单独耗时"), "s"),
            Column(Words("of the kernel's time", "占内核时间"), "share"),
        ),
        (
            row(Words("operands of all multiply-adds", "全部乘加的操作数"), wanted, None, True),
            row(Words("L2 into the units' shared memory", "L2 到各单元共享内存"), loads, l2, True),
            row(Words("read from device memory", "从显存读取"), plan.read_bytes, memory, True),
            row(Words("written to device memory", "写入显存"), plan.written_bytes, memory, False),
            row(Words("least possible: each once", "理论最少：各一次"), problem.least_bytes, memory,
                False),
        ),
        note=Words(
            "Two operands for each multiply-add. Tiles re-use them in registers and shared memory,"
            " and neighbouring tiles in L2: that is why a product can be limited by arithmetic.",
            "每次乘加要两个操作数。分块在寄存器和共享内存里重复使用它们，相邻分块又在 L2 里共享："
            "正因如此，矩阵乘才可能受算力限制。",
        ),
    )  # fmt: skip


def flow_diagram(product: Tiled) -> Diagram:
    """The machine with the product's flows at their mean rates, the narrowest marked."""
    plan, machine, device = product.plan, product.machine, product.device
    duration = plan.duration_s
    flops_per_s = product.flops / duration
    peak = product.peak_flops_per_s
    memory_name = device.memory_type or "memory"
    by_memory = plan.limiter == "memory"
    by_l2 = plan.limiter == "l2" or (not by_memory and product.parts.loop_limit == "load")
    unit_name = Words(f"{machine.units} {product.unit}s", f"{machine.units} 个 {product.unit}")
    core = Words("vector lanes", "向量单元")
    if not plan.vector:
        core = matrix_unit(device)
    kept = rate(device.memory_bandwidth_bytes_per_s, "B/s")
    nodes = (
        Node("in", Words(f"{memory_name}: A, B", f"{memory_name}：A、B"), "memory", 0.12, 0.28,
             detail=Words(kept, kept)),
        Node("l2", Words("L2 cache", "L2 缓存"), "cache", 0.40, 0.28, detail=_cache(product)),
        Node("sm", unit_name, "compute", 0.68, 0.28, width=0.2, height=0.3,
             detail=Words("tiles in shared memory", "共享内存中的分块"), cells=machine.units),
        Node("core", core, "compute", 0.68, 0.8, width=0.24, detail=Words(
            f"{rate(flops_per_s, 'FLOP/s')} of {rate(peak, 'FLOP/s')}: "
            f"{percent(flops_per_s / peak)}",
            f"{rate(flops_per_s, 'FLOP/s')}，峰值 {rate(peak, 'FLOP/s')}："
            f"{percent(flops_per_s / peak)}")),
        Node("out", Words(f"{memory_name}: C", f"{memory_name}：C"), "memory", 0.12, 0.8),
    )  # fmt: skip
    return Diagram(
        Words("Flows while the kernel runs", "内核运行时的数据流"), nodes,
        (
            _link("in", "l2", plan.read_bytes, duration, product.memory_bytes_per_s, by_memory),
            _link("l2", "sm", product.parts.tile_loads_bytes, duration,
                  machine.l2_bytes_per_s * machine.units, by_l2),
            Link("sm", "core", Words("operands from shared memory", "来自共享内存的操作数"),
                 narrowest=not (by_memory or by_l2) and plan.limiter != "latency"),
            _link("core", "out", plan.written_bytes, duration, product.memory_bytes_per_s, False),
        ),
        note=Words("Mean rates over the kernel; limits are what kernels reach, not the datasheet.",
                   "速率为内核期间的平均值；上限取内核实际能达到的值，而非标称值。"),
    )  # fmt: skip


def _cache(product: Tiled) -> Words | None:
    held = product.device.l2_bytes
    return None if held is None else Words(size(held), size(held))


def _link(
    a: str, b: str, moved: float, duration_s: float, limit: float, narrowest: bool
) -> Link:
    return Link(a, b, Words(size(moved), size(moved)), moved / duration_s, limit, narrowest)
