"""Weights in 16 bits: for inference the usual form, for training at a risk.

Half the bytes of weights and activations, and no casts. In inference, a decoding step reads every
weight once, so it takes half the time. In training, an update smaller than 1/256 of a bfloat16
weight is rounded away (8 bits of mantissa), which autocast, with weights in float32, avoids.
Batch norm's running averages and rotary frequencies stay in float32.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from gpuscope.advice.change import Change
from gpuscope.advice.changes.autocast import HALVES, low_precision_fit
from gpuscope.advice.changes.compile_model import after_each_model
from gpuscope.advice.registry import register
from gpuscope.advice.types import ChangeCase, Edit, Fit, Numerics, Seen
from gpuscope.document.quantities import Bytes
from gpuscope.document.text import Text

if TYPE_CHECKING:
    from gpuscope.advice.changes.hooks.live import Live

__all__ = ["HalfWeights"]


class HalfWeights(Change):
    """Convert models, and the floating inputs that they are called with.

    Args:
        name, title, numerics: of this instance.
        dtype: torch's name of the 16-bit dtype.
        trains: it can be used in training.
    """

    group = "precision"
    rank = 20

    def __init__(
        self, name: str, title: Text, numerics: Numerics, dtype: str, trains: bool
    ) -> None:
        self.name, self.title, self.numerics = name, title, numerics
        self.dtype, self.trains = dtype, trains
        self.excludes = HALVES - {name}

    def fits(self, case: ChangeCase) -> Fit:
        """It needs a model in float32."""
        if case.training and not self.trains:
            return Fit(
                False,
                Text(
                    "Training with {dtype} weights loses small updates and overflows.",
                    dtype=self.dtype,
                ),
            )
        if case.seen is not None and not any("float32" in m.dtypes for m in case.seen.models):
            why = Text("The weights are in 16 bits already.")
            return Fit(False, why, relevant=False)
        if not case.device.supports(self.dtype):
            return low_precision_fit(case, self.dtype)
        weights = (
            sum(m.parameters for m in case.seen.models if "float32" in m.dtypes) if case.seen else 0
        )
        if not weights:
            return Fit(True, Text("The weights are stored in float32: 16 bits halve what is read."))
        return Fit(
            True,
            Text(
                "The weights ({size}) are stored in float32: 16 bits halve what is read.",
                size=Bytes(weights * 4),
            ),
        )

    def install(self, live: Live) -> None:
        """Convert each model before its optimizer is made; cast inputs at its call."""
        import torch

        dtype = getattr(torch, self.dtype)
        live.on_model(lambda module: _convert(module, dtype))
        live.on_call(lambda module, call: _with_cast_inputs(module, call, dtype))

    def on_request(self, case: ChangeCase) -> bool:
        """In training, for a few steps cannot show what lost updates do to a long run; and in
        float16 where bfloat16, which does not overflow, is as fast."""
        return case.training or (self.dtype == "float16" and case.device.supports("bfloat16"))

    def risk(self, case: ChangeCase) -> Text | None:
        """Lost updates, in training; overflow, in float16."""
        if case.training:
            return Text(
                "Updates below 1/256 of a weight are lost: watch the loss, or keep autocast."
            )
        if self.dtype == "float16":
            return Text("Values above 65,504 overflow.")
        return None

    def edits(self, sources: Mapping[str, str], seen: Seen) -> tuple[Edit, ...] | None:
        """Parameters converted after the model stands ready; only for models called with tokens."""
        # A wrapper has laid out its buckets by what it was given: it must be told before.
        given = all(
            m.module.startswith("transformers.") and not m.kernels and not m.wrapper
            for m in seen.models
            if m.parameters
        )
        if not given:
            return None
        # Parameters alone: `model.to(...)` would round rotary frequencies, too.
        loop = (
            "for parameter in {name}.parameters():\n"
            f"    parameter.data = parameter.data.to(torch.{self.dtype})\n"
        )
        return after_each_model(sources, seen, loop, ("import torch",))


def _convert(root: Any, dtype: Any) -> None:
    """Convert parameters and buffers, those of batch norms and rotary frequencies not."""
    import torch

    def cast(tensor: Any) -> Any:
        return tensor.to(dtype) if tensor.is_floating_point() else tensor

    for module in root.modules():
        if isinstance(module, torch.nn.modules.batchnorm._NormBase):
            continue
        kept = {name: buffer for name, buffer in module._buffers.items() if "inv_freq" in name}
        module._apply(cast, recurse=False)
        module._buffers.update(kept)


def _with_cast_inputs(module: Any, call: Callable[..., Any], dtype: Any) -> Callable[..., Any]:
    """A model's call with floating inputs in its dtype; a cache is converted where it lies."""
    if not any(True for _ in module.parameters()):
        return call

    def called(*args: Any, **kwargs: Any) -> Any:
        _convert_cache(kwargs.get("past_key_values"), dtype)
        return call(*_cast(args, dtype), **_cast(kwargs, dtype))

    return called


def _cast(value: Any, dtype: Any) -> Any:
    import torch

    if isinstance(value, torch.Tensor):
        halved = value.is_floating_point() and value.dtype in (torch.float32, torch.float64)
        return value.to(dtype) if halved else value
    if type(value) in (list, tuple):
        return type(value)(_cast(each, dtype) for each in value)
    if type(value) is dict:
        return {name: _cast(each, dtype) for name, each in value.items()}
    return value


def _convert_cache(cache: Any, dtype: Any) -> None:
    """Keys and values that the code has made in float32 before (transformers' caches)."""
    for layer in getattr(cache, "layers", ()):
        keys = getattr(layer, "keys", None)
        if keys is not None and keys.is_floating_point() and keys.dtype is not dtype:
            layer.keys, layer.values = layer.keys.to(dtype), layer.values.to(dtype)
        if getattr(layer, "dtype", dtype) is not dtype and keys is not None:
            layer.dtype = dtype


register(HalfWeights("bf16-weights", Text("weights in bfloat16"), "bf16", "bfloat16", True))
register(HalfWeights("fp16-weights", Text("weights in float16"), "fp16", "float16", False))
