"""How far results may differ: by what a change does to the arithmetic, each with its reason.

Unit roundoffs u (half the distance from 1 to the next number): float32 2^-24, TF32 and float16
2^-11, bfloat16 2^-8, fp8 E4M3 2^-4 (IEEE 754-2019; NVIDIA, "A100 Tensor Core GPU Architecture",
2020; Micikevicius et al., "FP8 Formats for Deep Learning", 2022, arXiv:2209.05433). A sum of n
products rounded independently is off by about u * sqrt(n) at most and, since the errors have both
signs, mostly by a small multiple of u relative to its terms (Higham and Mary, "A New Approach to
Probabilistic Rounding Error Analysis", SIAM J. Sci. Comput. 41(5), 2019). Through some tens of
layers with normalisation the outputs are then off by several u; a mean loss over many samples
averages errors out and is off by less than u; the gradient's norm lies between.

After several steps differences grow with the learning rate and the model, not with the arithmetic
alone. So the second column is only a begin: where it is exceeded, the original code is run once
more with every weight off by one unit roundoff (`ROUNDOFF`), and what that moves is allowed
`MARGIN` times, up to `MOST`. This is the backward-error view: arithmetic of u gives the exact
result of weights that are off by about u.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from gpuscope.advice.types import Numerics

__all__ = ["MARGIN", "MOST", "MOST_SPREAD", "ROUNDOFF", "SPREAD", "Allowed", "allowed", "loosest"]

MARGIN = 4.0
"""What a perturbation moves is one draw; another draw is rarely four times as large."""

MOST = 0.3
"""No difference above this is allowed, however sensitive the model is."""

MOST_SPREAD = 0.5
"""No difference of means above this is allowed, however much the original varies."""

SPREAD = 4.0
"""Standard errors that means of two samples of runs may lie apart. With 5 and 3 runs a Student t of
6 degrees of freedom exceeds 4 in less than 1 % of cases."""


@dataclass(frozen=True, slots=True)
class Allowed:
    """Largest relative differences.

    Attributes:
        loss: of the first step's loss.
        loss_later: of later steps'.
        gradient: of the first step's gradient norm.
        gradient_later: of later steps'.
        output: of outputs of an inference step, ||difference|| / ||output||.
        update: of the norm of what the parameters changed by.
        reason: of these figures.
    """

    loss: float
    loss_later: float
    gradient: float
    gradient_later: float
    output: float
    update: float
    reason: str


_TABLE: Mapping[Numerics, Allowed] = MappingProxyType(
    {
        "exact": Allowed(
            1e-6,
            1e-5,
            1e-5,
            1e-4,
            1e-5,
            1e-4,
            "the same operations in the same order: 10 u of float32, for sums by atomic additions",
        ),
        "reordered": Allowed(
            1e-5,
            1e-3,
            1e-3,
            1e-2,
            1e-4,
            1e-2,
            "sums of up to 10^6 float32 terms in another order: u * sqrt(10^6) = 6e-5 of the terms",
        ),
        "tf32": Allowed(
            1e-3, 1e-2, 1e-2, 5e-2, 1e-2, 5e-2, "u = 5e-4 in every product, some tens of layers"
        ),
        "fp16": Allowed(
            1e-3,
            1e-2,
            1e-2,
            5e-2,
            1e-2,
            5e-2,
            "u = 5e-4, also between operators; small values vanish",
        ),
        "bf16": Allowed(
            5e-3, 3e-2, 5e-2, 1e-1, 5e-2, 1e-1, "u = 4e-3 in products and between operators"
        ),
        "int8": Allowed(
            2e-2,
            5e-2,
            1e-1,
            2e-1,
            1e-1,
            2e-1,
            "weights in steps of 1/127 of a row's largest: 4e-3 of it, 2e-2 of a typical weight",
        ),
        "fp8": Allowed(
            2e-2, 1e-1, 2e-1, 3e-1, 1.5e-1, 3e-1, "u = 6e-2 in every product of scaled values"
        ),
        "int4": Allowed(
            1e-1, 2e-1, 3e-1, 3e-1, 3e-1, 3e-1, "weights in steps of 1/7 of a group's largest"
        ),
        "recipe": Allowed(
            2e-1,
            2e-1,
            3e-1,
            3e-1,
            3e-1,
            3e-1,
            "other batches or another optimizer: only the course of the loss is compared",
        ),
    }
)

_LOOSER: tuple[Numerics, ...] = tuple(_TABLE)

ROUNDOFF: Mapping[Numerics, float] = MappingProxyType(
    {
        "exact": 2.0**-24,
        "reordered": 2.0**-22,
        "tf32": 2.0**-11,
        "fp16": 2.0**-11,
        "bf16": 2.0**-8,
        "int8": 2.0**-7,
        "fp8": 2.0**-4,
        "int4": 2.0**-3,
        "recipe": 2.0**-8,
    }
)
"""Relative noise on weights that stands for a class; of "reordered", several float32 roundoffs."""


def loosest(classes: Iterable[Numerics]) -> Numerics:
    """The class of changes made together: that of the one that alters most."""
    return max(classes, key=_LOOSER.index, default="exact")


def allowed(numerics: Numerics, precision: str = "float32") -> tuple[Numerics, Allowed]:
    """What may differ, and the class it was taken from.

    Args:
        numerics: of the changes.
        precision: what the original computes in: "float32", "tf32", "bfloat16" or "float16".
            Another order of rounding in bfloat16 is off by bfloat16's roundoff.
    """
    if numerics == "exact":
        return numerics, _TABLE[numerics]
    own: Mapping[str, Numerics] = {"tf32": "tf32", "bfloat16": "bf16", "float16": "fp16"}
    effective = loosest([numerics, own.get(precision, "reordered")])
    return effective, _TABLE[effective]
