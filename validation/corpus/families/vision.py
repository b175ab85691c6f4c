"""Pictures and films: a training step of each family of timm and torchvision, in small batches."""

from __future__ import annotations

import importlib
import importlib.util
import sys
import tomllib
from functools import partial
from pathlib import Path
from typing import Any

from validation.corpus.case import Case, Step, training

NEEDS = ("timm", "torchvision")
BATCH, CLASSES = 2, 10
FRAMES, SIDE = 8, 112
NAMES = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
LONGER = ("mvit_v2_s", "s3d")
NAMED = ("nms", "qnms")


def ready() -> None:
    """Import torchvision, also where its compiled operators are not for this PyTorch.

    Then only those that its import asks for are named, and the models that call none of them run.
    """
    import torch

    try:
        importlib.import_module("torchvision")
    except RuntimeError:
        for name in [name for name in sys.modules if name.startswith("torchvision")]:
            del sys.modules[name]
        library = torch.library.Library("torchvision", "DEF")
        for name in NAMED:
            library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        importlib.import_module("torchvision")


def timm_training(name: str, device: str) -> Step:
    """One of timm's models learns to classify pictures of the size that it is made for."""
    import timm
    import torch

    torch.manual_seed(0)
    model = timm.create_model(name, num_classes=CLASSES).to(device).train()
    x = torch.randn(BATCH, *model.default_cfg["input_size"], device=device)
    return _classifies(model, x, device)


def _classifies(model: Any, x: Any, device: str) -> Step:
    import torch

    y = torch.randint(0, CLASSES, (BATCH,), device=device)

    def loss() -> Any:
        found = model(x)
        return torch.nn.functional.cross_entropy(getattr(found, "logits", found), y)

    return training(model.parameters(), loss)


def pictures(name: str, device: str) -> Step:
    """A classifier of pictures."""
    import torch

    model = _model(name, device, num_classes=CLASSES)
    return _classifies(model, torch.randn(BATCH, 3, 224, 224, device=device), device)


def video(name: str, device: str) -> Step:
    """A classifier of films."""
    import torch

    model = _model(name, device, num_classes=CLASSES)
    frames, side = (16, 224) if name in LONGER else (FRAMES, SIDE)
    return _classifies(model, torch.randn(BATCH, 3, frames, side, side, device=device), device)


def segmentation(name: str, device: str) -> Step:
    """A class for each point of a picture."""
    import torch

    model = _model(name, device, num_classes=CLASSES, weights_backbone=None)
    x = torch.randn(BATCH, 3, SIDE, SIDE, device=device)
    y = torch.randint(0, CLASSES, (BATCH, SIDE, SIDE), device=device)
    cross_entropy = torch.nn.functional.cross_entropy
    return training(model.parameters(), lambda: cross_entropy(model(x)["out"], y))


def flow(name: str, device: str) -> Step:
    """Where points of one picture are in the next."""
    import torch

    model = _model(name, device)
    a, b = (torch.randn(BATCH, 3, 128, 128, device=device) for _ in range(2))
    moved = torch.randn(BATCH, 2, 128, 128, device=device)

    def loss() -> Any:
        return sum((guess - moved).abs().mean() for guess in model(a, b, num_flow_updates=4))

    return training(model.parameters(), loss)


def _model(name: str, device: str, **how: Any) -> Any:
    import torch
    import torchvision

    torch.manual_seed(0)
    return torchvision.models.get_model(name, weights=None, **how).to(device).train()


TASKS = {"pictures": pictures, "segmentation": segmentation, "video": video, "flow": flow}


def cases() -> list[Case]:
    """timm's, and torchvision's that need no compiled operator."""
    found = [Case(f"timm/{name}", partial(timm_training, name), NEEDS) for name in NAMES["timm"]]
    return found + [
        Case(f"torchvision/{task}/{name}", partial(TASKS[task], name), NEEDS)
        for task, names in NAMES["torchvision"].items()
        for name in names
    ]
