"""Copies to the device are caught however the code asks for them."""

import pytest
import torch

from gpuscope.advice.changes.hooks.host_copies import around_host_copies
from gpuscope.advice.changes.hooks.live import Live

CALLS = {
    "to(device, dtype)": lambda x: x.to("cuda", torch.float16),
    "to(device=)": lambda x: x.to(device="cuda"),
    "to(device, dtype, non_blocking, copy)": lambda x: x.to("cuda", None, True, True),
    "to(int)": lambda x: x.to(0),
    "cuda()": lambda x: x.cuda(),
    "cuda(device)": lambda x: x.cuda(0, non_blocking=True),
}

LEFT = {
    "to(dtype)": lambda x: x.to(torch.float16),
    "to(cpu)": lambda x: x.to("cpu"),
    "to(meta)": lambda x: x.to("meta"),
    "to(other)": lambda x: x.to(torch.empty(1)),
    "to(parameter)": lambda x: torch.nn.Parameter(x).to("cpu", torch.float16),
}


@pytest.fixture
def caught():
    found = []
    live = Live()
    around_host_copies(live, lambda copy: found.append(copy.options) or copy.tensor)
    yield found
    live.close()


@pytest.mark.parametrize("name", CALLS)
def test_copies_to_the_device_arecaught(caught, name: str) -> None:
    CALLS[name](torch.zeros(4))
    assert len(caught) == 1


def test_what_was_asked_is_told_by_name(caught) -> None:
    CALLS["to(device, dtype, non_blocking, copy)"](torch.zeros(4))
    CALLS["to(device, dtype)"](torch.zeros(4))
    CALLS["cuda(device)"](torch.zeros(4))
    assert caught == [
        {"device": "cuda", "non_blocking": True, "copy": True},
        {"device": "cuda", "dtype": torch.float16},
        {"device": 0, "non_blocking": True},
    ]


@pytest.mark.parametrize("name", LEFT)
def test_others_are_left_alone(caught, name: str) -> None:
    out = LEFT[name](torch.ones(4))
    assert not caught
    assert out.shape == (4,)


def test_parameters_are_left_alone(caught) -> None:
    torch.nn.Linear(2, 2).to("meta")
    with pytest.raises((RuntimeError, AssertionError)):  # no such device here, and not caught
        torch.nn.Parameter(torch.zeros(2)).to("cuda")
    assert not caught


def test_undone_at_the_end() -> None:
    before = torch.Tensor.to, torch.Tensor.cuda
    live = Live()
    around_host_copies(live, lambda copy: copy.run())
    assert torch.Tensor.to is not before[0]
    live.close()
    assert (torch.Tensor.to, torch.Tensor.cuda) == before
