"""The same small network, fed by worker processes through pinned memory."""

import os
import sys
from pathlib import Path

import torch
from torch.nn import functional as F  # noqa: N812
from torch.utils.data import DataLoader

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from naive.input_bound import Net, Photos


def build(batch=64):
    torch.backends.cudnn.benchmark = True
    model = Net().cuda().to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, fused=True)
    loader = DataLoader(
        Photos(), batch_size=batch, num_workers=len(os.sched_getaffinity(0)), pin_memory=True,
        persistent_workers=True, prefetch_factor=4,
    )
    state = {"batches": iter(loader)}

    def step():
        images, labels = next(state["batches"])
        images = images.cuda(non_blocking=True).to(memory_format=torch.channels_last)
        labels = labels.cuda(non_blocking=True)
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cuda", torch.bfloat16):
            loss = F.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step
