"""Masks that mask nothing go; masks that mask something stay; compiled models build none."""

import pytest
import torch
from changed_cases import case_of
from live_runs import results
from tiny_models import bert, gpt2, tiny

from gpuscope.advice.changes.hooks.live import Live
from gpuscope.advice.changes.padding_mask import masked_attention
from gpuscope.advice.registry import find


def _half(tokens):
    mask = torch.ones_like(tokens)
    mask[:, tokens.shape[1] // 2 :] = 0
    return mask


@pytest.mark.parametrize("make", [bert, gpt2])
def test_an_empty_mask_goes_under_a_compiler(make):
    build = tiny(make(), mask=torch.ones_like, compiled="inductor", dtype=torch.bfloat16)
    plain, changed = case_of(build), case_of(build, "no-padding-mask")
    assert masked_attention(plain.program) == 2
    assert masked_attention(changed.program) == 0
    assert any(op.name == "gpuscope::attention" for op in changed.program.ops)
    assert find("no-padding-mask").fits(plain).applies
    assert not find("no-padding-mask").fits(changed).applies


def test_a_compiled_model_without_a_mask_builds_none():
    build = tiny(bert(), compiled="inductor", dtype=torch.bfloat16)
    plain, changed = case_of(build), case_of(build, "no-padding-mask")
    # The mask it builds is expanded along the keys: no fused kernel takes it.
    assert not any(op.name == "gpuscope::attention" for op in plain.program.ops)
    assert find("no-padding-mask").fits(plain).applies
    assert sum(op.name == "gpuscope::attention" for op in changed.program.ops) == 2
    assert changed.run.device_busy_s < plain.run.device_busy_s


@pytest.mark.parametrize(
    ("make", "mask", "compiled"),
    [
        (bert, torch.ones_like, None),
        (gpt2, _half, None),
        (bert, None, "eager"),
        pytest.param(gpt2, None, "eager", marks=pytest.mark.slow),
        (bert, _half, "eager"),
        pytest.param(gpt2, torch.ones_like, "eager", marks=pytest.mark.slow),
    ],
)
def test_the_same_losses_really_come(make, mask, compiled):
    torch._dynamo.reset()
    build = tiny(make(), "cpu", mask=mask, compiled=compiled)
    changed = results(build, "no-padding-mask", steps=2)
    plain = results(tiny(make(), "cpu", mask=mask), steps=2)
    torch.testing.assert_close(changed, plain, rtol=1e-4, atol=1e-5)


def test_a_mask_is_looked_at_again_when_it_changes():
    torch.manual_seed(0)
    model = bert()().eval()
    tokens = torch.randint(0, 90, (2, 16))
    mask = torch.ones_like(tokens)

    def build():
        return lambda: model(input_ids=tokens, attention_mask=mask).logits

    live = Live([find("no-padding-mask")])
    try:
        step = live.wrap(build)()
        unmasked = step()
        mask[:, 8:] = 0
        masked = step()
    finally:
        live.close()
    torch.testing.assert_close(masked, build()())
    assert not torch.allclose(masked, unmasked)


def test_uncompiled_it_fits_where_a_mask_is_passed():
    change = find("no-padding-mask")
    assert change.fits(case_of(tiny(bert(), mask=torch.ones_like))).applies
    fit = change.fits(case_of(tiny(bert())))
    assert not fit.applies
    assert not fit.relevant


def test_only_for_models_of_transformers():
    def build():
        model = torch.nn.Linear(8, 8).cuda()
        return lambda: model(torch.randn(4, 8, device="cuda"))

    fit = find("no-padding-mask").fits(case_of(build))
    assert not fit.applies
    assert not fit.relevant
