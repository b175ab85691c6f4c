"""ResNet-50 training, tuned by hand with PyTorch alone."""

import sys
from pathlib import Path

import torch
from torch import nn

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from naive.resnet50 import ResNet50


def build(batch=64):
    torch.set_float32_matmul_precision("high")
    torch.backends.cudnn.benchmark = True
    model = ResNet50().cuda().to(memory_format=torch.channels_last)
    compiled = torch.compile(model, mode="reduce-overhead", dynamic=False)
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(
        model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4, fused=True
    )
    images = torch.randn(batch, 3, 224, 224).to(memory_format=torch.channels_last).pin_memory()
    labels = torch.randint(0, 1000, (batch,)).pin_memory()

    def step():
        x, y = images.cuda(non_blocking=True), labels.cuda(non_blocking=True)
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cuda", torch.bfloat16):
            loss = criterion(compiled(x), y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step
