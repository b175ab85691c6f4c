"""Fused attention: one operator instead of many, the same losses, refused where it is not told."""

from dataclasses import replace

import pytest
import torch
from changed_cases import case_of
from live_runs import results
from tiny_models import bert, gpt2, tiny
from torch import nn

from gpuscope.advice.registry import find
from gpuscope.advice.source.edits import applied


def _attention(case, kind="gpuscope::attention"):
    return sum(op.name == kind for op in case.program.ops)


@pytest.mark.parametrize("make", [gpt2, bert])
def test_models_of_transformers_are_told(make):
    plain, fused = case_of(tiny(make("eager"))), case_of(tiny(make("eager")), "sdpa")
    change = find("sdpa")
    assert plain.seen.models[0].attention == "eager"
    assert change.fits(plain).applies
    assert (_attention(plain), _attention(fused)) == (0, 2)
    assert not any("_softmax" in op.name and "log" not in op.name for op in fused.program.ops)
    again = change.fits(case_of(tiny(make("sdpa"))))
    assert not again.applies
    assert "already" in again.why


@pytest.mark.parametrize("make", [gpt2, bert])
def test_the_same_losses_really_come(make):
    build = tiny(make("eager"), "cpu")
    torch.testing.assert_close(results(build, "sdpa"), results(build), rtol=1e-4, atol=1e-5)


def test_it_gains_time_and_memory():
    build = tiny(gpt2("eager", layers=1, width=256), rows=(8, 1024))
    plain, fused = case_of(build), case_of(build, "sdpa")
    # 8 x 4 heads of 1024 x 1024 float32 scores are 134 MB.
    assert plain.run.peak_memory_bytes - fused.run.peak_memory_bytes > 100e6
    assert fused.run.device_busy_s < plain.run.device_busy_s


class _OwnBlock(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = nn.MultiheadAttention(32, 4, batch_first=True)

    def forward(self, x):
        return self.attention(x, x, x)[0]


def _multihead(device="cuda"):
    def build():
        torch.manual_seed(0)
        model = nn.Sequential(_OwnBlock(), _OwnBlock()).to(device)
        x = torch.randn(2, 16, 32, device=device)

        def step():
            model.zero_grad()
            loss = model(x).square().mean()
            loss.backward()
            return loss

        return step

    return build


def test_unasked_weights_of_multihead_attention_are_not_made():
    plain, fused = case_of(_multihead()), case_of(_multihead(), "sdpa")
    fit = find("sdpa").fits(plain)
    assert fit.applies
    assert fit.why.startswith("2 nn.MultiheadAttention")
    assert (_attention(plain), _attention(fused)) == (0, 2)
    torch.testing.assert_close(results(_multihead("cpu"), "sdpa"), results(_multihead("cpu")))
    assert "gpuscope" not in nn.MultiheadAttention.forward.__code__.co_filename


def test_weights_that_were_asked_for_still_come():
    def build():
        attention = nn.MultiheadAttention(32, 4, batch_first=True)
        x = torch.ones(2, 16, 32)
        return lambda: attention(x, x, x, need_weights=True)[1]

    assert results(build, "sdpa", steps=1)[0].shape == (2, 16, 16)


def test_handwritten_attention_is_left_alone():
    def build():
        layer = nn.Linear(32, 96).cuda()
        x = torch.randn(2, 4, 16, 32, device="cuda")

        def step():
            q, k, v = layer(x).chunk(3, dim=-1)
            return torch.softmax(q @ k.transpose(-2, -1), dim=-1) @ v

        return step

    fit = find("sdpa").fits(case_of(build))
    assert not fit.applies
    assert "by hand" in fit.why


def test_the_word_in_the_source():
    text = 'config = GPT2Config(\n    n_layer=6, attn_implementation="eager"\n)\n'
    seen = replace(case_of(tiny(gpt2())).seen, file="a.py")
    edits = find("sdpa").edits({"a.py": text}, seen)
    assert 'n_layer=6, attn_implementation="sdpa"' in applied(text, edits)
    assert find("sdpa").edits({"a.py": "x = 1\n"}, seen) is None
