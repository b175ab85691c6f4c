"""Constructors are edited before, seen after, and put back."""

import pytest
import torch
from torch.utils.data import DataLoader

from gpuscope.advice.changes.hooks.constructors import (
    watch_constructor,
    watch_loaders,
    watch_optimizers,
    watch_wrappers,
)
from gpuscope.advice.changes.hooks.replaced_names import Replaced


class _Thing:
    def __init__(self, first, second=2, **more):
        self.values = (first, second, more)


class _Special(_Thing):
    pass


@pytest.fixture
def replaced():
    found = Replaced()
    yield found
    found.undo()


def test_keywords_are_edited_and_the_object_is_seen(replaced) -> None:
    made = []

    def begins(cls, keywords):
        keywords["second"] = keywords.get("second", 0) + 5

    before = _Thing.__init__
    watch_constructor(replaced, _Thing, begins, lambda *each: made.append(each))
    thing = _Thing(1, 2, third=3)
    assert thing.values == (1, 7, {"third": 3})
    assert made == [(thing, {"first": 1, "second": 7, "third": 3})]
    assert _Special(1).values == (1, 2, {})  # another class: left alone
    with pytest.raises(TypeError, match="first"):
        _Thing()
    assert len(made) == 1
    replaced.undo()
    assert _Thing.__init__ is before


def test_optimizers(replaced) -> None:
    told = []

    def begins(cls, keywords):
        told.append(cls)
        keywords["lr"] = 0.5

    watch_optimizers(replaced, begins, lambda this, keywords: told.append(this))
    adam = torch.optim.AdamW([torch.ones(2, requires_grad=True)], lr=0.1)
    assert adam.param_groups[0]["lr"] == 0.5
    assert told == [torch.optim.AdamW, adam]  # and not Adam, of which it is a kind


def test_loaders(replaced) -> None:
    made = []
    watch_loaders(
        replaced,
        [lambda keywords: keywords.update(batch_size=4)],
        [lambda batches: (b + 1 for b in batches), lambda batches: (b * 10 for b in batches)],
        lambda this, keywords: made.append(keywords["batch_size"]),
    )
    loader = DataLoader(torch.arange(8), batch_size=2)
    assert [batch.tolist() for batch in loader] == [[10, 20, 30, 40], [50, 60, 70, 80]]
    assert made == [4]


def test_wrappers_are_put_back(replaced) -> None:
    import torch.distributed.fsdp as fsdp

    if not hasattr(fsdp, "fully_shard"):
        pytest.skip("a PyTorch without it")
    before = fsdp.fully_shard, torch.nn.parallel.DistributedDataParallel.__init__
    told = []
    watch_wrappers(
        replaced, lambda kind, keywords: told.append((kind, keywords)), lambda *made: None
    )
    assert vars(fsdp.fully_shard).items() >= vars(before[0]).items()
    with pytest.raises(Exception):  # noqa: B017, PT011 - there is no mesh; torch says so itself
        fsdp.fully_shard(torch.nn.Linear(2, 2), mesh="none")
    assert told == [("fully_shard", {"mesh": "none"})]
    replaced.undo()
    assert before == (fsdp.fully_shard, torch.nn.parallel.DistributedDataParallel.__init__)
