from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
import torch.distributed as dist

from gpuscope.doctor.probes import deep_collective_rank


@pytest.fixture
def alone(tmp_path):
    """A group of this process alone."""
    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    yield SimpleNamespace(rank=0, world=1, device="cpu")
    dist.destroy_process_group()


def test_numbers_differ_by_rank_and_place_and_add_up_exactly() -> None:
    of = [deep_collective_rank.numbers(5000, rank, "cpu") for rank in range(8)]
    assert not torch.equal(of[0], of[1])
    assert not torch.equal(of[0][:1000], of[0][1021:2021])
    later = deep_collective_rank.numbers(100, 3, "cpu", 50)
    assert torch.equal(later, of[3][50:150])
    total = torch.stack(of).sum(0)
    assert torch.equal(total.long(), torch.stack([each.long() for each in of]).sum(0))


@pytest.mark.filterwarnings("ignore::FutureWarning")  # their names change from version to version
def test_right_collectives_have_nothing_wrong(alone) -> None:
    for check in deep_collective_rank.checks(alone, 1000).values():
        assert check() == 0


def test_a_collective_that_damages_one_element_is_found(alone, monkeypatch) -> None:
    real = dist.all_reduce

    def damaged(value: torch.Tensor, **kwargs: object) -> None:
        real(value, **kwargs)
        value[17] += 1

    monkeypatch.setattr(dist, "all_reduce", damaged)
    assert deep_collective_rank.checks(alone, 1000)["all_reduce"]() == 1
