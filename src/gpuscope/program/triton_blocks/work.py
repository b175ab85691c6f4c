"""What a Triton launch does on any device, as counted in its code. Pure data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Traffic:
    """Bytes of one tensor, in whole sectors of 32 bytes.

    Attributes:
        kind: "load", "store" or "atomic".
        tensor: which of the launch's tensors.
        requested_bytes: of all accesses of all programs.
        program_bytes: each program's distinct ones.
        distinct_bytes: the launch's distinct ones.
        elements: accesses to single elements.
        shared: of so many neighbouring programs, the share of `program_bytes` that is distinct.
        gathered: addresses follow from data.
    """

    kind: Literal["load", "store", "atomic"]
    tensor: int
    requested_bytes: float
    program_bytes: float
    distinct_bytes: float
    elements: float
    shared: tuple[tuple[int, float], ...] = ()
    gathered: bool = False


@dataclass(frozen=True, slots=True)
class BlockWork:
    """A launch with one choice of meta-parameters.

    Attributes:
        grid: programs.
        warps, stages: `num_warps`, `num_stages`.
        meta: constants of the kernel, for a reader.
        traffic: by tensor and kind.
        dots: FLOPs of `tl.dot` by compute dtype ("tf32" where float32 is rounded so).
        flops: other floating-point operations, one for each element.
        instructions: what these cost, special functions more than one.
        rounds: rounds of loops that load, of an average program.
        longest: the longest sampled program over the average.
        widest: elements of the largest block, of floating-point numbers or of a product.
        operand_bytes: of the largest product's operands.
        assumed: what was taken for granted ("masks", "branches", "gathers").
        sampled: programs that were followed.
    """

    grid: int
    warps: int
    stages: int
    meta: str
    traffic: tuple[Traffic, ...]
    dots: tuple[tuple[str, float], ...]
    flops: float
    instructions: float
    rounds: float
    longest: float
    widest: int
    operand_bytes: int
    assumed: tuple[str, ...]
    sampled: int
