"""The probe against a stand-in for NVML that behaves as the library does on an H200."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest

from gpuscope.doctor.probes import nvml as probe


class NVMLError(Exception):
    def __init__(self, value: int) -> None:
        super().__init__(f"code {value}")
        self.value = value


class Fake:
    """Two devices; what is not defined here is a function that this library does not have."""

    NVMLError = NVMLError
    NVML_FI_DEV_NVLINK_GET_SPEED = 164
    NVML_FI_DEV_MEMORY_TEMP = 82

    def nvmlInit(self):  # noqa: N802
        pass

    def nvmlShutdown(self):  # noqa: N802
        self.closed = True

    def nvmlDeviceGetCount(self):  # noqa: N802
        return 2

    def nvmlDeviceGetHandleByIndex(self, index):  # noqa: N802
        return f"handle{index}"

    def nvmlSystemGetDriverVersion(self):  # noqa: N802
        return b"580.65.06"  # older bindings give bytes

    def nvmlSystemGetCudaDriverVersion_v2(self):  # noqa: N802
        return 12080

    def nvmlDeviceGetName(self, handle):  # noqa: N802
        return "NVIDIA H200"

    def nvmlDeviceGetCudaComputeCapability(self, handle):  # noqa: N802
        return (9, 0)

    def nvmlDeviceGetPowerUsage(self, handle):  # noqa: N802
        return 76543

    def nvmlDeviceGetCurrentClocksEventReasons(self, handle):  # noqa: N802
        return 0x1 | 0x40

    def nvmlDeviceGetMigMode(self, handle):  # noqa: N802
        raise NVMLError(3)  # not supported

    def nvmlDeviceGetRemappedRows(self, handle):  # noqa: N802
        return (0, 2, 1, 0)

    def nvmlDeviceGetCpuAffinity(self, handle, size):  # noqa: N802
        return [0b1011] + [0] * (size - 2) + [1]

    def nvmlDeviceGetNvLinkState(self, handle, link):  # noqa: N802
        if link >= 3:
            raise NVMLError(3)
        return int(link != 1)

    def nvmlDeviceGetNvLinkRemoteDeviceType(self, handle, link):  # noqa: N802
        return 2

    def nvmlDeviceGetFieldValues(self, handle, wanted):  # noqa: N802
        value = 26562 if isinstance(wanted[0], tuple) else 41
        return [SimpleNamespace(nvmlReturn=0, value=SimpleNamespace(uiVal=value))]

    def nvmlDeviceGetComputeRunningProcesses(self, handle):  # noqa: N802
        return [SimpleNamespace(pid=77, usedGpuMemory=None)]

    def nvmlDeviceGetTopologyCommonAncestor(self, a, b):  # noqa: N802
        return 50

    def nvmlDeviceGetP2PStatus(self, a, b, capability):  # noqa: N802
        return {0: 0, 1: 0, 2: 0, 3: 4}[capability]


@pytest.fixture
def facts():
    fake = Fake()
    found = probe.facts(fake)
    assert fake.closed
    return json.loads(json.dumps(found))  # what it tells must be plain


def test_the_system(facts) -> None:
    assert facts["error"] is None
    assert facts["driver"] == "580.65.06"
    assert facts["cuda_driver"] == "12.8"
    assert [d["index"] for d in facts["devices"]] == [0, 1]


def test_a_device_in_units_that_its_names_tell(facts) -> None:
    device = facts["devices"][0]
    assert device["name"] == "NVIDIA H200"
    assert device["compute_capability"] == [9, 0]
    assert device["power"]["usage_w"] == pytest.approx(76.543)
    assert device["clocks_event_reasons"] == ["gpu_idle", "hw_thermal_slowdown"]
    assert device["temperature"]["memory_c"] == 41
    assert device["cpu_affinity"] == [0, 1, 3, 31 * 64]
    assert device["remapped_rows"] == {
        "correctable": 0,
        "uncorrectable": 2,
        "pending": True,
        "failure": False,
        "banks_by_spare_rows": None,
    }
    assert device["processes"] == [
        {"pid": 77, "type": "compute", "name": None, "memory_bytes": None}
    ]


def test_what_is_not_told_is_null_and_never_zero(facts) -> None:
    device = facts["devices"][0]
    assert device["mig_mode"] is None
    assert device["power"]["limit_w"] is None
    assert device["ecc"]["volatile_uncorrected"] is None
    assert device["persistence_mode"] is None
    assert device["pcie"]["width"] is None
    assert device["retired_pages"] is None
    assert device["fabric"] is None


def test_links_that_are_down_are_there_and_ports_that_do_not_exist_are_not(facts) -> None:
    links = facts["devices"][0]["nvlinks"]
    assert [link["active"] for link in links] == [True, False, True]
    assert links[0]["remote_type"] == "switch"
    assert links[0]["speed_mbps"] == 26562
    assert links[1]["speed_mbps"] is None


def test_pairs(facts) -> None:
    (pair,) = facts["pairs"]
    assert (pair["a"], pair["b"], pair["topology"]) == (0, 1, "system")
    assert pair["p2p"]["nvlink"] == "ok"
    assert pair["p2p"]["atomics"] == "disabled_by_regkey"


def test_a_device_that_does_not_answer_is_lost(monkeypatch) -> None:
    def one_is_lost(self, index):
        if index:
            raise NVMLError(15)
        return "handle0"

    monkeypatch.setattr(Fake, "nvmlDeviceGetHandleByIndex", one_is_lost)
    found = probe.facts(Fake())
    assert found["devices"][1] == {"index": 1, "lost": True}
    assert found["pairs"] == []


def test_a_driver_that_cannot_be_used_says_why(monkeypatch) -> None:
    def fail(self):
        raise NVMLError(18)

    monkeypatch.setattr(Fake, "nvmlInit", fail)
    assert probe.facts(Fake()) == {"error": "code 18", "code": 18, "devices": []}


def test_the_last_line_is_one_object(capsys) -> None:
    probe.main()  # with or without a driver
    assert "devices" in json.loads(capsys.readouterr().out.strip().splitlines()[-1])
