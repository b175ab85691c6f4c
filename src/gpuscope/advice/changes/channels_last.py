"""Channels-last: images and filters with the channel innermost (NHWC), as tensor cores want them.

NVIDIA's half-precision and TF32 convolution kernels work on NHWC; tensors stored NCHW are turned
around before and after each of them (NVIDIA, "Convolutional Layers User's Guide"; PyTorch,
"Channels Last Memory Format"). Float32 convolutions without TF32 gain nothing by it and may
lose: the prediction holds each kernel's layout.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from gpuscope.advice.change import Change
from gpuscope.advice.registry import register
from gpuscope.advice.source.edits import after_statement
from gpuscope.advice.source.places import model_at
from gpuscope.advice.types import ChangeCase, Edit, Fit, Seen
from gpuscope.document.text import Text
from gpuscope.program.types import Program

if TYPE_CHECKING:
    from gpuscope.advice.changes.hooks.live import Live

__all__ = ["ChannelsLast"]


class ChannelsLast(Change):
    """Store images and filters with the channel innermost."""

    name = "channels-last"
    title = Text("channels-last layout")
    group = "operators"
    numerics = "reordered"
    rank = 10

    def fits(self, case: ChangeCase) -> Fit:
        """It needs convolutions over images that are stored channels first."""
        if case.program is None:
            why = Text("A recording does not show the layout.")
            return Fit(False, why, relevant=False)
        return images_fit(*layouts(case.program))

    def install(self, live: Live) -> None:
        """Turn filters once, and what each root module is given."""
        live.on_model(_turn_filters)
        live.on_call(_turn_inputs)

    def price(self, case: ChangeCase) -> Text | None:
        """Inputs that come channels first are turned each step."""
        return Text("Input images are turned around once a step, unless they come so.")

    def risk(self, case: ChangeCase) -> Text | None:
        """Code that calls `.view` on images."""
        return Text("`.view()` of images in the model's own code may fail; `.reshape()` works.")

    def edits(self, sources: Mapping[str, str], seen: Seen) -> tuple[Edit, ...] | None:
        """Filters turned where the model stands ready; the first convolution turns its input."""
        found = []
        for model in seen.models:
            ranks = {len(kernel) for kernel in model.kernels}
            form = "channels_last" if 4 in ranks else "channels_last_3d" if 5 in ranks else ""
            file = model.site.rpartition(":")[0]
            text = sources.get(file)
            place = None if text is None else model_at(text, model.site)
            if not form or text is None or place is None:
                continue
            line = f"{place.name} = {place.name}.to(memory_format=torch.{form})\n"
            found.append(after_statement(file, text, place.line, line, ("import torch",)))
        return tuple(e for e in found if e) or None


def images_fit(first: int, last: int) -> Fit:
    """Whether turning images pays, by how many convolutions read channels first, and last."""
    if not first + last:
        why = Text("There is no convolution over images.")
        return Fit(False, why, relevant=False)
    if not first:
        return Fit(False, Text("It is channels-last already."))
    return Fit(
        True,
        Text(
            "{first} of {count} convolutions read images with channels first, and kernels on "
            "tensor cores turn them around.",
            first=first,
            count=first + last,
        ),
    )


def layouts(program: Program) -> tuple[int, int]:
    """Forward convolutions over 4-D and 5-D tensors: (channels first, channels last).

    Those whose tensors look the same either way (one channel, one pixel) count in neither.
    """
    first = last = 0
    for op in program.ops:
        if op.name.rpartition("::")[2] != "convolution" or len(op.inputs) < 2:
            continue
        x, weight = op.inputs[:2]
        if len(x.shape) not in (4, 5) or op.args.get("transposed"):
            continue
        if x.is_channels_last or weight.is_channels_last:
            last += 1
        elif x.shape[1] > 1:
            first += 1
    return first, last


def _formats(root: Any) -> dict[int, Any]:
    """The memory format for tensors of so many dimensions that a model convolves."""
    import torch

    convolves = {
        type(m)
        for m in root.modules()
        if isinstance(m, (torch.nn.Conv2d, torch.nn.ConvTranspose2d, torch.nn.Conv3d))
    }
    formats = {}
    if any(not issubclass(c, torch.nn.Conv3d) for c in convolves):
        formats[4] = torch.channels_last
    if any(issubclass(c, torch.nn.Conv3d) for c in convolves):
        formats[5] = torch.channels_last_3d
    return formats


def _turn_filters(root: Any) -> None:
    for form in _formats(root).values():
        root.to(memory_format=form)


def _turn_inputs(root: Any, call: Callable[..., Any]) -> Callable[..., Any]:
    """A model's call, given turned tensors.

    Not a hook: in a model that `Module.compile` compiled, a hook is a graph of its own.
    """
    import torch

    formats = _formats(root)
    if not formats:
        return call

    def turned(value: Any) -> Any:
        if isinstance(value, torch.Tensor) and value.dim() in formats:
            return value.to(memory_format=formats[value.dim()])
        if isinstance(value, (list, tuple)) and type(value) in (list, tuple):
            return type(value)(turned(v) for v in value)
        if type(value) is dict:
            return {k: turned(v) for k, v in value.items()}
        return value

    def called(*args: Any, **kwargs: Any) -> Any:
        return call(*turned(args), **turned(kwargs))

    return called


register(ChannelsLast())
