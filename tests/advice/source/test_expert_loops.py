"""What the call in place of a loop over experts says."""

from __future__ import annotations

import pytest

from gpuscope.advice.source.expert_loops import NEEDS, expert_edits, functions_with_experts

TEXT = """\
def forward(self, x, weights, chosen):
    out = torch.zeros_like(x)
    for e in range({count}):
        t, k = torch.where(chosen == e)
        out.index_add_(0, t, self.experts[e](x[t]) * weights[t, k, None])
    return out
"""


@pytest.mark.parametrize("count", ["len(self.experts)", "self.n", "8"])
def test_one_call_takes_the_loops_place(count: str) -> None:
    text = TEXT.format(count=count)
    (function,) = functions_with_experts(text)
    (edit,) = expert_edits("model.py", text, function)
    assert (edit.first, edit.last, edit.needs) == (3, 5, (NEEDS,))
    call = f"add_experts(out, self.experts, x, chosen, weights, count={count})"
    assert edit.text == f"    {call}\n"


@pytest.mark.parametrize("count", ["1, 8", "self.n - 1", "count()"])
def test_other_ranges_are_left(count: str) -> None:
    assert functions_with_experts(TEXT.format(count=count)) == []
