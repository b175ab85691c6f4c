"""How a matrix product is cut into tiles, and how these land on a device: blocks of figures.

Used by whatever is a product at heart (`matmul`, `conv`). All figures come from the planner of
`gpuscope.cost.matmul.gemm` and its exact parts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import ceil

from gpuscope.cost.limits import named_limiter
from gpuscope.cost.matmul.gemm import Machine, Plan, Problem, candidates
from gpuscope.cost.matmul.model import VECTOR_BYTES
from gpuscope.cost.matmul.parts import Parts, parts
from gpuscope.cost.types import Limiter
from gpuscope.document.blocks import (
    Bar,
    Bars,
    Block,
    Cell,
    Column,
    Fact,
    Facts,
    Paragraph,
    Part,
    Role,
    Table,
)
from gpuscope.document.quantities import Number, Percent, Seconds
from gpuscope.document.text import Text, sentences, verbatim
from gpuscope.explanation.operators import peak_flops_per_s
from gpuscope.explanation.wave_map import wave_map
from gpuscope.hardware import Device

PART_NAMES: tuple[tuple[str, Text, Role], ...] = (
    ("peak_s", Text("arithmetic at the peak"), "tensor"),
    ("rate_s", Text("library below the peak"), "compute"),
    ("feed_s", Text("waiting for operands"), "l2"),
    ("edge_s", Text("edges and padding"), "waste"),
    ("tail_s", Text("idle in the last wave"), "tail"),
    ("tile_s", Text("tile start, write-out"), "shared"),
    ("throttle_s", Text("clock falls"), "waste"),
    ("memory_s", Text("memory, not hidden"), "memory"),
    ("split_s", Text("partial sums of K"), "bad"),
    ("start_s", Text("first loads, L2 cold"), "l2"),
    ("floor_s", Text("shortest kernel"), "launch"),
)
"""Fields of `Parts` with their names and colours, in the order in which losses are told."""

MORE_KERNELS = Text("other kernels")


@dataclass(frozen=True, slots=True)
class Tiled:
    """A planned product, with all that its figures need.

    Attributes:
        device: what it runs on.
        problem, machine, plan: as the planner has them.
        parts: of the main kernel's time; they add up to it, but for `slowed_s`.
        slowed_s: more time of the main kernel that the planner does not know (few channels).
        duration_s: of all its kernels, the sum over slices of K included.
        useful_flops: where they are not the problem's own (a padded one); else None.
        learned: factor that the device's learned correction puts on what the planner says; in all
            of the above, but not in `plan`.
    """

    device: Device
    problem: Problem
    machine: Machine
    plan: Plan
    parts: Parts
    slowed_s: float
    duration_s: float
    useful_flops: float | None = None
    learned: float = 1.0

    @property
    def main_s(self) -> float:
        """Duration of the main kernel."""
        return self.plan.duration_s * self.learned

    @property
    def flops(self) -> float:
        """The useful FLOPs."""
        return self.problem.flops if self.useful_flops is None else self.useful_flops

    @property
    def limiter(self) -> Limiter:
        """What limits its main kernel: a unit only where it is at work for half of its time."""
        return named_limiter(
            self.plan.limiter,
            self.main_s,
            self.flops / self.peak_flops_per_s,
            aligned=self.problem.aligned >= VECTOR_BYTES,
        )

    @property
    def peak_flops_per_s(self) -> float:
        """Dense peak of the unit that computes."""
        return peak_flops_per_s(self.device, self.problem.dtype)

    @property
    def memory_bytes_per_s(self) -> float:
        """Usable device memory bandwidth; the datasheet's where fits left it without bound."""
        return min(self.machine.memory_bytes_per_s, self.device.memory_bandwidth_bytes_per_s)

    @property
    def unit(self) -> str:
        """What the device calls a multiprocessor."""
        return self.device.compute_unit_label

    @property
    def matrix_vector(self) -> bool:
        """Runs without tiles, as a stream through the matrix."""
        return self.plan.tile not in self.machine.tiles

    @property
    def rows(self) -> int:
        """Tiles along M."""
        return ceil(self.problem.m / self.plan.tile.m)

    @property
    def columns(self) -> int:
        """Tiles along N."""
        return ceil(self.problem.n / self.plan.tile.n)

    @property
    def at_once(self) -> int:
        """Tiles that run at the same time."""
        return self.machine.units * self.plan.tile.resident

    @property
    def depth(self) -> int:
        """Elements of K in one step of the main loop."""
        tile = self.plan.tile
        return int(self.machine.of(tile).depth_bytes(tile) / self.problem.item_bytes)

    @property
    def tail_idle(self) -> float:
        """Share of the units' time that is lost, as not all have a tile in the last wave."""
        return 1.0 - self.plan.grid / (self.plan.rounds * self.machine.units)

    @property
    def edge_waste(self) -> float:
        """Share of the tiles' area that lies outside the matrix."""
        tile, problem = self.plan.tile, self.problem
        return 1.0 - problem.m * problem.n / (self.rows * tile.m * self.columns * tile.n)

    def parts_of(self, other: Plan) -> Parts:
        """The parts of another plan for the same product."""
        its = _parts(self.device, self.problem, self.machine, other, self.useful_flops)
        return its.stretched(self.learned)

    def is_edge(self, block: int) -> bool:
        """Whether a block's tile hangs over the edge of the result; blocks count down columns."""
        tile, problem = self.plan.tile, self.problem
        at = block // self.plan.split % (self.rows * self.columns)
        row, column = at % self.rows, at // self.rows
        return (row + 1) * tile.m > problem.m or (column + 1) * tile.n > problem.n


