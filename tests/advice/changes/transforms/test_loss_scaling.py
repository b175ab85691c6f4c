"""A scaler in live code: gradients unscaled before they are clipped; overflow leaves a step out."""

import pytest
import torch

from gpuscope.advice.change import Change
from gpuscope.advice.changes.hooks.live import Live
from gpuscope.advice.changes.transforms.loss_scaling import LossScaling


class _Scaling(Change):
    name, group = "scaling", "precision"

    def install(self, live):
        self.scaling = LossScaling(live, "cpu")
        self.scaling.install()

    def fits(self, case):
        raise NotImplementedError


def _run(scaled, steps=4, accumulate=1, clip=True, factor=1.0):
    def build():
        torch.manual_seed(0)
        model = torch.nn.Linear(8, 8)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        x = torch.randn(16, 8)

        def step():
            for _ in range(accumulate):
                (model(x).square().mean() * factor).backward()
            norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5) if clip else None
            optimizer.step()
            optimizer.zero_grad()
            return norm, model.weight.detach().clone()

        return step

    asking = _Scaling()
    live = Live([asking] if scaled else [])
    step = live.wrap(build)()
    results = [step() for _ in range(steps)]
    scale = asking.scaling.scaler.get_scale() if scaled else None
    live.close()
    return results, scale


@pytest.mark.parametrize("clip", [True, False])
@pytest.mark.parametrize("accumulate", [1, 3])
def test_the_same_updates_as_without(clip, accumulate):
    plain, _ = _run(False, clip=clip, accumulate=accumulate)
    scaled, scale = _run(True, clip=clip, accumulate=accumulate)
    torch.testing.assert_close(scaled, plain)
    assert scale == 65536


def test_an_overflow_leaves_the_step_out_and_halves_the_scale():
    results, scale = _run(True, clip=False, factor=1e38)
    weights = [weight for _, weight in results]
    assert all(torch.equal(w, weights[0]) for w in weights)
    assert scale < 65536


def test_everything_is_put_back():
    clip = torch.nn.utils.clip_grad_norm_
    backward = torch.Tensor.backward
    _run(True)
    assert torch.nn.utils.clip_grad_norm_ is clip
    assert torch.nn.utils.clip_grad.clip_grad_norm_ is clip
    assert torch.Tensor.backward is backward
