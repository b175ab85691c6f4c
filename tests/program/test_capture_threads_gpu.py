"""Training on an accelerator beside predictions: run by hand, pytest -m gpu tests/program."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

import gpuscope as gs

torch = pytest.importorskip("torch")
nn = torch.nn
F = nn.functional

STEPS = 60


def trained(beside: Callable[[int], None]) -> tuple[list[float], set[str]]:
    """Losses of a small model under autocast, and the types that its layers gave."""
    torch.manual_seed(0)
    layers = nn.ModuleList([nn.Linear(64, 64), nn.LayerNorm(64), nn.Linear(64, 64)]).cuda()
    recurrent = nn.LSTM(64, 64, batch_first=True).cuda()
    optimizer = torch.optim.AdamW([*layers.parameters(), *recurrent.parameters()], fused=True)
    side = torch.cuda.Stream()
    losses, types = [], set()
    for number in range(STEPS):
        beside(number)
        with torch.cuda.stream(side):
            x = torch.randn(4, 16, 64).pin_memory().cuda(non_blocking=True)
        torch.cuda.current_stream().wait_stream(side)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            y = layers[0](x)
            types.add(f"linear {y.dtype}")
            y = layers[1](F.dropout(y, 0.1).relu())
            types.add(f"norm {y.dtype}")
            q = layers[2](y)[:, None]
            y = F.scaled_dot_product_attention(q, q, q, is_causal=True)[:, 0]
            types.add(f"attention {y.dtype} {type(y.grad_fn).__name__}")
            y, _ = recurrent(F.rms_norm(y, (64,)))
            types.add(f"softmax {y.softmax(-1).dtype}")
        loss = y.float().square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses, types


@pytest.mark.gpu
def test_training_beside_predictions_is_the_same() -> None:
    if not torch.cuda.is_available():
        pytest.skip("no accelerator")
    expected = gs.predict("gpt2").step_time_s
    losses, types = trained(lambda number: None)
    begun, enough = threading.Event(), threading.Event()
    predicted: list[float] = []

    def predict() -> None:
        while not enough.is_set():
            begun.set()
            predicted.append(gs.predict("gpt2").step_time_s)

    thread = threading.Thread(target=predict)
    thread.start()
    begun.wait()
    during: list[bool] = []

    def look(number: int) -> None:
        during.append(torch.save.__module__.startswith("gpuscope"))
        assert torch.cuda.get_device_name().startswith("gpuscope") is False
        if not any(during):
            threading.Event().wait(0.05)

    try:
        beside_losses, beside_types = trained(look)
        while not predicted:
            threading.Event().wait(0.1)
    finally:
        enough.set()
        thread.join()
    assert beside_types == types
    assert beside_losses == pytest.approx(losses, rel=1e-3)
    assert any(during)
    assert set(predicted) == {expected}
