"""How weights and the cache are stored, and what products compute in."""

from __future__ import annotations

from dataclasses import dataclass, replace

from gpuscope.document.text import Text, joined
from gpuscope.errors import UnknownNameError, UnsupportedError
from gpuscope.hardware import Device


@dataclass(frozen=True, slots=True)
class Quantization:
    """Of a served model.

    Attributes:
        name: as asked for.
        weight: dtype of the matrices of the blocks; embedding and output layer stay bfloat16.
        activation: dtype that products read their left side in.
        weight_bytes: of one weight, its share of scales included.
        mixer: dtype of attention's matrices in a model with experts: published checkpoints of four
            bits (gpt-oss, Kimi-K2.5, NVIDIA's NVFP4) keep them in bfloat16. "" for the same.
        rate: what the matrix unit multiplies in, where that is not the dtype of `activation`.
        fused: activations get their one scale in the norm or activation before, not in a pass of
            their own (vLLM's RMSNormQuant and SiluMulQuant); scales of blocks need the pass.
        pace: of experts' products, the share of dense ones' arithmetic that they reach.
        note: what is not known; "" for nothing.
    """

    name: str
    weight: str
    activation: str
    weight_bytes: float
    mixer: str = ""
    rate: str = ""
    note: str = ""
    fused: bool = False
    pace: float = 1.0

    @property
    def four_bits(self) -> bool:
        """Whether matrices have four bits a weight."""
        return self.weight == "int4"

    def at_pace(self, pace: float, device: Device) -> Quantization:
        """The same, experts' products slower where they are quantized and written for any device:
        Marlin's and Triton's leave Hopper's own matrix instructions, or scale beside them."""
        hopper = (device.compute_capability or (0, 0))[0] == 9
        low = self.four_bits or self.activation.startswith("float8")
        return replace(self, pace=pace) if hopper and low else self

    def scaling_pace(self, device: Device) -> float:
        """Share of a product's arithmetic that is left where each block has a scale of its own.

        Hopper adds up the sums of every 128 numbers outside of its matrix unit.
        """
        hopper = (device.compute_capability or (0, 0))[0] == 9
        return SCALED_BLOCKS if self.name == "fp8_block" and hopper else 1.0

    def sorted_apart(self, device: Device) -> bool:
        """Whether kernels of their own sort tokens by expert: so with Triton's and Marlin's
        products on NVIDIA's devices, not with those made for Blackwell."""
        if device.compute_capability is None:
            return False
        marlin = self.four_bits and self.activation == "bfloat16"
        return marlin or device.compute_capability[0] < 10

    def of_mixer(self) -> Quantization:
        """How attention's matrices are stored, in a model with experts."""
        if not self.mixer:
            return self
        return replace(self, weight=self.mixer, activation=self.mixer, weight_bytes=2.0, rate="")


SCALED_BLOCKS = 0.84
"""The median of ten products of 4,096 rows and more in DeepGEMM's own tables (its README of
February 2025, H800) beside ours with one scale a matrix: 0.71 to 0.88, experts' 0.84 to 0.86."""

_FP4 = Text(
    "4-bit products are taken to stream their weights at the pace of other products' memory: none "
    "has been measured."
)

KINDS = {
    "bfloat16": Quantization("bfloat16", "bfloat16", "bfloat16", 2.0),
    "float16": Quantization("float16", "float16", "float16", 2.0),
    "fp8": Quantization("fp8", "float8_e4m3fn", "float8_e4m3fn", 1.0, fused=True),
    "fp8_block": Quantization("fp8_block", "float8_e4m3fn", "float8_e4m3fn", 1.0),
    "fp4": Quantization("fp4", "int4", "float8_e4m3fn", 0.5625, "bfloat16", "fp4", _FP4),
    "mxfp4": Quantization("mxfp4", "int4", "float8_e4m3fn", 0.53125, "bfloat16", "", _FP4),
    "int4": Quantization("int4", "int4", "bfloat16", 0.53, "bfloat16", "", _FP4),
}
"""By name. fp8: a scale a matrix; fp8_block: one for 128 x 128 weights (DeepSeek); fp4 (NVFP4): one
of 8 bits for 16 weights, and activations of four bits; mxfp4: one for 32, and of eight bits; int4:
one of 16 bits for 128, and zeros."""

_ALIASES = {
    "bf16": "bfloat16", "fp16": "float16", "half": "float16", "float8": "fp8",
    "nvfp4": "fp4", "int4_wo": "int4", "awq": "int4", "gptq": "int4",
}  # fmt: skip


def quantization(name: str, device: Device) -> Quantization:
    """The kind of that name, as that device serves it.

    Raises:
        UnknownNameError: no such kind.
        UnsupportedError: the device cannot compute in it.
    """
    lowered = name.strip().lower()
    asked = KINDS.get(_ALIASES.get(lowered, lowered))
    if asked is None:
        raise UnknownNameError(Text("dtype of weights"), name, [*KINDS, *_ALIASES])
    found = _on(device, asked)
    if found is None:
        others = joined([each.name for each in kinds_on(device)], ", or ")
        raise UnsupportedError(
            Text("{device} has no {dtype}.", device=device.name, dtype=asked.name),
            "",
            Text("Type: --dtype {names}", names=others)
            if others
            else Text("Name another device: gpuscope devices lists them."),
        )
    return found


def kinds_on(device: Device) -> list[Quantization]:
    """Those that a device can serve."""
    return [found for kind in KINDS.values() if (found := _on(device, kind)) is not None]


def _on(device: Device, kind: Quantization) -> Quantization | None:
    four = kind.rate or kind.name == "mxfp4"
    if four and "fp4" not in dict(device.peaks):
        # As vLLM's Marlin kernels do it, in front of the tensor cores.
        told = Text(
            "{device} has no 4-bit products: weights of 4 bits are unpacked to bfloat16.",
            device=device.name,
        )
        kind = replace(kind, activation="bfloat16", rate="", note=told)
    return kind if device.supports(kind.activation) else None
