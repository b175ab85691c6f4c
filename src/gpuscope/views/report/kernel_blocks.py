"""Blocks that explain one kernel of a run by its operator: products, attention, convolutions.

All figures are of the operator by itself, as `gpuscope explain` gives them. Where they do not agree
with what the run says of this kernel (another device, constants or cache state), nothing is shown
rather than figures of something else.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from gpuscope.cost.convolution.model import products
from gpuscope.cost.convolution.product import ConvProduct
from gpuscope.cost.matmul.gemm import Plan, candidates, plan
from gpuscope.cost.matmul.model import layout_of
from gpuscope.cost.types import Kernel
from gpuscope.document.blocks import Block, Paragraph, Table
from gpuscope.document.quantities import Seconds
from gpuscope.document.text import Text, verbatim
from gpuscope.explanation.attention_case import Attention
from gpuscope.explanation.attention_figures import paths, score_map
from gpuscope.explanation.matmul import Question
from gpuscope.explanation.neighbours import neighbour_table
from gpuscope.explanation.operators import Target, learned, precision, total_s, work_on
from gpuscope.explanation.tiling import Tiled, candidate_table, grid_facts, tiled, time_bars
from gpuscope.explanation.traffic import traffic_table
from gpuscope.hardware import rate_name
from gpuscope.program.types import Op, TensorSpec

AGREES = 1.5
"""Ratio of times up to which an explanation is of the same kernel as the run's."""

_PRODUCTS = dict.fromkeys("mm bmm _int_mm _scaled_mm".split(), 0) | dict.fromkeys(
    "addmm _addmm_activation baddbmm".split(), 1
)
"""Operators that multiply two of their inputs: which one is the left factor."""

_PASSES = {"fprop": "forward", "dgrad": "data_gradient", "wgrad": "weight_gradient"}

_SPENT = Text("Where the time goes")

_CHEAPER = 0.9
"""A larger size nearby is worth a sentence if it takes less than this share of the time."""


def operator_blocks(op: Op, kernel: Kernel, on: Target) -> tuple[Block, ...]:
    """Return what explains a kernel; () where its operator is none of these, or does not agree.

    Args:
        op: the operator, with its results.
        kernel: as the run has it.
        on: the device.

    Raises:
        GpuscopeError: the models refuse such an operator.
    """
    name = op.name.rpartition("::")[2]
    if kernel.kind == "matmul" and name in (*_PRODUCTS, "linear"):
        return _product_blocks(op, kernel, on)
    if kernel.kind == "attention" and name in ("attention", "attention_backward"):
        return _attention_blocks(op, kernel, on)
    if kernel.kind == "convolution":
        return _convolution_blocks(op, kernel, on)
    return ()


def agrees(duration_s: float, kernel: Kernel) -> bool:
    """Whether a duration is of the same kernel as the run's."""
    low, high = sorted((duration_s, kernel.duration_s))
    return low > 0 and high <= AGREES * low


def _factors(op: Op) -> tuple[TensorSpec, TensorSpec]:
    """The two matrices, [.., M, K] and [.., K, N]."""
    name = op.name.rpartition("::")[2]
    if name != "linear":
        left = _PRODUCTS[name]
        return op.inputs[left], op.inputs[left + 1]
    x, weight = op.inputs[:2]
    rows = x.numel // max(x.shape[-1], 1)
    flat = replace(x, shape=(rows, x.shape[-1]), stride=(x.shape[-1], 1))
    return flat, replace(weight, shape=weight.shape[::-1], stride=weight.stride[::-1])


def _product_blocks(op: Op, kernel: Kernel, on: Target) -> tuple[Block, ...]:
    if len(op.inputs) < 2 + _PRODUCTS.get(op.name.rpartition("::")[2], 0):
        return ()  # a recording that does not tell all inputs
    a, b = _factors(op)
    if min(len(a.shape), len(b.shape)) < 2 or a.numel * b.numel == 0:
        return ()
    layout = (layout_of(a) + layout_of(b)).replace("-", "N").lower()
    batch, (m, k), n = a.shape[0] if len(a.shape) > 2 else 1, a.shape[-2:], b.shape[-1]
    made = precision(rate_name(kernel.dtype), on.device)
    asked = [Question(on, made, layout, batch, hot) for hot in (False, True)]
    best = min(asked, key=lambda q: _distance(q.tiled(m, n, k), kernel))
    free = best.tiled(m, n, k)
    found = _as_launched(best, free, kernel)
    if not agrees(found.main_s, kernel) or found.matrix_vector:
        return ()
    sizes = {"M": m, "N": n, "K": k}
    fixed = made.name in ("fp8", "int8")  # N and K take multiples of 16 or 8 only
    dims = {name: verbatim(name) for name in ("M" if fixed else "MNK")}
    near = neighbour_table(sizes, dims, best.price)
    return (
        *_advice(near, sizes, best.price(sizes).duration_s),
        time_bars(found, _SPENT),
        grid_facts(found),
        _choice(best, free, found),
        near,
        traffic_table(found),
    )


