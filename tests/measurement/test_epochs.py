"""Loaders begin again under a step that does not expect their end, and under no other."""

from __future__ import annotations

import gc
import multiprocessing
import os
import subprocess
import sys
import textwrap
import time
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset
from torch.utils.data.dataloader import _BaseDataLoaderIter

import gpuscope as gs
from gpuscope.errors import WorkloadError
from gpuscope.measurement.epochs import Epochs

ORIGINAL = _BaseDataLoaderIter.__next__


class Numbers(Dataset):
    def __len__(self) -> int:
        return 6

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.tensor(index)


class Stream(IterableDataset):
    def __iter__(self) -> Iterator[int]:
        return iter(range(6))


KINDS = pytest.mark.parametrize(
    "options",
    [{}, {"num_workers": 2}, {"num_workers": 2, "persistent_workers": True}],
    ids=["here", "workers", "persistent"],
)


@pytest.fixture(autouse=True)
def _as_it_was() -> Iterator[None]:
    yield
    gc.collect()
    assert _BaseDataLoaderIter.__next__ is ORIGINAL
    assert not multiprocessing.active_children()


def asks(batches: Iterator[Any]) -> Callable[[], list[int]]:
    return lambda: next(batches).tolist()


@KINDS
@pytest.mark.parametrize("dataset", [Numbers, Stream])
def test_a_loader_begins_again(dataset: type, options: dict[str, Any]) -> None:
    if dataset is Stream and options:
        options = {**options, "num_workers": 1}  # each worker would give the whole stream
    with Epochs() as epochs:
        step = epochs.restarting(asks(iter(DataLoader(dataset(), batch_size=2, **options))))
        assert [step() for _ in range(8)] == [[0, 1], [2, 3], [4, 5]] * 2 + [[0, 1], [2, 3]]
        assert epochs.lengths == (3,)
        assert epochs.notes == ("The loader ran out after 3 batches and began again.",)


def test_a_step_is_the_function_that_it_was() -> None:
    def step() -> None: ...

    found = Epochs().restarting(step)
    assert (found.__name__, found.__wrapped__) == ("step", step)  # type: ignore[attr-defined]


@KINDS
def test_code_that_expects_the_end_is_left_alone(options: dict[str, Any]) -> None:
    loader = DataLoader(Numbers(), batch_size=2, **options)
    held = {"batches": iter(loader)}
    ends = []

    def step() -> int:
        try:
            batch = next(held["batches"])
        except StopIteration:
            ends.append(1)
            held["batches"] = iter(loader)
            batch = next(held["batches"])
        return int(batch[0])

    with Epochs() as epochs:
        again = epochs.restarting(step)
        assert [again() for _ in range(7)] == [0, 2, 4, 0, 2, 4, 0]
        assert (len(ends), epochs.lengths) == (2, ())


@KINDS
def test_a_loop_over_a_loader_ends(options: dict[str, Any]) -> None:
    loader = DataLoader(Numbers(), batch_size=2, **options)
    with Epochs() as epochs:
        step = epochs.restarting(lambda: sum(int(batch.sum()) for batch in loader))
        assert [step(), step()] == [15, 15]
        assert epochs.lengths == ()


@pytest.mark.parametrize("inside", [False, True])
def test_other_iterators_run_out(inside: bool) -> None:
    """Also where a loop over a loader has ended in the same step."""
    loader, others, calls = DataLoader(Numbers()), iter(range(2)), []

    def step() -> int:
        calls.append(1)
        if inside:
            list(loader)
        return next(others)

    with Epochs() as epochs:
        again = epochs.restarting(step)
        assert [again(), again()] == [0, 1]
        with pytest.raises(StopIteration):
            again()
    assert (len(calls), epochs.lengths) == (3, ())


def test_a_generator_around_a_loader_has_ended() -> None:
    def images() -> Iterator[int]:
        for batch in DataLoader(Numbers(), batch_size=3):
            yield int(batch[0])

    batches = images()
    with Epochs() as epochs:
        step = epochs.restarting(lambda: next(batches))
        assert [step(), step()] == [0, 3]
        with pytest.raises(StopIteration):
            step()


