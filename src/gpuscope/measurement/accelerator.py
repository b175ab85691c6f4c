"""The device that PyTorch runs on: CUDA, ROCm (which PyTorch calls cuda), XPU, MPS, or the CPU."""

from __future__ import annotations

import os
import platform
from pathlib import Path
from typing import Any

from gpuscope.document.text import Text, verbatim
from gpuscope.errors import InvalidValueError, UnsupportedError, require_package
from gpuscope.hardware import Device

_NEXT = Text(
    "Type: gpuscope predict ... (needs no GPU), or run it on the processor: --device cpu "
    '(gs.measure(build, device="cpu")).'
)


class Accelerator:
    """One device of this process, with what PyTorch can say of its memory.

    Attributes:
        kind: torch's device type ("cuda", "xpu", "mps", "cpu", ...).
        index: torch's number of it; 0 for the CPU.
        name: the device's own name.
    """

    def __init__(self, kind: str, index: int = 0) -> None:
        import torch

        self.kind = kind
        self.index = index
        self._torch = torch
        self._module: Any = getattr(torch, kind, None) if kind != "cpu" else None
        self.name = self._name()

    @property
    def is_gpu(self) -> bool:
        """Whether it is another device than the host's processor."""
        return self.kind != "cpu"

    @property
    def torch_name(self) -> str:
        """What `torch.device` takes: "cuda:0", "cpu"."""
        return f"{self.kind}:{self.index}" if self.is_gpu else "cpu"

    def use(self) -> None:
        """Make it the device that "cuda" without a number means."""
        if self.index and hasattr(self._module, "set_device"):
            self._module.set_device(self.index)

    def synchronize(self) -> None:
        """Wait until the device has done everything."""
        if self._module is not None:
            self._module.synchronize()

    def reset_peaks(self) -> None:
        """Begin anew with the peaks of allocated and reserved memory."""
        if hasattr(self._module, "reset_peak_memory_stats"):
            self._module.reset_peak_memory_stats(self.index)

    def peak_allocated_bytes(self) -> int | None:
        """Most bytes held by tensors since the last reset; None if not counted."""
        return self._count("max_memory_allocated")

    def peak_reserved_bytes(self) -> int | None:
        """Most bytes held by the caching allocator since the last reset; None if not counted."""
        return self._count("max_memory_reserved")

    def allocated_bytes(self) -> int | None:
        """Bytes held by tensors now; None if not counted."""
        return self._count("memory_allocated")

    def device_allocations(self) -> int | None:
        """Times that the allocator asked the device for memory so far; None if not counted."""
        if not hasattr(self._module, "memory_stats"):
            return None
        value = self._module.memory_stats(self.index).get("num_device_alloc")
        return None if value is None else int(value)

    def total_bytes(self) -> int | None:
        """Memory of the device; None if not told."""
        if not hasattr(self._module, "get_device_properties"):
            return None
        total = getattr(self._module.get_device_properties(self.index), "total_memory", None)
        return None if total is None else int(total)

    def catalogue_device(self) -> Device | None:
        """The catalogue's device of this name; None if it has none, and for the CPU."""
        from gpuscope.errors import GpuscopeError
        from gpuscope.hardware import device

        if not self.is_gpu:
            return None
        try:
            return device(self.name)
        except GpuscopeError:
            return None

    def begun(self) -> bool:
        """Whether this process has work on the device already, so that the driver knows it."""
        started: Any = self._torch.cuda.is_initialized  # untyped in torch
        return bool(started())

    def software(self) -> dict[str, str]:
        """Versions of what runs the workload."""
        version = self._torch.version
        found = {"torch": str(self._torch.__version__)}
        found |= {"cuda": str(version.cuda)} if version.cuda else {}
        return found | ({"hip": str(version.hip)} if version.hip else {})

    def _count(self, name: str) -> int | None:
        if not hasattr(self._module, name):
            return None
        return int(getattr(self._module, name)(self.index))

    def _name(self) -> str:
        if self._module is not None and hasattr(self._module, "get_device_name"):
            return str(self._module.get_device_name(self.index))
        return processor_name() if self.kind in ("cpu", "mps") else self.kind


def processor_name() -> str:
    """Return the host processor's name, as the system gives it."""
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine() or "CPU"


