"""Regional compilation: each block is a compiled call of its own, the rest stays eager."""

import torch
import torch._dynamo
from changed_cases import case_of
from tiny_models import bert, tiny

from gpuscope.advice.changes.hooks.live import Live
from gpuscope.advice.changes.transforms.compilation import limit_name
from gpuscope.advice.registry import find, plan
from gpuscope.advice.source.edits import applied
from gpuscope.advice.types import ModelSeen, Seen

LIMIT = limit_name()


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
    assert "2 equal blocks" in fit.why
    assert not change.fits(case_of(_flat)).applies


def _flat():
    model = torch.nn.Linear(8, 8).cuda()
    x = torch.randn(4, 8, device="cuda")
    return lambda: model(x)


def test_a_loop_over_the_blocks_is_written():
    text = "model = Net()\nrun(model)\n"
    seen = Seen(
        models=(
            ModelSeen("Net", "__main__", "a.py", 9, ("float32",), {}, ("Block", 4), site="a.py:1"),
        )
    )
    new = applied(text, find("compile-regional").edits({"a.py": text}, seen))
    lines = new.splitlines()
    at = lines.index("model = Net()")
    assert lines[at + 1 : at + 5] == [
        f"torch._dynamo.config.{LIMIT} = max(torch._dynamo.config.{LIMIT}, 12)",
        "for block in model.modules():",
        '    if type(block).__name__ == "Block":',
        "        block.forward = torch.compile(block.forward)",
    ]


class _Named(torch.nn.Module):
    """A block that meets something of its own, as a layer does its part of a cache."""

    def __init__(self, name):
        super().__init__()
        self.linear, self.name = torch.nn.Linear(4, 4), name

    def forward(self, x, table):
        return self.linear(x) + table[self.name]


class _Deep(torch.nn.Module):
    def __init__(self, depth=9):
        super().__init__()
        self.blocks = torch.nn.ModuleList(_Named(f"block{n}") for n in range(depth))

    def forward(self, x):
        table = {block.name: 1.0 for block in self.blocks}
        for block in self.blocks:
            x = block(x, table)
        return x


def test_more_blocks_than_dynamo_would_compile_are_all_compiled(monkeypatch):
    graphs = []

    def counted(graph, inputs):
        graphs.append(graph)
        return graph.forward

    compile_ = torch.compile
    monkeypatch.setattr(torch, "compile", lambda call, **kwargs: compile_(call, backend=counted))
    torch._dynamo.reset()
    limit = getattr(torch._dynamo.config, LIMIT)
    live = Live(plan(["compile-regional"]))

    def build():
        model, x = _Deep(), torch.randn(2, 4)
        return lambda: model(x)

    step = live.wrap(build)()
    step()
    step()
    live.close()
    assert len(graphs) == 9
    assert getattr(torch._dynamo.config, LIMIT) == limit
