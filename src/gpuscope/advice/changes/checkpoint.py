"""Recomputation: fewer activations kept for the backward pass, more work done in it.

Three strengths: every block, every other block, or every block but for the results of products and
attention ("selective": what is computed again is then only cheap).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuscope.advice.change import Change
from gpuscope.advice.memory_room import category_bytes, room
from gpuscope.advice.recomputing import recompute_blocks, without_cache
from gpuscope.advice.registry import register
from gpuscope.advice.types import Case, Fit, Numerics
from gpuscope.analysis.wording import size
from gpuscope.explain.types import Words

if TYPE_CHECKING:
    from gpuscope.advice.live import Live

__all__ = ["Checkpoint"]

_NAMES = ("checkpoint", "checkpoint-half", "checkpoint-selective")

TIGHT = 0.85
"""Above this share of the memory, less of it may be worth its time by itself."""


class Checkpoint(Change):
    """Run blocks again in the backward pass instead of keeping what they computed.

    Args:
        name: what it is called.
        title: what it does.
        every: 1 for all blocks, 2 for every other one.
        keep_products: keep the results of products and attention.
    """

    group = "memory"
    numerics: Numerics = "exact"
    needs_gpu = False
    rank = 50

    def __init__(self, name: str, title: Words, every: int, keep_products: bool) -> None:
        self.name, self.title = name, title
        self.every, self.keep_products = every, keep_products
        self.excludes = frozenset(_NAMES) - {name}

    def fits(self, case: Case) -> Fit:
        """It needs a backward pass, repeated blocks, and activations that are kept."""
        if case.program is None or case.seen is None:
            why = Words("The code is not known, only its timeline.", "只有时间线，没有代码。")
            return Fit(False, why, relevant=False)
        if not case.training:
            why = Words("There is no backward pass.", "没有反向传播。")
            return Fit(False, why, relevant=False)
        if any(op.recomputed for op in case.program.ops):
            return Fit(
                False, Words("The code recomputes already.", "代码已经在重算激活值。")
            )
        if not any(model.repeated for model in case.seen.models):
            why = Words("No model has repeated blocks.", "没有哪个模型有重复的层。")
            return Fit(False, why)
        return Fit(True, _why(case))

    def install(self, live: Live) -> None:
        """Wrap the blocks of each model that is trained and has some."""

        def edit(model: object) -> None:
            from gpuscope.advice.blocks import repeated_blocks

            if repeated_blocks(model):
                recompute_blocks(model, every=self.every, keep_products=self.keep_products)

        live.on_model(edit)
        live.on_call(without_cache)

    def price(self, case: Case) -> Words | None:
        """Time: what is computed twice."""
        if self.keep_products:
            return Words(
                "Cheap operators run a second time; each block is dearer for the host.",
                "廉价算子要再执行一遍，主机在每一层上的开销也更大。",
            )
        what = "Every" if self.every == 1 else "Every other"
        zh = "每个" if self.every == 1 else "每隔一个"
        return Words(f"{what} block's forward pass runs twice.", f"{zh}层的前向传播都要执行两遍。")

    def risk(self, case: Case) -> Words | None:
        """Blocks must do the same when they run again."""
        return Words(
            "A block that keeps a state of its own between calls (a counter, a cache) would change"
            " it twice; random numbers and batch norms are taken care of.",
            "如果某层在调用之间保存自己的状态（计数器、缓存），它会被更新两次；"
            "随机数和批归一化已处理好。",
        )


def _why(case: Case) -> Words:
    """What there is to gain, in numbers."""
    space = room(case)
    share = space.share
    held = category_bytes(case, "activation")
    activations = Words("", "")
    if held:
        activations = Words(
            f"; activations hold {size(held)} of it", f"；其中激活值占 {size(held)}"
        )
    if share is not None and share < TIGHT:
        return Words(
            f"{space.words.en}{activations.en}: nothing presses to recompute; it costs time, and"
            " pays only where the room is used (a larger batch).",
            f"{space.words.zh}{activations.zh}：没有必要重算；重算会多花时间，"
            "只有用上省出的空间（如更大的批量）才划算。",
        )
    return Words(
        f"{space.words.en}{activations.en}.", f"{space.words.zh}{activations.zh}。"
    )


for _name, _title, _every, _keep in (
    ("checkpoint", Words("recompute every block", "重算每一层"), 1, False),
    ("checkpoint-half", Words("recompute every other block", "隔层重算"), 2, False),
    (
        "checkpoint-selective",
        Words("recompute all but products and attention", "重算乘法与注意力以外的结果"),
        1,
        True,
    ),
):
    register(Checkpoint(_name, _title, _every, _keep))
