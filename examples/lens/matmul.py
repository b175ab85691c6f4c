"""A matrix product of 32 x 32 in tiles of 16 x 16, straight and through shared memory.

Known answers: straight, each of the 1,024 threads reads a row and a column of 32 elements: 256 KiB
asked for, from 8 KiB of data. Through shared memory each block reads each of its four tiles once:
16 KiB, and no bank is asked for two words: `a_tile[ty, k]` is the same word for a row of lanes.

    gpuscope lens examples/lens/matmul.py:launch
"""

import numpy as np
from numba import cuda, float32

TILE = 16
N = 32


@cuda.jit
def straight(a, b, c):
    x, y = cuda.grid(2)
    total = float32(0.0)
    for k in range(N):
        total += a[y, k] * b[k, x]
    c[y, x] = total


@cuda.jit
def tiled(a, b, c):
    a_tile = cuda.shared.array((TILE, TILE), float32)
    b_tile = cuda.shared.array((TILE, TILE), float32)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    x, y = cuda.grid(2)
    total = float32(0.0)
    for begin in range(0, N, TILE):
        a_tile[ty, tx] = a[y, begin + tx]
        b_tile[ty, tx] = b[begin + ty, x]
        cuda.syncthreads()
        for k in range(TILE):
            total += a_tile[ty, k] * b_tile[k, tx]
        cuda.syncthreads()
    c[y, x] = total


def launch():
    """Launch both."""
    rng = np.random.default_rng(0)
    a, b = rng.random((2, N, N), dtype=np.float32)
    for kernel in (straight, tiled):
        c = np.zeros_like(a)
        kernel[(N // TILE, N // TILE), (TILE, TILE)](a, b, c)
        assert np.allclose(c, a @ b, rtol=1e-4)
