"""Shared memory and atomics: how many words of a bank, how many lanes at an address.

Known answers for a stride of s words: gcd(s, 32) ways. So 1 for 1, 2 for 2, 32 for 32, 1 for 33.
In the histogram all lanes of a warp meet in one bin: 32 rounds; spread out, 1.

    gpuscope lens examples/lens/conflicts.py:launch
"""

import numpy as np
from numba import cuda, float32


@cuda.jit
def strided(target, stride):
    words = cuda.shared.array(32 * 33, float32)
    lane = cuda.threadIdx.x
    words[lane * stride] = lane
    cuda.syncthreads()
    target[lane] = words[lane * stride]


@cuda.jit
def histogram(values, bins):
    i = cuda.grid(1)
    cuda.atomic.add(bins, values[i], 1)


def launch():
    """Launch with four strides, then two histograms."""
    target = cuda.to_device(np.zeros(32, dtype=np.float32))
    for stride in (1, 2, 32, 33):
        strided[1, 32](target, stride)
    bins = cuda.to_device(np.zeros(64, dtype=np.int32))
    same = np.zeros(64, dtype=np.int32)
    spread = np.arange(64, dtype=np.int32)
    histogram[2, 32](same, bins)
    histogram[2, 32](spread, bins)
    assert bins.copy_to_host()[0] == 65
