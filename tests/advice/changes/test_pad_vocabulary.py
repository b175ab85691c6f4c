"""The vocabulary's product on padded weights: exact, faster where it should be, and undone."""

from dataclasses import replace

import pytest
import torch
from changed_cases import case_of
from live_runs import results
from tiny_models import gpt2, tiny
from torch import nn

from gpuscope.advice.changes.pad_vocabulary import odd_outputs
from gpuscope.advice.registry import find
from gpuscope.advice.source.edits import applied
from gpuscope.runtime.padded_output import pad_output, padded_size

ODD, EVEN = 8009, 8064


def _build(vocabulary=ODD, device="cuda", **kind):
    return tiny(gpt2(vocabulary=vocabulary, layers=1, width=64), device, rows=(4, 64), **kind)


@pytest.mark.parametrize(("size", "padded"), [(1, 64), (64, 64), (50257, 50304), (30522, 30528)])
def test_the_next_multiple(size, padded):
    assert padded_size(size) == padded


def test_fits_odd_sizes_only():
    change = find("pad-vocabulary")
    odd, even = case_of(_build(autocast=torch.bfloat16)), case_of(_build(EVEN))
    assert odd_outputs(odd.program) == (ODD,)
    assert change.fits(odd).applies
    assert "8,064" in change.fits(odd).why
    assert not change.fits(even).applies
    assert not change.fits(even).relevant


def test_the_products_are_even_and_the_logits_are_not():
    changed = case_of(_build(autocast=torch.bfloat16), "pad-vocabulary")
    products = [
        op
        for op in changed.program.ops
        if op.name in ("aten::mm", "aten::addmm")
        and any(ODD <= n <= EVEN for spec in op.inputs + op.outputs for n in spec.shape)
    ]
    assert len(products) == 3  # forward and twice backward
    for op in products:
        assert not any(ODD in spec.shape for spec in op.inputs + op.outputs)
    losses = [op for op in changed.program.ops if op.name == "aten::_log_softmax"]
    assert losses[0].inputs[0].shape[-1] == ODD


def test_it_gains_in_half_precision():
    build = tiny(
        gpt2(vocabulary=50257, layers=1, width=768), rows=(8, 512), autocast=torch.bfloat16
    )
    plain, changed = case_of(build), case_of(build, "pad-vocabulary")
    assert changed.run.device_busy_s < 0.9 * plain.run.device_busy_s


def test_float32_without_tf32_does_not():
    build = tiny(gpt2(vocabulary=50257, layers=1, width=768), rows=(4, 512))
    plain, changed = case_of(build), case_of(build, "pad-vocabulary")
    assert changed.run.device_busy_s > 0.98 * plain.run.device_busy_s


@pytest.mark.parametrize("autocast", [None, torch.bfloat16])
def test_the_same_losses_really_come(autocast):
    build = _build(device="cpu", autocast=autocast)
    loose = 1e-6 if autocast is None else 1e-2
    torch.testing.assert_close(
        results(build, "pad-vocabulary"), results(build), rtol=loose, atol=loose
    )


@pytest.mark.parametrize("bias", [True, False])
def test_output_and_gradients_are_exact(bias):
    torch.manual_seed(0)
    plain = nn.Linear(16, ODD, bias=bias)
    padded = nn.Linear(16, ODD, bias=bias)
    padded.load_state_dict(plain.state_dict())
    undo = []
    pad_output(padded, undo.append)
    assert set(padded.state_dict()) == set(plain.state_dict())
    x = torch.randn(256, 16)
    found, wanted = padded(x), plain(x)
    assert found.shape == wanted.shape
    torch.testing.assert_close(found, wanted)
    for model, out in ((padded, found), (plain, wanted)):
        (out * torch.arange(ODD)).sum().backward()
        assert model.weight.grad.shape == (ODD, 16)
    for a, b in zip(padded.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(a.grad, b.grad, rtol=1e-4, atol=1e-2)
    undo[0]()
    assert "forward" not in vars(padded)


def test_few_rows_are_left_alone():
    case = case_of(tiny(gpt2(vocabulary=ODD, layers=1), training=False, rows=(1, 8)))
    assert odd_outputs(case.program) == ()


def test_a_call_after_the_model():
    text = "import torch\n\nmodel = GPT2LMHeadModel(config)\nmodel = model.cuda()\nx = 1\n"
    case = case_of(_build())
    seen = replace(case.seen, models=(replace(case.seen.models[0], site="a.py:3"),))
    changed = applied(text, find("pad-vocabulary").edits({"a.py": text}, seen))
    assert "model = model.cuda()\npad_output(model)  # 8009 -> 8064" in changed
