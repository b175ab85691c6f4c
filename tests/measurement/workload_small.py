"""A small training step for the tests of measuring."""

import torch


def build(width: int = 64, device: str = "cuda"):
    model = torch.nn.Sequential(
        torch.nn.Linear(width, width), torch.nn.GELU(), torch.nn.Linear(width, width)
    ).to(device)
    optimizer = torch.optim.AdamW(model.parameters())
    x = torch.randn(16, width, device=device)

    def step():
        optimizer.zero_grad(set_to_none=True)
        model(x).square().mean().backward()
        optimizer.step()

    return step


def fails():
    model = torch.nn.Linear(4, 4)
    calls = iter(range(4))

    def step():
        next(calls)
        model(torch.ones(1, 4))

    return step


def no_step():
    return 5
