"""The switch is set while the code runs, put back after it, and priced without a new capture."""

from dataclasses import replace

import torch
from changed_cases import case_of
from torch import nn

from gpuscope.advice.changes.hooks.live import Live
from gpuscope.advice.registry import find, plan
from gpuscope.advice.source.edits import applied


def _build():
    model = nn.Sequential(nn.Conv2d(3, 16, 3), nn.ReLU(), nn.Conv2d(16, 16, 3)).cuda()
    x = torch.randn(8, 3, 32, 32, device="cuda")
    return lambda: model(x)


def test_the_transformed_program_is_the_captured_one():
    plain, on = case_of(_build), case_of(_build, "cudnn-benchmark")
    change = find("cudnn-benchmark")
    fit = change.fits(plain)
    assert fit.applies
    assert fit.why.startswith("2 different")
    assert not change.fits(on).applies
    made = change.transform(plain.program)
    assert made.settings == on.program.settings
    assert [op.name for op in made.ops] == [op.name for op in on.program.ops]


def test_it_is_set_and_put_back():
    before = torch.backends.cudnn.benchmark
    with Live(plan(["cudnn-benchmark"])):
        assert torch.backends.cudnn.benchmark
    assert torch.backends.cudnn.benchmark == before


def test_not_without_convolutions():
    def build():
        model = nn.Linear(8, 8).cuda()
        return lambda: model(torch.randn(4, 8, device="cuda"))

    fit = find("cudnn-benchmark").fits(case_of(build))
    assert not fit.applies
    assert not fit.relevant


def test_not_on_another_vendors_device():
    fit = find("cudnn-benchmark").fits(case_of(_build, on="mi300x"))
    assert not fit.applies
    assert not fit.relevant


def test_the_line(tmp_path):
    seen = replace(case_of(_build).seen, file="a.py")
    text = '"""Train."""\n\nimport torch\n\nx = 1\n'
    edits = find("cudnn-benchmark").edits({"a.py": text}, seen)
    assert "import torch\ntorch.backends.cudnn.benchmark = True\n" in applied(text, edits)
