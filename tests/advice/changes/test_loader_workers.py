"""Workers really make a slow loader faster, and the same batches."""

import time

import pytest
import torch
from changed_cases import case_of
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset

from gpuscope.advice.changes import loader_workers
from gpuscope.advice.changes.hooks.live import Live
from gpuscope.advice.changes.loader_workers import workers_here
from gpuscope.advice.registry import find


class Slow(Dataset):
    """Waits, as a disk does."""

    def __len__(self) -> int:
        return 32

    def __getitem__(self, index: int) -> torch.Tensor:
        time.sleep(0.02)
        return torch.full((4,), float(index))


class Stream(IterableDataset):
    def __iter__(self):
        return iter(torch.arange(64.0).reshape(16, 4))


def _build(dataset, **keywords):
    def build():
        linear = torch.nn.Linear(4, 4).cuda()
        batches = iter(DataLoader(dataset, batch_size=4, **keywords))

        def step():
            return linear(next(batches).to("cuda"))

        return step

    return build


def _epoch(loader: DataLoader) -> tuple[list[torch.Tensor], float]:
    started = time.perf_counter()
    return list(loader), time.perf_counter() - started


@pytest.mark.filterwarnings("ignore:This DataLoader will create")
def test_really_faster_and_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loader_workers, "workers_here", lambda: 4)
    plain, slow_s = _epoch(DataLoader(Slow(), batch_size=4))
    with Live([find("loader-workers")]):
        loader = DataLoader(Slow(), batch_size=4)
        _epoch(loader)  # starts the processes
        changed, quick_s = _epoch(loader)
    assert loader.num_workers == 4
    assert loader.persistent_workers
    assert slow_s >= 32 * 0.02
    assert quick_s < slow_s / 2
    assert all(torch.equal(a, b) for a, b in zip(plain, changed, strict=True))
    assert DataLoader(Slow()).num_workers == 0  # undone


def test_where_it_fits() -> None:
    change = find("loader-workers")
    fit = change.fits(case_of(_build(Slow())))
    assert fit.applies
    assert "known only once it is run" in fit.why
    assert "2 workers" in change.fits(case_of(_build(Slow(), num_workers=2))).why
    assert "stream" in change.fits(case_of(_build(Stream()))).why
    memory = TensorDataset(torch.randn(32, 4))
    assert not change.fits(case_of(_in_memory(memory))).applies


def _in_memory(dataset):
    def build():
        linear = torch.nn.Linear(4, 4).cuda()
        batches = iter(DataLoader(dataset, batch_size=4))
        return lambda: linear(next(batches)[0].cuda())

    return build


def test_streams_are_left_alone() -> None:
    with Live([find("loader-workers")]):
        assert DataLoader(Stream(), batch_size=4).num_workers == 0


def test_work_of_the_dataset_leaves_the_step() -> None:
    plain, changed = case_of(_build(Slow())), case_of(_build(Slow()), "loader-workers")
    stacks = [sum(op.name == "aten::stack" for op in c.program.ops) for c in (plain, changed)]
    assert stacks == [1, 0]


def test_cores_are_shared_by_the_processes_of_a_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    alone = workers_here()
    assert 1 <= alone <= 16
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "1000")
    assert workers_here() == 1


def test_edit(tmp_path) -> None:
    file = tmp_path / "train.py"
    file.write_text("from torch.utils.data import DataLoader\nx = DataLoader(data, shuffle=True)\n")
    from gpuscope.advice.types import LoaderSeen, Seen

    seen = Seen(loaders=(LoaderSeen({"shuffle": True}, 10, f"{file}:2", "Slow"),))
    (edit,) = find("loader-workers").edits({str(file): file.read_text()}, seen)
    assert edit.first == edit.last == 2
    number = workers_here()
    assert edit.text == (
        f"x = DataLoader(data, shuffle=True, num_workers={number}, persistent_workers=True)\n"
    )
