"""Grouped updates: fewer kernels where code asked for a loop; nothing to do elsewhere."""

import pytest
import torch
from changed_cases import case_of
from live_runs import results

from gpuscope.advice.registry import find, plan
from gpuscope.errors import InvalidValueError


def _build(device="cuda", **keywords):
    def build():
        model = torch.nn.Sequential(*(torch.nn.Linear(16, 16) for _ in range(6))).to(device)
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01, **keywords)
        x = torch.ones(4, 16, device=device)

        def step():
            optimizer.zero_grad()
            loss = model(x).square().mean()
            loss.backward()
            optimizer.step()
            return loss

        return step

    return build


def _updates(case):
    """Operators of the optimizer on the device (counters of steps are on the host)."""
    return [
        op.name
        for op in case.program.ops
        if op.phase == "optimizer" and op.inputs and op.inputs[0].device == "device"
    ]


def test_a_loop_becomes_lists():
    plain = case_of(_build(foreach=False))
    grouped = case_of(_build(foreach=False), "foreach-optimizer")
    assert find("foreach-optimizer").fits(plain).applies
    # Twelve parameters, some operators each, against one list of all for each of the same.
    assert len(_updates(plain)) == 12 * len(_updates(grouped))
    assert all("_foreach_" in name for name in _updates(grouped))
    assert grouped.run.step_time_s < plain.run.step_time_s


@pytest.mark.parametrize("keywords", [{}, {"foreach": True}, {"fused": True}])
def test_nothing_to_do_by_default(keywords):
    fit = find("foreach-optimizer").fits(case_of(_build(**keywords)))
    assert not fit.applies
    assert not fit.relevant


def test_the_same_steps_really_run():
    torch.testing.assert_close(
        results(_build("cpu", foreach=False), "foreach-optimizer"),
        results(_build("cpu", foreach=False)),
    )


def test_not_both():
    with pytest.raises(InvalidValueError):
        plan(["foreach-optimizer", "fused-optimizer"])
