"""A PyTorch that cannot stand for a job says so, and predicts one device."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gpuscope.errors import CaptureError
from gpuscope.program.capture import capture
from gpuscope.program.world import World

torch = pytest.importorskip("torch")
dist = pytest.importorskip("torch.distributed")
pytest.importorskip("torch._dynamo")  # what asks torch for it while it is imported has done so


@pytest.fixture(autouse=True)
def older(monkeypatch: pytest.MonkeyPatch) -> None:
    from torch._C import _distributed_c10d as c10d

    monkeypatch.delattr(c10d, "FakeWork", raising=False)


def alone() -> Callable[[], None]:
    layer = torch.nn.Linear(8, 8, device="cuda")
    return lambda: layer(torch.ones(2, 8, device="cuda")).sum().backward()


def job() -> Callable[[], None]:
    dist.init_process_group("nccl")
    return alone()


def test_a_job_is_refused_with_the_version_and_what_to_install() -> None:
    with pytest.raises(CaptureError, match="several processes") as found:
        capture(alone, world=World(2, 0))
    assert torch.__version__ in str(found.value)
    assert "pip install --upgrade torch" in str(found.value.next_step)


def test_code_that_begins_a_job_is_refused_where_it_does() -> None:
    before = dist.init_process_group
    with pytest.raises(CaptureError, match="several processes"):
        capture(job)
    assert dist.init_process_group is before


def test_one_device_is_captured() -> None:
    assert capture(alone).ops
