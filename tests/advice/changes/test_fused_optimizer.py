"""A fused optimizer: one kernel, the same parameters; refused where it has no such form."""

from dataclasses import replace

import pytest
import torch
from changed_cases import case_of
from live_runs import results

from gpuscope.advice.registry import find
from gpuscope.advice.source.edits import applied


def _build(make, device="cuda"):
    def build():
        model = torch.nn.Sequential(torch.nn.Embedding(64, 32), torch.nn.Linear(32, 32)).to(device)
        optimizer = make(model.parameters())
        tokens = torch.arange(16, device=device)

        def step():
            optimizer.zero_grad()
            loss = model(tokens).square().mean()
            loss.backward()
            optimizer.step()
            return loss

        return step

    return build


def _adamw(parameters, **keywords):
    return torch.optim.AdamW(parameters, lr=0.01, **keywords)


def _kernels(case):
    return [op.name for op in case.program.ops if op.phase == "optimizer" and not op.view]


@pytest.mark.parametrize(
    "keywords", [{}, {"foreach": False}, {"foreach": True}, {"capturable": True}]
)
def test_one_operator_updates_all(keywords):
    build = _build(lambda p: _adamw(p, **keywords))
    plain, fused = case_of(build), case_of(build, "fused-optimizer")
    assert find("fused-optimizer").fits(plain).applies
    assert "aten::_fused_adamw_" not in _kernels(plain)
    assert _kernels(fused).count("aten::_fused_adamw_") == 1
    assert len(_kernels(fused)) < len(_kernels(plain))
    assert not find("fused-optimizer").fits(fused).applies


@pytest.mark.parametrize(
    "make",
    [
        _adamw,
        lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9),
        lambda p: torch.optim.Adagrad(p, lr=0.1),
    ],
)
def test_the_same_steps_really_run(make):
    build = _build(make, "cpu")
    torch.testing.assert_close(results(build, "fused-optimizer"), results(build))


@pytest.mark.parametrize(
    ("make", "sparse", "word"),
    [
        (lambda p: torch.optim.RMSprop(p), False, "RMSprop"),
        (lambda p: torch.optim.SGD(p, lr=0.1), True, "sparse"),
        (lambda p: _adamw(p, differentiable=True), False, "differentiable"),
    ],
)
def test_refused(make, sparse, word):
    def build():  # whose step makes a forward pass only
        model = torch.nn.Embedding(64, 8, sparse=sparse).cuda()
        make(model.parameters())
        return lambda: model(torch.arange(4, device="cuda"))

    fit = find("fused-optimizer").fits(case_of(build))
    assert not fit.applies
    assert word in fit.why


def test_it_is_written_into_the_call(tmp_path):
    text = "import torch\nopt = torch.optim.AdamW(model.parameters(), lr=1e-3)\n"
    file = str(tmp_path / "train.py")
    case = case_of(_build(_adamw))
    seen = replace(case.seen, optimizers=(replace(case.seen.optimizers[0], site=f"{file}:2"),))
    edits = find("fused-optimizer").edits({file: text}, seen)
    assert "AdamW(model.parameters(), lr=1e-3, fused=True)" in applied(text, edits)
