"""Arrays that tell each access of a simulated thread: global, shared and constant ones."""

from __future__ import annotations

import operator
import sys
import threading
from dataclasses import dataclass
from types import FrameType
from typing import TYPE_CHECKING, Any

import numpy as np

from gpuscope.lens.recorder import Site
from gpuscope.lens.types import Kind, Space

if TYPE_CHECKING:
    from gpuscope.lens.numba_block import LensThread


@dataclass(frozen=True, slots=True)
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

    def __array_finalize__(self, other: Any) -> None:
        """Slices and views live where their array does."""
        self.home = getattr(other, "home", None)

    def __getitem__(self, index: Any) -> Any:
        """One element, noted as a load; or a slice, which is no access yet."""
        found = super().__getitem__(index)
        if not isinstance(found, np.ndarray):
            note(self, index, "load")
        return found

    def __setitem__(self, index: Any, value: Any) -> None:
        """Write one element, or each of a slice, noted as stores."""
        super().__setitem__(index, value)
        note(self, index, "store")


def recorded(array: np.ndarray[Any, Any], home: Home) -> RecordedArray:
    """The array, telling its accesses."""
    view = array.view(RecordedArray)
    view.home = home
    return view


def note(array: RecordedArray, index: Any, kind: Kind) -> None:
    """Note an access of the running thread to one element, or to all of a slice."""
    thread = threading.current_thread()
    home = array.home
    walk = getattr(thread, "walk", None)
    if home is None or walk is None or walk.here is None:
        return
    for address in _addresses(array, index):
        if home.start <= address < home.end:
            _note_one(thread, home, home.base + address - home.start, array.itemsize, kind)  # type: ignore[arg-type]


def _note_one(thread: LensThread, home: Home, address: int, size: int, kind: Kind) -> None:
    walk = thread.walk
    call = walk.calls[-1]
    site = Site(call.file, call.line, home.space, kind, home.name)
    block = thread.manager.shared
    block.recorder.count(1)
    events = block.events.get(site)
    if events is None:
        events = block.events[site] = []
    events.append((call.key, walk.again((call.key, site)), thread.thread_id, address, size))


def _addresses(array: RecordedArray, index: Any) -> list[int]:
    """Addresses on this machine of the elements that an index names."""
    parts = index if isinstance(index, tuple) else (index,)
    start = array.__array_interface__["data"][0]
    if len(parts) == array.ndim:
        try:
            for part, length, stride in zip(parts, array.shape, array.strides, strict=True):
                at = operator.index(part)
                start += (at + length if at < 0 else at) * stride
        except TypeError:
            pass  # a slice
        else:
            return [start]
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
        self._arrays: dict[tuple[Any, int], RecordedArray] = {}
        self.used_bytes = 0

    def array(self, shape: Any, dtype: Any) -> RecordedArray:
        """The block's array of this place in the source."""
        wanted = np.dtype(self._as_dtype(dtype))
        frame = sys._getframe(1)
        if isinstance(shape, int) and shape == 0:
            count = self._dynamic_bytes // wanted.itemsize
            memory = self._dynamic[: count * wanted.itemsize].view(wanted)
            # Dynamic shared memory follows the static arrays.
            return recorded(memory, _home(memory, _name(frame), "shared", self._static_end()))
        key = (frame.f_code, frame.f_lasti)
        found = self._arrays.get(key)
        if found is None:
            base = self._static_end()
            memory = np.zeros(shape, wanted)
            found = recorded(memory, _home(memory, _name(frame), "shared", base))
            self._arrays[key] = found
            self.used_bytes = base + memory.nbytes
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
