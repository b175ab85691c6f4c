"""ECC, remapped rows and Xid errors, by a stand-in of NVIDIA's library."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from gpuscope.measurement.sensors.types import SensorInfo
from gpuscope.watch.health import Health, HealthReaders

INFO = SensorInfo("nvidia", 0, "NVIDIA H200", "GPU-1")


class NVMLError(Exception):
    pass


class Nvml:
    """One device; what is in `refuse` is not supported."""

    NVMLError = NVMLError
    NVML_MEMORY_ERROR_TYPE_CORRECTED, NVML_MEMORY_ERROR_TYPE_UNCORRECTED = 0, 1
    NVML_AGGREGATE_ECC = 1
    nvmlEventTypeXidCriticalError = 8  # noqa: N815

    def __init__(self, refuse: tuple[str, ...] = ()) -> None:
        self.refuse = refuse
        self.opened = self.sets = 0
        self.waiting: list[int] = []

    def _may(self, name: str) -> None:
        if name in self.refuse:
            raise NVMLError(name)

    def nvmlInit(self) -> None:  # noqa: N802
        self._may("init")
        self.opened += 1

    def nvmlShutdown(self) -> None:  # noqa: N802
        self.opened -= 1

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> str:  # noqa: N802
        self._may("handle")
        return uuid

    def nvmlDeviceGetTotalEccErrors(self, handle: str, kind: int, counter: int) -> int:  # noqa: N802
        self._may("ecc")
        assert counter == 1
        return (12, 3)[kind]

    def nvmlDeviceGetRemappedRows(self, handle: str) -> tuple[int, ...]:  # noqa: N802
        self._may("rows")
        return (1, 2, 1, 0)

    def nvmlEventSetCreate(self) -> str:  # noqa: N802
        self._may("create")
        self.sets += 1
        return "events"

    def nvmlEventSetFree(self, events: str) -> None:  # noqa: N802
        self.sets -= 1

    def nvmlDeviceRegisterEvents(self, handle: str, kinds: int, events: str) -> None:  # noqa: N802
        self._may("register")

    def nvmlEventSetWait_v2(self, events: str, timeout: int) -> Any:  # noqa: N802
        assert timeout == 0  # it must never wait
        if not self.waiting:
            raise NVMLError("timeout")
        return SimpleNamespace(eventType=8, eventData=self.waiting.pop(0))


def test_everything_is_read() -> None:
    nvml = Nvml()
    readers = HealthReaders(nvml)
    assert readers.read(INFO) == Health(12, 3, 3, True, False, 0, None)
    nvml.waiting = [31, 79]
    assert readers.read(INFO) == Health(12, 3, 3, True, False, 2, 79)
    assert readers.read(INFO).xid_errors == 2
    readers.close()
    assert (nvml.opened, nvml.sets) == (0, 0)


@pytest.mark.parametrize(
    ("refused", "absent"),
    [
        ("ecc", ("ecc_corrected", "ecc_uncorrected")),
        ("rows", ("rows_remapped", "remap_pending", "remap_failed")),
        ("create", ("xid_errors", "last_xid")),
        ("register", ("xid_errors", "last_xid")),
    ],
)
def test_what_is_not_told_is_none(refused: str, absent: tuple[str, ...]) -> None:
    nvml = Nvml((refused,))
    readers = HealthReaders(nvml)
    health = readers.read(INFO)
    assert {name for name in Health.__slots__ if getattr(health, name) is None} == {
        *absent,
        "last_xid",
    }
    readers.close()
    assert (nvml.opened, nvml.sets) == (0, 0)


@pytest.mark.parametrize("refused", ["init", "handle"])
def test_without_a_driver_or_the_device_nothing_is_read(refused: str) -> None:
    nvml = Nvml((refused,))
    assert HealthReaders(nvml).read(INFO) == Health()
    assert nvml.opened == 0


def test_other_vendors_are_not_asked() -> None:
    nvml = Nvml()
    assert HealthReaders(nvml).read(SensorInfo("amd", 0, "MI300X", "u")) == Health()
    assert HealthReaders(nvml).read(SensorInfo("nvidia", 0, "x")) == Health()
    assert nvml.opened == 0
