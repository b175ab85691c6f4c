"""Which attention kernel is asked for, what that means on a device, and that it is undone."""

from dataclasses import replace

import pytest
import torch
from changed_cases import case_of
from live_runs import results
from tiny_models import gpt2, tiny

from gpuscope.advice.registry import find, plan
from gpuscope.advice.source.edits import applied
from gpuscope.errors import InvalidValueError

BUILD = tiny(gpt2(width=256, layers=1), autocast=torch.bfloat16, rows=(8, 1024))


def _kernels(case):
    return {e.name for e in case.run.timeline.events if "attention" in e.name or "flash" in e.name}


def test_flash_instead_of_cudnn_on_hopper():
    plain, flash = case_of(BUILD), case_of(BUILD, "sdpa-flash")
    assert find("sdpa-flash").fits(plain).applies
    assert not find("sdpa-cudnn").fits(plain).applies  # it runs there already
    asked = {op.args["backend"] for op in flash.program.ops if op.name == "gpuscope::attention"}
    assert asked == {"flash_only"}
    # FlashAttention-2 does not use Hopper's own matrix instructions.
    assert flash.run.device_busy_s > plain.run.device_busy_s


def test_elsewhere_flash_runs_already():
    case = case_of(BUILD, on="a100-sxm-80gb")
    assert not find("sdpa-flash").fits(case).applies
    assert find("sdpa-cudnn").fits(case).applies


def test_not_in_float32():
    fit = find("sdpa-flash").fits(case_of(tiny(gpt2(layers=1))))
    assert not fit.applies
    assert not fit.relevant


@pytest.mark.parametrize("name", ["sdpa-flash", "sdpa-cudnn"])
def test_it_really_runs_and_is_undone(name):
    before = torch.backends.cuda.flash_sdp_enabled(), torch.backends.cuda.cudnn_sdp_enabled()
    build = tiny(gpt2(), "cpu")
    torch.testing.assert_close(results(build, name), results(build), rtol=1e-4, atol=1e-5)
    after = torch.backends.cuda.flash_sdp_enabled(), torch.backends.cuda.cudnn_sdp_enabled()
    assert before == after


def test_one_of_two():
    with pytest.raises(InvalidValueError):
        plan(["sdpa-flash", "sdpa-cudnn"])


def test_a_with_around_the_forward_pass():
    text = (
        "import torch\n\n\ndef build():\n    model = make()\n\n    def step():\n"
        "        optimizer.zero_grad()\n        loss = model(x).loss\n        loss.backward()\n"
        "        optimizer.step()\n\n    return step\n"
    )
    seen = replace(case_of(tiny(gpt2(layers=1))).seen, file="a.py", function="build")
    edits = find("sdpa-flash").edits({"a.py": text}, seen)
    changed = applied(text, edits)
    compile(changed, "a.py", "exec")
    assert "with sdpa_kernel([SDPBackend.FLASH_ATTENTION" in changed
    assert "            loss = model(x).loss\n        loss.backward()" in changed
