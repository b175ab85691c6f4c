"""Optimizers by name."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import nn

from gpuscope.document.text import Text
from gpuscope.errors import UnknownNameError
from gpuscope.program.models.settings import OPTIMIZERS


def make_optimizer(name: str, parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
    """The optimizer of that name; learning rates are small and do not change the work.

    "adamw" and "adam" leave the implementation to PyTorch (foreach on an accelerator), "-fused",
    "-foreach" and "-loop" choose it. "sgd" has momentum 0.9, "sgd-plain" none. "adamw-bf16" and
    "adamw-8bit" keep moments of two bytes, and of one; they are for captures and do not compute.

    Raises:
        UnknownNameError: no such optimizer.
    """
    optim = torch.optim
    if name == "adamw":
        return optim.AdamW(parameters, lr=1e-4)
    if name == "adamw-fused":
        return optim.AdamW(parameters, lr=1e-4, fused=True)
    if name == "adamw-foreach":
        return optim.AdamW(parameters, lr=1e-4, foreach=True)
    if name == "adamw-loop":
        return optim.AdamW(parameters, lr=1e-4, foreach=False)
    if name == "adam":
        return optim.Adam(parameters, lr=1e-4)
    if name == "adam-fused":
        return optim.Adam(parameters, lr=1e-4, fused=True)
    if name == "sgd":
        return optim.SGD(parameters, lr=1e-3, momentum=0.9, weight_decay=1e-4)
    if name == "sgd-plain":
        return optim.SGD(parameters, lr=1e-3)
    if name == "adagrad":
        return optim.Adagrad(parameters, lr=1e-3)
    if name == "adafactor":
        return optim.Adafactor(parameters, lr=1e-3)
    if name == "adamw-bf16":
        from gpuscope.program.models.building.adamw_bf16 import AdamWBf16

        return AdamWBf16(parameters)
    if name == "adamw-8bit":
        from gpuscope.program.models.building.adamw_8bit import AdamW8bit

        return AdamW8bit(parameters, paged=False)
    raise UnknownNameError(Text("optimizer"), name, OPTIMIZERS)
