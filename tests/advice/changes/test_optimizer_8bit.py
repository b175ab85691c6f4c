"""8-bit states: a quarter of the memory, and an update that moves less."""

import importlib.util
import sys
import types

import pytest
import torch
from changed_cases import case_of

from gpuscope.advice.changes.hooks.live import Live
from gpuscope.advice.registry import find
from gpuscope.api import predict
from gpuscope.errors import UnsupportedError

INSTALLED = any(importlib.util.find_spec(p) for p in ("torchao", "bitsandbytes"))


def _build(name: str = "AdamW", **keywords):
    def build():
        model = torch.nn.Linear(2048, 2048).cuda()
        x = torch.randn(64, 2048, device="cuda")
        optimizer = getattr(torch.optim, name)(model.parameters(), lr=1e-3, **keywords)

        def step():
            optimizer.zero_grad()
            model(x).sum().backward()
            optimizer.step()

        return step

    return build


@pytest.mark.skipif(INSTALLED, reason="the code itself can be run")
def test_states_take_a_quarter() -> None:
    case = case_of(_build(fused=True))
    changed = find("optimizer-8bit").transform(case.program)
    run = predict(changed, "h200")
    weights = 2048 * 2048
    saved = 2 * (weights * 4 - (weights + weights // 256 * 4))
    assert case.run.peak_memory_bytes - run.peak_memory_bytes == saved
    assert run.device_busy_s < case.run.device_busy_s
    small = [s.nbytes for s in changed.storages if s.category == "optimizer_state"]
    assert 2048 * 4 in small  # the bias has too few elements


@pytest.mark.skipif(INSTALLED, reason="a package is installed")
def test_without_a_package_it_says_what_to_type() -> None:
    with pytest.raises(UnsupportedError, match="pip install torchao"):
        Live([find("optimizer-8bit")]).start()
    assert "pip install" in find("optimizer-8bit").price(case_of(_build()))


def test_the_other_class_takes_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []

    class AdamW8bit(torch.optim.Optimizer):
        def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), weight_decay=0.0) -> None:
            made.append((lr, betas))
            super().__init__(params, {"lr": lr})

    home = types.ModuleType("torchao.optim")
    home.AdamW8bit = home.Adam8bit = AdamW8bit
    package = types.ModuleType("torchao")
    package.__spec__ = types.SimpleNamespace(name="torchao")
    monkeypatch.setitem(sys.modules, "torchao", package)
    monkeypatch.setitem(sys.modules, "torchao.optim", home)
    before = torch.optim.AdamW
    with Live([find("optimizer-8bit")]) as live:
        parameter = torch.nn.Parameter(torch.zeros(3))
        optimizer = torch.optim.AdamW([parameter], lr=0.5, betas=(0.8, 0.9), fused=True)
        assert isinstance(optimizer, AdamW8bit)
        assert live.optimizers == [optimizer]
    assert made == [(0.5, (0.8, 0.9))]
    assert torch.optim.AdamW is before


def test_where_it_fits() -> None:
    change = find("optimizer-8bit")
    assert change.fits(case_of(_build())).applies
    assert "SGD" in change.fits(case_of(_build("SGD"))).why
