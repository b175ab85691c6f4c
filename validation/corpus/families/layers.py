"""Every layer, loss, optimizer and schedule of torch, in a small training step: made from lists."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import nn
from validation.corpus.case import Family, Step, training

family = Family("torch-nn")

Shape = tuple[int, ...]

LINE, PICTURE, VOLUME = (4, 8, 16), (2, 8, 12, 12), (2, 4, 6, 8, 8)

LAYERS: dict[str, tuple[Callable[[], nn.Module], Shape]] = {
    **{
        f"activation-{name}": (getattr(nn, name), (4, 16))
        for name in "ReLU ReLU6 LeakyReLU PReLU RReLU ELU CELU SELU GELU SiLU Mish Softplus"
        " Softsign Sigmoid LogSigmoid Hardsigmoid Hardswish Hardtanh Hardshrink Softshrink Tanh"
        " Tanhshrink Softmin".split()
    },
    "activation-GLU": (nn.GLU, (4, 16)),
    "activation-Threshold": (partial(nn.Threshold, 0.1, 0.0), (4, 16)),
    "norm-BatchNorm1d": (partial(nn.BatchNorm1d, 8), LINE),
    "norm-BatchNorm2d": (partial(nn.BatchNorm2d, 8), PICTURE),
    "norm-BatchNorm3d": (partial(nn.BatchNorm3d, 4), VOLUME),
    "norm-GroupNorm": (partial(nn.GroupNorm, 2, 8), PICTURE),
    "norm-InstanceNorm1d": (partial(nn.InstanceNorm1d, 8), LINE),
    "norm-InstanceNorm2d": (partial(nn.InstanceNorm2d, 8, affine=True), PICTURE),
    "norm-LayerNorm": (partial(nn.LayerNorm, 16), LINE),
    "norm-RMSNorm": (partial(nn.RMSNorm, 16), LINE),
    "norm-LocalResponseNorm": (partial(nn.LocalResponseNorm, 2), PICTURE),
    "pool-MaxPool1d": (partial(nn.MaxPool1d, 2), LINE),
    "pool-MaxPool2d": (partial(nn.MaxPool2d, 2), PICTURE),
    "pool-MaxPool3d": (partial(nn.MaxPool3d, 2), VOLUME),
    "pool-AvgPool1d": (partial(nn.AvgPool1d, 2), LINE),
    "pool-AvgPool2d": (partial(nn.AvgPool2d, 2), PICTURE),
    "pool-AvgPool3d": (partial(nn.AvgPool3d, 2), VOLUME),
    "pool-LPPool2d": (partial(nn.LPPool2d, 2, 2), PICTURE),
    "pool-FractionalMaxPool2d": (partial(nn.FractionalMaxPool2d, 2, output_size=5), PICTURE),
    "pool-AdaptiveAvgPool1d": (partial(nn.AdaptiveAvgPool1d, 3), LINE),
    "pool-AdaptiveAvgPool2d": (partial(nn.AdaptiveAvgPool2d, 3), PICTURE),
    "pool-AdaptiveMaxPool2d": (partial(nn.AdaptiveMaxPool2d, 3), PICTURE),
    "convolution-1d": (partial(nn.Conv1d, 8, 4, 3), LINE),
    "convolution-2d-grouped": (partial(nn.Conv2d, 8, 8, 3, groups=8), PICTURE),
    "convolution-2d-dilated": (partial(nn.Conv2d, 8, 4, 3, dilation=2, padding="same"), PICTURE),
    "convolution-2d-reflecting": (
        partial(nn.Conv2d, 8, 4, 3, padding=1, padding_mode="reflect"),
        PICTURE,
    ),
    "convolution-3d": (partial(nn.Conv3d, 4, 4, 3), VOLUME),
    "convolution-transposed-1d": (partial(nn.ConvTranspose1d, 8, 4, 3), LINE),
    "convolution-transposed-2d": (partial(nn.ConvTranspose2d, 8, 4, 3, 2), PICTURE),
    "unfold": (partial(nn.Unfold, 3), PICTURE),
    "pixel-shuffle": (partial(nn.PixelShuffle, 2), PICTURE),
    "pixel-unshuffle": (partial(nn.PixelUnshuffle, 2), PICTURE),
    "channel-shuffle": (partial(nn.ChannelShuffle, 2), PICTURE),
    "upsample-bilinear": (
        partial(nn.Upsample, scale_factor=2, mode="bilinear", align_corners=False),
        PICTURE,
    ),
    "upsample-bicubic": (partial(nn.Upsample, size=(20, 20), mode="bicubic"), PICTURE),
    "pad-reflection": (partial(nn.ReflectionPad2d, 2), PICTURE),
    "pad-replication": (partial(nn.ReplicationPad2d, 2), PICTURE),
    "pad-circular": (partial(nn.CircularPad2d, 2), PICTURE),
    "dropout-Dropout": (nn.Dropout, LINE),
    "dropout-Dropout2d": (nn.Dropout2d, PICTURE),
    "dropout-AlphaDropout": (nn.AlphaDropout, LINE),
    "linear-LazyLinear": (partial(nn.LazyLinear, 8), LINE),
    "linear-Identity": (nn.Identity, LINE),
    "flatten-unflatten": (lambda: nn.Sequential(nn.Flatten(), nn.Unflatten(1, (8, 16))), LINE),
    "parametrised-weight-norm": (
        lambda: torch.nn.utils.parametrizations.weight_norm(nn.Linear(16, 8)),
        LINE,
    ),
    "parametrised-spectral-norm": (
        lambda: torch.nn.utils.parametrizations.spectral_norm(nn.Linear(16, 8)),
        LINE,
    ),
    "parametrised-orthogonal": (
        lambda: torch.nn.utils.parametrizations.orthogonal(nn.Linear(16, 16)),
        LINE,
    ),
    "transformer-encoder-layer": (
        partial(nn.TransformerEncoderLayer, 16, 4, 32, batch_first=True),
        LINE,
    ),
}


def _layer(make: Callable[[], nn.Module], shape: Shape, device: str) -> Step:
    layer, before = make().to(device), nn.Linear(shape[-1], shape[-1]).to(device)
    x = torch.randn(shape, device=device)
    layer(x)
    parts = [*layer.parameters(), *before.parameters()]
    return training(parts, lambda: layer(before(x)).pow(2).mean(), "SGD")


for _name, (_make, _shape) in LAYERS.items():
    family.add(_name, partial(_layer, _make, _shape))


def _recurrent(kind: str, more: dict[str, Any], device: str) -> Step:
    layer = getattr(nn, kind)(16, 12, **more).to(device)
    cell = kind.endswith("Cell")
    x = torch.randn((4, 16) if cell else (4, 6, 16), device=device)

    def loss() -> torch.Tensor:
        out = layer(x)
        return (out[0] if isinstance(out, tuple) else out).pow(2).mean()

    return training(layer.parameters(), loss)


for _name in ("LSTM", "GRU", "RNN"):
    for _kind, _more in {"": {}, "-two-ways": {"bidirectional": True, "num_layers": 2}}.items():
        family.add(
            f"recurrent-{_name}{_kind}", partial(_recurrent, _name, _more | {"batch_first": True})
        )
    family.add(f"recurrent-{_name}Cell", partial(_recurrent, f"{_name}Cell", {}))


def _classes(n: int, device: str) -> torch.Tensor:
    return torch.randint(0, 6, (n,), device=device)


def _flags(*shape: int) -> Callable[[str], torch.Tensor]:
    return lambda device: torch.randint(0, 2, shape, device=device).float()


def _numbers(*shape: int) -> Callable[[str], torch.Tensor]:
    return lambda device: torch.rand(shape, device=device)


LOSSES: dict[str, tuple[Any, ...]] = {
    "CrossEntropyLoss": (partial(_classes, 8),),
    "MultiMarginLoss": (partial(_classes, 8),),
    "MSELoss": (_numbers(8, 6),),
    "L1Loss": (_numbers(8, 6),),
    "SmoothL1Loss": (_numbers(8, 6),),
    "HuberLoss": (_numbers(8, 6),),
    "BCEWithLogitsLoss": (_flags(8, 6),),
    "MultiLabelSoftMarginLoss": (_flags(8, 6),),
    "SoftMarginLoss": (lambda device: torch.ones(8, 6, device=device),),
    "HingeEmbeddingLoss": (lambda device: torch.ones(8, 6, device=device),),
    "PoissonNLLLoss": (_numbers(8, 6),),
    "GaussianNLLLoss": (_numbers(8, 6), _numbers(8, 6)),
    "KLDivLoss": (_numbers(8, 6),),
    "CosineEmbeddingLoss": (_numbers(8, 6), lambda device: torch.ones(8, device=device)),
    "MarginRankingLoss": (_numbers(8, 6), lambda device: torch.ones(8, 6, device=device)),
    "TripletMarginLoss": (_numbers(8, 6), _numbers(8, 6)),
    "TripletMarginWithDistanceLoss": (_numbers(8, 6), _numbers(8, 6)),
}


def _loss(name: str, given: tuple[Any, ...], device: str) -> Step:
    net, judge = nn.Linear(10, 6).to(device), getattr(nn, name)()
    x, rest = torch.randn(8, 10, device=device), [make(device) for make in given]
    return training(net.parameters(), lambda: judge(net(x), *rest))


for _name, _given in LOSSES.items():
    family.add(f"loss-{_name}", partial(_loss, _name, _given))


def _optimizer(name: str, more: dict[str, Any], device: str) -> Step:
    net = nn.Sequential(nn.Linear(16, 32), nn.Tanh(), nn.Linear(32, 4)).to(device)
    x = torch.randn(8, 16, device=device)
    return training(net.parameters(), lambda: net(x).pow(2).mean(), name, **more)


for _name, _more in {
    **{
        k: {}
        for k in "SGD Adam AdamW Adamax NAdam RAdam Adagrad Adadelta RMSprop Rprop ASGD".split()
    },
    "Adafactor": {},
    "SGD-momentum": {"momentum": 0.9, "nesterov": True},
    "Adam-amsgrad": {"amsgrad": True},
    "AdamW-one-by-one": {"foreach": False},
    "AdamW-capturable": {"foreach": True, "maximize": True},
}.items():
    family.add(f"optimizer-{_name}", partial(_optimizer, _name.partition("-")[0], _more))


def _schedule(name: str, more: dict[str, Any], device: str) -> Step:
    net = nn.Linear(16, 4).to(device)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    plan = getattr(torch.optim.lr_scheduler, name)(optimizer, **more)
    x = torch.randn(8, 16, device=device)

    def step() -> None:
        optimizer.zero_grad()
        loss = net(x).pow(2).mean()
        loss.backward()
        optimizer.step()
        plan.step(*([loss.item()] if name == "ReduceLROnPlateau" else []))

    return step


for _name, _more in {
    "StepLR": {"step_size": 3},
    "MultiStepLR": {"milestones": [2, 5]},
    "ExponentialLR": {"gamma": 0.9},
    "CosineAnnealingWarmRestarts": {"T_0": 5},
    "OneCycleLR": {"max_lr": 0.2, "total_steps": 20},
    "CyclicLR": {"base_lr": 0.01, "max_lr": 0.1},
    "LinearLR": {},
    "PolynomialLR": {},
    "ReduceLROnPlateau": {},
}.items():
    family.add(f"schedule-{_name}", partial(_schedule, _name, _more))


def cases() -> list:
    return family.cases
