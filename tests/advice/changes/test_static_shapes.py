"""Batches of one size: only where a compiler would meet another."""

import torch
from changed_cases import case_of

from gpuscope.advice.changes.hooks.live import Live
from gpuscope.advice.registry import find, plan
from gpuscope.advice.source.edits import applied


def _build(samples=100, compiled=True, device="cuda"):
    def build():
        model = torch.nn.Linear(8, 8).to(device)
        if compiled:
            model.compile()
        data = torch.utils.data.TensorDataset(torch.randn(samples, 8))
        loader = torch.utils.data.DataLoader(data, batch_size=32)
        batches = iter(loader)

        def step():
            (x,) = next(batches)
            return model(x.to(device))

        return step

    return build


def test_where_it_fits():
    change = find("drop-last")
    fit = change.fits(case_of(_build()))
    assert fit.applies
    assert "4 samples" in fit.why
    assert not change.fits(case_of(_build(samples=96))).applies
    assert not change.fits(case_of(_build(compiled=False))).applies
    assert change.numerics == "recipe"


def test_the_last_batch_is_really_left_out():
    sizes = []

    def build():
        data = torch.utils.data.TensorDataset(torch.randn(100, 8))
        loader = torch.utils.data.DataLoader(data, batch_size=32)

        def step():
            sizes.append([len(x) for (x,) in loader])

        return step

    with Live(plan(["drop-last"])) as live:
        live.wrap(build)()()
    assert sizes == [[32, 32, 32]]


def test_the_keyword_is_written():
    text = "import torch\nloader = DataLoader(data, batch_size=32)\n"
    seen = case_of(_build()).seen
    from dataclasses import replace

    placed = replace(seen, loaders=(replace(seen.loaders[0], site="a.py:2"),))
    new = applied(text, find("drop-last").edits({"a.py": text}, placed))
    assert "DataLoader(data, batch_size=32, drop_last=True)" in new
