"""Watches kernels of Numba's CUDA simulator (`NUMBA_ENABLE_CUDASIM=1`).

The simulator is Numba's own; what it calls for arrays, shared memory, atomics and blocks is put in
place of its parts when the lens runs.
"""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np

from gpuscope.kernel_lens.numba_arrays import Atomics, ConstantArrays, Home, SharedArrays, recorded
from gpuscope.kernel_lens.numba_block import Block, LensBlockManager
from gpuscope.kernel_lens.recorder import LimitReached, Recorder
from gpuscope.kernel_lens.visits import Sources

_FORALL_THREADS = 256
"""Threads of a block where the kernel leaves it to Numba."""


def install(recorder: Recorder) -> None:
    """Let every launch of this process's simulator be recorded.

    Raises:
        ImportError: there is no Numba, or it was imported without its simulator.
    """
    from numba.cuda.simulator import kernel

    Simulator(recorder, kernel)


class Simulator:
    """The parts that replace the simulator's own.

    Args:
        recorder: takes what the kernels do.
        kernel: the module `numba.cuda.simulator.kernel`.
    """

    def __init__(self, recorder: Recorder, kernel: Any) -> None:
        self.recorder = recorder
        self.sources = Sources()
        self.names: list[str] = []
        self.module: Any = None
        self.chosen_block = False
        self._plain_wrap = kernel.FakeWithinKernelCUDAArray
        self._plain_call = kernel.FakeCUDAKernel.__call__
        self._plain_module = kernel.FakeCUDAModule
        self._kernel = kernel
        kernel.FakeWithinKernelCUDAArray = self.wrap
        kernel.FakeCUDAModule = self.make_module
        kernel.BlockManager = self.make_manager
        call, for_all = self.call, self.for_all
        kernel.FakeCUDAKernel.__call__ = lambda fake, *arguments: call(fake, *arguments)
        kernel.FakeCUDAKernel.forall = lambda fake, *a, **k: for_all(fake, *a, **k)

    def call(self, fake: Any, *arguments: Any) -> Any:
        """A call of a kernel (a launch), or of a device function."""
        if fake._device:
            return self._plain_call(fake, *arguments)
        grid, block = self._kernel.normalize_kernel_dimensions(fake.grid_dim, fake.block_dim)
        arguments = tuple(_as_numpy(argument) for argument in arguments)
        opened = self.recorder.begin(fake.fn.__name__, "numba", tuple(grid), tuple(block))
        opened.take_scalars(inspect.signature(fake.fn).parameters, arguments)
        if self.chosen_block:
            opened.notes["forall_block"] = None
        self.chosen_block = False
        self.names = self._array_names(fake.fn, arguments)
        complete = False
        try:
            result = self._plain_call(fake, *arguments)
            complete = True
        finally:
            launch = self.recorder.open
            if launch is not None and self.module is not None:
                launch.shared_bytes = self.module._shared.total_bytes
            self.recorder.end(complete)
        return result

    def for_all(
        self, fake: Any, ntasks: int, tpb: int = 0, stream: int = 0, sharedmem: int = 0
    ) -> Any:
        """`kernel.forall(n)`: as many blocks as it takes.

        A device picks the block's size by occupancy; the simulator would use one thread a block,
        which makes no warps.
        """
        threads = tpb or _FORALL_THREADS
        self.chosen_block = tpb == 0
        return fake[max(1, -(-ntasks // threads)), threads, stream, sharedmem]

    def _array_names(self, function: Any, arguments: tuple[Any, ...]) -> list[str]:
        names = list(inspect.signature(function).parameters)
        names += [f"argument {n}" for n in range(len(names), len(arguments))]
        wraps = (np.ndarray, np.void, self._kernel.ArgHint, self._kernel.FakeCUDAArray)
        return [
            name
            for name, value in zip(names, arguments, strict=False)
            if isinstance(value, wraps) and not (isinstance(value, np.ndarray) and value.ndim == 0)
        ]

    def wrap(self, fake: Any) -> Any:
        """An array argument as the kernel sees it."""
        name = self.names.pop(0) if self.names else f"array {len(self.recorder.launch.allocations)}"
        array = fake._ary
        if not isinstance(array, np.ndarray) or array.dtype.names is not None:
            self.recorder.launch.notes["record_arrays"] = None
            return self._plain_wrap(fake)
        root = array
        while isinstance(root.base, np.ndarray):
            root = root.base
        start, size = _extent(root)
        place = self.recorder.allocate(name, start, size, str(array.dtype), array.shape)
        return recorded(array, Home(place.name, "global", start, start + size, place.base))

    def make_module(self, grid: Any, block: Any, dynamic_bytes: int) -> Any:
        """What the name `cuda` stands for inside a kernel."""
        module = self._plain_module(grid, block, dynamic_bytes)
        module._shared = SharedArrays(dynamic_bytes, _as_dtype)
        module._atomic = Atomics(module._atomic)
        module._const = ConstantArrays()
        module._local = _Local(module._local, self.recorder)
        self.module = module
        return module

    def make_manager(self, function: Any, grid: Any, block: Any, debug: bool) -> Any:
        """What runs one block."""
        return _Manager(self, function, block)


class _Manager:
    """Starts a block with what its threads share, once its index is known."""

    def __init__(self, simulator: Simulator, function: Any, block_dim: Any) -> None:
        self._simulator = simulator
        self._function = function
        self._block_dim = block_dim

    def run(self, grid_point: tuple[int, ...], *arguments: Any) -> None:
        owner = self._simulator
        # Each block has its own shared memory.
        owner.module._shared = SharedArrays(owner.module._shared._dynamic_bytes, _as_dtype)
        block = Block(owner.recorder, owner.sources, grid_point)
        dim3 = owner._kernel.Dim3
        LensBlockManager(self._function, self._block_dim, block, dim3).run(grid_point, *arguments)


class _Local:
    """`cuda.local`: private to a thread, not followed; its use is told."""

    def __init__(self, plain: Any, recorder: Recorder) -> None:
        self._plain = plain
        self._recorder = recorder

    def array(self, shape: Any, dtype: Any) -> Any:
        self._recorder.launch.notes["local_arrays"] = None
        return self._plain.array(shape, dtype)


def _extent(array: np.ndarray[Any, Any]) -> tuple[int, int]:
    """First address and size of an array's memory."""
    start = low = array.__array_interface__["data"][0]
    high = start
    if array.size == 0:
        return start, 0
    for length, stride in zip(array.shape, array.strides, strict=True):
        reach = (length - 1) * stride
        low, high = (low + reach, high) if reach < 0 else (low, high + reach)
    return low, high - low + array.itemsize


def _as_dtype(dtype: Any) -> Any:
    from numba.core import types
    from numba.np import numpy_support

    return numpy_support.as_dtype(dtype) if isinstance(dtype, types.Type) else dtype


def _as_numpy(argument: Any) -> Any:
    """A PyTorch tensor as the NumPy array on its memory; anything else as it is."""
    if type(argument).__module__.partition(".")[0] == "torch" and hasattr(argument, "numpy"):
        return argument.numpy()
    return argument


__all__ = ["LimitReached", "Simulator", "install"]
