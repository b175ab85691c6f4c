"""Bytes of a matrix product at each level of the machine, and how often each is used."""

from __future__ import annotations

from gpuscope.document.blocks import Column, Diagram, Link, Node, Table
from gpuscope.document.quantities import Bytes, Percent, Rate
from gpuscope.document.text import Text, verbatim
from gpuscope.explanation.limits import matrix_unit
from gpuscope.explanation.tiling import Tiled


def traffic_table(product: Tiled) -> Table:
    """What moves at each level, against what the arithmetic uses and the least possible."""
    problem, plan, machine = product.problem, product.plan, product.machine
    wanted = product.flops * problem.item_bytes
    loads = product.parts.tile_loads_bytes
    l2 = machine.l2_bytes_per_s * machine.units
    memory = product.memory_bytes_per_s
    duration = product.main_s

    def row(
        label: Text, moved: float, limit: float | None, reused: bool
    ) -> tuple[Text, float, float | None, float | None, float | None, float | None]:
        alone = moved / limit if limit else None
        return (
            label,
            moved,
            wanted / moved if reused and moved else None,
            limit,
            alone,
            alone / duration if alone is not None else None,
        )

    return Table(
        Text("Bytes at each level"),
        (
            Column(Text("level")),
            Column(Text("bytes"), "bytes"),
            Column(Text("uses of each byte"), "ratio"),
            Column(Text("usable rate"), "bytes/s"),
            Column(Text("time by itself"), "s"),
            Column(Text("of the kernel's time"), "share"),
        ),
        (
            row(Text("operands of all multiply-adds"), wanted, None, True),
            row(Text("L2 into the units' shared memory"), loads, l2, True),
            row(Text("read from device memory"), plan.read_bytes, memory, True),
            row(Text("written to device memory"), plan.written_bytes, memory, False),
            row(Text("least possible: each once"), problem.least_bytes, memory, False),
        ),
        note=Text(
            "Two operands for each multiply-add. Tiles re-use them in registers and shared memory, "
            "and neighbouring tiles in L2: that is why a product can be limited by arithmetic."
        ),
    )


def flow_diagram(product: Tiled) -> Diagram:
    """The machine with the product's flows at their mean rates, the narrowest marked."""
    plan, machine, device = product.plan, product.machine, product.device
    duration = product.main_s
    flops_per_s = product.flops / duration
    peak = product.peak_flops_per_s
    memory_name = device.memory_type or "memory"
    limit = product.limiter
    by_memory = limit == "memory"
    by_l2 = limit == "l2"
    unit_name = Text("{units} {unit}s", units=machine.units, unit=product.unit)
    core = Text("vector lanes")
    if not plan.vector:
        core = matrix_unit(device)
    kept = Rate(device.memory_bandwidth_bytes_per_s, "B/s")
    nodes = (
        Node(
            "in",
            Text("{memory_name}: A, B", memory_name=memory_name),
            "memory",
            0.12,
            0.28,
            detail=verbatim(kept),
        ),
        Node("l2", Text("L2 cache"), "cache", 0.40, 0.28, detail=_cache(product)),
        Node(
            "sm",
            unit_name,
            "compute",
            0.68,
            0.28,
            width=0.2,
            height=0.3,
            detail=Text("tiles in shared memory"),
            cells=machine.units,
        ),
        Node(
            "core",
            core,
            "compute",
            0.68,
            0.8,
            width=0.24,
            detail=Text(
                "{flops} of {peak}: {flops_2}",
                flops=Rate(flops_per_s, "FLOP/s"),
                peak=Rate(peak, "FLOP/s"),
                flops_2=Percent(flops_per_s / peak),
            ),
        ),
        Node("out", Text("{memory_name}: C", memory_name=memory_name), "memory", 0.12, 0.8),
    )
    return Diagram(
        Text("Flows while the kernel runs"),
        nodes,
        (
            _link("in", "l2", plan.read_bytes, duration, product.memory_bytes_per_s, by_memory),
            _link(
                "l2",
                "sm",
                product.parts.tile_loads_bytes,
                duration,
                machine.l2_bytes_per_s * machine.units,
                by_l2,
            ),
            Link(
                "sm",
                "core",
                Text("operands from shared memory"),
                narrowest=limit in ("tensor_core", "compute"),
            ),
            _link("core", "out", plan.written_bytes, duration, product.memory_bytes_per_s, False),
        ),
        note=Text("Mean rates over the kernel; limits are what kernels reach, not the datasheet."),
    )


def _cache(product: Tiled) -> Text | None:
    held = product.device.l2_bytes
    return None if held is None else verbatim(Bytes(held))


def _link(a: str, b: str, moved: float, duration_s: float, limit: float, narrowest: bool) -> Link:
    return Link(a, b, verbatim(Bytes(moved)), moved / duration_s, limit, narrowest)
