"""What waits on the host comes back as it went."""

import pytest
import torch

from gpuscope.advice.changes.transforms.offloading import ActivationOffload, OptimizerOffload


def test_small_tensors_and_those_of_the_host_stay() -> None:
    offload = ActivationOffload()
    for tensor in (torch.zeros(10), torch.zeros(1 << 20)):
        assert offload.pack(tensor) is tensor
        assert offload.unpack(tensor) is tensor


class _Away(torch.Tensor):
    """A tensor that says it is on a device."""

    device = torch.device("cuda", 0)
    moved = 0

    @staticmethod
    def __new__(cls, data):
        return data.as_subclass(cls)

    def to(self, device, non_blocking=False):
        _Away.moved += 1
        assert device == "cpu"
        assert non_blocking
        return self.as_subclass(torch.Tensor).clone()

    def detach(self):
        return self


@pytest.fixture
def _counted() -> None:
    _Away.moved = 0


@pytest.mark.usefixtures("_counted")
def test_a_tensor_saved_twice_is_copied_once() -> None:
    offload = ActivationOffload()
    x = _Away(torch.randn(1 << 19))
    first, second = offload.pack(x), offload.pack(x)
    assert first is second
    assert _Away.moved == 1
    assert torch.equal(first.host, x.as_subclass(torch.Tensor))


@pytest.mark.usefixtures("_counted")
def test_what_was_written_to_or_freed_is_copied_anew() -> None:
    offload = ActivationOffload()
    x = _Away(torch.randn(1 << 19))
    first = offload.pack(x)
    with torch.no_grad():
        x.as_subclass(torch.Tensor).add_(1)
    second = offload.pack(x)
    assert first is not second
    assert torch.equal(second.host, x.as_subclass(torch.Tensor))
    del first, second
    assert offload.pack(x) is not None
    assert _Away.moved == 3
    assert len(offload._known) <= 2


def test_parameters_stay() -> None:
    from gpuscope.advice.changes.transforms.offloading import _is_weight

    weight = torch.nn.Parameter(torch.zeros(4, 4))
    assert _is_weight(weight)
    assert _is_weight(weight.t())
    assert not _is_weight((weight * 2).t())


def test_small_states_stay_and_hooks_are_taken_away() -> None:
    model = torch.nn.Linear(4, 4)
    optimizer = torch.optim.Adam(model.parameters())
    offload = OptimizerOffload(pretended=False)
    offload.use(optimizer)
    for _ in range(2):
        model(torch.randn(2, 4)).sum().backward()
        optimizer.step()
    assert len(optimizer._optimizer_step_pre_hooks) == 1
    offload.close()
    assert not optimizer._optimizer_step_pre_hooks
    assert not optimizer._optimizer_step_post_hooks
