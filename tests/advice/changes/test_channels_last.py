"""Channels-last: layouts really change, results do not, and the gain depends on the dtype."""

from dataclasses import replace

import pytest
import torch
from changed_cases import case_of
from live_runs import results
from torch import nn

from gpuscope.advice.changes.channels_last import layouts
from gpuscope.advice.registry import find
from gpuscope.advice.source.edits import applied


def _build(device="cuda", dtype=torch.bfloat16, tf32=True, deep=False, images=32, width=128):
    conv, norm, pool = (
        (nn.Conv3d, nn.BatchNorm3d, nn.AdaptiveAvgPool3d)
        if deep
        else (nn.Conv2d, nn.BatchNorm2d, nn.AdaptiveAvgPool2d)
    )

    def build():
        torch.backends.cudnn.allow_tf32 = tf32
        model = nn.Sequential(
            conv(3, width, 3, padding=1),
            norm(width),
            nn.ReLU(),
            conv(width, width, 3, padding=1),
            norm(width),
            nn.ReLU(),
            pool(1),
            nn.Flatten(),
            nn.Linear(width, 4),
        ).to(device, dtype)
        size = (images, 3, 8, 8, 8) if deep else (images, 3, 32, 32)
        x = torch.randn(size, device=device, dtype=dtype)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

        def step():
            optimizer.zero_grad()
            loss = model(x).square().mean()
            loss.backward()
            optimizer.step()
            return loss

        return step

    return build


@pytest.mark.parametrize("deep", [False, True])
def test_every_convolution_is_turned(deep):
    plain, turned = case_of(_build(deep=deep)), case_of(_build(deep=deep), "channels-last")
    change = find("channels-last")
    assert layouts(plain.program) == (2, 0)
    assert layouts(turned.program) == (0, 2)
    assert change.fits(plain).applies
    assert not change.fits(turned).applies


def test_half_precision_gains():
    # Wide and many: three channels are read as they lie, and small tensors are soon converted.
    build = _build(images=128, width=256)
    plain, turned = case_of(build), case_of(build, "channels-last")
    assert turned.run.device_busy_s < 0.9 * plain.run.device_busy_s


def test_float32_without_tf32_gains_next_to_nothing_or_loses():
    def gain(**kind):
        build = _build(**kind)
        busy = case_of(build).run.device_busy_s
        return busy / case_of(build, "channels-last").run.device_busy_s

    single = gain(dtype=torch.float32, tf32=False)
    assert single < 1.05
    assert single < gain(dtype=torch.bfloat16)


@pytest.mark.parametrize("deep", [False, True])
def test_the_same_steps_really_run(deep):
    build = _build("cpu", torch.float32, deep=deep, images=2, width=8)
    torch.testing.assert_close(
        results(build, "channels-last"), results(build), rtol=1e-4, atol=1e-6
    )


def test_the_line_after_the_model():
    text = "import torch\n\nmodel = make()\nmodel = model.cuda()\nx = 1\n"
    seen = case_of(_build()).seen
    seen = replace(seen, models=(replace(seen.models[0], site="a.py:3"),))
    changed = applied(text, find("channels-last").edits({"a.py": text}, seen))
    line = "model = model.to(memory_format=torch.channels_last)\n"
    assert f"model = model.cuda()\n{line}" in changed


def test_not_in_a_language_model():
    def build():
        model = nn.Linear(8, 8).cuda()
        return lambda: model(torch.randn(4, 8, device="cuda"))

    fit = find("channels-last").fits(case_of(build))
    assert not fit.applies
    assert not fit.relevant
