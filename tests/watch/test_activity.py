"""Activity of NVIDIA and AMD devices, from libraries as their references describe them."""

from __future__ import annotations

from dataclasses import fields
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuscope.measurement.sensors.types import SensorInfo
from gpuscope.watch.activities import amd, nvidia
from gpuscope.watch.activity import NoActivity, activity_vendor, open_activity, rate
from gpuscope.watch.types import Activity

INFO = SensorInfo("nvidia", 0, "NVIDIA H200", "GPU-0")
MIB = 1 << 20


class NVMLError(Exception):
    pass


class Nvml:
    """NVML's GPM, link counters and PCIe throughput; functions in `refuse` raise."""

    NVMLError = NVMLError
    NVML_GPM_METRICS_GET_VERSION = 1

    def __init__(self, *, gpm: bool = True, refuse: tuple[str, ...] = ()) -> None:
        self.gpm, self.refuse = gpm, refuse
        self.opened = self.samples = 0
        self.link_kib = 0
        self.values = {2: 91.0, 3: 40.0, 5: 62.5, 10: 47.0, 20: 10.0, 21: 2000.0, 60: 5.0, 61: 7.0}
        self.returns: dict[int, int] = {}
        self.asked: list[int] = []
        for name, number in {
            "SM_UTIL": 2,
            "SM_OCCUPANCY": 3,
            "ANY_TENSOR_UTIL": 5,
            "DRAM_BW_UTIL": 10,
            "PCIE_TX_PER_SEC": 20,
            "PCIE_RX_PER_SEC": 21,
            "NVLINK_TOTAL_RX_PER_SEC": 60,
            "NVLINK_TOTAL_TX_PER_SEC": 61,
        }.items():
            setattr(self, f"NVML_GPM_METRIC_{name}", number)

    def _check(self, name: str) -> None:
        if name in self.refuse:
            raise NVMLError(name)

    def nvmlInit(self):  # noqa: N802
        self._check("init")
        self.opened += 1

    def nvmlShutdown(self):  # noqa: N802
        self.opened -= 1

    def nvmlDeviceGetHandleByUUID(self, uuid):  # noqa: N802
        self._check("handle")
        return f"handle of {uuid}"

    def nvmlDeviceGetGpuInstanceId(self, handle):  # noqa: N802
        return 3

    def nvmlDeviceGetDeviceHandleFromMigDeviceHandle(self, handle):  # noqa: N802
        return "board"

    def nvmlGpmQueryDeviceSupport(self, handle):  # noqa: N802
        return SimpleNamespace(isSupportedDevice=int(self.gpm))

    def nvmlGpmSampleAlloc(self):  # noqa: N802
        self.samples += 1
        return SimpleNamespace(taken=None)

    def nvmlGpmSampleFree(self, sample):  # noqa: N802
        self.samples -= 1

    def nvmlGpmSampleGet(self, handle, sample):  # noqa: N802
        self._check("sample")
        sample.taken = handle

    def nvmlGpmMigSampleGet(self, handle, instance, sample):  # noqa: N802
        sample.taken = (handle, instance)

    def c_nvmlGpmMetricsGet_t(self):  # noqa: N802
        metrics = [SimpleNamespace(metricId=0, nvmlReturn=0, value=0.0) for _ in range(210)]
        return SimpleNamespace(version=0, numMetrics=0, metrics=metrics)

    def nvmlGpmMetricsGet(self, asked):  # noqa: N802
        assert asked.sample1 is not asked.sample2
        self.asked = [m.metricId for m in asked.metrics[: asked.numMetrics]]
        self.taken = asked.sample2.taken
        for metric in asked.metrics[: asked.numMetrics]:
            metric.value = self.values[metric.metricId]
            metric.nvmlReturn = self.returns.get(metric.metricId, 0)

    def nvmlDeviceGetPcieThroughput(self, handle, kind):  # noqa: N802
        self._check("pcie")
        return {0: 11_000, 1: 22_000}[kind]  # KB/s; 0 is transmit

    def nvmlDeviceGetFieldValues(self, handle, fields):  # noqa: N802
        self._check("fields")
        assert [scope for _, scope in fields] == [nvidia.ALL_LINKS] * 2
        self.link_kib += 1000
        value = SimpleNamespace(ullVal=self.link_kib)
        return [SimpleNamespace(nvmlReturn=0, value=value) for _ in fields]


