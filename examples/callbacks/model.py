"""The training of the four examples beside this file: a small model, and its step for gpuscope."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

BATCH, WIDTH = 64, 256


class Model(nn.Module):
    """Takes and returns what `transformers.Trainer` expects: a loss, first in a dict."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.GELU(), nn.Linear(WIDTH, 1))

    def forward(self, x: Tensor, labels: Tensor) -> dict[str, Tensor]:
        """Return the loss of a batch (BATCH, WIDTH), labels (BATCH, 1)."""
        return {"loss": nn.functional.mse_loss(self.layers(x), labels)}


class Rows(torch.utils.data.Dataset):  # type: ignore[type-arg]
    """Random rows; `count` of them."""

    def __init__(self, count: int) -> None:
        self.x, self.labels = torch.randn(count, WIDTH), torch.randn(count, 1)

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, row: int) -> dict[str, Tensor]:
        return {"x": self.x[row], "labels": self.labels[row]}


def build() -> Callable[[], None]:
    """The same step for `gpuscope predict model.py:build --on h200`."""
    model = Model().cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    x, labels = torch.randn(BATCH, WIDTH).cuda(), torch.randn(BATCH, 1).cuda()

    def step() -> None:
        model(x, labels)["loss"].backward()
        optimizer.step()
        optimizer.zero_grad()

    return step
