"""Which fused attention kernel runs: cuDNN's or FlashAttention-2.

PyTorch chooses by device and shape (aten/src/ATen/native/transformers/cuda/sdp_utils.cpp): cuDNN's
for half precision on compute capability 9.0 and 10.0, FlashAttention-2 elsewhere.
`torch.nn.attention.sdpa_kernel` overrules it. Each list ends in kernels that take everything, so
that no call is left without one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from gpuscope.advice.change import Change
from gpuscope.advice.places import forward_of
from gpuscope.advice.registry import register
from gpuscope.advice.source import around_statements
from gpuscope.advice.types import Case, Edit, Fit, Seen
from gpuscope.explain.types import Words

if TYPE_CHECKING:
    from gpuscope.advice.live import Live

__all__ = ["SdpaBackend"]

_HALF = ("float16", "bfloat16")
_WIDEST = 256


class SdpaBackend(Change):
    """Ask for one of the fused attention kernels first.

    Args:
        name: of the change.
        title: of the change.
        first: `SDPBackend` names, the one to prefer first; the others follow as a fallback.
        other: name of the change that asks for the other one.
    """

    group = "operators"
    numerics = "reordered"
    rank = 30

    def __init__(self, name: str, title: Words, first: tuple[str, ...], other: str) -> None:
        self.name = name
        self.title = title
        self.first = first
        self.excludes = frozenset({other})

    def fits(self, case: Case) -> Fit:
        """It needs fused attention in half precision on NVIDIA that runs another kernel."""
        if case.device.vendor != "NVIDIA":
            why = Words("These kernels are for NVIDIA GPUs.", "这些内核只用于 NVIDIA GPU。")
            return Fit(False, why, relevant=False)
        fused = [] if case.program is None else [
            op for op in case.program.ops if op.name == "gpuscope::attention" and op.inputs
        ]  # fmt: skip
        suited = [
            op for op in fused
            if op.inputs[0].dtype in _HALF and op.inputs[0].shape[-1] <= _WIDEST
            and op.inputs[0].shape[-1] % 8 == 0
        ]  # fmt: skip
        if not suited:
            why = Words(
                "There is no fused attention in half precision.", "没有半精度的融合注意力。"
            )
            return Fit(False, why, relevant=False)
        cudnn = case.device.compute_capability in ((9, 0), (10, 0))
        only = all(str(op.args.get("backend", "")).endswith("_only") for op in suited)
        running = "CUDNN_ATTENTION" if cudnn and not only else "FLASH_ATTENTION"
        if running == self.first[0]:
            return Fit(False, Words("It runs already.", "已经在用。"), relevant=False)
        runs = "cuDNN" if running.startswith("CUDNN") else "FlashAttention-2"
        return Fit(
            True,
            Words(
                f"{len(suited)} attention calls run {runs}'s kernel; there is another.",
                f"{len(suited)} 次注意力用的是 {runs} 的内核，还有另一种可选。",
            ),
        )

    def install(self, live: Live) -> None:
        """Enter `sdpa_kernel` around forward passes; backward kernels follow the forward ones."""
        from torch.nn.attention import SDPBackend, sdpa_kernel

        backends = [getattr(SDPBackend, name) for name in self.first]

        def chosen() -> Any:
            return sdpa_kernel(backends, set_priority=True)

        live.around_forward(chosen)

    def edits(self, sources: Mapping[str, str], seen: Seen) -> tuple[Edit, ...] | None:
        """A `with` around the forward pass."""
        text = sources.get(seen.file)
        place = None if text is None else forward_of(text, seen.function)
        if text is None or place is None or place.joined or place.last < place.first:
            return None
        listed = ", ".join(f"SDPBackend.{name}" for name in self.first)
        header = f"with sdpa_kernel([{listed}], set_priority=True):"
        needs = ("from torch.nn.attention import SDPBackend, sdpa_kernel",)
        edit = around_statements(seen.file, text, place.first, place.last, header, needs)
        return None if edit is None else (edit,)


register(
    SdpaBackend(
        "sdpa-flash", Words("FlashAttention-2 for attention", "注意力用 FlashAttention-2 内核"),
        ("FLASH_ATTENTION", "EFFICIENT_ATTENTION", "MATH"), "sdpa-cudnn",
    )
)  # fmt: skip
register(
    SdpaBackend(
        "sdpa-cudnn", Words("cuDNN for attention", "注意力用 cuDNN 内核"),
        ("CUDNN_ATTENTION", "FLASH_ATTENTION", "EFFICIENT_ATTENTION", "MATH"), "sdpa-flash",
    )
)  # fmt: skip
