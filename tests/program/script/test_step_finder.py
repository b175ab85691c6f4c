"""Steps of programs that know nothing of it; and no hook left behind."""

from __future__ import annotations

import pytest
import torch
from torch.nn.modules import module as torch_module
from torch.optim import optimizer as torch_optimizer

from gpuscope.program.script.step_finder import StepFinder


def _hooked() -> bool:
    return bool(torch_module._global_forward_pre_hooks or torch_module._global_forward_hooks)


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)
        self.armed: list[bool] = []

    def forward(self, x):
        self.armed.append(_hooked())
        return self.b(self.a(x))


@pytest.fixture
def found():
    boundaries: list[str] = []
    finder = StepFinder(boundaries.append, fresh=True)
    finder.start()
    yield boundaries, finder
    finder.stop()
    assert not _hooked()
    assert not torch_optimizer._global_optimizer_post_hooks


def _train(net, optimizer, micro_batches: int = 1) -> None:
    for _ in range(micro_batches):
        net(torch.ones(2, 4)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()


def test_training_steps(found) -> None:
    boundaries, _ = found
    net = Net()
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    for _ in range(4):
        _train(net, optimizer)
    assert boundaries == ["optimizer"] * 4
    assert not net._forward_pre_hooks
    assert not any(net.armed)


def test_weights_that_the_program_updates_itself(found) -> None:
    boundaries, _ = found
    net = Net()
    for number in range(6):
        net(torch.ones(2, 4)).sum().backward()
        with torch.no_grad():
            for weight in net.parameters():
                weight -= 0.1 * weight.grad
                weight.grad = None
        if number == 4:  # an evaluation in between is no step
            net.eval()
            with torch.no_grad():
                for _ in range(5):
                    net(torch.ones(2, 4))
            net.train()
    assert boundaries == ["backward"] * 6
    assert not any(net.armed[3:])


def test_in_the_middle_of_a_program_backward_passes_are_no_steps() -> None:
    """Its optimizer was made before anybody looked."""
    boundaries: list[str] = []
    net = Net()
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    finder = StepFinder(boundaries.append)
    finder.start()
    for _ in range(2):
        _train(net, optimizer, micro_batches=8)
    finder.stop()
    assert boundaries == ["optimizer"] * 2


def test_gradient_accumulation_is_one_step(found) -> None:
    boundaries, _ = found
    net = Net()
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    for _ in range(3):
        _train(net, optimizer, micro_batches=4)
    assert boundaries == ["optimizer"] * 3


def test_of_two_optimizers_the_first_counts(found) -> None:
    boundaries, _ = found
    one, two = Net(), Net()
    first, second = (torch.optim.SGD(net.parameters(), 0.1) for net in (one, two))
    for _ in range(3):
        _train(one, first)
        _train(two, second)
    assert len(boundaries) == 3


def test_inference_steps(found) -> None:
    boundaries, _ = found
    net = Net()
    with torch.no_grad():
        for _ in range(5):
            net(torch.ones(2, 4))
    assert boundaries == ["forward"] * 5
    assert not any(net.armed)  # no module inside ever met the global hook


def test_an_encoder_called_once_is_not_the_step(found) -> None:
    boundaries, _ = found
    encoder, decoder = Net().eval(), Net().eval()
    with torch.inference_mode():
        x = encoder(torch.ones(2, 4))
        for _ in range(8):
            x = decoder(x)
        before = len(boundaries)
        encoder(x)
        assert len(boundaries) == before
    assert len(boundaries) == 1 + 8
    assert not encoder._forward_pre_hooks


def test_validation_between_training_steps_does_not_count(found) -> None:
    boundaries, _ = found
    net = Net()
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    _train(net, optimizer)
    with torch.no_grad():
        for _ in range(5):
            net(torch.ones(2, 4))
    _train(net, optimizer)
    assert boundaries == ["optimizer"] * 2


def test_a_forward_pass_that_raises(found) -> None:
    boundaries, _ = found
    net = Net().eval()
    with torch.no_grad():
        with pytest.raises(RuntimeError):
            net(torch.ones(2, 5))
        for _ in range(3):
            net(torch.ones(2, 4))
    assert boundaries == ["forward"] * 4


def test_a_compiled_model_is_compiled_once(found) -> None:
    from torch._dynamo.utils import counters

    boundaries, _ = found
    torch._dynamo.reset()
    counters.clear()
    net = torch.compile(torch.nn.Sequential(torch.nn.Linear(4, 4)).eval(), backend="eager")
    with torch.no_grad():
        for _ in range(5):
            net(torch.ones(2, 4))
    assert boundaries == ["forward"] * 5
    assert counters["stats"]["unique_graphs"] == 1
    torch._dynamo.reset()


def test_only_what_was_asked_for() -> None:
    boundaries: list[str] = []
    finder = StepFinder(boundaries.append, by="forward")
    finder.start()
    net = Net()
    _train(net, torch.optim.SGD(net.parameters(), 0.1))
    with torch.no_grad():
        net(torch.ones(2, 4))
    finder.stop()
    assert boundaries == ["forward"]
