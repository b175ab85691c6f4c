"""A compiled optimizer: its list kernels become one, which moves every state once."""

import runpy

import pytest
import torch
from changed_cases import case_of

from gpuscope.advice.registry import find
from gpuscope.advice.source.edits import applied
from gpuscope.advice.source.patches import patch_of
from gpuscope.advice.types import OptimizerSeen, Seen


def _build(**keywords):
    def build():
        model = torch.nn.Sequential(*(torch.nn.Linear(2048, 2048) for _ in range(8))).cuda()
        optimizer = torch.optim.AdamW(model.parameters(), **keywords)
        x = torch.randn(8, 2048, device="cuda")

        def step():
            optimizer.zero_grad()
            model(x).square().mean().backward()
            optimizer.step()

        return step

    return build


def _optimizer_s(case):
    return next(s.time_s for s in case.analysis.phases if s.label == "optimizer")


def test_it_takes_about_the_time_of_a_fused_one():
    plain, compiled = case_of(_build()), case_of(_build(), "compile-optimizer")
    fused = case_of(_build(), "fused-optimizer")
    assert _optimizer_s(compiled) < _optimizer_s(plain) / 2
    # Parameters, gradients and two states read, all but gradients written: seven passes.
    moved_s = 7 * 8 * 2048 * 2048 * 4 / 4.8e12
    assert moved_s < _optimizer_s(compiled) < 2 * moved_s
    assert _optimizer_s(compiled) == pytest.approx(_optimizer_s(fused), rel=0.4)


def test_where_it_fits():
    change = find("compile-optimizer")
    fit = change.fits(case_of(_build()))
    assert fit.applies
    assert "of the step" in fit.why
    assert not change.fits(case_of(_build(fused=True))).applies
    assert not change.fits(case_of(_inference)).applies
    assert "fused-optimizer" in change.excludes


def _inference():
    model = torch.nn.Linear(8, 8).cuda()
    x = torch.randn(4, 8, device="cuda")
    return lambda: model(x)


SOURCE = """\
from torch.optim import AdamW


def build():
    opt = AdamW(
        model.parameters(),
    )
    other = [AdamW(model.parameters())]
"""


def _edited(line: int):
    change = find("compile-optimizer")
    seen = Seen(file="a.py", optimizers=(OptimizerSeen("AdamW", {}, 1, site=f"a.py:{line}"),))
    return change.edits({"a.py": SOURCE}, seen)


def test_its_edit_compiles_the_step_after_the_optimizer_is_made():
    (edit,) = _edited(5)
    assert edit.needs == ("import torch",)
    assert "    )\n    opt.step = torch.compile(opt.step)\n" in applied(SOURCE, (edit,))


def test_an_optimizer_without_a_name_is_left_to_apply():
    assert _edited(8) is None


def test_the_patched_source_is_priced_like_the_change(tmp_path):
    text = "import torch\n\n\ndef build():\n" + (
        "    model = torch.nn.Linear(2048, 2048).cuda()\n"
        "    optimizer = torch.optim.AdamW(model.parameters())\n"
        '    x = torch.randn(8, 2048, device="cuda")\n\n'
        "    def step():\n        optimizer.zero_grad()\n"
        "        model(x).square().mean().backward()\n        optimizer.step()\n\n    return step\n"
    )
    path = tmp_path / "train_compiled_step.py"
    path.write_text(text)
    build = runpy.run_path(str(path))["build"]
    live, plain = case_of(build, "compile-optimizer"), case_of(build)
    patch = patch_of(["compile-optimizer"], plain.seen)
    assert patch.in_source == ("compile-optimizer",)
    path.write_text(patch.files[str(path)])
    patched = case_of(runpy.run_path(str(path))["build"])
    assert _optimizer_s(patched) == pytest.approx(_optimizer_s(live), rel=1e-6)
    assert _optimizer_s(patched) < _optimizer_s(plain)
