"""Branches: by lane, by warp, and a loop whose length depends on the lane.

Known answers: of 32 lanes 16 take the even side. Where whole warps take one side no lane waits.
In the loop lane i goes round i + 1 times, so 16.5 of 32 lanes are active on average.

    gpuscope lens examples/lens/branches.py:launch
"""

import numpy as np
from numba import cuda


@cuda.jit
def by_lane(data):
    i = cuda.grid(1)
    if i % 2 == 0:
        data[i] = 1.0
    else:
        data[i] = 2.0


@cuda.jit
def by_warp(data):
    i = cuda.grid(1)
    if i // 32 % 2 == 0:
        data[i] = 1.0
    else:
        data[i] = 2.0


@cuda.jit
def by_loop(data):
    i = cuda.grid(1)
    rounds = i % 32 + 1
    for turn in range(rounds):
        data[i] = turn


def launch():
    """Launch all three."""
    data = cuda.to_device(np.zeros(128, dtype=np.float32))
    for kernel in (by_lane, by_warp, by_loop):
        kernel[2, 64](data)
    assert np.array_equal(data.copy_to_host(), np.arange(128) % 32)
