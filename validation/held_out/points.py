"""The points: drawn with a seed, split by a hash, the same on every machine."""

from __future__ import annotations

import importlib
import json
import math
import random
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

SEED = 20261121
KINDS = (
    "matmul",
    "attention",
    "convolution",
    "pointwise",
    "copy",
    "reduction",
    "softmax",
    "norm",
    "gather",
    "sort",
    "optimizer",
    "loss",
    "recurrent",
)

Params = dict[str, Any]


@dataclass(frozen=True)
class Point:
    """One call.

    Attributes:
        kind: one of `KINDS`.
        params: plain numbers, words and flags.
    """

    kind: str
    params: Params

    @property
    def text(self) -> str:
        """The same for equal points."""
        return self.kind + json.dumps(self.params, sort_keys=True, separators=(",", ":"))

    @property
    def sealed(self) -> bool:
        """Whether it only ever counts in sums (two thirds do)."""
        return zlib.crc32(self.text.encode()) % 3 != 0

    @property
    def states(self) -> tuple[str, ...]:
        """ "hot" for all; a third of them also "cold" (the L2 full of written lines)."""
        also_cold = zlib.crc32(("cold" + self.text).encode()) % 3 == 0
        return ("hot", "cold") if also_cold else ("hot",)

    def build(self) -> Callable[[], object]:
        """Allocate the inputs on "cuda" and return the call."""
        return importlib.import_module(f"held_out.{self.kind}").build(self.params)


def all_points(kinds: Sequence[str] = KINDS, seed: int = SEED) -> list[Point]:
    """Every point, in a fixed order; another seed draws others in the same way."""
    found: dict[str, Point] = {}
    for kind in kinds:
        rng = random.Random(f"{seed} {kind}")
        for params in importlib.import_module(f"held_out.{kind}").draw(rng):
            point = Point(kind, params)
            found.setdefault(point.text, point)
    return list(found.values())


def calibration_points(kinds: Sequence[str], seeds: Sequence[int]) -> list[Point]:
    """Points that constants may be fitted to: drawn with other seeds, none of them held out."""
    held = {point.text for point in all_points(kinds)}
    found = {p.text: p for seed in seeds for p in all_points(kinds, seed)}
    return [point for text, point in found.items() if text not in held]


def size(rng: random.Random, low: float, high: float, multiple: int = 1) -> int:
    """A number between the two, its logarithm uniform, rounded to a multiple."""
    value = math.exp(rng.uniform(math.log(low), math.log(high)))
    return max(multiple, round(value / multiple) * multiple)


def aligned(rng: random.Random, low: float, high: float) -> int:
    """As `size`; mostly a multiple of 64 or 8, now and then any number."""
    return size(rng, low, high, rng.choice((64, 64, 64, 8, 8, 1)))


def dtype_of(word: str) -> Any:
    """Torch's dtype for the short word of a point's params; "tf32" is float32."""
    import torch

    return {
        "fp32": torch.float32,
        "tf32": torch.float32,
        "bf16": torch.bfloat16,
        "fp16": torch.float16,
        "int64": torch.int64,
        "int32": torch.int32,
        "int8": torch.int8,
        "bool": torch.bool,
        "fp8": torch.float8_e4m3fn,
        "fp64": torch.float64,
    }[word]


def tensor(word: str, *shape: int) -> Any:
    """Random data of a dtype: power, and with it the clock, depends on the bits."""
    import torch

    kind = dtype_of(word)
    if word == "bool":
        return torch.rand(*shape, device="cuda") > 0.5
    if word.startswith("int"):
        return torch.randint(-100, 100, shape, device="cuda", dtype=kind)
    if word == "fp8":
        return torch.randn(*shape, device="cuda", dtype=torch.bfloat16).to(kind)
    return torch.randn(*shape, device="cuda", dtype=kind)


def switches(tf32: bool = False, benchmark: bool = False) -> None:
    """Set every switch that a kernel's choice hangs on."""
    import torch

    torch.backends.cuda.matmul.allow_tf32 = tf32
    torch.backends.cudnn.allow_tf32 = tf32
    torch.backends.cudnn.benchmark = benchmark


def backward(out: Any, inputs: Sequence[Any]) -> Callable[[], object]:
    """The backward pass alone, as often as wanted."""
    import torch

    grad = torch.randn_like(out)
    return lambda: torch.autograd.grad(out, inputs, grad, retain_graph=True)
