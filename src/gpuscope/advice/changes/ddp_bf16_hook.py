"""DDP's gradients reduced in bfloat16: half the bytes on the links.

`torch.distributed.algorithms.ddp_comm_hooks.default_hooks.bf16_compress_hook` casts each bucket,
reduces it, and casts it back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gpuscope.advice.change import Change
from gpuscope.advice.changes.evidence.wrappers import needs_bf16, needs_ranks
from gpuscope.advice.registry import register
from gpuscope.advice.types import ChangeCase, Fit
from gpuscope.document.text import Text

if TYPE_CHECKING:
    from gpuscope.advice.changes.hooks.live import Live

__all__ = ["DDPBf16Hook"]


class DDPBf16Hook(Change):
    """Send gradients in bfloat16."""

    name = "ddp-bf16-gradients"
    title = Text("DDP reduces gradients in bfloat16")
    group = "distributed"
    numerics = "bf16"

    def fits(self, case: ChangeCase) -> Fit:
        """It needs DDP with float32 gradients, on devices with bfloat16."""
        refused = needs_ranks(case, "ddp") or needs_bf16(case)
        if refused is not None:
            return refused
        ops = case.program.ops if case.program is not None else ()
        reduced = {
            spec.dtype
            for op in ops
            for spec in op.inputs
            if op.group >= 0 and "allreduce" in op.name and spec.numel > 1
        }
        if "float32" not in reduced:
            return Fit(False, Text("No float32 is reduced."))
        return Fit(True, Text("Gradients are sent in float32."))

    def install(self, live: Live) -> None:
        """Register torch's own hook with each DDP."""

        def use(kind: str, wrapper: Any) -> None:
            if kind != "ddp":
                return
            from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import bf16_compress_hook

            hook: Any = bf16_compress_hook
            if live.pretended:
                # By its own name DDP refuses it where there is no NCCL, as under a capture.
                hook = lambda group, bucket: bf16_compress_hook(group, bucket)  # noqa: E731
            wrapper.register_comm_hook(None, hook)

        live.on_wrapped(use)

    def risk(self, case: ChangeCase) -> Text:
        """Fewer bits in sums."""
        return Text("Gradients are summed over the ranks with 8 bits of mantissa.")


register(DDPBf16Hook())
