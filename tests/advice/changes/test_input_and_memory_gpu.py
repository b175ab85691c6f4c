"""Changes of input and memory on a real device: same losses, memory as predicted, copies hidden."""

import gc

import pytest
import torch
from torch import nn

from gpuscope.advice.changes.hooks.live import Live
from gpuscope.advice.registry import plan
from gpuscope.api import predict
from gpuscope.capturing import capture

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")]

ROWS = 16384


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(1024)
        self.up, self.down = nn.Linear(1024, 4096), nn.Linear(4096, 1024)

    def forward(self, x):
        return x + self.down(nn.functional.gelu(self.up(self.norm(x))))


def build():
    torch.manual_seed(0)
    model = nn.Sequential(*(Block() for _ in range(6))).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    x = torch.randn(ROWS, 1024, generator=torch.Generator().manual_seed(1))
    count = iter(range(10**6))

    def step():
        optimizer.zero_grad()
        if next(count) == 4:
            x.mul_(0.5)  # what was copied ahead is stale now
        loss = model(x.to("cuda")).square().mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step


def _run(*names: str) -> tuple[list[float], int, float]:
    """Losses of eight steps, peak bytes above the begin, and the median milliseconds of a step."""
    gc.collect()  # what a run before has left in cycles must not go while this one is measured
    # Nor may what it made and this one uses count for neither: cuBLAS keeps a workspace a thread.
    torch._C._cuda_clearCublasWorkspaces()
    torch.cuda.empty_cache()
    live = Live(plan(names))
    begin = torch.cuda.memory_allocated()
    step = live.wrap(build)()
    losses = [float(step()) for _ in range(8)]
    torch.cuda.reset_peak_memory_stats()
    times = []
    for _ in range(10):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        for _ in range(3):
            step()
        end.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(end) / 3)
    peak = torch.cuda.max_memory_allocated() - begin
    live.close()
    return losses, peak, sorted(times)[5]


@pytest.fixture(scope="module")
def plain() -> tuple[list[float], int, float]:
    return _run()


EXACT = (
    ("pin-memory",),
    ("pin-memory", "async-copies"),
    ("prefetch-batches",),
    ("optimizer-offload",),
    ("activation-offload",),
    ("checkpoint",),
    ("checkpoint-half",),
    ("checkpoint-selective",),
    ("expandable-segments",),
)


@pytest.mark.parametrize("names", EXACT)
def test_the_same_losses_and_the_memory_predicted(names, plain) -> None:
    losses, peak, took_ms = _run(*names)
    assert losses == pytest.approx(plain[0], rel=1e-5)
    live = Live(plan(names))
    try:
        program = capture(live.wrap(build))
    finally:
        live.close()
    run = predict(program, "h200")
    predicted_ms, mib = run.step_time_s * 1e3, 2**20
    print(
        f"\n{names}: {took_ms:.2f} ms (plain {plain[2]:.2f}), predicted {predicted_ms:.2f}; peak"
        f" {peak / mib:.0f} MiB, predicted {run.peak_memory_bytes / mib:.0f}"
    )
    assert peak == pytest.approx(run.peak_memory_bytes, rel=0.03)


def test_copies_ahead_are_hidden(plain) -> None:
    pinned, ahead = _run("pin-memory", "async-copies")[2], _run("prefetch-batches")[2]
    assert ahead < pinned < plain[2]
