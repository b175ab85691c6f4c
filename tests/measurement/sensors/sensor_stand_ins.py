"""Libraries of vendors as their references describe them, without a device."""

from __future__ import annotations

from types import SimpleNamespace


class NVMLError(Exception):
    def __init__(self, value: int) -> None:
        self.value = value


class Nvml:
    """NVML with some devices; functions in `refuse` are not supported."""

    NVMLError = NVMLError
    NVML_ERROR_NOT_SUPPORTED = 3
    NVML_ERROR_NO_PERMISSION = 4
    NVML_ERROR_FUNCTION_NOT_FOUND = 13
    NVML_ERROR_INVALID_ARGUMENT = 2
    NVML_CLOCK_SM, NVML_CLOCK_MEM, NVML_TEMPERATURE_GPU = 1, 2, 0
    NVML_PERF_POLICY_POWER, NVML_PERF_POLICY_THERMAL = 0, 1

    def __init__(self, devices: int = 2, refuse: tuple[str, ...] = (), driver: bool = True) -> None:
        self.devices, self.refuse, self.driver = devices, refuse, driver
        self.calls: list[str] = []
        self.opened = 0

    def __getattribute__(self, name: str):
        found = object.__getattribute__(self, name)
        if not name.startswith("nvml"):
            return found

        def call(*args):
            self.calls.append(name)
            if name in self.refuse:
                raise NVMLError(3)
            return found(*args)

        return call

    def nvmlInit(self):  # noqa: N802
        if not self.driver:
            raise NVMLError(9)
        self.opened += 1

    def nvmlShutdown(self):  # noqa: N802
        self.opened -= 1

    def nvmlDeviceGetCount(self):  # noqa: N802
        return self.devices

    def nvmlDeviceGetHandleByIndex(self, index):  # noqa: N802
        if index >= self.devices:
            raise NVMLError(2)
        return ("gpu", index)

    def nvmlDeviceGetHandleByUUID(self, uuid):  # noqa: N802
        if uuid.startswith("MIG-"):
            return ("mig", 0)
        for index in range(self.devices):
            if uuid == f"GPU-{index}{index}{index}-abc":
                return ("gpu", index)
        raise NVMLError(6)

    def nvmlDeviceGetUUID(self, handle):  # noqa: N802
        return f"GPU-{handle[1]}{handle[1]}{handle[1]}-abc"

    def nvmlDeviceIsMigDeviceHandle(self, handle):  # noqa: N802
        return int(handle[0] == "mig")

    def nvmlDeviceGetDeviceHandleFromMigDeviceHandle(self, handle):  # noqa: N802
        if handle[0] != "mig":
            raise NVMLError(2)
        return ("gpu", handle[1])

    def nvmlDeviceGetName(self, handle):  # noqa: N802
        return b"NVIDIA H200"

    def nvmlSystemGetDriverVersion(self):  # noqa: N802
        return "580.1"

    def nvmlDeviceGetTotalEnergyConsumption(self, handle):  # noqa: N802
        return 12_345_678

    def nvmlDeviceGetPowerUsage(self, handle):  # noqa: N802
        return 512_250

    def nvmlDeviceGetClockInfo(self, handle, kind):  # noqa: N802
        return {1: 1980, 2: 3201}[kind]

    def nvmlDeviceGetTemperature(self, handle, kind):  # noqa: N802
        return 41

    def nvmlDeviceGetUtilizationRates(self, handle):  # noqa: N802
        return SimpleNamespace(gpu=99, memory=40)

    def nvmlDeviceGetMemoryInfo(self, handle):  # noqa: N802
        return SimpleNamespace(used=7 * 2**30, total=141 * 2**30)

    def nvmlDeviceGetEnforcedPowerLimit(self, handle):  # noqa: N802
        return 700_000

    def nvmlDeviceGetCurrPcieLinkGeneration(self, handle):  # noqa: N802
        return 5

    def nvmlDeviceGetCurrPcieLinkWidth(self, handle):  # noqa: N802
        return 16

    def nvmlDeviceGetCurrentClocksEventReasons(self, handle):  # noqa: N802
        return 0x1 | 0x4 | 0x20

    def nvmlDeviceGetViolationStatus(self, handle, policy):  # noqa: N802
        return SimpleNamespace(violationTime=2_000_000_000 * (policy + 1), referenceTime=0)

    def nvmlDeviceGetComputeRunningProcesses(self, handle):  # noqa: N802
        return [
            SimpleNamespace(pid=77, usedGpuMemory=2**30),
            SimpleNamespace(pid=78, usedGpuMemory=None),
        ]

    def nvmlSystemGetProcessName(self, pid):  # noqa: N802
        if pid == 78:
            raise NVMLError(6)
        return "python"


class AmdSmiException(Exception):  # noqa: N818 - its real name
    pass


class AmdSmi:
    """amdsmi with two devices; `answers` replaces what functions give."""

    AmdSmiException = AmdSmiException
    AmdSmiClkType = SimpleNamespace(GFX="gfx", MEM="mem")
    AmdSmiTemperatureType = SimpleNamespace(HOTSPOT="hotspot")
    AmdSmiTemperatureMetric = SimpleNamespace(CURRENT="current")

    def __init__(self, **answers) -> None:
        self.answers = {
            "amdsmi_get_gpu_asic_info": {"market_name": "AMD Instinct MI300X"},
            "amdsmi_get_gpu_device_uuid": "ab-cd",
            "amdsmi_get_gpu_driver_info": {"driver_version": "6.8"},
            "amdsmi_get_power_info": {
                "current_socket_power": 250,
                "average_socket_power": "N/A",
                "power_limit": 750,
            },
            "amdsmi_get_gpu_vram_usage": {"vram_used": 300, "vram_total": 196592},
            "amdsmi_get_gpu_activity": {"gfx_activity": 87},
            "amdsmi_get_power_cap_info": {"power_cap": 750_000_000},
            "amdsmi_get_energy_count": {
                "energy_accumulator": 1_000_000,
                "counter_resolution": 15.3,
                "timestamp": 5,
            },
            "amdsmi_get_clock_info": {"clk": 2100},
            "amdsmi_get_temp_metric": 55,
            "amdsmi_get_gpu_process_list": [
                {"pid": 5, "name": "train", "memory_usage": {"vram_mem": 4096}},
                {"name": "?"},
            ],
            **answers,
        }
        self.open = False

    def amdsmi_init(self):
        if "amdsmi_init" in self.answers:
            raise AmdSmiException
        self.open = True

    def amdsmi_shut_down(self):
        self.open = False

    def amdsmi_get_processor_handles(self):
        return ["a", "b"]

    def __getattr__(self, name: str):
        if not name.startswith("amdsmi_") or name not in self.answers:
            raise AttributeError(name)

        def call(handle, *args):
            answer = self.answers[name]
            if answer is AmdSmiException:
                raise AmdSmiException
            return answer

        return call
