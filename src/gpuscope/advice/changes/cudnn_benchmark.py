"""cuDNN's benchmark: each new shape of a convolution is tried with several kernels, once.

`torch.backends.cudnn.benchmark = True` (PyTorch, "Performance Tuning Guide"): without it cuDNN's
heuristics choose. What the trials find is not known beforehand; the prediction has no more than
what was learnt from recorded steps with the switch on and off.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from gpuscope.advice.change import Change
from gpuscope.advice.registry import register
from gpuscope.advice.source import after_imports
from gpuscope.advice.types import Case, Edit, Fit, Seen
from gpuscope.explain.types import Words
from gpuscope.program.types import Program

if TYPE_CHECKING:
    from gpuscope.advice.live import Live

__all__ = ["CudnnBenchmark"]


class CudnnBenchmark(Change):
    """Let cuDNN try its kernels out."""

    name = "cudnn-benchmark"
    title = Words("cuDNN tries its kernels out", "cuDNN 自动选核（benchmark）")
    group = "operators"
    numerics = "reordered"
    rank = 20

    def fits(self, case: Case) -> Fit:
        """It needs convolutions, on NVIDIA, and the switch off."""
        if case.device.vendor != "NVIDIA":
            return Fit(False, Words("cuDNN is NVIDIA's.", "cuDNN 只用于 NVIDIA。"), relevant=False)
        if case.program is None:
            why = Words("A recording does not show the switch.", "记录里看不到这个开关。")
            return Fit(False, why, relevant=False)
        shapes = convolution_shapes(case.program)
        if not shapes:
            why = Words("There is no convolution.", "没有卷积。")
            return Fit(False, why, relevant=False)
        if case.program.settings.get("cudnn_benchmark"):
            return Fit(False, Words("It is on already.", "已经打开。"))
        return Fit(
            True,
            Words(
                f"{shapes} different convolutions run with the kernels that cuDNN guesses.",
                f"{shapes} 种卷积用的是 cuDNN 猜测的内核。",
            ),
        )

    def install(self, live: Live) -> None:
        """Switch it on."""
        import torch

        live.set(torch.backends.cudnn, "benchmark", True)

    def transform(self, program: Program) -> Program:
        """The same operators, with the switch."""
        return replace(program, settings={**program.settings, "cudnn_benchmark": True})

    def price(self, case: Case) -> Words | None:
        """The first step of each shape, and workspaces."""
        return Words(
            "The first step with each new shape takes seconds; inputs of many sizes pay each time.",
            "每遇到新形状，第一步要多花数秒；输入尺寸多变时每次都要付出。",
        )

    def risk(self, case: Case) -> Words | None:
        """Which kernel wins is a matter of timing."""
        return Words(
            "Runs are no longer bit for bit the same: another kernel may win next time.",
            "两次运行不再逐位相同：下次可能选中另一个内核。",
        )

    def edits(self, sources: Mapping[str, str], seen: Seen) -> tuple[Edit, ...] | None:
        """One line after the imports."""
        if seen.file not in sources:
            return None
        line = "torch.backends.cudnn.benchmark = True\n"
        return (after_imports(seen.file, sources[seen.file], line, needs=("import torch",)),)


def convolution_shapes(program: Program) -> int:
    """How many different convolutions a step makes, forward."""
    return len(
        {
            (op.inputs[0].shape, op.inputs[1].shape) for op in program.ops
            if op.name.rpartition("::")[2] == "convolution" and len(op.inputs) > 1
        }
    )  # fmt: skip


register(CudnnBenchmark())
