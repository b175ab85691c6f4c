"""A layer of experts in one call: known numbers, numbers beyond the experts, kinds left alone."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from gpuscope.runtime import grouped_experts as grouped_loop
from gpuscope.runtime.grouped_experts import add_experts
from gpuscope.runtime.row_wise import row_wise


class Normed(nn.Module):
    """Its rows must stand together: not row by row."""

    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.up(x - x.mean(0))  # type: ignore[no-any-return]


def _experts(kind: type[nn.Module] | None = None, width: int = 4) -> nn.ModuleList:
    torch.manual_seed(0)
    return nn.ModuleList(
        [
            kind() if kind else nn.Sequential(nn.Linear(width, 8), nn.ReLU(), nn.Linear(8, width))
            for _ in range(3)
        ]
    )


def _added(
    experts: nn.ModuleList, x: torch.Tensor, chosen: torch.Tensor, to: torch.Tensor
) -> torch.Tensor:
    """What a loop over experts, one a token, adds."""
    for e, expert in enumerate(experts):
        to[chosen == e] += expert(x[chosen == e])
    return to


@pytest.mark.parametrize("kind", [None, Normed])
def test_numbers_beyond_the_experts_choose_none(kind: type[nn.Module] | None) -> None:
    experts = _experts(kind)
    x, chosen = torch.randn(6, 4), torch.tensor([0, 2, 5, -1, 1, 2])
    want = _added(experts, x, chosen, torch.ones(6, 4))
    out = torch.ones(6, 4)
    add_experts(out, experts, x, chosen)
    torch.testing.assert_close(out, want)
    assert torch.equal(out[2:4], torch.ones(2, 4))


def test_masks_of_two_dimensions() -> None:
    experts = _experts()
    x, chosen, weights = torch.randn(2, 3, 4), torch.randint(0, 3, (2, 3)), torch.rand(2, 3)
    want = torch.zeros(2, 3, 4)
    for e, expert in enumerate(experts):
        mask = chosen == e
        want[mask] += expert(x[mask]) * weights[mask].unsqueeze(-1)
    out = torch.zeros(2, 3, 4)
    add_experts(out, experts, x, chosen, weights, masked=True)
    torch.testing.assert_close(out, want)


def test_unlike_experts_stay_in_their_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grouped_loop, "_run", None)
    experts = _experts()
    experts[1][1] = nn.GELU()
    x, chosen = torch.randn(5, 4), torch.tensor([[0, 1], [1, 2], [2, 0], [1, 0], [2, 1]])
    out, want = torch.zeros(5, 4), torch.zeros(5, 4)
    add_experts(out, experts, x, chosen)
    for e, expert in enumerate(experts):
        want.index_add_(0, torch.where(chosen == e)[0], expert(x[torch.where(chosen == e)[0]]))
    torch.testing.assert_close(out, want)


def _doubles(module: nn.Module, args: object, out: torch.Tensor) -> torch.Tensor:
    return 2 * out


@pytest.mark.parametrize("part", ["0.0", "2.2", "1"])
def test_a_hook_added_later_to_any_expert_is_heard(part: str) -> None:
    experts = _experts()
    x, chosen = torch.randn(6, 4), torch.tensor([0, 2, 1, 0, 1, 2])
    add_experts(torch.zeros(6, 4), experts, x, chosen)
    experts.get_submodule(part).register_forward_hook(_doubles)
    want = _added(experts, x, chosen, torch.zeros(6, 4))
    out = torch.zeros(6, 4)
    add_experts(out, experts, x, chosen)
    torch.testing.assert_close(out, want)


def test_an_expert_without_a_bias_among_others() -> None:
    experts = _experts()
    experts[0][2].bias = None
    x, chosen = torch.randn(6, 4), torch.tensor([0, 2, 1, 0, 1, 2])
    want = _added(experts, x, chosen, torch.zeros(6, 4))
    out = torch.zeros(6, 4)
    add_experts(out, experts, x, chosen)
    torch.testing.assert_close(out, want)


def test_it_is_compiled_in_one_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grouped_loop, "_can_group", lambda *_: True)
    experts = _experts(width=16).bfloat16()
    x, chosen = torch.randn(8, 16).bfloat16(), torch.randint(0, 3, (8, 2))

    def run(x: torch.Tensor) -> torch.Tensor:
        out = torch.zeros_like(x)
        add_experts(out, experts, x, chosen)
        return out

    compiled = torch.compile(run, backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(compiled(x), run(x))


def test_which_classes_work_row_by_row() -> None:
    assert row_wise(nn.Sequential)
    assert not row_wise(nn.LayerNorm)
    assert not row_wise(Normed)
