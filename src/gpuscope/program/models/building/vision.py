"""Steps of image classifiers: cross-entropy training and a forward pass."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, cast

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own usage
from torch import nn

from gpuscope.program.models.building.precision import (
    new_weights,
    set_matmul_precision,
    torch_dtype,
)
from gpuscope.program.models.building.steps import inference_step, recompute, train_step
from gpuscope.program.models.settings import Settings


class HasBlocks(Protocol):
    """A network that lists the blocks that can be recomputed."""

    def blocks(self) -> list[nn.Module]:
        """First to last."""
        ...


def make_network(make: Callable[[], nn.Module], settings: Settings) -> nn.Module:
    """The network on the device, in training or evaluation mode as the task asks."""
    set_matmul_precision(settings)
    with new_weights(settings):
        network = make()
    if settings.checkpointing:
        recompute(cast(HasBlocks, network).blocks())
    return network.train(settings.task == "train")


def build_classifier(
    make: Callable[[], nn.Module], settings: Settings, classes: int = 1000
) -> Callable[[], torch.Tensor]:
    """A step on random images of `settings.image` pixels a side.

    Args:
        make: makes the network on the current default device.
        settings: what was asked for.
        classes: number of labels.
    """
    network = make_network(make, settings)
    images = torch.randn(
        settings.batch,
        3,
        settings.image,
        settings.image,
        device=settings.device,
        dtype=torch_dtype(settings.weight_dtype),
    )
    if settings.task == "train":
        labels = torch.randint(0, classes, (settings.batch,), device=settings.device)
        return train_step(
            network, lambda net: F.cross_entropy(net(images), labels), settings, [images, labels]
        )

    def forward(net: nn.Module) -> torch.Tensor:
        scores: torch.Tensor = net(images)
        return scores

    return inference_step(network, forward, settings, [images])