def test_an_empty_loader_is_asked_twice_and_no_more() -> None:
    calls = []

    def step() -> None:
        calls.append(1)
        next(batches)

    with Epochs() as epochs:
        batches = iter(DataLoader([], batch_size=2))
        with pytest.raises(StopIteration):
            epochs.restarting(step)()
    assert len(calls) == 2


def test_iterators_around_a_loaders_go_on() -> None:
    class Mine:
        """As many write it: the end is caught, and told anew."""

        def __init__(self, batches: Iterator[Any]) -> None:
            self.batches = batches

        def __next__(self) -> Any:
            try:
                return next(self.batches)
            except StopIteration:
                raise StopIteration("no more") from None

    with Epochs() as epochs:
        mine = Mine(enumerate(map(int, iter(DataLoader(Numbers())))))
        step = epochs.restarting(lambda: next(mine))
        assert [step() for _ in range(8)][-3:] == [(5, 5), (6, 0), (7, 1)]


def test_two_loaders_that_end_together() -> None:
    """The first one's batch is gone when the second one's end is found."""
    with Epochs() as epochs:
        one, other = (iter(DataLoader(Numbers(), batch_size=2)) for _ in range(2))
        step = epochs.restarting(lambda: [int(next(one)[0]), int(next(other)[0])])
        assert [step() for _ in range(5)] == [[0, 0], [2, 2], [4, 4], [2, 0], [4, 2]]
        assert epochs.lengths == (3,)


def test_outside_of_its_time_nothing_begins_again() -> None:
    with Epochs() as epochs:
        step = epochs.restarting(asks(iter(DataLoader(Numbers(), batch_size=3))))
        assert [step(), step()] == [[0, 1, 2], [3, 4, 5]]
    with pytest.raises(StopIteration):
        step()


def test_shuffled_batches_are_drawn_as_by_a_new_iterator() -> None:
    def taken(again: bool) -> list[list[int]]:
        torch.manual_seed(1)
        loader = DataLoader(Numbers(), batch_size=3, shuffle=True)
        if again:
            with Epochs() as epochs:
                step = epochs.restarting(asks(iter(loader)))
                return [step() for _ in range(6)]
        return [batch.tolist() for _ in range(3) for batch in loader]

    assert taken(again=True) == taken(again=False)


def test_a_loader_and_its_workers_are_let_go() -> None:
    """Nothing of what is known of an iterator holds it: its workers end when the user lets go."""
    with Epochs():
        loader = DataLoader(Numbers(), num_workers=1, persistent_workers=True)
        held = weakref.ref(iter(loader))
        assert held() is not None
        gc.disable()
        try:
            del loader
            assert held() is None
        finally:
            gc.enable()


def test_workers_in_a_cycle_end_at_once() -> None:
    """Collected with their queues, they would not be told to end: PyTorch then waits 5 s each."""
    with Epochs() as epochs:
        held: dict[str, Any] = {"batches": iter(DataLoader(Numbers(), num_workers=2))}
        held["myself"] = held
        assert len(next(held["batches"])) == 1
        del held
        begin = time.perf_counter()
        epochs.close()
        assert time.perf_counter() - begin < 9.0  # two that are not told: ten
    assert not multiprocessing.active_children()


def test_what_a_loader_takes_is_known() -> None:
    class Slow(Numbers):
        def __getitem__(self, index: int) -> torch.Tensor:
            time.sleep(0.02)
            return super().__getitem__(index)

    with Epochs() as epochs:
        step = epochs.restarting(asks(iter(DataLoader(Slow(), batch_size=2))))
        assert epochs.waited_s == 0.0
        for _ in range(5):  # three batches, then it begins again
            step()
    assert 0.2 <= epochs.waited_s < 20  # more on a busy machine


@pytest.mark.parametrize("workers", [0, 2])
def test_measuring_goes_round_and_says_so(workers: int) -> None:
    def build() -> Callable[[], object]:
        options = {"num_workers": workers, "persistent_workers": bool(workers)}
        return asks(iter(DataLoader(Numbers(), batch_size=2, **options)))  # type: ignore[arg-type]

    run = gs.measure(build, on="cpu", seconds=0.1, profile=False)
    assert "The loader ran out after 3 batches and began again." in run.assumptions


