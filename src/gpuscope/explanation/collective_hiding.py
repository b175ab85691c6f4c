"""What hides a collective, and what it would be with fewer bytes an element."""

from __future__ import annotations

from dataclasses import dataclass

from gpuscope.cost.overlap import slowdown_of_collective, slowdown_of_compute
from gpuscope.document.blocks import Block, Column, Fact, Facts, Paragraph, Section, Table
from gpuscope.document.quantities import Count, Number, Seconds
from gpuscope.document.text import Text, verbatim
from gpuscope.explanation.collective_case import CollectiveCase
from gpuscope.explanation.equal_work import ITEM_BYTES, Square, product_as_long, square_product

_LARGE = 8192
"""Side of a product that shows what the arithmetic reaches."""


@dataclass(frozen=True, slots=True)
class Cover:
    """Arithmetic that lasts as long as a collective; None where the device has none in the dtype.

    Attributes:
        product: the square product that lasts as long.
        large: a large one, for the rate that is reached.
    """

    product: Square | None
    large: Square | None


def cover_of(case: CollectiveCase) -> Cover:
    """The products to hold a collective against."""
    return Cover(
        product_as_long(case.device, case.constants, case.dtype, case.taken.time_s),
        square_product(case.device, case.constants, case.dtype, _LARGE),
    )


def hiding(case: CollectiveCase, cover: Cover) -> Section:
    """How much arithmetic lasts as long, and how many tokens that is."""
    title = Text("What hides it")
    if cover.product is None or cover.large is None:
        text = Text(
            "{device} has no stated {dtype} rate, so no product is compared.",
            device=case.device.name,
            dtype=case.dtype,
        )
        return Section(title, (Paragraph(text, "doubt"),))
    side = Count(cover.product.side)
    rows = [
        Fact(
            Text("a square product that lasts as long"),
            verbatim(f"{side} x {side} x {side}"),
            note=Text("{dtype}, {time}", dtype=case.dtype, time=Seconds(cover.product.time_s)),
        ),
        Fact(
            Text("arithmetic a rank could do meanwhile"),
            _flops_meanwhile(case, cover.large),
            "flop",
            "computed",
            note=Text("at what a product of side {large} reaches", large=_LARGE),
        ),
        Fact(
            Text("arithmetic per byte that hides it"),
            _flops_meanwhile(case, cover.large) / case.size_bytes,
            "flop/byte",
            "computed",
        ),
    ]
    blocks: list[Block] = []
    tokens = _tokens(case, cover.large)
    if tokens is not None:
        uses = "4" if case.operation != "all_gather" else "2"
        rows.append(
            Fact(
                Text("tokens a rank needs per step"),
                tokens,
                "count",
                "computed",
                note=Text("so that {uses} FLOP a parameter and token last as long", uses=uses),
            )
        )
        blocks.append(Paragraph(_tokens_text(case, tokens), "key"))
    blocks.insert(0, Facts(tuple(rows)))
    blocks += _beside(case)
    return Section(title, tuple(blocks))


def _beside(case: CollectiveCase) -> tuple[Block, ...]:
    """What the collective and the arithmetic that hides it take from each other."""
    made = case.kernel
    work, own = slowdowns(case)
    if not made.units:
        said = Text(
            "Engines beside the multiprocessors move the data: arithmetic keeps all of them."
        )
        return (Paragraph(said),)
    whole = case.device.compute_units or 0
    rows = (
        Fact(
            Text("multiprocessors that it holds"),
            Text("{units} of {whole}", units=made.units, whole=whole),
        ),
        Fact(Text("products beside it take"), work, "ratio", "computed"),
        Fact(Text("it takes beside products"), own, "ratio", "computed"),
    )
    said = Text(
        "Hiding is not free: both sides are slower meanwhile, which the figures above leave out."
    )
    begins = Text("And a collective begins only when an earlier kernel has placed its last blocks.")
    return Facts(rows), Paragraph(said, "doubt"), Paragraph(begins, "doubt")


def slowdowns(case: CollectiveCase) -> tuple[float, float]:
    """How many times longer products take beside the collective, and it beside them."""
    device, made = case.device, case.kernel
    return (
        slowdown_of_compute("matmul", "tensor_core", made, device, case.constants),
        slowdown_of_collective("matmul", "tensor_core", made, device, case.constants),
    )


def _flops_meanwhile(case: CollectiveCase, large: Square) -> float:
    return large.flops / large.time_s * case.taken.time_s


def _tokens(case: CollectiveCase, large: Square) -> float | None:
    """Tokens of a rank's batch whose products last as long as the parameters' messages.

    A parameter's gradient takes 2 FLOP a token and that of its input another 2; while gradients
    are reduced, these 4 can run. While parameters are gathered, the forward pass's 2 can.
    """
    flops = {"all_reduce": 4.0, "reduce_scatter": 4.0, "all_gather": 2.0}.get(case.operation)
    if flops is None:
        return None
    a_parameter_s = ITEM_BYTES[case.dtype] * case.taken.time_s / case.size_bytes
    return a_parameter_s * large.flops / large.time_s / flops


def _tokens_text(case: CollectiveCase, tokens: float) -> Text:
    if case.operation == "all_gather":
        return Text(
            "Gathering weights (FSDP) hides under the forward pass if each rank works on about "
            "{tokens} tokens or more, in messages of this size.",
            tokens=Count(tokens),
        )
    return Text(
        "Reducing gradients hides under the backward pass if each rank works on about {tokens} "
        "tokens or more, in messages of this size.",
        tokens=Count(tokens),
    )


def narrower(case: CollectiveCase) -> Section:
    """The same elements in other dtypes."""
    rows = []
    marked = 0
    for name in ("fp32", "bf16", "fp8"):
        nbytes = case.elements * ITEM_BYTES[name]
        rows.append(
            (name, float(nbytes), case.time_s(nbytes), case.time_s(nbytes) / case.taken.time_s)
        )
        if ITEM_BYTES[name] == ITEM_BYTES[case.dtype]:
            marked = len(rows) - 1
    table = Table(
        Text("The same {elements} elements", elements=Number(case.elements, ",")),
        (
            Column(Text("sent as")),
            Column(Text("bytes"), "bytes"),
            Column(Text("time"), "s"),
            Column(Text("against this"), "ratio"),
        ),
        tuple(rows),
        (marked,),
        Text(
            "A sum in a narrow dtype also rounds at every step: gradients are mostly reduced in "
            "bf16 or fp32."
        )
        if case.operation in ("all_reduce", "reduce_scatter")
        else None,
    )
    return Section(Text("Fewer bytes"), (table,))