def tiled(
    device: Device,
    problem: Problem,
    machine: Machine,
    found: Plan,
    planned_s: float,
    slowed_s: float = 0.0,
    useful_flops: float | None = None,
    learned: float = 1.0,
) -> Tiled:
    """A planned product with the parts of its time.

    Args:
        device, problem, machine, found: what runs where, and how.
        planned_s: of all its kernels, as their models plan them.
        slowed_s: as planned.
        useful_flops, learned: see `Tiled`.
    """
    its = _parts(device, problem, machine, found, useful_flops).stretched(learned)
    return Tiled(
        device,
        problem,
        machine,
        found,
        its,
        slowed_s * learned,
        planned_s * learned,
        useful_flops,
        learned,
    )


def _parts(
    device: Device, problem: Problem, machine: Machine, found: Plan, useful_flops: float | None
) -> Parts:
    its = parts(problem, machine, found, peak_flops_per_s(device, problem.dtype))
    if useful_flops is None or useful_flops >= problem.flops:
        return its
    # Padding of the problem itself is lost like what tiles compute over the edge.
    share = useful_flops / problem.flops
    padded = (its.peak_s + its.rate_s) * (1.0 - share)
    return replace(
        its, peak_s=its.peak_s * share, rate_s=its.rate_s * share, edge_s=its.edge_s + padded
    )


def time_bars(product: Tiled, title: Text, more: tuple[Part, ...] = ()) -> Bars:
    """Where the time goes: the ideal, then each loss, adding up to the prediction.

    Args:
        product: planned.
        title: of the figure.
        more: parts that stand beside the product (conversions, bias).
    """
    found = [
        Part(label, getattr(product.parts, field), role)
        for field, label, role in PART_NAMES
        if getattr(product.parts, field) > 0
    ]
    if product.slowed_s > 0:
        few = Text("too few channels")
        found.append(Part(few, product.slowed_s, "waste"))
    main_s = product.parts.total_s + product.slowed_s
    if product.duration_s - main_s > 1e-12:
        found.append(Part(MORE_KERNELS, product.duration_s - main_s, "other"))
    whole_s = product.duration_s + sum(part.value for part in more)
    note = Text(
        "Read downwards: each line is what is lost at that point. Together {whole}.",
        whole=Seconds(whole_s),
    )
    bars = [
        Bar(_with_share(part, whole_s), (part,))
        for part in (*found, *more)
        if part.value > 5e-4 * whole_s
    ]
    return Bars(title, "s", tuple(bars), note=note)


def _with_share(part: Part, whole_s: float) -> Text:
    share = Percent(part.value / whole_s)
    return Text("{label}: {share}", label=part.label, share=share)


def grid_facts(product: Tiled) -> Facts:
    """How the result is cut: grid, waves, the last wave."""
    plan, problem, unit = product.plan, product.problem, product.unit
    tile = plan.tile
    if product.matrix_vector:
        return Facts(
            (
                Fact(Text("blocks"), float(plan.grid), "count", "computed"),
                Fact(Text("kernel"), Text("matrix-vector: streams the matrix, no tiles")),
            )
        )
    count = Text(
        "{rows} by {columns}{batch}{split}, rounded up",
        rows=f"{problem.m}/{tile.m} = {product.rows}",
        columns=f"{problem.n}/{tile.n} = {product.columns}",
        batch=f" x {problem.batch}" if problem.batch > 1 else "",
        split=Text(" x {slices} slices", slices=plan.split) if plan.split > 1 else "",
    )
    return Facts(
        (
            Fact(
                Text("tile of a block"),
                f"{tile.m} x {tile.n} x {product.depth}",
                note=Text(
                    "rows x columns of the result, {depth} of K at a time", depth=product.depth
                ),
            ),
            Fact(Text("tiles"), float(plan.grid), "count", "computed", note=count),
            Fact(Text("blocks that share a load (cluster)"), float(tile.cluster), "count"),
            Fact(
                Text("tiles at once on {units} {unit}s", units=product.machine.units, unit=unit),
                float(product.at_once),
                "count",
                "computed",
            ),
            Fact(
                Text("waves"),
                plan.waves,
                "",
                "computed",
                note=verbatim(f"{Number(plan.grid, ',')} / {product.at_once}"),
            ),
            Fact(
                Text("{unit} time lost in the last wave", unit=unit),
                product.tail_idle,
                "share",
                "computed",
            ),
            Fact(Text("tile area outside the matrix"), product.edge_waste, "share", "computed"),
        )
    )


