"""FSDP2 with explicit prefetch: the next blocks' parameters are gathered ahead of their turn.

By default the host issues a block's all-gather when it comes to the block; a slow host issues it
too late to overlap. `set_modules_to_forward_prefetch` and `set_modules_to_backward_prefetch`
(PyTorch documentation, `FSDPModule`) issue it before the block in front runs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gpuscope.advice.change import Change
from gpuscope.advice.changes.evidence.wrappers import needs_ranks, wraps
from gpuscope.advice.registry import register
from gpuscope.advice.types import ChangeCase, Fit
from gpuscope.document.text import Text

if TYPE_CHECKING:
    from gpuscope.advice.changes.hooks.live import Live

__all__ = ["FSDPPrefetch"]


class FSDPPrefetch(Change):
    """Gather the parameters of blocks to come.

    Args:
        ahead: blocks.
    """

    group = "distributed"
    needs_gpu = False

    def __init__(self, ahead: int) -> None:
        self.ahead = ahead
        self.name = f"fsdp-prefetch-{ahead}"
        self.title = Text("FSDP gathers {ahead} blocks ahead", ahead=ahead)
        self.excludes = frozenset({"fsdp-prefetch-1", "fsdp-prefetch-2"} - {self.name})

    def fits(self, case: ChangeCase) -> Fit:
        """It needs FSDP2 over several modules."""
        refused = needs_ranks(case, "fully_shard")
        if refused is not None:
            return refused
        if sum(wrap.count for wrap in wraps(case, "fully_shard")) < 3:
            why = Text("Too few modules are sharded.")
            return Fit(False, why, relevant=False)
        return Fit(True, Text("Each block's parameters are asked for when the block is reached."))

    def install(self, live: Live) -> None:
        """Chain the sharded modules, in the order in which they were sharded."""
        sharded: list[Any] = []

        def use(kind: str, module: Any) -> None:
            if kind == "fully_shard":
                sharded.append(module)

        def chain(root: Any) -> None:
            inside = {id(module) for module in root.modules()}
            blocks = [m for m in sharded if id(m) in inside and m is not root]
            for at, block in enumerate(blocks):
                block.set_modules_to_forward_prefetch(blocks[at + 1 : at + 1 + self.ahead])
                before = blocks[max(0, at - self.ahead) : at]
                block.set_modules_to_backward_prefetch(before[::-1])

        live.on_wrapped(use)
        live.on_model(chain)

    def price(self, case: ChangeCase) -> Text:
        """Blocks whole at once."""
        return Text("Up to {ahead} more blocks' parameters whole at once.", ahead=self.ahead)


register(FSDPPrefetch(1))
register(FSDPPrefetch(2))
