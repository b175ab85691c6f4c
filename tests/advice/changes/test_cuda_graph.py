"""CUDA graphs: launches vanish from the host; what would be frozen wrongly is refused."""

import torch
from changed_cases import case_of

from gpuscope.advice.registry import find


def _build(training=True, item=False, copied=False, optimizer=torch.optim.AdamW, depth=30):
    def build():
        model = torch.nn.Sequential(*(torch.nn.Linear(64, 64) for _ in range(depth))).cuda()
        made = optimizer(model.parameters(), lr=0.01)
        x = torch.randn(8, 64, device="cuda")
        host = torch.randn(8, 64)

        def step():
            made.zero_grad()
            given = host.cuda() if copied else x
            loss = model(given).square().mean()
            loss.backward()
            made.step()
            return loss.item() if item else loss

        @torch.no_grad()
        def infer():
            return model(x)

        if training:
            return step
        model.eval()
        return infer

    return build


def test_a_whole_step_is_one_launch():
    plain, graphed = case_of(_build()), case_of(_build(), "whole-step-graph")
    assert graphed.program.settings["step_graph"]
    assert graphed.run.host_busy_s < plain.run.host_busy_s / 50
    assert graphed.run.step_time_s < plain.run.step_time_s / 2
    assert graphed.run.step_time_s > plain.run.device_busy_s / 2
    assert "step_graph" not in plain.program.settings


def test_a_compiled_step_keeps_its_fused_kernels():
    case = case_of(_build(), "whole-step-graph", "compile")
    assert case.program.compiled == "reduce-overhead"
    assert case.run.device_busy_s < case_of(_build(), "whole-step-graph").run.device_busy_s


def test_inference_is_one_launch():
    plain, graphed = case_of(_build(False)), case_of(_build(False), "cuda-graph")
    assert graphed.program.compiled == "cudagraphs"
    assert graphed.run.step_time_s < plain.run.step_time_s / 2


def test_where_they_fit():
    whole, call = find("whole-step-graph"), find("cuda-graph")
    plain, infer = case_of(_build()), case_of(_build(False))
    assert whole.fits(plain).applies
    assert "waits for the host" in whole.fits(plain).why
    assert call.fits(infer).applies
    assert not call.fits(plain).applies
    assert not whole.fits(infer).applies
    assert "item" in whole.fits(case_of(_build(item=True, depth=2))).why
    assert not whole.fits(case_of(_build(copied=True, depth=2))).applies
    counted = whole.fits(case_of(_build(optimizer=torch.optim.Adagrad, depth=2)))
    assert "Adagrad" in counted.why
    assert not whole.fits(case_of(_build(depth=2), "compile-reduce-overhead")).applies
    low, high = whole.saving_s(plain.run, plain)
    assert 0 == low < high < plain.run.step_time_s