def test_measuring_a_list_that_runs_out_fails_as_ever() -> None:
    def build() -> Callable[[], object]:
        return asks(iter([torch.ones(2)] * 3))

    with pytest.raises(WorkloadError, match="raised StopIteration"):
        gs.measure(build, on="cpu", seconds=0.1, profile=False)


ENDING = """
    import atexit, sys, time
    import torch
    from torch.utils.data import DataLoader, dataloader

    real = dataloader._MultiProcessingDataLoaderIter

    class Iterator(real):
        # As PyTorch 2.11 does where batches are page-locked: a worker that nobody has told to end
        # is waited for, five seconds each.
        def __init__(self, loader):
            super().__init__(loader)
            for worker in self._workers:
                atexit.register(waited, worker)

        def _register_persistent_workers_atexit(self):
            pass

    def waited(worker):
        begin = time.perf_counter()
        worker.join(timeout=5)
        print(f"waited {{time.perf_counter() - begin:.1f}} s", worker.is_alive())
        worker.terminate()

    dataloader._MultiProcessingDataLoaderIter = Iterator
    sys.argv = ["gpuscope", "measure", "{file}:build", "--device", "cpu", "--seconds", "0.1",
                "--no-profile", "--quiet"]
    from gpuscope.cli.app import main
    main()
"""

WORKLOAD = """
    import torch
    from torch.utils.data import DataLoader

    {loader}

    def build():
        model = torch.nn.Linear(1, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        {inside}
        state = {{"batches": iter(loader)}}

        def step():
            model(next(state["batches"]).float()[:, None]).sum().backward()
            optimizer.step()

        return step
"""

LOADER = "loader = DataLoader(range(10**6), num_workers=2, persistent_workers=True)"


@pytest.mark.parametrize("place", ["in build", "in the file"])
def test_a_command_ends_when_it_is_done(tmp_path: Path, place: str) -> None:
    """The first optimizer of a process leaves its caller in a cycle, and the command line hardly
    ever looks for those; a file's own variables live as long as the process."""
    inside, outside = (LOADER, "") if place == "in build" else ("", LOADER)
    file = tmp_path / "loading.py"
    file.write_text(textwrap.dedent(WORKLOAD.format(loader=outside, inside=inside)))
    program = textwrap.dedent(ENDING.format(file=file))
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program],
        capture_output=True,
        text=True,
        timeout=100,
        check=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    waits = [line for line in done.stdout.splitlines() if line.startswith("waited")]
    assert len(waits) == 2
    assert all(line.endswith(" s False") for line in waits), waits


class Script:
    """A training script's loop, whose steps are counted; it stops by itself after enough."""

    def __init__(self, passes: int, last_pass: int, enough: int = 40) -> None:
        self.steps, self.validated = 0, 0
        self._passes, self._enough = passes, enough
        self.epochs = Epochs(lambda: self.steps, last_pass)

    def run(self, **options: Any) -> None:
        with self.epochs:
            for _ in range(self._passes):
                for _batch in DataLoader(Numbers(), batch_size=2, **options):
                    self.steps += 1
                    if self.steps == self._enough:
                        return
                for _batch in DataLoader(Numbers(), batch_size=3):
                    self.validated += 1


def test_passes_with_steps_are_counted_and_end_as_they_do() -> None:
    script = Script(passes=3, last_pass=0)
    script.run()
    assert (script.steps, script.validated, script.epochs.passes) == (9, 6, 3)
    assert script.epochs.lengths == ()


@KINDS
@pytest.mark.parametrize("last_pass", [1, 3])
def test_the_last_pass_goes_on_until_it_was_enough(options: dict[str, Any], last_pass: int) -> None:
    """What stands between passes is still done before the last one: validation, schedules."""
    script = Script(passes=3, last_pass=last_pass)
    script.run(**options)
    assert script.steps == 40
    assert script.validated == 2 * (last_pass - 1)
    assert script.epochs.lengths == (3,)


def test_a_loader_that_gives_nothing_ends() -> None:
    steps = 0
    with Epochs(lambda: steps, 1):
        iterator = iter(DataLoader(list(range(0)), batch_size=2))
        steps += 1  # a step was taken meanwhile, with other data
        assert list(iterator) == []