def tile_blocks(product: Tiled, time_s: Callable[[Plan], float]) -> tuple[Block, ...]:
    """Facts of the grid, the map of its waves, and the table of what else could be launched."""
    if product.matrix_vector:
        return (grid_facts(product),)
    drawn = wave_map(
        product.plan.grid,
        product.machine.units,
        product.plan.tile.resident,
        product.unit,
        product.is_edge,
    )
    maps = () if drawn is None else (drawn,)
    why = _why_this(product, time_s)
    reasons = () if why is None else (why,)
    return (grid_facts(product), *maps, *reasons, candidate_table(product, time_s))


def _why_this(product: Tiled, time_s: Callable[[Plan], float]) -> Paragraph | None:
    """Why neither smaller nor larger tiles, and why K is cut, in a sentence each."""
    plan, best = product.plan, time_s(product.plan)
    every = candidates(product.problem, product.machine, len(product.machine.tiles))
    area = plan.tile.m * plan.tile.n

    def against(others: Sequence[Plan], name: Text) -> Text | None:
        if not others:
            return None
        other = min(others, key=time_s)
        return Text(
            "{name} ({tile}) takes {more} times as long: {loss}.",
            name=name,
            tile=other.tile.name,
            more=Number(time_s(other) / best, ".2f"),
            loss=main_loss(product.parts, product.parts_of(other)),
        )

    smaller = [p for p in every if p.tile.m * p.tile.n < 0.6 * area]
    larger = [p for p in every if p.tile.m * p.tile.n > 1.2 * area]
    whole = candidates(product.problem, product.machine, 1, split=False) if plan.split > 1 else ()
    reasons = sentences(
        against(smaller, Text("The best much smaller tile")),
        against(larger, Text("The best larger one")),
        against(whole, Text("The best with K left whole")),
    )
    return Paragraph(Text("Why this one: {reasons}", reasons=reasons)) if reasons else None


def candidate_table(product: Tiled, time_s: Callable[[Plan], float], most: int = 9) -> Table:
    """What the library could have launched instead, with the reason against each.

    Args:
        product: planned.
        time_s: all kernels of a plan together.
        most: rows.
    """
    every = candidates(product.problem, product.machine, len(product.machine.tiles))
    chosen = [plan for plan in every if not _mirrored(plan, every)][: max(most - 3, 1)]
    for side in (64, 128, 256):
        chosen += [p for p in every if p.tile.m == p.tile.n == side and p not in chosen][:1]
    chosen = sorted(chosen, key=time_s)[:most]
    best = time_s(product.plan)
    rows = []
    marked = []
    for at, plan in enumerate(chosen):
        own = (plan.tile, plan.split) == (product.plan.tile, product.plan.split)
        if own:
            marked.append(at)
        rows.append(_candidate(product, plan, time_s(plan), best, own))
    return Table(
        Text("What the library could launch, fastest first"),
        (
            Column(Text("tile")),
            Column(Text("K slices"), "count"),
            Column(Text("tiles"), "count"),
            Column(Text("waves")),
            Column(Text("idle in last wave"), "share"),
            Column(Text("L2 loads"), "bytes"),
            Column(Text("time"), "s"),
            Column(Text("against the best"), "ratio"),
            Column(Text("loses most by")),
        ),
        tuple(rows),
        tuple(marked),
        Text(
            "{every} tiles were timed. Small tiles fill the device more evenly, but load every "
            "operand more often; large ones the reverse.",
            every=len(every),
        ),
    )


def _mirrored(plan: Plan, every: tuple[Plan, ...]) -> bool:
    """Whether an earlier one is the same with rows and columns exchanged, and takes as long."""
    for other in every:
        if other is plan:
            return False
        if (other.tile.m, other.tile.n) == (plan.tile.n, plan.tile.m) and (
            abs(other.duration_s - plan.duration_s) < 1e-12
        ):
            return True
    return False


def _candidate(
    product: Tiled, plan: Plan, time_s: float, best_s: float, own: bool
) -> tuple[Cell, ...]:
    its = product.parts_of(plan)
    idle = 1.0 - plan.grid / (plan.rounds * product.machine.units)
    reason: Cell = Text("chosen") if own else main_loss(product.parts, its)
    return (
        plan.tile.name,
        float(plan.split),
        float(plan.grid),
        round(plan.waves, 2),
        idle,
        its.tile_loads_bytes,
        time_s,
        time_s / best_s,
        reason,
    )


def main_loss(before: Parts, after: Parts, scale: float = 1.0) -> Text:
    """The part by which `after` loses most against `before`.

    Args:
        before, after: of two kernels.
        scale: what `before` is multiplied by first (to compare work of different size).
    """
    worst = max(
        PART_NAMES, key=lambda part: getattr(after, part[0]) - scale * getattr(before, part[0])
    )
    more = getattr(after, worst[0]) - scale * getattr(before, worst[0])
    return worst[1] if more > 1e-9 else Text("the same time")
