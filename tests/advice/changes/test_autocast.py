"""Autocast: what the code does by hand is what the change does; losses scaled for float16."""

import pytest
import torch
from changed_cases import case_of

from gpuscope.advice.registry import find
from gpuscope.advice.source.edits import applied
from gpuscope.advice.types import Seen


def _build(by_hand=None, training=True, scaler=False):
    def build():
        model = torch.nn.Sequential(
            torch.nn.Linear(64, 256), torch.nn.LayerNorm(256), torch.nn.Linear(256, 64)
        ).cuda()
        optimizer = torch.optim.AdamW(model.parameters())
        scaling = torch.amp.GradScaler("cuda", enabled=scaler)
        x = torch.randn(32, 64, device="cuda")

        def step():
            optimizer.zero_grad()
            with torch.autocast("cuda", dtype=by_hand, enabled=by_hand is not None):
                loss = torch.nn.functional.mse_loss(model(x), x)
            if training:
                scaling.scale(loss).backward()
                if by_hand is not None:
                    scaling.step(optimizer)
                    scaling.update()
                else:
                    optimizer.step()
            return loss

        return step

    return build


def _signature(case):
    return [(o.name, o.phase, tuple(t.dtype for t in o.inputs)) for o in case.program.ops]


def test_the_same_operators_as_autocast_written_by_hand():
    changed = case_of(_unnested(), "bf16-autocast")
    by_hand = case_of(_unnested(torch.bfloat16))
    assert _signature(changed) == _signature(by_hand)
    assert changed.run.device_busy_s == pytest.approx(by_hand.run.device_busy_s, rel=1e-3)
    assert changed.run.step_time_s == pytest.approx(by_hand.run.step_time_s, rel=0.03)


def _unnested(by_hand=None):
    """Without the code's own (disabled) autocast, which would win over an outer one."""

    def build():
        model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.Linear(256, 64)).cuda()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        x = torch.randn(32, 64, device="cuda")

        def forward():
            return torch.nn.functional.mse_loss(model(x), x)

        def step():
            optimizer.zero_grad()
            if by_hand is None:
                loss = forward()
            else:
                with torch.autocast("cuda", dtype=by_hand):
                    loss = forward()
            loss.backward()
            optimizer.step()

        return step

    return build


def test_weights_and_updates_stay_in_float32():
    case = case_of(_unnested(), "bf16-autocast")
    updates = [o for o in case.program.ops if o.phase == "optimizer" and o.inputs]
    assert updates
    assert {t.dtype for o in updates for t in o.inputs} == {"float32"}
    products = [o for o in case.program.ops if o.name in ("aten::mm", "aten::addmm")]
    assert {o.inputs[-1].dtype for o in products} == {"bfloat16"}


def test_accumulated_passes_are_all_under_autocast():
    def build():
        model = torch.nn.Linear(64, 64).cuda()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        x = torch.randn(32, 64, device="cuda")

        def step():
            for _ in range(2):
                model(x).square().mean().backward()
            optimizer.step()

        return step

    products = [o for o in case_of(build, "bf16-autocast").program.ops if "mm" in o.name]
    assert len(products) == 4
    assert {t.dtype for o in products for t in o.inputs[-2:]} == {"bfloat16"}


def test_float16_scales_and_reads_its_flag():
    names = [o.name for o in case_of(_unnested(), "fp16-autocast").program.ops]
    assert "aten::_amp_foreach_non_finite_check_and_unscale_" in names
    assert "aten::_amp_update_scale_" in names


def test_where_it_fits():
    change, scaled = find("bf16-autocast"), find("fp16-autocast")
    plain = case_of(_unnested())
    assert change.fits(plain).applies
    assert "of the step" in change.fits(plain).why
    halved = case_of(_unnested(torch.bfloat16))
    assert not change.fits(halved).applies
    assert not change.fits(case_of(_unnested(), on="v100")).applies
    assert scaled.fits(case_of(_unnested(), on="v100")).applies
    assert not scaled.fits(case_of(_build(torch.float16, scaler=True))).applies
    assert scaled.name in change.excludes


def test_the_forward_pass_is_put_under_autocast():
    text = (
        "import torch\n\n\ndef build():\n    model = Model()\n    opt = make(model)\n\n"
        "    def step():\n        opt.zero_grad()\n        out = model(x)\n"
        "        loss = f(out)\n        loss.backward()\n        opt.step()\n\n    return step\n"
    )
    edits = find("bf16-autocast").edits({"a.py": text}, Seen(file="a.py", function="build"))
    assert applied(text, edits) == text.replace(
        "        out = model(x)\n        loss = f(out)\n",
        '        with torch.autocast("cuda", dtype=torch.bfloat16):\n'
        "            out = model(x)\n            loss = f(out)\n",
    )


def test_a_loss_that_is_differentiated_at_once_gets_a_line_of_its_own():
    text = (
        "import torch\n\n\ndef build():\n    def step():\n        opt.zero_grad()\n"
        "        model(x, labels=x).loss.backward()\n        opt.step()\n\n    return step\n"
    )
    edits = find("bf16-autocast").edits({"a.py": text}, Seen(file="a.py", function="build"))
    assert applied(text, edits) == text.replace(
        "        model(x, labels=x).loss.backward()\n",
        '        with torch.autocast("cuda", dtype=torch.bfloat16):\n'
        "            loss = model(x, labels=x).loss\n        loss.backward()\n",
    )


def test_without_source_nothing_is_written():
    assert find("bf16-autocast").edits({}, Seen(file="a.py")) is None
    assert find("fp16-autocast").edits({"a.py": "x = 1\n"}, Seen(file="a.py")) is None
