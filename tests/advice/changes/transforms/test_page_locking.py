"""Memory is locked at the second sight, once, and unlocked at the end."""

import gc

import pytest
import torch

from gpuscope.advice.changes.hooks.host_copies import HostCopy
from gpuscope.advice.changes.transforms import page_locking as pinning
from gpuscope.advice.changes.transforms.page_locking import Pinning, Sighted, lock_pages


class Driver:
    """Notes what is locked."""

    def __init__(self, refuses: bool = False) -> None:
        self.locked: list[int] = []
        self.unlocked: list[int] = []
        self.refuses = refuses

    def lock(self, storage):
        if self.refuses:
            return None
        self.locked.append(storage.data_ptr())
        return lambda: self.unlocked.append(storage.data_ptr())


def _copied(pin: Pinning, tensor: torch.Tensor) -> torch.Tensor:
    return pin(HostCopy(tensor, {}, lambda x: x.clone()))


@pytest.fixture
def driver() -> Driver:
    return Driver()


def test_locked_at_the_second_sight_and_once(driver: Driver) -> None:
    pin = Pinning(False, driver.lock)
    data = torch.arange(100_000.0)
    for sight, locked in ((1, 0), (2, 1), (3, 1)):
        out = _copied(pin, data)
        assert torch.equal(out, data)
        assert len(driver.locked) == locked, sight
    pin.close()
    assert driver.unlocked == driver.locked
    pin.close()
    assert len(driver.unlocked) == 1


def test_views_of_one_memory_are_one(driver: Driver) -> None:
    pin = Pinning(False, driver.lock)
    data = torch.zeros(4, 50_000)
    for row in data:
        _copied(pin, row)
    assert driver.locked == [data.data_ptr()]


def test_what_comes_once_is_left(driver: Driver) -> None:
    pin = Pinning(False, driver.lock)
    for _ in range(5):
        _copied(pin, torch.zeros(100_000))  # often at the same address: another memory still
        gc.collect()
    assert not driver.locked


def test_tiny_copies_are_left(driver: Driver) -> None:
    pin = Pinning(False, driver.lock)
    data = torch.zeros(16 * 1024)  # 64 KiB
    for _ in range(3):
        _copied(pin, data)
    assert not driver.locked


def test_no_more_is_locked_than_allowed(monkeypatch, driver: Driver) -> None:
    monkeypatch.setattr(pinning, "MOST_BYTES", 500_000)
    pin = Pinning(False, driver.lock)
    first, second = torch.zeros(100_000), torch.zeros(100_000)
    for data in (first, second) * 2:
        _copied(pin, data)
    assert driver.locked == [first.data_ptr()]


def test_a_refusal_is_taken() -> None:
    pin = Pinning(False, Driver(refuses=True).lock)
    data = torch.ones(100_000)
    assert all(torch.equal(_copied(pin, data), data) for _ in range(3))
    pin.close()


def test_without_a_gpu_nothing_is_locked() -> None:
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    assert lock_pages(torch.zeros(4).untyped_storage()) is None


def test_memory_that_is_gone_is_not_met_again() -> None:
    sighted = Sighted()
    data = torch.zeros(10)
    assert not sighted.again(data)
    assert sighted.again(data[2:])
    del data
    gc.collect()
    assert not sighted.again(torch.zeros(10))
