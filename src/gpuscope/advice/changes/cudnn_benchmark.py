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
from gpuscope.advice.source.edits import after_imports
from gpuscope.advice.types import ChangeCase, Edit, Fit, Seen
from gpuscope.document.text import Text
from gpuscope.program.types import Program

if TYPE_CHECKING:
    from gpuscope.advice.changes.hooks.live import Live

__all__ = ["CudnnBenchmark"]


class CudnnBenchmark(Change):
    """Let cuDNN try its kernels out."""

    name = "cudnn-benchmark"
    title = Text("cuDNN tries its kernels out")
    group = "operators"
    numerics = "reordered"
    rank = 20

    def fits(self, case: ChangeCase) -> Fit:
        """It needs convolutions, on NVIDIA, and the switch off."""
        if case.device.vendor != "NVIDIA":
            return Fit(False, Text("cuDNN is NVIDIA's."), relevant=False)
        if case.program is None:
            why = Text("A recording does not show the switch.")
            return Fit(False, why, relevant=False)
        shapes = convolution_shapes(case.program)
        if not shapes:
            why = Text("There is no convolution.")
            return Fit(False, why, relevant=False)
        if case.program.settings.get("cudnn_benchmark"):
            return Fit(False, Text("It is on already."))
        return Fit(
            True,
            Text(
                "{shapes} different convolutions run with the kernels that cuDNN guesses.",
                shapes=shapes,
            ),
        )

    def install(self, live: Live) -> None:
        """Switch it on."""
        import torch

        live.set(torch.backends.cudnn, "benchmark", True)

    def transform(self, program: Program) -> Program:
        """The same operators, with the switch."""
        return replace(program, settings={**program.settings, "cudnn_benchmark": True})

    def price(self, case: ChangeCase) -> Text | None:
        """The first step of each shape, and workspaces."""
        return Text(
            "The first step with each new shape takes seconds; inputs of many sizes pay each time."
        )

    def risk(self, case: ChangeCase) -> Text | None:
        """Which kernel wins is a matter of timing."""
        return Text("Runs are no longer bit for bit the same: another kernel may win next time.")

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
            (op.inputs[0].shape, op.inputs[1].shape)
            for op in program.ops
            if op.name.rpartition("::")[2] == "convolution" and len(op.inputs) > 1
        }
    )


register(CudnnBenchmark())
