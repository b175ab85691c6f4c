"""Steps of a recurrent language model: truncated back-propagation, and reading a text."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own usage
from torch import nn

from gpuscope.program.models.building.precision import torch_dtype
from gpuscope.program.models.building.steps import inference_step, train_step
from gpuscope.program.models.building.vision import make_network
from gpuscope.program.models.networks.lstm import LSTMLanguageModel
from gpuscope.program.models.settings import Settings


def build_language_model(
    make: Callable[[], nn.Module], settings: Settings
) -> Callable[[], torch.Tensor]:
    """One stretch of `settings.seq` words of `settings.batch` texts; the state goes on to the next.

    Args:
        make: makes the network on the current default device.
        settings: what was asked for.
    """
    network = make_network(make, settings)
    assert isinstance(network, LSTMLanguageModel)
    lstm, vocabulary = network.lstm, network.decoder.out_features
    shape = (settings.seq, settings.batch)
    words = torch.randint(0, vocabulary, shape, device=settings.device)
    following = torch.randint(0, vocabulary, shape, device=settings.device)
    zeros = torch.zeros(
        lstm.num_layers,
        settings.batch,
        lstm.hidden_size,
        device=settings.device,
        dtype=torch_dtype(settings.weight_dtype),
    )
    state = (zeros, zeros)

    def read(net: nn.Module) -> torch.Tensor:
        nonlocal state
        scores, (hidden, cell) = net(words, state)
        state = (hidden.detach(), cell.detach())
        result: torch.Tensor = scores
        return result

    if settings.task == "train":
        return train_step(
            network,
            lambda net: F.cross_entropy(read(net).view(-1, vocabulary), following.view(-1)),
            settings,
            [words, following],
        )
    return inference_step(network, read, settings, [words])
