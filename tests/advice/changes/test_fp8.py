"""float8: only large layers, only on devices that have it; a loss without the compiler."""

import torch
from changed_cases import case_of

from gpuscope.advice.registry import find


def _build(size=2048, training=True):
    def build():
        body = torch.nn.Sequential(
            torch.nn.Linear(size, size), torch.nn.Linear(size, 64), torch.nn.Linear(64, size)
        )
        model = torch.nn.ModuleDict({"body": body, "head": torch.nn.Linear(size, size)})
        model = model.to("cuda", torch.bfloat16).train(training)
        model.requires_grad_(training)
        x = torch.randn(512, size, device="cuda", dtype=torch.bfloat16)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1) if training else None

        def step():
            out = model["head"](body(x))
            if optimizer is not None:
                out.square().mean().backward()
                optimizer.step()
                optimizer.zero_grad()

        return step

    return build


def _scaled(case):
    return [o for o in case.program.ops if o.name == "aten::_scaled_mm"]


def test_large_inner_layers_multiply_in_float8():
    # One layer is large and not the output: forward, and two gradients.
    case = case_of(_build(), "fp8")
    assert [o.phase for o in _scaled(case)].count("forward") == 1
    assert len(_scaled(case)) == 3
    assert {o.inputs[0].dtype for o in _scaled(case)} == {"float8_e4m3fn", "float8_e5m2"}
    assert not _scaled(case_of(_build(512), "fp8"))


def test_inference_stores_its_weight_in_float8():
    plain, case = case_of(_build(training=False)), case_of(_build(training=False), "fp8")
    assert len(_scaled(case)) == 1
    weights = [s.nbytes for s in case.program.storages if s.category == "parameter"]
    assert 2048 * 2048 in weights
    assert case.run.peak_memory_bytes < plain.run.peak_memory_bytes + 4 * 512 * 2048


def test_where_it_fits():
    change, case = find("fp8"), case_of(_build())
    assert change.fits(case).applies
    assert "2048" in change.fits(case).why
    assert not change.fits(case_of(_build(), on="a100-sxm-80gb")).applies
    assert not change.fits(case_of(_build(512))).applies
    assert change.numerics == "fp8"
    assert change.risk(case) is not None
