"""Conversion and normalisation of images on the device, instead of sample by sample on the host.

Bytes are sent instead of floats, a quarter of the traffic, and the host is left with reading and
decoding. Only steps without chance at the end of a `torchvision.transforms.v2.Compose` are moved
(`ToDtype`, `Normalize`): a random one draws for each sample, which a batch on the device cannot
repeat.
"""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING, Any

from gpuscope.advice.change import Change
from gpuscope.advice.registry import register
from gpuscope.advice.types import ChangeCase, Fit
from gpuscope.document.text import Text
from gpuscope.errors import UnsupportedError

if TYPE_CHECKING:
    from gpuscope.advice.changes.hooks.host_copies import HostCopy
    from gpuscope.advice.changes.hooks.live import Live

__all__ = ["GpuAugmentation", "split_transforms"]

_MOVABLE = frozenset({"ToDtype", "Normalize"})


class GpuAugmentation(Change):
    """Convert and normalise images on the device."""

    name = "gpu-augmentation"
    title = Text("images converted on the device")
    group = "input"
    numerics = "reordered"
    redraws = True
    rank = 25

    def fits(self, case: ChangeCase) -> Fit:
        """It needs torchvision's transforms, v2, in a loader's dataset."""
        loaders = case.seen.loaders if case.seen is not None else ()
        if not loaders:
            return Fit(False, Text("There is no DataLoader."), relevant=False)
        if importlib.util.find_spec("torchvision") is None:
            return Fit(
                False,
                Text(
                    "torchvision is not installed: which part of the dataset's work could move is "
                    "not known."
                ),
                relevant=False,
            )
        return Fit(
            True, Text("Images may be converted and normalised on the device, and sent as bytes.")
        )

    def install(self, live: Live) -> None:
        """Cut the end off the dataset's transform, and do it where a batch is copied.

        Raises:
            UnsupportedError: torchvision is not installed.
        """
        if importlib.util.find_spec("torchvision") is None:
            raise UnsupportedError(
                Text("torchvision is not installed."),
                Text("Its transforms are what would be moved."),
                Text("Type: pip install torchvision"),
            )
        from gpuscope.advice.changes.hooks.host_copies import around_host_copies

        moved: list[list[Any]] = []

        def edit(keywords: dict[str, Any]) -> None:
            dataset: Any = keywords.get("dataset")
            whole = getattr(dataset, "transform", None)
            kept, cut = split_transforms(whole)
            if not cut:
                return
            dataset.transform = kept
            if not _gives_bytes(dataset):
                dataset.transform = whole
                return
            live.at_end(lambda: setattr(dataset, "transform", whole))
            moved.append(cut)

        def copied(copy: HostCopy) -> Any:
            import torch

            out = copy.run()
            if len(moved) == 1 and out.dim() == 4 and out.dtype is torch.uint8:
                for step in moved[0]:
                    out = step(out)
            return out

        live.on_loader(edit)
        around_host_copies(live, copied)

    def risk(self, case: ChangeCase) -> Text | None:
        """Other bytes of the same shape."""
        return Text(
            "Every batch of bytes with four dimensions is taken for images of this dataset."
        )


def split_transforms(transform: Any) -> tuple[Any, list[Any]]:
    """A `Compose` in two: what stays with the samples, and what a batch can be given instead.

    Only where the first step moved makes floats of bytes: then the host sends bytes.
    """
    steps = list(getattr(transform, "transforms", ()))
    at = len(steps)
    while at and type(steps[at - 1]).__name__ in _MOVABLE and _is_v2(steps[at - 1]):
        at -= 1
    while at < len(steps) and type(steps[at]).__name__ != "ToDtype":
        at += 1
    if at == len(steps):
        return transform, []
    return type(transform)(steps[:at]), steps[at:]


def _gives_bytes(dataset: Any) -> bool:
    """Whether a sample holds exactly one image of bytes, as channels, rows and columns."""
    import torch
    from torch.utils._pytree import tree_leaves

    with torch.random.fork_rng(devices=[]):
        leaves = tree_leaves(dataset[0])
    images = [t for t in leaves if isinstance(t, torch.Tensor) and t.dim() == 3]
    return len(images) == 1 and images[0].dtype is torch.uint8


def _is_v2(step: Any) -> bool:
    return ".v2." in type(step).__module__


register(GpuAugmentation())
