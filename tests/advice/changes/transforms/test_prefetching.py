"""Copies made ahead are the ones that would have been made: never an older state of the data."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils.data import DataLoader, Dataset

from gpuscope.advice.changes.hooks.host_copies import HostCopy
from gpuscope.advice.changes.transforms.page_locking import Pinning
from gpuscope.advice.changes.transforms.prefetching import Prefetching
from gpuscope.measurement.epochs import Epochs

SIZE = 50_000  # above what is staged


class Stream:
    """Enough of a stream; copies are done at once."""

    def record_event(self):
        return "done"

    def wait_event(self, event) -> None:
        assert event == "done"

    def __enter__(self):
        return self

    def __exit__(self, *_: object) -> None: ...


class Device:
    """Counts copies ahead, and those that the code waits for."""

    def __init__(self) -> None:
        self.ahead = 0
        self.waited = 0

    def to(self, tensor, *args, non_blocking=False, dtype=None, **kwargs):
        if dtype is not None:
            return tensor.to(dtype)
        if kwargs.get("device") == "again":
            return tensor
        self.ahead += 1
        return _OnDevice(tensor.clone())


class _OnDevice(torch.Tensor):
    @staticmethod
    def __new__(cls, data):
        return data.as_subclass(cls)

    def record_stream(self, stream) -> None: ...


@pytest.fixture(autouse=True)
def _streams(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "Stream", Stream)
    monkeypatch.setattr(torch.cuda, "stream", lambda stream: stream)
    monkeypatch.setattr(torch.cuda, "current_stream", Stream)


def _ahead() -> tuple[Prefetching, Device]:
    device = Device()
    return Prefetching(False, device.to, Pinning(False, lambda storage: None)), device


def _asked(ahead: Prefetching, device: Device, tensor, **options):
    def copied(source, **_):
        device.waited += 1
        return source.clone()

    return ahead(HostCopy(tensor, options, copied))


def test_a_tensor_copied_every_step_is_waited_for_once() -> None:
    ahead, device = _ahead()
    data = torch.randn(SIZE)
    for _ in range(4):
        assert torch.equal(_asked(ahead, device, data), data)
        ahead.step_ended()
    assert (device.waited, device.ahead) == (1, 4)  # the last is for a step that never comes


@settings(max_examples=30, deadline=None)
@given(st.lists(st.sampled_from(["copy", "write", "step", "other"]), max_size=25))
def test_whatever_is_written_the_copy_is_of_now(actions: list[str]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.cuda, "Stream", Stream)
        patch.setattr(torch.cuda, "stream", lambda stream: stream)
        patch.setattr(torch.cuda, "current_stream", Stream)
        ahead, device = _ahead()
        data = torch.zeros(SIZE)
        for action in actions:
            if action == "write":
                data += 1
            elif action == "step":
                ahead.step_ended()
            elif action == "other":
                fresh = torch.full((SIZE,), 7.0)
                assert torch.equal(_asked(ahead, device, fresh), fresh)
            else:
                assert torch.equal(_asked(ahead, device, data), data)


def test_data_filled_anew_every_step_are_soon_left_alone() -> None:
    ahead, device = _ahead()
    data = torch.zeros(SIZE)
    for _ in range(6):
        data += 1
        assert torch.equal(_asked(ahead, device, data), data)
        ahead.step_ended()
    assert device.waited == 6
    assert device.ahead == 1


def test_memory_shared_with_numpy_is_never_copied_ahead() -> None:
    ahead, device = _ahead()
    array = np.zeros(SIZE, np.float32)
    data = torch.from_numpy(array)
    for value in range(3):
        array[:] = value  # no version tells of it
        assert float(_asked(ahead, device, data)[0]) == value
        ahead.step_ended()
    assert device.ahead == 0


def test_a_tensor_no_longer_asked_for_is_let_go() -> None:
    ahead, device = _ahead()
    data = torch.randn(SIZE)
    _asked(ahead, device, data)
    for _ in range(3):
        ahead.step_ended()
    assert not ahead._twins
    assert device.ahead == 1


def test_another_dtype_is_made_of_the_copy() -> None:
    ahead, device = _ahead()
    data = torch.randn(SIZE)
    _asked(ahead, device, data, dtype=torch.float16)
    ahead.step_ended()
    out = _asked(ahead, device, data, dtype=torch.float16)
    assert out.dtype is torch.float16
    assert torch.equal(out, data.half())
    assert device.waited == 1


class Numbers(Dataset):
    def __init__(self) -> None:
        self.made = 0

    def __len__(self) -> int:
        return 6

    def __getitem__(self, index: int):
        self.made += 1
        return {"x": torch.full((SIZE,), float(index)), "unused": torch.full((SIZE,), -1.0)}


def test_batches_come_in_order_and_ahead() -> None:
    ahead, device = _ahead()
    data = Numbers()
    batches = ahead.batches(iter(DataLoader(data, batch_size=1)))
    assert len(batches) == 6
    for number, batch in enumerate(batches):
        assert data.made == number + 1  # without workers nothing is made before its time
        assert float(_asked(ahead, device, batch["x"])[0, 0]) == number
        assert batch["x"].device.type == "cpu"  # the code's own tensor stays on the host
    assert number == 5
    assert device.waited == 0
    assert device.ahead == 6 + 3  # what was never asked for is copied three times, then no more
    with pytest.raises(StopIteration):
        next(batches)


def test_with_workers_one_batch_is_begun_early() -> None:
    ahead, device = _ahead()
    taken: list[int] = []

    def produced():
        for number in range(3):
            taken.append(number)
            yield torch.full((SIZE,), float(number))

    batches = ahead.batches(produced())
    first = next(batches)
    assert taken == [0, 1]
    assert float(_asked(ahead, device, first)[0]) == 0
    assert [float(_asked(ahead, device, b)[0]) for b in batches] == [1, 2]
    assert device.waited == 0


@pytest.mark.parametrize(
    "options",
    [{}, {"num_workers": 2}, {"num_workers": 2, "persistent_workers": True}],
    ids=["here", "workers", "persistent"],
)
def test_a_loader_that_begins_again_gives_the_same_batches_ahead(options) -> None:
    """Also in the same order where it is shuffled, and drawn in the same step."""

    def taken(early: bool) -> list[list[int]]:
        ahead, _ = _ahead()
        with Epochs() as epochs:
            torch.manual_seed(100)
            loader = DataLoader(range(6), batch_size=2, shuffle=True, **options)
            batches = ahead.batches(iter(loader)) if early else iter(loader)
            step = epochs.restarting(lambda: next(batches).tolist())
            found = []
            for number in range(10):
                torch.manual_seed(number)
                found.append(step())
            assert epochs.lengths == (3,)
            return found

    assert taken(early=True) == taken(early=False)