@pytest.fixture(autouse=True)
def no_gap(monkeypatch) -> None:
    """Stand-ins need no time between two samples."""
    monkeypatch.setattr(nvidia, "LEAST_GAP_S", 0.0)


def test_too_short_a_stretch_is_left_to_the_next_call(monkeypatch) -> None:
    monkeypatch.setattr(nvidia, "LEAST_GAP_S", 0.1)
    clock = iter([0.0, 0.05, 0.2, 0.2])
    monkeypatch.setattr(nvidia.time, "monotonic", lambda: next(clock))
    reader = nvidia.open_with(Nvml(refuse=("pcie", "fields")), INFO)
    assert reader.read() == Activity()
    assert reader.read().sm == pytest.approx(0.91)


def test_gpm_tells_every_figure_in_our_units() -> None:
    nvml = Nvml()
    reader = nvidia.open_with(nvml, INFO)
    assert reader is not None
    assert reader.read() == Activity(
        sm=pytest.approx(0.91),
        occupancy=pytest.approx(0.4),
        tensor=pytest.approx(0.625),
        memory_bandwidth=pytest.approx(0.47),
        pcie_rx_bytes_per_s=2000.0 * MIB,
        pcie_tx_bytes_per_s=10.0 * MIB,
        nvlink_rx_bytes_per_s=5.0 * MIB,
        nvlink_tx_bytes_per_s=7.0 * MIB,
    )
    assert reader.notes == ()


def test_every_figure_has_a_metric() -> None:
    assert set(nvidia.METRICS) == {field.name for field in fields(Activity)}


def test_real_library_has_every_name() -> None:
    pynvml = pytest.importorskip("pynvml")
    for name, _ in nvidia.METRICS.values():
        assert isinstance(getattr(pynvml, name), int)
    asked = pynvml.c_nvmlGpmMetricsGet_t()
    asked.metrics[0].metricId = pynvml.NVML_GPM_METRIC_SM_UTIL
    assert len(asked.metrics) >= len(nvidia.METRICS)
    assert pynvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX == 139


def test_a_metric_that_is_refused_is_absent_not_zero() -> None:
    nvml = Nvml()
    nvml.returns = {5: 3}
    nvml.values[3] = float("nan")
    found = nvidia.open_with(nvml, INFO).read()
    assert found.tensor is None
    assert found.occupancy is None
    assert found.sm == pytest.approx(0.91)


def test_a_share_never_passes_one() -> None:
    nvml = Nvml()
    nvml.values[2] = 100.7
    assert nvidia.open_with(nvml, INFO).read().sm == 1.0


def test_without_gpm_traffic_is_read_still(monkeypatch) -> None:
    clock = iter([10.0, 12.0])
    monkeypatch.setattr(nvidia.time, "perf_counter", lambda: next(clock))
    nvml = Nvml(gpm=False)
    reader = nvidia.open_with(nvml, INFO)
    first, second = reader.read(), reader.read()
    assert first.nvlink_rx_bytes_per_s is None  # a rate needs two readings
    assert second.nvlink_rx_bytes_per_s == pytest.approx(1000 * 1024 / 2.0)
    assert (second.pcie_rx_bytes_per_s, second.pcie_tx_bytes_per_s) == (22e6, 11e6)
    assert second.sm is None
    assert "Hopper" in reader.notes[0]


def test_what_is_refused_is_not_asked_again() -> None:
    nvml = Nvml(gpm=False, refuse=("pcie", "fields"))
    reader = nvidia.open_with(nvml, INFO)
    reader.read()
    nvml.refuse = ()
    assert reader.read() == Activity()


