"""Stand-ins for `torch.cuda` while a step is captured: no driver is touched."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable
from functools import cache
from types import SimpleNamespace
from typing import Any, ClassVar

import torch
from torch._subclasses import fake_tensor

from gpuscope.program.capture.fakes import accelerator, device_index, recorder, use_device
from gpuscope.program.capture.patches import Patches, here
from gpuscope.program.capture.storages import Held
from gpuscope.program.capture.streams import Points, StreamOrder


class FakeStream:
    """A stream with an identity; work issued inside `with torch.cuda.stream(s)` carries it."""

    _next = 1
    order: ClassVar[StreamOrder] = StreamOrder()

    def __init__(self, device: Any = None, priority: int = 0, **_: Any) -> None:
        self.stream_id = FakeStream._next
        FakeStream._next += 1
        self.cuda_stream = self.stream_id
        self.priority = priority
        self.device = accelerator()
        self.device_index = self.device.index

    def wait_stream(self, stream: Any) -> None:
        """What comes now on this stream waits for all that `stream` was given."""
        self.order.wait(self.stream_id, self.order.mark(stream.stream_id))

    def wait_event(self, event: Any) -> None:
        """What comes now on this stream waits for what the event marks."""
        self.order.wait(self.stream_id, event.points)

    def record_event(self, event: Any = None) -> Any:
        """An event on this stream; a new one if none is given."""
        event = event if event is not None else torch.cuda.Event()
        event.record(self)
        return event

    def query(self) -> bool:
        """Whether all work is done: yes."""
        return True

    def is_capturing(self) -> bool:
        """Whether a CUDA graph is being captured: no."""
        return False

    def synchronize(self) -> None:
        """Replaced per capture so that the wait is recorded."""

    def __enter__(self) -> FakeStream:
        StreamContext.current.stack.append(self)
        return self

    def __exit__(self, *_: object) -> None:
        StreamContext.current.stack.pop()


class FakeEvent:
    """An event; elapsed times read as 1 ms, unless there is a clock of predicted times."""

    clock: ClassVar[Any] = None

    def __init__(self, *_: Any, **__: Any) -> None:
        self.cuda_event = 0
        self.event_id = 0
        self.points: Points = {}
        self.at_s = 0.0

    def record(self, stream: Any = None) -> None:
        """Mark a point on the stream."""
        stream = current_stream() if stream is None else stream
        self.points = FakeStream.order.mark(stream.stream_id)
        if self.clock is not None:
            self.at_s = self.clock.event_s(stream.stream_id, self.points)

    def wait(self, stream: Any = None) -> None:
        """What comes now on the stream waits for what this event marks."""
        (current_stream() if stream is None else stream).wait_event(self)

    def query(self) -> bool:
        """Whether it has passed: yes."""
        return True

    def synchronize(self) -> None:
        """Replaced per capture so that the wait is recorded."""

    def elapsed_time(self, other: Any) -> float:
        """Milliseconds between two events."""
        return 1.0 if self.clock is None else (other.at_s - self.at_s) * 1e3


class _Streams(threading.local):
    """A thread's current streams, innermost last."""

    def __init__(self, first: Any) -> None:
        self.stack = [first]


class StreamContext:
    """`with torch.cuda.stream(s)`: the recorder reads the current stream from here."""

    current: ClassVar[Any] = None

    def __init__(self, stream: Any) -> None:
        self.stream = stream

    def __enter__(self) -> Any:
        stream = current_stream() if self.stream is None else self.stream
        StreamContext.current.stack.append(stream)
        return self.stream

    def __exit__(self, *_: object) -> None:
        StreamContext.current.stack.pop()


def current_stream() -> Any:
    """The stream that operators are issued to."""
    return StreamContext.current.stack[-1]


class _DeviceContext:
    """`with torch.cuda.device(i)`."""

    def __init__(self, device: Any = None) -> None:
        self._device = device

    def __enter__(self) -> _DeviceContext:
        self._before = device_index()
        use_device(self._device)
        return self

    def __exit__(self, *_: object) -> None:
        use_device(self._before)


class _NoContext:
    def __enter__(self) -> _NoContext:
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
        uuid="",
    )


class _AnyGenerator(type):
    def __call__(cls, device: Any = "cpu") -> Any:
        return torch._C.Generator(device="cpu" if here() else device)

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, torch._C.Generator)


