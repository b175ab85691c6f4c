"""Record the CUDA driver's own answers about resident blocks, by registers, threads, shared memory.

    python benchmarks/micro/occupancy.py --out validation/recordings/h200/micro

Needs a GPU and CuPy, nothing of gpuscope. Kernels of many live values are compiled so that
registers of a thread take many values; for each, `cuOccupancyMaxActiveBlocksPerMultiprocessor`
says how many blocks fit. One row a launch: `registers, threads, shared_bytes` (dynamic), `blocks`
(0: it cannot be launched).
"""

from __future__ import annotations

import argparse
import csv
import gzip
from pathlib import Path

VALUES = (2, 6, 12, 20, 28, 36, 44, 52, 60, 72, 84, 96, 112, 128, 150, 175, 200, 225, 245)
THREADS = (1, 32, 33, 64, 96, 128, 160, 192, 224, 256, 320, 384, 512, 640, 768, 896, 1024)
SHARED = (
    0,
    100,
    1024,
    4096,
    8192,
    12288,
    16384,
    20000,
    24576,
    32768,
    40960,
    49152,
    65536,
    75776,
    81920,
    98304,
    113664,
    113665,
    115712,
    115713,
    116736,
    150000,
    200000,
    232448,
)

SOURCE = """
extern "C" __global__ void keep%(n)d(volatile float* x) {
    float a[%(n)d];
    #pragma unroll
    for (int i = 0; i < %(n)d; i++) a[i] = x[i * 1024 + threadIdx.x];
    __syncthreads();
    #pragma unroll
    for (int i = %(n)d - 1; i >= 0; i--) x[i * 1024 + threadIdx.x + 1] = a[i];
}
"""


def main() -> None:
    """Ask for every combination and write them."""
    import cupy
    from cupy.cuda import driver

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    out = parser.parse_args().out / "occupancy.csv.gz"
    most = cupy.cuda.Device().attributes["MaxSharedMemoryPerBlockOptin"]
    rows = []
    for n in VALUES:
        kernel = cupy.RawKernel(SOURCE % {"n": n}, f"keep{n}")
        kernel.max_dynamic_shared_size_bytes = most
        registers = kernel.num_regs
        for threads in THREADS:
            for shared in SHARED:
                if shared > most:
                    continue
                blocks = driver.occupancyMaxActiveBlocksPerMultiprocessor(
                    kernel.kernel.ptr, threads, shared
                )
                rows.append((registers, threads, shared, blocks))
    with gzip.open(out, "wt", newline="", compresslevel=9) as file:
        writer = csv.writer(file)
        writer.writerow(("registers", "threads", "shared_bytes", "blocks"))
        writer.writerows(rows)
    print(len(rows), "launches,", len({row[0] for row in rows}), "register counts:", out)


if __name__ == "__main__":
    main()
