"""What hides a collective, and what it would be with fewer bytes an element."""

from __future__ import annotations

from dataclasses import dataclass

from gpuscope.cost.overlap import slowdown_of_collective, slowdown_of_compute
from gpuscope.explain.collective_case import Case
from gpuscope.explain.equal_work import ITEM_BYTES, Square, product_as_long, square_product
from gpuscope.explain.numbers import count, seconds
from gpuscope.explain.types import (
    Block,
    Column,
    Fact,
    Facts,
    Paragraph,
    Section,
    Table,
    Words,
)

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


def cover_of(case: Case) -> Cover:
    """The products to hold a collective against."""
    return Cover(
        product_as_long(case.device, case.constants, case.dtype, case.taken.time_s),
        square_product(case.device, case.constants, case.dtype, _LARGE),
    )


def hiding(case: Case, cover: Cover) -> Section:
    """How much arithmetic lasts as long, and how many tokens that is."""
    title = Words("What hides it", "用什么掩盖它")
    if cover.product is None or cover.large is None:
        text = Words(
            f"{case.device.name} has no stated {case.dtype} rate, so no product is compared.",
            f"{case.device.name} 没有公布 {case.dtype} 速率，因此不与矩阵乘比较。",
        )
        return Section(title, (Paragraph(text, "doubt"),))
    side = count(cover.product.side)
    rows = [
        Fact(Words("a square product that lasts as long", "时间相同的方阵乘"),
             Words(f"{side} x {side} x {side}", f"{side} x {side} x {side}"),
             note=Words(f"{case.dtype}, {seconds(cover.product.time_s)}",
                        f"{case.dtype}，{seconds(cover.product.time_s)}")),
        Fact(Words("arithmetic a rank could do meanwhile", "期间每个 rank 能做的运算"),
             _flops_meanwhile(case, cover.large), "flop", "computed",
             note=Words(f"at what a product of side {_LARGE} reaches",
                        f"按边长 {_LARGE} 的矩阵乘速率")),
        Fact(Words("arithmetic per byte that hides it", "掩盖它所需的每字节运算量"),
             _flops_meanwhile(case, cover.large) / case.size_bytes, "flop/byte", "computed"),
    ]  # fmt: skip
    blocks: list[Block] = []
    tokens = _tokens(case, cover.large)
    if tokens is not None:
        uses = "4" if case.operation != "all_gather" else "2"
        rows.append(
            Fact(Words("tokens a rank needs per step", "每步每个 rank 需要的 token 数"), tokens,
                 "count", "computed",
                 note=Words(f"so that {uses} FLOP a parameter and token last as long",
                            f"使每参数每 token 的 {uses} FLOP 计算时间相同"))
        )  # fmt: skip
        blocks.append(Paragraph(_tokens_text(case, tokens), "key"))
    blocks.insert(0, Facts(tuple(rows)))
    blocks += _beside(case)
    return Section(title, tuple(blocks))


def _beside(case: Case) -> tuple[Block, ...]:
    """What the collective and the arithmetic that hides it take from each other."""
    made = case.kernel
    work, own = slowdowns(case)
    if not made.units:
        said = Words(
            "Engines beside the multiprocessors move the data: arithmetic keeps all of them.",
            "数据由计算单元之外的引擎搬运：计算保留全部单元。",
        )
        return (Paragraph(said),)
    whole = case.device.compute_units or 0
    rows = (
        Fact(Words("multiprocessors that it holds", "占用的 SM"),
             Words(f"{made.units} of {whole}", f"{whole} 个中的 {made.units} 个")),
        Fact(Words("products beside it take", "与之并行的矩阵乘变慢"), work, "ratio", "computed"),
        Fact(Words("it takes beside products", "它在矩阵乘旁边变慢"), own, "ratio", "computed"),
    )  # fmt: skip
    said = Words(
        "Hiding is not free: both sides are slower meanwhile, which the figures above leave out.",
        "掩盖不是免费的：并行期间两边都变慢，上面的数字未计入。",
    )
    begins = Words(
        "And a collective begins only when an earlier kernel has placed its last blocks.",
        "而且集合通信要等先启动的内核放完最后的线程块才能开始。",
    )
    return Facts(rows), Paragraph(said, "doubt"), Paragraph(begins, "doubt")


def slowdowns(case: Case) -> tuple[float, float]:
    """How many times longer products take beside the collective, and it beside them."""
    device, made = case.device, case.kernel
    return (
        slowdown_of_compute("matmul", "tensor_core", made, device, case.constants),
        slowdown_of_collective("matmul", "tensor_core", made, device, case.constants),
    )


def _flops_meanwhile(case: Case, large: Square) -> float:
    return large.flops / large.time_s * case.taken.time_s


def _tokens(case: Case, large: Square) -> float | None:
    """Tokens of a rank's batch whose products last as long as the parameters' messages.

    A parameter's gradient takes 2 FLOP a token and that of its input another 2; while gradients
    are reduced, these 4 can run. While parameters are gathered, the forward pass's 2 can.
    """
    flops = {"all_reduce": 4.0, "reduce_scatter": 4.0, "all_gather": 2.0}.get(case.operation)
    if flops is None:
        return None
    a_parameter_s = ITEM_BYTES[case.dtype] * case.taken.time_s / case.size_bytes
    return a_parameter_s * large.flops / large.time_s / flops


def _tokens_text(case: Case, tokens: float) -> Words:
    if case.operation == "all_gather":
        return Words(
            f"Gathering weights (FSDP) hides under the forward pass if each rank works on about "
            f"{count(tokens)} tokens or more, in messages of this size.",
            f"若每个 rank 每步处理约 {count(tokens)} 个以上 token，按此消息大小收集权重（FSDP）"
            "可被前向计算掩盖。",
        )
    return Words(
        f"Reducing gradients hides under the backward pass if each rank works on about "
        f"{count(tokens)} tokens or more, in messages of this size.",
        f"若每个 rank 每步处理约 {count(tokens)} 个以上 token，按此消息大小归约梯度"
        "可被反向计算掩盖。",
    )


def narrower(case: Case) -> Section:
    """The same elements in other dtypes."""
    rows = []
    marked = 0
    for name in ("fp32", "bf16", "fp8"):
        nbytes = case.elements * ITEM_BYTES[name]
        rows.append((name, float(nbytes), case.time_s(nbytes), case.time_s(nbytes)
                     / case.taken.time_s))  # fmt: skip
        if ITEM_BYTES[name] == ITEM_BYTES[case.dtype]:
            marked = len(rows) - 1
    table = Table(
        Words(f"The same {count(case.elements)} elements", f"同样的 {count(case.elements)} 个元素"),
        (
            Column(Words("sent as", "发送类型")), Column(Words("bytes", "字节"), "bytes"),
            Column(Words("time", "时间"), "s"),
            Column(Words("against this", "与本例相比"), "ratio"),
        ),
        tuple(rows), (marked,),
        Words(
            "A sum in a narrow dtype also rounds at every step: gradients are mostly reduced in "
            "bf16 or fp32.",
            "窄类型求和在每一步都会舍入：梯度通常用 bf16 或 fp32 归约。",
        ) if case.operation in ("all_reduce", "reduce_scatter") else None,
    )  # fmt: skip
    return Section(Words("Fewer bytes", "更少的字节"), (table,))
