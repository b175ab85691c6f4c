"""Three copies of the same 4 KiB: neighbouring lanes, every 32nd element, and one element off.

Known answers (32 lanes, 4 bytes each, 32-byte sectors): 4, 32 and 5 sectors a request.

    gpuscope lens examples/lens/coalescing.py:launch
"""

import numpy as np
from numba import cuda

N = 1024


@cuda.jit
def copy(source, target):
    i = cuda.grid(1)
    if i < target.size:
        target[i] = source[i]


@cuda.jit
def strided_copy(source, target, stride):
    i = cuda.grid(1)
    if i < target.size:
        target[i] = source[i * stride]


@cuda.jit
def shifted_copy(source, target):
    i = cuda.grid(1)
    if i < target.size:
        target[i] = source[i + 1]


def launch():
    """Launch all three."""
    data = cuda.to_device(np.arange(32 * N, dtype=np.float32))
    target = cuda.to_device(np.zeros(N, dtype=np.float32))
    copy[N // 128, 128](data, target)
    strided_copy[N // 128, 128](data, target, 32)
    shifted_copy[N // 128, 128](data, target)
    assert np.array_equal(target.copy_to_host(), np.arange(1, N + 1, dtype=np.float32))