def _choice(asked: Question, free: Tiled, found: Tiled) -> Block:
    """What else could be launched; where another tile than the model's was, the two in words."""
    if free.plan.tile == found.plan.tile:
        return candidate_table(found, lambda other: asked.time_s(found, other), 6)
    tile, best = f"{found.plan.tile.m} x {found.plan.tile.n}", free.plan.tile
    now, least = Seconds(found.duration_s), Seconds(free.duration_s)
    return Paragraph(
        Text(
            "The library launched tiles of {tile}; the model gives {now} for these, and {least} "
            "for the fastest ones it knows, {m} x {n}.",
            tile=tile,
            now=now,
            least=least,
            m=best.m,
            n=best.n,
        )
    )


def _as_launched(asked: Question, found: Tiled, kernel: Kernel) -> Tiled:
    """The plan with the tile that the library really took, where the run knows another one."""
    own = kernel.tile[:2]
    if len(own) < 2 or own == (found.plan.tile.m, found.plan.tile.n):
        return found
    every = candidates(found.problem, found.machine, len(found.machine.tiles))
    same = [p for p in every if own in ((p.tile.m, p.tile.n), (p.tile.n, p.tile.m))]
    if not same:
        return found
    taken = min(same, key=lambda p: p.duration_s)
    planned_s = asked.planned_s(found, taken)
    return tiled(
        found.device, found.problem, found.machine, taken, planned_s, learned=found.learned
    )


def _advice(near: Table, sizes: dict[str, int], now_s: float) -> tuple[Paragraph, ...]:
    """The larger size nearby that takes least, in a sentence, where padding to it pays."""
    cheaper = []
    for label, _, time_s, ratio, _, _, reason in near.rows:
        if not (isinstance(label, Text) and isinstance(reason, Text)):
            continue
        dim, _, value = str(label).partition(" = ")
        larger = int(value) > sizes[dim]  # what can be padded to; nobody can cut data off
        if isinstance(ratio, float) and isinstance(time_s, float) and larger and ratio < _CHEAPER:
            cheaper.append((time_s, label, reason))
    if not cheaper:
        return ()
    time_s, label, reason = min(cheaper, key=lambda row: row[0])
    return (
        Paragraph(
            Text(
                "Padded to {label} it would take {time} instead of {now} ({reason}).",
                label=label,
                time=Seconds(time_s),
                now=Seconds(now_s),
                reason=reason,
            ),
            "key",
        ),
    )


def _attention_blocks(op: Op, kernel: Kernel, on: Target) -> tuple[Block, ...]:
    if "causal" not in op.args:  # a stored run keeps shapes, not options: the mask is not known
        return ()
    backward = op.name.endswith("backward")
    q, key, _ = op.inputs[1:4] if backward else op.inputs[:3]
    if len(q.shape) != 4 or len(key.shape) != 4:
        return ()
    case = Attention(
        on,
        precision(rate_name(kernel.dtype), on.device),
        q.shape[0],
        q.shape[1],
        key.shape[1],
        q.shape[2],
        key.shape[2],
        q.shape[3],
        bool(op.args.get("causal")),
        backward,
    )
    own = max((k.duration_s for k in case.kernels[-1]), default=0.0) if case.fused else 0.0
    if not agrees(own, kernel):
        return ()
    drawn = () if case.decode else (score_map(case),)
    return (*drawn, *paths(case))


def _convolution_blocks(op: Op, kernel: Kernel, on: Target) -> tuple[Block, ...]:
    wanted = next((which for short, which in _PASSES.items() if short in kernel.name), "")
    if not wanted or "stride" not in op.args:  # a stored run keeps shapes, not options
        return ()
    best: tuple[Tiled, Callable[[Plan], float]] | None = None
    for hot in (False, True):
        work = work_on(op, on, {"tf32_cudnn": kernel.dtype == "tf32"}, hot)
        factor = learned(work)
        for product, out in products(work):
            if product.which != wanted:
                continue

            def planned_s(other: Plan, of: ConvProduct = product, into: TensorSpec = out) -> float:
                return total_s(of.kernels(work, of.slowed(other), into))  # noqa: B023

            made = _convolution_product(on, product, planned_s, factor)
            if best is None or _distance(made, kernel) < _distance(best[0], kernel):
                best = made, planned_s
    if best is None or not agrees(best[0].main_s, kernel):
        return ()
    found, price_s = best
    return (
        time_bars(found, _SPENT),
        grid_facts(found),
        candidate_table(found, lambda other: found.learned * price_s(other), 6),
        traffic_table(found),
    )


def _convolution_product(
    on: Target, product: ConvProduct, planned_s: Callable[[Plan], float], factor: float
) -> Tiled:
    bare = plan(product.problem, product.machine)
    slow = product.slowed(bare)
    made = tiled(
        on.device,
        product.problem,
        product.machine,
        bare,
        planned_s(bare),
        slow.duration_s - bare.duration_s,
        product.flops,
        factor,
    )
    return replace(made, plan=slow)


def _distance(found: Tiled, kernel: Kernel) -> float:
    return abs(found.main_s - kernel.duration_s)
