"""cuDNN's attention plans for shapes that it meets for the first time.

PyTorch asks cuDNN for a plan (a graph built, an engine chosen and compiled) for every new set of
shapes, and keeps it (aten/src/ATen/native/cudnn/MHA.cpp, `MHAGraphCache`). The host waits for that:
43 ms in the first of 32 layers of a model of 8 billion parameters, under a profiler, while each of
the others takes 30 us (torch 2.11, cuDNN 9.19, H200). A cache of keys that grows by a token has
another length in every step, so each token of a sequence that is longer than all before it pays
for a plan: the same step takes 54.1 and 51.8 ms for lengths that are new, and 19.1 ms for lengths
that the process has met (`benchmarks/results/ladders/singles.jsonl`, llama_decode).
"""

from __future__ import annotations

from collections.abc import Sequence

from gpuscope.cost.registry import Constants
from gpuscope.cost.types import Kernel
from gpuscope.document.text import Text
from gpuscope.program.growing import ANEW, grown_lengths
from gpuscope.program.types import Op, Program

__all__ = ["Plans"]

TOLD = Text(
    "Every token makes the cache longer than it ever was, and cuDNN plans its attention anew for "
    "each new length; lengths that the process has met before do not cost this."
)


class Plans:
    """Plans that a step makes, in order of its operators.

    Args:
        constants: `host.attention_plan_s`;
        program: whose step it is.
    """

    def __init__(self, constants: Constants, program: Program) -> None:
        self.made = 0
        self._lengths = grown_lengths(program) if program.settings.get(ANEW) else frozenset()
        self._known: set[object] = set()
        self._plan_s = constants.value("host.attention_plan_s")
        self._plan_s *= constants.value("host.scale")

    def cost_s(self, op: Op, kernels: Sequence[Kernel]) -> float:
        """Host seconds that an operator takes for a plan; 0 where there is one."""
        if not self._lengths or not op.name.endswith("::attention") or len(op.inputs) < 2:
            return 0.0
        query, key = op.inputs[:2]
        if key.shape[-2] not in self._lengths or not _by_cudnn(kernels):
            return 0.0
        shapes = (query.shape, key.shape, query.dtype)
        if shapes in self._known:
            return 0.0
        self._known.add(shapes)
        self.made += 1
        return self._plan_s / op.repeat  # a folded layer stands for several, and one plans


def _by_cudnn(kernels: Sequence[Kernel]) -> bool:
    return any(kernel.name.startswith("cudnn") for kernel in kernels)
