"""Activations on the host: less memory on the device, the link's time more."""

import torch
from changed_cases import case_of

from gpuscope.advice.registry import find
from gpuscope.advice.types import ChangeCase

ROWS, WIDTH, LAYERS = 8192, 1024, 8


def _build(training: bool = True):
    def build():
        layers = [
            m for _ in range(LAYERS) for m in (torch.nn.Linear(WIDTH, WIDTH), torch.nn.GELU())
        ]
        model = torch.nn.Sequential(*layers).cuda()
        x = torch.randn(ROWS, WIDTH, device="cuda")

        def step():
            if not training:
                with torch.no_grad():
                    return model(x)
            loss = model(x).square().mean()
            loss.backward()
            return loss

        return step

    return build


def test_memory_and_time() -> None:
    plain, changed = case_of(_build()), case_of(_build(), "activation-offload")
    tensor = ROWS * WIDTH * 4
    # Each layer saves its input and the input of its GELU, the loss its own; all go and come once.
    there = [op for op in changed.program.ops if op.name == "aten::_to_copy"]
    out = [op for op in there if op.outputs[0].device == "host"]
    assert len(out) == 2 * LAYERS + 1
    assert len(there) == 2 * len(out)
    assert not any(op.sync for op in there)
    less = plain.run.peak_memory_bytes - changed.run.peak_memory_bytes
    assert less > 0.7 * 2 * LAYERS * tensor
    link_s = 2 * len(out) * tensor / plain.device.host_link_bandwidth_bytes_per_s
    longer = changed.run.step_time_s - plain.run.step_time_s
    assert 0.8 * link_s < longer < 1.5 * link_s


def test_where_it_fits() -> None:
    change = find("activation-offload")
    case = case_of(_build())
    assert change.fits(case).applies
    assert "activations hold" in change.fits(case).why
    assert "cross the link" in change.price(case)
    assert not change.fits(case_of(_build(training=False))).relevant
    assert not change.fits(ChangeCase(case.run, case.cluster)).applies