class _Generator(metaclass=_AnyGenerator):
    """`torch.Generator`, of whatever device, is one of the host."""


class _AnyGraph(type):
    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        from gpuscope.program.capture.graphs import Graph

        return Graph(*args, **kwargs)

    def __instancecheck__(cls, instance: Any) -> bool:
        return type(instance).__module__ == "gpuscope.program.capture.graphs"


class _Graph(metaclass=_AnyGraph):
    """`torch.cuda.CUDAGraph`, which few programs make."""


def _captured(*args: Any, **kwargs: Any) -> Any:
    from gpuscope.program.capture.graphs import Capture

    return Capture(*args, **kwargs)


def _graphs() -> dict[str, Any]:
    """What `torch.cuda` and `torch.cuda.graphs` have for CUDA graphs."""
    return {
        "CUDAGraph": _Graph,
        "graph": _captured,
        "graph_pool_handle": lambda: (0, 0),
        "is_current_stream_capturing": lambda: bool(recorder().capturing),
    }


def _leave_absent_device_alone(patch: Patches) -> None:
    """Keep fake tensors from starting a device that is not there.

    PyTorch makes one real tensor before its first fake one of a device, if it believes that there
    is such a device, and capture says that there is. PyTorch 2.6 asks `torch.cuda.is_available`.
    """
    original = getattr(fake_tensor, "init_gpu_context", None)
    really = cache(torch.cuda.device_count)

    def start(device: torch.device) -> None:
        if original is not None and (device.index or 0) < really():  # a job has more than are here
            original(device)

    patch.set(fake_tensor, "init_gpu_context", start, only_if_present=True)


def _fixed_answers() -> dict[str, Any]:
    """What `torch.cuda` answers whatever is captured: a device is there, and holds nothing."""
    cpu_state = torch.empty(0, dtype=torch.uint8)
    return {
        "is_available": lambda: True,
        "is_initialized": lambda: True,
        "init": lambda: None,
        "_lazy_init": lambda: None,
        "_lazy_call": lambda *a, **k: None,
        "current_device": device_index,
        "set_device": use_device,
        "device": _DeviceContext,
        "device_of": lambda tensor: _DeviceContext(),
        "get_arch_list": lambda: ["sm_90"],
        "is_bf16_supported": lambda *a, **k: True,
        "stream": StreamContext,
        "StreamContext": StreamContext,
        "empty_cache": lambda: None,
        "ipc_collect": lambda: None,
        "memory_summary": lambda *a, **k: "",
        "memory_snapshot": lambda *a, **k: [],
        "set_per_process_memory_fraction": lambda *a, **k: None,
        "manual_seed": lambda seed: None,
        "manual_seed_all": lambda seed: None,
        "seed": lambda: None,
        "initial_seed": lambda: 0,
        "get_rng_state": lambda device="cuda": cpu_state,
        "set_rng_state": lambda state, device="cuda": None,
        "get_rng_state_all": lambda: [cpu_state],
        "set_rng_state_all": lambda states: None,
        "can_device_access_peer": lambda *a: True,
        "_is_in_bad_fork": lambda: False,
        "utilization": lambda device=None: 0,
        "temperature": lambda device=None: 0,
        "power_draw": lambda device=None: 0,
        "clock_rate": lambda device=None: 0,
    }


def _install_fixed(patch: Patches) -> None:
    """Stand-ins beside `torch.cuda` itself, the same for every capture."""
    for name in ("_record_memory_history", "_dump_snapshot"):
        patch.set(torch.cuda.memory, name, lambda *a, **k: None, only_if_present=True)
    patch.set(torch.cuda.nccl, "version", lambda: (2, 27, 5))
    patch.set(torch.Tensor, "record_stream", lambda self, stream: None)
    patch.set(torch.cuda.nvtx, "range_push", lambda *a, **k: 0)
    patch.set(torch.cuda.nvtx, "range_pop", lambda *a, **k: 0)
    patch.set(torch.cuda.nvtx, "mark", lambda *a, **k: None)
    # Libraries of kernels take it by name when they are imported; none of them launches here.
    patch.set(torch._C, "_cuda_getCurrentRawStream", lambda device: 0)
    for name in ("_get_accelerator", "_accelerator_getAccelerator"):
        patch.set(torch._C, name, lambda *_: torch.device("cuda"), only_if_present=True)
    if hasattr(torch.cuda.amp, "common"):
        patch.set(torch.cuda.amp.common, "amp_definitely_not_available", lambda: False)
    for module in (torch, torch.random):
        for name in ("fork_rng",):
            if name in vars(module):
                patch.set(module, name, lambda *a, **k: _NoContext())
    patch.everywhere(torch, "Generator", _Generator)


