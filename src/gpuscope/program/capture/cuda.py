"""Stand-ins for `torch.cuda` while a step is captured: no driver is touched."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor

from gpuscope.program.capture.fakes import is_device_type, on_device, with_index
from gpuscope.program.capture.patches import Patches


class FakeStream:
    """A stream with an identity; work issued inside `with torch.cuda.stream(s)` carries it."""

    _next = 1

    def __init__(self, device: Any = None, priority: int = 0, **_: Any) -> None:
        self.stream_id = FakeStream._next
        FakeStream._next += 1
        self.cuda_stream = self.stream_id
        self.priority = priority
        self.device = torch.device("cuda", 0)

    def wait_stream(self, stream: Any) -> None:
        """Device-side dependency; kept by program order."""

    def wait_event(self, event: Any) -> None:
        """Device-side dependency; kept by program order."""

    def record_event(self, event: Any = None) -> Any:
        """A new event on this stream."""
        return event or FakeEvent()

    def query(self) -> bool:
        """Whether all work is done: yes."""
        return True

    def synchronize(self) -> None:
        """Replaced per capture so that the wait is recorded."""

    def __enter__(self) -> FakeStream:
        return self

    def __exit__(self, *_: object) -> None:
        return None


class FakeEvent:
    """An event; elapsed times are not known while capturing and read as 1 ms."""

    def __init__(self, *_: Any, **__: Any) -> None:
        self.cuda_event = 0

    def record(self, stream: Any = None) -> None:
        """Mark a point on the stream."""

    def wait(self, stream: Any = None) -> None:
        """Device-side dependency; kept by program order."""

    def query(self) -> bool:
        """Whether it has passed: yes."""
        return True

    def synchronize(self) -> None:
        """Replaced per capture so that the wait is recorded."""

    def elapsed_time(self, other: Any) -> float:
        """Milliseconds between two events: 1."""
        return 1.0


class StreamContext:
    """`with torch.cuda.stream(s)`: the recorder reads the current stream from here."""

    current: list[int] = [0]

    def __init__(self, stream: Any) -> None:
        self.stream = stream

    def __enter__(self) -> Any:
        StreamContext.current.append(getattr(self.stream, "stream_id", 0))
        return self.stream

    def __exit__(self, *_: object) -> None:
        StreamContext.current.pop()


class _DeviceContext:
    def __init__(self, *_: Any) -> None:
        pass

    def __enter__(self) -> _DeviceContext:
        return self

    def __exit__(self, *_: object) -> None:
        return None


def _properties(total_memory: int, name: str, capability: tuple[int, int], units: int) -> Any:
    return SimpleNamespace(
        name=name,
        major=capability[0],
        minor=capability[1],
        total_memory=total_memory,
        multi_processor_count=units,
        max_threads_per_multi_processor=2048,
        warp_size=32,
        regs_per_multiprocessor=65536,
        shared_memory_per_block_optin=232448,
        shared_memory_per_multiprocessor=233472,
        L2_cache_size=50 * 2**20,
        gcnArchName="",
        is_integrated=0,
        is_multi_gpu_board=0,
    )


def install(patch: Patches, record_sync: Callable[[str], None], device_count: int = 1) -> None:
    """Put the stand-ins in place.

    Args:
        patch: where the replacements are remembered.
        record_sync: called with a reason whenever the host would wait for the device.
        device_count: what `torch.cuda.device_count()` says.
    """
    capability = (9, 0)
    properties = _properties(141 * 10**9, "gpuscope capture", capability, 132)
    stream = FakeStream()
    stream.stream_id = 0

    class Stream(FakeStream):
        def synchronize(self) -> None:
            record_sync("synchronize")

    class Event(FakeEvent):
        def synchronize(self) -> None:
            record_sync("synchronize")

    stream.__class__ = Stream
    cpu_state = torch.empty(0, dtype=torch.uint8)
    answers: dict[str, Any] = {
        "is_available": lambda: True,
        "is_initialized": lambda: True,
        "init": lambda: None,
        "_lazy_init": lambda: None,
        "_lazy_call": lambda *a, **k: None,
        "device_count": lambda: device_count,
        "current_device": lambda: 0,
        "set_device": lambda device: None,
        "device": _DeviceContext,
        "device_of": _DeviceContext,
        "get_device_properties": lambda device=None: properties,
        "get_device_capability": lambda device=None: capability,
        "get_device_name": lambda device=None: properties.name,
        "get_arch_list": lambda: ["sm_90"],
        "is_bf16_supported": lambda *a, **k: True,
        "synchronize": lambda device=None: record_sync("synchronize"),
        "current_stream": lambda device=None: stream,
        "default_stream": lambda device=None: stream,
        "stream": StreamContext,
        "set_stream": lambda s: None,
        "Stream": Stream,
        "Event": Event,
        "empty_cache": lambda: None,
        "ipc_collect": lambda: None,
        "memory_allocated": lambda device=None: 0,
        "max_memory_allocated": lambda device=None: 0,
        "memory_reserved": lambda device=None: 0,
        "max_memory_reserved": lambda device=None: 0,
        "memory_stats": lambda device=None: {},
        "mem_get_info": lambda device=None: (properties.total_memory, properties.total_memory),
        "reset_peak_memory_stats": lambda device=None: None,
        "reset_max_memory_allocated": lambda device=None: None,
        "set_per_process_memory_fraction": lambda *a, **k: None,
        "manual_seed": lambda seed: None,
        "manual_seed_all": lambda seed: None,
        "seed": lambda: None,
        "initial_seed": lambda: 0,
        "get_rng_state": lambda device="cuda": cpu_state,
        "set_rng_state": lambda state, device="cuda": None,
        "get_rng_state_all": lambda: [cpu_state],
        "set_rng_state_all": lambda states: None,
        "is_current_stream_capturing": lambda: False,
        "_is_in_bad_fork": lambda: False,
        "utilization": lambda device=None: 0,
    }
    for name, value in answers.items():
        patch.set(torch.cuda, name, value, only_if_present=True)
    patch.set(torch.cuda.nvtx, "range_push", lambda *a, **k: 0)
    patch.set(torch.cuda.nvtx, "range_pop", lambda *a, **k: 0)
    patch.set(torch.cuda.nvtx, "mark", lambda *a, **k: None)
    if hasattr(torch.cuda.amp, "common"):
        patch.set(torch.cuda.amp.common, "amp_definitely_not_available", lambda: False)
    for module in (torch, torch.random):
        for name in ("fork_rng",):
            if name in vars(module):
                patch.set(module, name, lambda *a, **k: _DeviceContext())
    patch.set(torch, "Generator", lambda device="cpu": torch._C.Generator("cpu"))
    _install_conversions(patch)


def _install_conversions(patch: Patches) -> None:
    """`.to("cuda")`, `.cuda()`, `torch.tensor(..., device="cuda")` without a device guard."""
    original_to = torch.Tensor.to
    original_tensor = torch.tensor
    original_as_tensor = torch.as_tensor

    def stays(tensor: torch.Tensor, device: Any, dtype: Any, rest: Any) -> bool:
        """Nothing to do, which C++ cannot see: it takes every fake for a CPU tensor."""
        return (
            not rest
            and isinstance(tensor, FakeTensor)
            and (dtype is None or dtype is tensor.dtype)
            and is_device_type(device)
            and tensor.fake_device.type == "cuda"
        )

    def to(self: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
        rest = {k: v for k, v in kwargs.items() if k not in ("device", "dtype", "non_blocking")}
        first = args[0] if args else kwargs.get("device")
        if isinstance(first, torch.Tensor):
            device, dtype = first.device, first.dtype
        else:
            device = None if isinstance(first, torch.dtype) else first
            dtype = kwargs.get("dtype", args[1] if len(args) > 1 else None)
        if stays(self, device, dtype if isinstance(dtype, torch.dtype) else None, rest):
            return self
        if args and isinstance(args[0], torch.Tensor):
            other = args[0]
            device = torch.device("cuda", 0) if on_device(other) else other.device
            return original_to(self, device, other.dtype, *args[1:], **kwargs)
        if args and not isinstance(args[0], torch.dtype):
            args = (with_index(args[0]), *args[1:])
        if "device" in kwargs:
            kwargs["device"] = with_index(kwargs["device"])
        if "other" in kwargs:
            other = kwargs.pop("other")
            kwargs.setdefault("device", with_index(other.device))
            kwargs.setdefault("dtype", other.dtype)
        return original_to(self, *args, **kwargs)

    def cuda(
        self: torch.Tensor, device: Any = None, non_blocking: bool = False, **kwargs: Any
    ) -> torch.Tensor:
        if on_device(self):
            return self
        target = with_index(0 if device is None else device)
        return original_to(self, target, non_blocking=non_blocking)

    def cpu(self: torch.Tensor, **kwargs: Any) -> torch.Tensor:
        return original_to(self, "cpu")

    def from_data(original: Any) -> Any:
        def make(data: Any, *args: Any, device: Any = None, **kwargs: Any) -> torch.Tensor:
            if is_device_type(device):
                if isinstance(data, torch.Tensor) and on_device(data):
                    return to(data, *args, **kwargs)
                made: torch.Tensor = original(data, *args, **kwargs)
                if made.numel() == 0:  # nothing is copied
                    return torch.empty(made.shape, dtype=made.dtype, device=with_index(device))
                return original_to(made, with_index(device))
            result: torch.Tensor = original(data, *args, device=device, **kwargs)
            return result

        return make

    patch.set(torch.Tensor, "to", to)
    patch.set(torch.Tensor, "cuda", cuda)
    patch.set(torch.Tensor, "cpu", cpu)
    patch.set(torch, "tensor", from_data(original_tensor))
    patch.set(torch, "as_tensor", from_data(original_as_tensor))
    patch.set(torch, "asarray", from_data(torch.asarray))
