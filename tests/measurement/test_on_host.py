from __future__ import annotations

import torch

from gpuscope.measurement.on_host import HostStep, on_host


def test_code_that_says_cuda_runs_on_the_processor() -> None:
    with on_host() as redirected:
        model = torch.nn.Linear(4, 4).cuda().to("cuda:0")
        x = torch.randn(2, 4, device="cuda").to(torch.device("cuda", 0), non_blocking=True)
        y = torch.ones(3, pin_memory=True)
        torch.cuda.synchronize()
        out = model(x)
    assert {t.device.type for t in (out, y, model.weight)} == {"cpu"}
    assert redirected() >= 3


def test_what_means_no_device_is_left_alone() -> None:
    with on_host() as redirected:
        assert torch.ones(2).to(torch.float64).dtype is torch.float64
        assert torch.ones(2, device="cpu").device.type == "cpu"
    assert redirected() == 0


def test_synchronize_is_put_back() -> None:
    before = torch.cuda.synchronize
    with on_host():
        assert torch.cuda.synchronize is not before
    assert torch.cuda.synchronize is before


def test_a_step_that_never_says_cuda_is_left_alone_after_two() -> None:
    step = HostStep(lambda: torch.ones(2) + 1)
    step()
    assert step.redirects
    step()
    assert not step.redirects
    step()


def test_a_step_that_says_it_stays_redirected() -> None:
    step = HostStep(lambda: torch.ones(2, device="cuda"))
    for _ in range(4):
        assert step().device.type == "cpu"
    assert step.redirects