def _memory_answers(memory: Held) -> dict[str, Any]:
    """What is allocated as the allocator counts it; the reserved segments only grow."""

    def reset(device: Any = None) -> None:
        memory.most_bytes = memory.now_bytes

    def stats(device: Any = None) -> defaultdict[str, int]:
        told: defaultdict[str, int] = defaultdict(int)
        for pool in ("all", "large_pool"):
            for kind, now, most in (
                ("allocated", memory.now_bytes, memory.most_bytes),
                ("active", memory.now_bytes, memory.most_bytes),
                ("reserved", memory.reserved_bytes, memory.reserved_bytes),
            ):
                told[f"{kind}_bytes.{pool}.current"] = now
                told[f"{kind}_bytes.{pool}.peak"] = most
        return told

    return {
        "memory_stats": stats,
        "memory_allocated": lambda device=None: memory.now_bytes,
        "max_memory_allocated": lambda device=None: memory.most_bytes,
        "memory_reserved": lambda device=None: memory.reserved_bytes,
        "max_memory_reserved": lambda device=None: memory.reserved_bytes,
        "reset_peak_memory_stats": reset,
        "reset_max_memory_allocated": reset,
    }


def install(
    patch: Patches,
    record_sync: Callable[..., None],
    order: StreamOrder,
    memory: Held,
    device_count: int = 1,
) -> None:
    """Put the stand-ins in place.

    Args:
        patch: where the replacements are remembered.
        record_sync: called with a reason whenever the host would wait for the device, and with
            the points that it waits for, if not for all.
        order: learns what streams and events wait for.
        memory: knows how much is allocated.
        device_count: what `torch.cuda.device_count()` says.
    """
    _leave_absent_device_alone(patch)
    capability = (9, 0)
    properties = _properties(141 * 10**9, "gpuscope capture", capability, 132)
    patch.everywhere(FakeStream, "order", order)
    patch.everywhere(FakeStream, "_next", 1)
    stream = FakeStream()
    stream.stream_id = stream.cuda_stream = 0
    patch.everywhere(StreamContext, "current", _Streams(stream))

    class Stream(FakeStream):
        def synchronize(self) -> None:
            record_sync("synchronize", order.mark(self.stream_id))

    class Event(FakeEvent):
        def synchronize(self) -> None:
            record_sync("synchronize", self.points)

    stream.__class__ = Stream

    def set_stream(to: Any) -> None:
        StreamContext.current.stack[-1] = stream if to is None else to

    answers = {
        **_fixed_answers(),
        **_memory_answers(memory),
        "device_count": lambda: device_count,
        "get_device_properties": lambda device=None: properties,
        "get_device_capability": lambda device=None: capability,
        "get_device_name": lambda device=None: properties.name,
        "synchronize": lambda device=None: record_sync("synchronize"),
        "current_stream": lambda device=None: current_stream(),
        "default_stream": lambda device=None: stream,
        "set_stream": set_stream,
        "Stream": Stream,
        "ExternalStream": lambda pointer, device=None, **_: Stream(device),
        "Event": Event,
        "mem_get_info": lambda device=None: (properties.total_memory, properties.total_memory),
    }
    for name, value in answers.items():
        patch.set(torch.cuda, name, value, only_if_present=True)
    for name, value in _graphs().items():
        patch.set(torch.cuda, name, value, only_if_present=True)
        patch.set(torch.cuda.graphs, name, value, only_if_present=True)
    if hasattr(torch, "accelerator"):
        for name, value in {
            "is_available": lambda: True,
            "current_accelerator": lambda check_available=False: torch.device("cuda"),
            "device_count": lambda: device_count,
            "current_device_index": device_index,
            "set_device_index": use_device,
            "current_stream": lambda device=None: current_stream(),
            "set_stream": set_stream,
            "synchronize": lambda device=None: record_sync("synchronize"),
        }.items():
            patch.set(torch.accelerator, name, value, only_if_present=True)
    _install_fixed(patch)
