"""RMS norms in one kernel: only classes that compute the same, and the same losses."""

import pytest
import torch
from changed_cases import case_of
from live_runs import results
from tiny_models import gpt2, llama, tiny
from torch import nn

from gpuscope.advice.changes.fused_norm import epsilon_of, same
from gpuscope.advice.registry import find


class PlainRMSNorm(nn.Module):
    def __init__(self, shift=0.0):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(16))
        self.eps, self.shift = 1e-6, shift

    def forward(self, x):
        scale = torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + self.eps)
        return (x.float() * scale).to(x.dtype) * (self.weight + self.shift)


class LayerLikeRMSNorm(PlainRMSNorm):
    def forward(self, x):
        return super().forward(x - x.mean(-1, keepdim=True))


def test_each_norm_becomes_one_operator():
    build = tiny(llama(), dtype=torch.bfloat16)
    plain, fused = case_of(build), case_of(build, "fused-norm")
    fit = find("fused-norm").fits(plain)
    assert fit.applies
    assert fit.why.startswith("5 RMS norms")
    count = sum(op.name == "gpuscope::rms_norm" for op in fused.program.ops)
    assert count == 5
    assert not any(op.name == "aten::rsqrt" for op in fused.program.ops)
    assert fused.run.step_time_s < plain.run.step_time_s
    assert not find("fused-norm").fits(fused).applies


@pytest.mark.parametrize("autocast", [None, torch.bfloat16])
def test_the_same_losses_really_come(autocast):
    build = tiny(llama(), "cpu", autocast=autocast)
    loose = 1e-5 if autocast is None else 2e-2
    torch.testing.assert_close(results(build, "fused-norm"), results(build), rtol=loose, atol=loose)


def test_the_class_is_put_back():
    from transformers.models.llama.modeling_llama import LlamaRMSNorm

    before = LlamaRMSNorm.forward
    results(tiny(llama(), "cpu"), "fused-norm", steps=1)
    assert LlamaRMSNorm.forward is before


@pytest.mark.parametrize(
    ("norm", "equal"),
    [(PlainRMSNorm(), True), (PlainRMSNorm(shift=1.0), False), (LayerLikeRMSNorm(), False)],
)
def test_only_what_computes_the_same(norm, equal):
    weight = norm.weight.detach().clone()
    assert epsilon_of(norm) == "eps"
    assert same(norm, "eps") is equal
    torch.testing.assert_close(norm.weight.detach(), weight)  # the probe was another one


def test_gemma_scales_by_one_more():
    from transformers.models.gemma.modeling_gemma import GemmaRMSNorm

    norm = GemmaRMSNorm(16)
    assert not same(norm, epsilon_of(norm))


def test_no_rms_norm():
    fit = find("fused-norm").fits(case_of(tiny(gpt2(layers=1))))
    assert not fit.applies
    assert not fit.relevant
