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
from gpuscope.advice.registry import register
from gpuscope.advice.source.edits import around_statements
from gpuscope.advice.source.places import forward_of
from gpuscope.advice.types import ChangeCase, Edit, Fit, Seen
from gpuscope.document.text import Text

if TYPE_CHECKING:
    from gpuscope.advice.changes.hooks.live import Live

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

    def __init__(self, name: str, title: Text, first: tuple[str, ...], other: str) -> None:
        self.name = name
        self.title = title
        self.first = first
        self.excludes = frozenset({other})

    def fits(self, case: ChangeCase) -> Fit:
        """It needs fused attention in half precision on NVIDIA that runs another kernel."""
        if case.device.vendor != "NVIDIA":
            why = Text("These kernels are for NVIDIA GPUs.")
            return Fit(False, why, relevant=False)
        fused = (
            []
            if case.program is None
            else [op for op in case.program.ops if op.name == "gpuscope::attention" and op.inputs]
        )
        suited = [
            op
            for op in fused
            if op.inputs[0].dtype in _HALF
            and op.inputs[0].shape[-1] <= _WIDEST
            and op.inputs[0].shape[-1] % 8 == 0
        ]
        if not suited:
            why = Text("There is no fused attention in half precision.")
            return Fit(False, why, relevant=False)
        cudnn = case.device.compute_capability in ((9, 0), (10, 0))
        only = all(str(op.args.get("backend", "")).endswith("_only") for op in suited)
        running = "CUDNN_ATTENTION" if cudnn and not only else "FLASH_ATTENTION"
        if running == self.first[0]:
            return Fit(False, Text("It runs already."), relevant=False)
        runs = "cuDNN" if running.startswith("CUDNN") else "FlashAttention-2"
        return Fit(
            True,
            Text(
                "{suited} attention calls run {runs}'s kernel; there is another.",
                suited=len(suited),
                runs=runs,
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
        "sdpa-flash",
        Text("FlashAttention-2 for attention"),
        ("FLASH_ATTENTION", "EFFICIENT_ATTENTION", "MATH"),
        "sdpa-cudnn",
    )
)
register(
    SdpaBackend(
        "sdpa-cudnn",
        Text("cuDNN for attention"),
        ("CUDNN_ATTENTION", "FLASH_ATTENTION", "EFFICIENT_ATTENTION", "MATH"),
        "sdpa-flash",
    )
)
