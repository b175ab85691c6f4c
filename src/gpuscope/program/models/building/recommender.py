"""Steps of a recommendation model: click training and scoring."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own usage
from torch import nn

from gpuscope.program.models.building.precision import torch_dtype
from gpuscope.program.models.building.steps import inference_step, train_step
from gpuscope.program.models.building.vision import make_network
from gpuscope.program.models.networks.dlrm import DLRM
from gpuscope.program.models.settings import Settings


def build_recommender(
    make: Callable[[], nn.Module], dense_features: int, settings: Settings
) -> Callable[[], torch.Tensor]:
    """A step on random samples with one index a table.

    Args:
        make: makes the network on the current default device.
        dense_features: numbers that describe a sample beside the categories.
        settings: what was asked for.
    """
    network = make_network(make, settings)
    assert isinstance(network, DLRM)
    batch, device = settings.batch, settings.device
    dtype = torch_dtype(settings.weight_dtype)
    dense = torch.rand(batch, dense_features, device=device, dtype=dtype)
    indices = [torch.randint(0, n, (batch,), device=device) for n in network.rows]
    offsets = torch.arange(batch, device=device)
    if settings.task == "train":
        clicks = torch.randint(0, 2, (batch,), device=device).to(dtype)
        return train_step(
            network,
            lambda net: F.binary_cross_entropy_with_logits(net(dense, indices, offsets), clicks),
            settings,
            [dense, *indices, clicks],
        )

    def score(net: nn.Module) -> torch.Tensor:
        logits: torch.Tensor = net(dense, indices, offsets)
        return logits.sigmoid()

    return inference_step(network, score, settings, [dense, *indices])
