"""Parts of a step: what belongs to the update happens once."""

import pytest
import torch

from gpuscope.advice.changes.hooks.live import Live
from gpuscope.advice.changes.transforms.accumulation import Accumulating


class _Parts:
    """A change that only splits steps."""

    name, rank, excludes = "parts", 1, frozenset()

    def __init__(self, parts: int) -> None:
        self.parts = parts

    def install(self, live: Live) -> None:
        Accumulating(self.parts).install(live)


@pytest.mark.parametrize("parts", [1, 2, 3])
def test_the_mean_of_the_parts(parts: int) -> None:
    data = torch.arange(1.0, 7.0)
    weight = torch.nn.Parameter(torch.ones(()))
    done = []

    def build():
        optimizer = torch.optim.SGD([weight], lr=0.0)
        position = iter(range(100))

        def step():
            optimizer.zero_grad()
            loss = weight * data[next(position)]
            loss.backward()
            optimizer.step()
            done.append(float(weight.grad))
            return loss

        return step

    live = Live([_Parts(parts)])
    step = live.wrap(build)()
    step()
    live.close()
    assert len(done) == parts
    assert done[-1] == pytest.approx(float(data[:parts].mean()))


def test_a_part_that_fails_leaves_no_step_half_done() -> None:
    weight = torch.nn.Parameter(torch.ones(()))
    fails = [True]

    def build():
        optimizer = torch.optim.SGD([weight], lr=1.0)

        def step():
            if fails.pop():
                raise ValueError("once")
            optimizer.step()

        fails.append(True)
        return step

    live = Live([_Parts(2)])
    step = live.wrap(build)()
    with pytest.raises(ValueError, match="once"):
        step()
    fails[:] = [False, False]
    weight.grad = torch.ones(())
    step()
    assert float(weight.detach()) == 0.0
    live.close()


def test_everything_is_undone() -> None:
    before = torch.nn.Module.zero_grad, torch.nn.utils.clip_grad_norm_
    live = Live([_Parts(2)])
    live.start()
    assert torch.nn.utils.clip_grad_norm_ is not before[1]
    live.close()
    assert (torch.nn.Module.zero_grad, torch.nn.utils.clip_grad_norm_) == before
