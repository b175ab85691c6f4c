"""What AdamW keeps its two moments in: float32, bfloat16, or 8 bits in blocks of 256.

bfloat16 is what Transformer Engine's optimizer keeps under Megatron-LM's
`--use-precision-aware-optimizer`; 8 bits are bitsandbytes' and torchao's (Dettmers et al., 2021,
arXiv:2110.02861), one byte and a share of a float32 scale a moment. Parameters and gradients stay
in float32. Moments are rounded: another recipe, so these are tried where nothing else fits, or
where they are asked for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from gpuscope.document.text import Text
from gpuscope.hardware import Device
from gpuscope.planning.dimensions.registry import DIMENSIONS, Dimension, Weighed
from gpuscope.program.models.parallel.options import ParallelOptions

_BYTES = {"bf16": 2 * 2.0, "8bit": 2 * (1 + 4 / 256)}
"""Of both moments, a parameter."""


def _asked(options: ParallelOptions, value: str) -> ParallelOptions:
    return replace(options, software=replace(options.software, optimizer=f"adamw-{value}"))


def _score(weighed: Weighed, value: str, columns: Mapping[str, float]) -> Mapping[str, float]:
    return {"state_bytes": _BYTES[value]}


def _lacks(device: Device, value: str) -> Text | None:
    """Nothing: the update is pointwise."""
    return None


DIMENSIONS.add(
    "states",
    Dimension(
        name="states",
        values=("float32", *_BYTES),
        asked=_asked,
        score=_score,
        lacks=_lacks,
        lighter=tuple(_BYTES),
    ),
)
