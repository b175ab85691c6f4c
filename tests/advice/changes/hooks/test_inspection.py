"""What is seen of live code: which line of the user's made it, and in which file it stands."""

from __future__ import annotations

import inspect
from collections.abc import Callable

import torch
from torch import nn

import gpuscope as gs
from gpuscope.advice.changes.hooks.inspection import user_site
from gpuscope.advice.changes.hooks.live import Live


class Inner(nn.Module):
    """A module in a module."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(2, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """One layer."""
        out: torch.Tensor = self.layer(x)
        return out


class Outer(Inner):
    """A module whose constructor calls another's."""

    def __init__(self) -> None:
        super().__init__()
        self.rest = nn.Sequential(nn.ReLU(), Inner())


def _line(text: str) -> int:
    lines, first = inspect.getsourcelines(build)
    return first + next(i for i, line in enumerate(lines) if text in line)


def build() -> Callable[[], object]:
    """Two models, one of torch's own classes."""
    model = Outer().to("cuda")
    other = nn.Sequential(nn.Linear(2, 2), nn.ReLU()).to("cuda")
    x = torch.ones(1, 2, device="cuda")

    def step() -> object:
        torch.cuda.synchronize()
        return other(model(x)).sum().item()

    return step


def test_each_model_has_the_line_that_made_it() -> None:
    before = nn.Module.__init__
    live = Live()
    program = gs.capture(live.wrap(build))
    seen = {model.class_name: model for model in live.seen().models}
    live.close()
    assert nn.Module.__init__ is before
    assert seen["Outer"].site == f"{__file__}:{_line('Outer()')}"
    assert seen["Sequential"].site == f"{__file__}:{_line('other = ')}"
    assert seen["Outer"].files == (__file__,)
    assert seen["Sequential"].files == ()
    sites = {op.sync: op.site for op in program.ops if op.sync}
    name = __file__.rpartition("/")[2]
    assert sites == {
        "synchronize": f"{name}:{_line('synchronize')}",
        "item": f"{name}:{_line('.item()')}",
    }


def test_a_users_site_is_the_line_that_asks() -> None:
    assert user_site().startswith(f"{__file__}:")
