"""What a whole step's graph would freeze is seen, and refused."""

import pytest
import torch

from gpuscope.advice.changes.hooks.live import Live
from gpuscope.advice.changes.transforms.step_graph import WholeStep, _Watch
from gpuscope.errors import UnsupportedError


def _watched(step):
    watch = _Watch()
    with watch.mode():
        step()
    return watch


def _training(change=lambda state: None):
    torch.manual_seed(0)
    model = torch.nn.Linear(8, 8)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    state = {"x": torch.randn(4, 8), "scale": 1.0, "optimizer": optimizer, "layers": 1}

    def step():
        change(state)
        optimizer.zero_grad()
        out = state["x"]
        for _ in range(state["layers"]):
            out = model(out) * state["scale"]
        out.square().mean().backward()
        optimizer.step()

    return step


def test_steps_on_the_same_memory_are_equal():
    step = _training()
    step()
    _watched(step).must_equal(_watched(step))


@pytest.mark.parametrize(
    "change",
    [
        lambda s: s.update(layers=s["layers"] + 1),
        lambda s: s.update(scale=s["scale"] * 0.5),
        lambda s: (
            s["optimizer"].param_groups[0].update(lr=s["optimizer"].param_groups[0]["lr"] / 2)
        ),
    ],
)
def test_steps_with_other_numbers_are_not(change):
    step = _training(change)
    step()
    with pytest.raises(UnsupportedError, match="differ"):
        _watched(step).must_equal(_watched(step))


def test_another_batch_is_another_memory():
    batches = iter([torch.randn(4, 8) for _ in range(4)])
    step = _training(lambda s: s.update(x=next(batches)))
    step()
    with pytest.raises(UnsupportedError, match="other tensors"):
        _watched(step).must_equal(_watched(step))


def test_a_value_that_is_read_is_refused():
    step = _training()
    with pytest.raises(UnsupportedError, match="freeze"):
        _watched(lambda: (step(), torch.ones(1).item()))


def test_a_schedule_inside_of_the_step_is_refused_outside_it_is_not():
    whole = WholeStep(Live(), lambda: whole.scheduled())
    whole.scheduled()
    whole._running = True
    with pytest.raises(UnsupportedError, match="schedule"):
        whole.scheduled()
