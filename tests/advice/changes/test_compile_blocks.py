"""Regional compilation: each block is a compiled call of its own, the rest stays eager."""

import torch
from changed_cases import case_of
from tiny_models import bert, tiny

from gpuscope.advice.registry import find
from gpuscope.advice.source import applied
from gpuscope.advice.types import ModelSeen, Seen


def test_one_region_a_block():
    case = case_of(tiny(bert(), rows=(2, 128)), "compile-regional")
    assert {o.region for o in case.program.ops} == {0, 1, 2}
    inside = [o for o in case.program.ops if o.region and o.name != "gpuscope::returned"]
    assert all(".layer." in o.module for o in inside)
    assert any("decoder" in o.module for o in case.program.ops if not o.region)


def test_masks_are_decided_on_outside_and_so_left_out():
    case = case_of(tiny(bert(), rows=(2, 128)), "compile-regional")
    fused = [o for o in case.program.ops if o.name == "gpuscope::attention"]
    assert len(fused) == 2
    assert all(len(o.inputs) == 3 for o in fused)


def test_where_it_fits():
    change = find("compile-regional")
    fit = change.fits(case_of(tiny(bert())))
    assert fit.applies
    assert "2 equal blocks" in fit.why.en
    assert not change.fits(case_of(_flat)).applies


def _flat():
    model = torch.nn.Linear(8, 8).cuda()
    x = torch.randn(4, 8, device="cuda")
    return lambda: model(x)


def test_a_loop_over_the_blocks_is_written():
    text = "model = Net()\nrun(model)\n"
    seen = Seen(models=(
        ModelSeen("Net", "__main__", "a.py", 9, ("float32",), {}, ("Block", 4), site="a.py:1"),
    ))  # fmt: skip
    new = applied(text, find("compile-regional").edits({"a.py": text}, seen))
    assert new.splitlines()[1:4] == [
        "for block in model.modules():",
        '    if type(block).__name__ == "Block":',
        "        block.forward = torch.compile(block.forward)",
    ]
