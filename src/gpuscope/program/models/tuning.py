"""How a built-in decoder is fine-tuned: method, adapters, optimizer, sharding. Imports no torch."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType

from gpuscope.document.text import Text
from gpuscope.errors import InvalidValueError, UnknownNameError

__all__ = [
    "METHODS",
    "OPTIMIZERS",
    "SHARDINGS",
    "TARGETS",
    "USUAL_OPTIMIZER",
    "FineTuning",
    "projections_of",
]

METHODS = ("full", "lora", "qlora")
SHARDINGS = ("none", "full")

OPTIMIZERS = ("adamw", "adamw-8bit", "paged-adamw-8bit")
"""torch's AdamW with states in the parameter's dtype; bitsandbytes' with states in 8 bits, and that
with large states in memory which the driver pages between host and device."""

USUAL_OPTIMIZER = MappingProxyType({"full": "adamw", "lora": "adamw", "qlora": "paged-adamw-8bit"})
"""By method: QLoRA's paper pages its states."""

TARGETS = MappingProxyType(
    {
        "all-linear": ("q", "k", "v", "o", "gate", "up", "down"),
        "attention": ("q", "k", "v", "o"),
        "qv": ("q", "v"),
    }
)
"""Which products get an adapter, by the names that users have for them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FineTuning:
    """One way to fine-tune.

    Attributes:
        method: "full" (every weight, in bfloat16), "lora" (adapters in float32 beside frozen
            weights in bfloat16, as `peft` makes them) or "qlora" (the same beside NF4 weights with
            double quantisation, as `bitsandbytes` keeps them).
        rank: of the adapters.
        targets: one of `TARGETS`, or names of products: ("q", "v").
        optimizer: one of `OPTIMIZERS`.
        sharding: "none" (a whole copy a device, gradients summed) or "full" (FSDP2, block by
            block).
        devices, node: of the job, and of one of its nodes.
        microbatches: forward and backward passes before each update.
    """

    method: str = "lora"
    rank: int = 16
    targets: tuple[str, ...] = TARGETS["all-linear"]
    optimizer: str = "adamw"
    sharding: str = "none"
    devices: int = 1
    node: int = 8
    microbatches: int = 1

    def __post_init__(self) -> None:
        for what, value, known in (
            (Text("method"), self.method, METHODS),
            (Text("optimizer"), self.optimizer, OPTIMIZERS),
            (Text("sharding"), self.sharding, SHARDINGS),
        ):
            if value not in known:
                names = Text("Type one of: {names}.", names=", ".join(known))
                raise UnknownNameError(what, value, known, names)
        if self.rank < 1 or self.microbatches < 1 or self.devices < 1:
            raise InvalidValueError(
                Text("Adapters of rank {rank} cannot be.", rank=self.rank),
                Text("It counts something and must be at least 1."),
                Text("Type for example: --rank 16"),
            )


def projections_of(text: str) -> tuple[str, ...]:
    """Products that get an adapter: "all-linear", "attention", "qv", or "q,k,up".

    Raises:
        UnknownNameError: no such product.
    """
    if text in TARGETS:
        return TARGETS[text]
    asked = tuple(part.strip().removesuffix("_proj") for part in text.split(",") if part.strip())
    known = TARGETS["all-linear"]
    for name in asked or (text,):
        if name not in known:
            choice = Text("Type one of: {names}.", names=", ".join((*TARGETS, *known)))
            raise UnknownNameError(Text("target"), name, (*TARGETS, *known), choice)
    return asked
