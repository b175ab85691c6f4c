"""How a network of `networks` is found and made; plain data, imports no torch."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from gpuscope.document.text import Text
from gpuscope.errors import require_package
from gpuscope.program.models.registry import Step
from gpuscope.program.models.settings import Defaults, Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkSpec:
    """A network of `gpuscope.program.models.networks`.

    Attributes:
        module: file under `networks`, e.g. "resnet".
        network: class name, e.g. "ResNet".
        arguments: what the class is made with.
        takes_attention: the class has an argument `eager_attention`.
        takes_image: the class has an argument `image` (pixels of a side).
        layers_argument: argument that holds the number of blocks, "" if none.
    """

    module: str
    network: str
    arguments: Mapping[str, object] = field(default_factory=dict)
    takes_attention: bool = False
    takes_image: bool = False
    layers_argument: str = ""

    def load(self, steps: str = "vision") -> None:
        """Import torch, the network and the module of `building` that makes its steps.

        Raises:
            MissingPackageError: torch is not installed.
        """
        require_package("torch", Text("The model '{name}'", name=self.network), "torch")
        importlib.import_module(f"gpuscope.program.models.building.{steps}")
        importlib.import_module(f"gpuscope.program.models.networks.{self.module}")

    def make(self, settings: Settings) -> Callable[[], Any]:
        """What makes the network under the given settings."""
        arguments = dict(self.arguments)
        if self.takes_attention:
            arguments["eager_attention"] = settings.attention == "eager"
        if self.takes_image:
            arguments["image"] = settings.image
        if self.layers_argument and settings.layers is not None:
            arguments[self.layers_argument] = settings.layers
        module = importlib.import_module(f"gpuscope.program.models.networks.{self.module}")
        network = getattr(module, self.network)
        return lambda: network(**arguments)

    def build_classifier(self, settings: Settings) -> Step:
        """A `Model.build` for an image classifier."""
        from gpuscope.program.models.building import vision

        return vision.build_classifier(self.make(settings), settings)


def image_tasks(
    *, train_batch: int, image: int = 224, optimizer: str = "adamw", inference_batch: int = 32
) -> dict[str, Defaults]:
    """Training under bfloat16 autocast, and inference with bfloat16 weights."""
    return {
        "train": Defaults(batch=train_batch, image=image, amp=True, optimizer=optimizer),
        "inference": Defaults(batch=inference_batch, image=image),
    }
