"""Transposing a matrix three ways: straight, through a shared tile, through a padded tile.

Known answers: the straight write touches 32 sectors a request where 4 would do. The tile makes both
sides coalesced, but reading its column is a 32-way bank conflict. One column of padding ends that.

    gpuscope lens examples/lens/transpose.py:launch
"""

import numpy as np
from numba import cuda, float32

TILE = 32
ROWS = 8
N = 64


@cuda.jit
def naive(source, target):
    x, y = cuda.grid(2)
    for row in range(0, TILE, ROWS):
        y = cuda.blockIdx.y * TILE + cuda.threadIdx.y + row
        target[x, y] = source[y, x]


@cuda.jit
def tiled(source, target):
    tile = cuda.shared.array((TILE, TILE), float32)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    x = cuda.blockIdx.x * TILE + tx
    y = cuda.blockIdx.y * TILE + ty
    for row in range(0, TILE, ROWS):
        tile[ty + row, tx] = source[y + row, x]
    cuda.syncthreads()
    x = cuda.blockIdx.y * TILE + tx
    y = cuda.blockIdx.x * TILE + ty
    for row in range(0, TILE, ROWS):
        target[y + row, x] = tile[tx, ty + row]


@cuda.jit
def padded(source, target):
    tile = cuda.shared.array((TILE, TILE + 1), float32)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    x = cuda.blockIdx.x * TILE + tx
    y = cuda.blockIdx.y * TILE + ty
    for row in range(0, TILE, ROWS):
        tile[ty + row, tx] = source[y + row, x]
    cuda.syncthreads()
    x = cuda.blockIdx.y * TILE + tx
    y = cuda.blockIdx.x * TILE + ty
    for row in range(0, TILE, ROWS):
        target[y + row, x] = tile[tx, ty + row]


def launch():
    """Launch all three."""
    source = np.arange(N * N, dtype=np.float32).reshape(N, N)
    for kernel in (naive, tiled, padded):
        target = np.zeros_like(source)
        kernel[(N // TILE, N // TILE), (TILE, ROWS)](source, target)
        assert np.array_equal(target, source.T)