def choose_accelerator(asked: str | None = None) -> Accelerator:
    """Return the device to measure on.

    Args:
        asked: "cpu", "cuda", "cuda:1", "xpu", "mps", "gpu"; None takes this machine's GPU.

    Raises:
        UnsupportedError: there is no GPU that PyTorch can use; says why.
        InvalidValueError: no such device.
        MissingPackageError: torch is not installed.
    """
    require_package("torch", Text("Measuring"), "torch")
    import torch

    name, _, number = (asked or "gpu").strip().lower().partition(":")
    if number and not number.isdecimal():
        raise InvalidValueError(
            Text("'{asked}' is no device.", asked=asked), "", Text("Type: --device cuda:0")
        )
    if name == "cpu":
        return Accelerator("cpu")
    _known_name(asked, name, torch)
    kind = _available_kind(torch)
    if kind is None:
        raise UnsupportedError(
            Text("There is no GPU that PyTorch can use."), why_no_gpu(torch), _NEXT
        )
    kinds = {"gpu", kind} | ({"hip", "rocm"} if torch.version.hip else set())
    if name not in kinds:
        raise InvalidValueError(
            Text("'{asked}' is no device of this machine.", asked=asked),
            Text("PyTorch has: {kind}, cpu.", kind=kind),
            Text("Type: --device {kind}", kind=kind),
        )
    module = getattr(torch, kind)
    count = module.device_count() if hasattr(module, "device_count") else 1
    index = int(number) if number else _current(module)
    if index >= count:
        raise InvalidValueError(
            Text("There is no device {kind}:{index}.", kind=kind, index=index),
            Text("PyTorch sees {count}.", count=count),
            Text("Type: --device {kind}:{count}", kind=kind, count=count - 1),
        )
    return Accelerator(kind, index)


def _known_name(asked: str | None, name: str, torch: Any) -> None:
    """Refuse what no PyTorch calls a device, whether or not this machine has a GPU."""
    try:
        if name not in ("gpu", "hip", "rocm"):
            torch.device(name)
    except RuntimeError as error:
        raise InvalidValueError(
            Text("'{asked}' is no device.", asked=asked),
            Text("PyTorch knows cpu, cuda, xpu, mps and others."),
            Text("Type: --device cuda, or --device cpu"),
        ) from error


def _current(module: Any) -> int:
    return int(module.current_device()) if hasattr(module, "current_device") else 0


def _available_kind(torch: Any) -> str | None:
    """The GPU's type that PyTorch can really use."""
    if hasattr(torch, "accelerator"):
        if not torch.accelerator.is_available():  # PyTorch 2.6 raises where there is none to name
            return None
        current = torch.accelerator.current_accelerator()
        return None if current is None else str(current.type)
    for kind in ("cuda", "xpu", "mps"):
        module = getattr(torch, kind, None)
        if module is not None and hasattr(module, "is_available") and module.is_available():
            return kind
    return None


def why_no_gpu(torch: Any) -> Text:
    """Return the reason in one or two sentences, as far as it can be seen."""
    if torch.version.cuda is None and torch.version.hip is None and not _has(torch, "xpu"):
        version = torch.__version__
        return Text("This PyTorch ({version}) is built without GPU support.", version=version)
    hidden = [v for v in ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES") if v in os.environ]
    for variable in hidden:
        if os.environ[variable].strip() in ("", "-1"):
            return Text("{variable} hides every device.", variable=variable)
    if torch.version.cuda and not Path("/proc/driver/nvidia/version").exists():
        return Text("No NVIDIA driver is loaded (nvidia-smi shows the same).")
    if torch.version.hip and not Path("/dev/kfd").exists():
        return Text("No AMD driver is loaded (/dev/kfd is missing).")
    try:
        torch.cuda.init()
    except Exception as error:
        return verbatim(str(error).strip().split("\n")[0])
    return Text("The driver answers, but it has no device for this process.")


def _has(torch: Any, kind: str) -> bool:
    return bool(getattr(torch.version, kind, None))


def machine_facts(accelerator: Accelerator) -> dict[str, str]:
    """Return what the figures depend on: versions, device, host."""
    return {
        "device": accelerator.name,
        **accelerator.software(),
        "python": platform.python_version(),
        "processor": processor_name(),
        "processors": str(os.cpu_count() or ""),
        "system": platform.platform(),
    }
