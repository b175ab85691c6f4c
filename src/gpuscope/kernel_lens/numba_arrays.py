"""Arrays that tell each access of a simulated thread: global, shared and constant ones.

What runs at each access is written out in one function: every Python call under a trace costs more
than the work itself.
"""

from __future__ import annotations

import operator
import sys
from dataclasses import dataclass
from types import FrameType
from typing import TYPE_CHECKING, Any

import numpy as np

from gpuscope.kernel_lens.recorder import LimitReached
from gpuscope.kernel_lens.types import Kind, Space

if TYPE_CHECKING:
    from gpuscope.kernel_lens.numba_block import LensThread


class Running:
    """The simulated thread that runs now; None outside kernels. One runs at a time."""

    thread: LensThread | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Home:
    """Where an array's memory lies.

    Attributes:
        name, space: of the array.
        start, end: addresses on this machine.
        base: address on the device (in shared memory: from its begin) of `start`.
    """

    name: str
    space: Space
    start: int
    end: int
    base: int


class RecordedArray(np.ndarray[Any, Any]):
    """A NumPy array whose single elements are noted when a simulated thread reads or writes them.

    Slices of it are such arrays too, on the same memory.
    """

    home: Home | None = None
    geometry: tuple[int, tuple[int, ...], tuple[int, ...], int] | None = None

    def __array_finalize__(self, other: Any) -> None:
        """Slices and views live where their array does."""
        self.home = getattr(other, "home", None)
        self.geometry = None

    def __getitem__(self, index: Any) -> Any:
        """One element, noted as a load; or a slice, which is no access yet."""
        found = super().__getitem__(index)
        if Running.thread is not None and not isinstance(found, np.ndarray):
            note(self, index, "load")
        return found

    def __setitem__(self, index: Any, value: Any) -> None:
        """Write one element, or each of a slice, noted as stores."""
        super().__setitem__(index, value)
        if Running.thread is not None:
            note(self, index, "store")


def recorded(array: np.ndarray[Any, Any], home: Home) -> RecordedArray:
    """The array, telling its accesses."""
    view = array.view(RecordedArray)
    view.home = home
    return view


def note(array: RecordedArray, index: Any, kind: Kind) -> None:
    """Note an access of the running thread to one element, or to all of a slice.

    Raises:
        LimitReached: the run has seen enough.
    """
    thread, home = Running.thread, array.home
    if thread is None or home is None or not thread.walk.calls:
        return
    geometry = array.geometry
    if geometry is None:
        start = array.__array_interface__["data"][0]
        geometry = array.geometry = (start, array.shape, array.strides, array.itemsize)
    address, shape, strides, size = geometry
    parts = index if type(index) is tuple else (index,)
    places = None
    if len(parts) == len(shape):
        try:
            for part, length, stride in zip(parts, shape, strides, strict=True):
                at = operator.index(part)
                address += (at + length if at < 0 else at) * stride
            places = (address,)
        except TypeError:
            pass  # a slice
    for place in _of_slice(array, index) if places is None else places:
        if not home.start <= place < home.end:
            continue  # what an operation on arrays returned: no memory of the device
        recorder = thread.manager.shared.recorder
        recorder.seen += 1
        if recorder.seen > recorder.limit:
            raise LimitReached
        visit, times = thread.walk.calls[-1].key, thread.walk.times
        key = (visit, home, kind)
        before = times.get(key, 0)
        times[key] = before + 1
        event = (
            visit,
            before,
            thread.thread_id,
            home.base + place - home.start,
            size,
            thread.interval,
        )
        thread.manager.shared.events[home, kind].append(event)


def _of_slice(array: RecordedArray, index: Any) -> list[int]:
    """Addresses on this machine of the elements that a slice names."""
    start = array.__array_interface__["data"][0]
    places = np.zeros(array.shape, dtype=np.int64)
    for axis, (length, stride) in enumerate(zip(array.shape, array.strides, strict=True)):
        shape = [1] * array.ndim
        shape[axis] = length
        places = places + (np.arange(length, dtype=np.int64) * stride).reshape(shape)
    return [start + int(place) for place in np.ravel(places[index])]


class SharedArrays:
    """`cuda.shared` of one block: each `array(...)` in the source is one array of the block.

    Args:
        dynamic_bytes: size of the launch's dynamic shared memory.
        as_dtype: turns Numba's types into NumPy's.
    """

    def __init__(self, dynamic_bytes: int, as_dtype: Any) -> None:
        self._as_dtype = as_dtype
        self._dynamic_bytes = dynamic_bytes
        self._dynamic = np.zeros(max(dynamic_bytes, 1), dtype=np.uint8)
        self._arrays: dict[tuple[Any, Any], RecordedArray] = {}
        self.used_bytes = 0

    def array(self, shape: Any, dtype: Any, name: str = "") -> RecordedArray:
        """The block's array of this place in the source, or of this name."""
        wanted = np.dtype(self._as_dtype(dtype))
        frame = sys._getframe(1)
        key = (frame.f_code, name or frame.f_lasti)
        found = self._arrays.get(key)
        if found is not None:
            return found
        base = self._static_end()
        if isinstance(shape, int) and shape == 0:
            # Dynamic shared memory follows the static arrays; all views of it begin there.
            count = self._dynamic_bytes // wanted.itemsize
            memory = self._dynamic[: count * wanted.itemsize].view(wanted)
        else:
            memory = np.zeros(shape, wanted)
            self.used_bytes = base + memory.nbytes
        found = recorded(memory, _home(memory, name or _name(frame), "shared", base))
        self._arrays[key] = found
        return found

    def _static_end(self) -> int:
        return -(-self.used_bytes // 16) * 16

    @property
    def total_bytes(self) -> int:
        """Static and dynamic shared memory of the block."""
        return self.used_bytes + self._dynamic_bytes


class ConstantArrays:
    """`cuda.const`: arrays of the host that a kernel reads as constants."""

    def __init__(self) -> None:
        self._known: dict[int, RecordedArray] = {}
        self._end = 0

    def array_like(self, array: Any) -> RecordedArray:
        """The array in constant memory."""
        found = self._known.get(id(array))
        if found is None:
            memory = np.ascontiguousarray(array)
            found = recorded(memory, _home(memory, _name(sys._getframe(1)), "constant", self._end))
            self._end += -(-memory.nbytes // 16) * 16
            self._known[id(array)] = found
        return found


def _home(memory: np.ndarray[Any, Any], name: str, space: Space, base: int) -> Home:
    start = memory.__array_interface__["data"][0]
    return Home(name, space, start, start + memory.nbytes, base)


def _name(frame: FrameType) -> str:
    """The name that the source gives to what the running line makes: `tile = cuda.shared.array`."""
    import linecache

    line = linecache.getline(frame.f_code.co_filename, frame.f_lineno).strip()
    name = line.partition("=")[0].strip()
    return name if name.isidentifier() else f"line {frame.f_lineno}"


class Atomics:
    """`cuda.atomic`: each operation is one access, done on the plain array.

    Args:
        plain: the simulator's own atomics.
    """

    def __init__(self, plain: Any) -> None:
        self._plain = plain

    def __getattr__(self, name: str) -> Any:
        """The operation of that name."""
        operation = getattr(self._plain, name)

        def atomic(array: Any, *arguments: Any) -> Any:
            if not isinstance(array, RecordedArray):
                return operation(array, *arguments)
            index = (0,) * array.ndim if name == "compare_and_swap" else arguments[0]
            result = operation(array.view(np.ndarray), *arguments)
            note(array, index, "atomic")
            return result

        return atomic
