"""Graph breaks: named where they are in the user's lines, removed where they are not."""

import torch
from changed_cases import case_of
from tiny_models import gpt2, tiny

from gpuscope.advice.changes.hooks.live import Live
from gpuscope.advice.registry import find, plan


class _Branch(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = torch.nn.Linear(8, 8), torch.nn.Linear(8, 8)

    def forward(self, x):
        x = self.a(x)
        if x.sum() > 0:
            x = x * 2
        return self.b(x)


def _breaking():
    model = _Branch().cuda()
    model.compile()
    x = torch.randn(4, 8, device="cuda")
    return lambda: model(x)


def test_breaks_in_the_users_lines_are_named():
    fit = find("graph-breaks").fits(case_of(_breaking))
    assert not fit.applies
    assert fit.relevant
    assert "test_graph_breaks.py" in fit.why


def test_a_loss_without_a_name_gets_one():
    change = find("graph-breaks")
    assert change.fits(case_of(tiny(gpt2()), "compile")).applies
    assert not change.fits(case_of(tiny(gpt2()))).relevant
    live = Live(plan(["graph-breaks"]))
    step = live.wrap(tiny(gpt2(), device="cpu"))()
    assert live.models[0].loss_type == "ForCausalLM"
    named = step()
    live.close()
    torch.testing.assert_close(named, tiny(gpt2(), device="cpu")()())