def test_a_failing_sample_gives_nothing_and_does_not_raise() -> None:
    nvml = Nvml()
    reader = nvidia.open_with(nvml, INFO)
    nvml.refuse = ("sample", "pcie", "fields")
    assert reader.read() == Activity()


def test_a_mig_slice_reads_its_instance() -> None:
    nvml = Nvml()
    reader = nvidia.open_with(nvml, SensorInfo("nvidia", 0, "H200 MIG", "MIG-0", slice=True))
    assert reader.read().sm == pytest.approx(0.91)
    assert nvml.taken == ("board", 3)


def test_closing_frees_everything() -> None:
    nvml = Nvml()
    reader = nvidia.open_with(nvml, INFO)
    reader.close()
    reader.close()
    assert (nvml.opened, nvml.samples) == (0, 0)
    assert reader.read() == Activity()


@pytest.mark.parametrize("refused", ["init", "handle"])
def test_no_driver_or_device_is_no_reader(refused: str) -> None:
    nvml = Nvml(refuse=(refused,))
    assert nvidia.open_with(nvml, INFO) is None
    assert nvml.opened == 0


class AmdSmi:
    class AmdSmiException(Exception):  # noqa: N818 - its real name
        pass

    def __init__(self) -> None:
        self.open = 0
        self.read_kb = 0

    def amdsmi_init(self):
        self.open += 1

    def amdsmi_shut_down(self):
        self.open -= 1

    def amdsmi_get_processor_handles(self):
        return ["a", "b"]

    def amdsmi_get_gpu_device_uuid(self, handle):
        return f"uuid-{handle}"

    def amdsmi_get_gpu_activity(self, handle):
        return {"gfx_activity": 90, "umc_activity": 55, "mm_activity": "N/A"}

    def amdsmi_get_gpu_metrics_info(self, handle):
        self.read_kb += 500
        return {"xgmi_read_data_acc": [self.read_kb, self.read_kb, "N/A"]}


def test_amd_tells_memory_and_links(monkeypatch) -> None:
    clock = iter([1.0, 3.0])
    monkeypatch.setattr(amd.time, "perf_counter", lambda: next(clock))
    smi = AmdSmi()
    reader = amd.open_with(smi, SensorInfo("amd", 1, "MI300X", "uuid-b"))
    assert reader.read().nvlink_rx_bytes_per_s is None
    found = reader.read()
    assert found.nvlink_rx_bytes_per_s == pytest.approx(2 * 500e3 / 2.0)
    assert found.nvlink_tx_bytes_per_s is None
    assert found.memory_bandwidth == pytest.approx(0.55)
    assert found.sm is None
    reader.close()
    assert smi.open == 0


def test_amd_without_the_device_is_no_reader() -> None:
    smi = AmdSmi()
    assert amd.open_with(smi, SensorInfo("amd", 0, "MI300X", "uuid-z")) is None
    assert smi.open == 0


def test_a_vendor_without_counters_says_so() -> None:
    reader = open_activity(SensorInfo("someone", 0, "chip"))
    assert isinstance(reader, NoActivity)
    assert reader.read() == Activity()
    assert "someone" in reader.notes[0]
    assert "Intel" in open_activity(SensorInfo("intel", 0, "Max 1550")).notes[0]


def test_a_vendor_registers_once() -> None:
    with pytest.raises(ValueError, match="nvidia"):
        activity_vendor("nvidia")(lambda info: None)


def test_rates_by_hand() -> None:
    assert rate(10, 30, 4) == 5
    assert rate(30, 10, 4) is None  # wrapped or reset
    assert rate(10, 30, 0) is None
    assert rate(None, 30, 1) is None


@settings(deadline=None)
@given(st.floats(0, 1e15), st.floats(0, 1e12), st.floats(1e-3, 1e3))
def test_a_rate_is_never_negative(before: float, more: float, seconds: float) -> None:
    found = rate(before, before + more, seconds)
    assert found is not None
    assert found >= 0
