"""The kernels of examples/lens/textbook.cu count their own warps' requests on a CUDA device.

    python benchmarks/lens/counted.py counts.json          on a GPU; needs PyTorch alone

No hardware counter is read (a driver may keep them from users). Each pointer of a kernel becomes a
`Counted` one: at each access the lanes that are active together find the sectors that they touch
(`__match_any_sync`), and one of them adds up. What the compiler makes of the source, and which
lanes come together after a branch, is the device's.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

TEXTBOOK = Path(__file__).resolve().parents[2] / "examples" / "lens" / "textbook.cu"
KINDS = ("load", "store", "atomic")

COUNTED = """
typedef unsigned long long Count;

__device__ inline void count(const volatile void* at, Count* counts) {
  unsigned active = __activemask();
  unsigned lane = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
  unsigned same = __match_any_sync(active, (Count)at >> 5);
  lane &= 31;
  if (lane == __ffs(active) - 1) atomicAdd(counts, 1ull);
  if (lane == __ffs(same) - 1) atomicAdd(counts + 1, 1ull);
}

template <class T>
struct Counted {
  T* data;
  Count* counts;
  struct Element {
    T* at;
    Count* counts;
    __device__ operator T() const { count(at, counts); return *at; }
    template <class V>
    __device__ void operator=(V value) { count(at, counts + 2); *at = value; }
    __device__ T* operator&() { count(at, counts + 4); return at; }
  };
  __device__ Element operator[](long long i) const { return Element{data + i, counts}; }
};
"""

LAUNCHES: dict[str, tuple[tuple[int, int, int], tuple[int, int, int], int, int | None]] = {
    "vecAdd": ((8, 1, 1), (128, 1, 1), 0, 1000),
    "matmul": ((2, 2, 1), (16, 16, 1), 0, 32),
    "transposeNaive": ((2, 2, 1), (32, 8, 1), 0, None),
    "transposePadded": ((2, 2, 1), (32, 8, 1), 0, None),
    "reduceSum": ((4, 1, 1), (128, 1, 1), 512, 500),
    "histogram": ((2, 1, 1), (64, 1, 1), 0, 500),
}
"""Grid, block, bytes of shared memory, and `n` where there is one."""

SIZE = 65536
KERNEL = re.compile(r"__global__ void (\w+)\(([^)]*)\) \{")
POINTER = re.compile(r"((?:const )?\w+)\* (?:__restrict__ )?(\w+)")


def pointers(name: str) -> list[tuple[str, str]]:
    """A kernel's pointers: what they point to, and their names."""
    found = {each[1]: each[2] for each in KERNEL.finditer(TEXTBOOK.read_text("utf-8"))}
    return POINTER.findall(found[name])


def counting() -> str:
    """The file's kernels, each with counters as its last argument."""

    def counted(kernel: re.Match[str]) -> str:
        name, given = kernel[1], kernel[2]
        arrays = pointers(name)
        plain = POINTER.sub(lambda each: f"{each[1]}* {each[2]}_", given)
        wrapped = "".join(
            f"\n  Counted<{kind}> {array}{{{array}_, counts + {6 * at}}};"
            for at, (kind, array) in enumerate(arrays)
        )
        return f'extern "C" __global__ void {name}({plain}, Count* counts) {{{wrapped}'

    text = TEXTBOOK.read_text("utf-8")
    text = "\n".join(line for line in text.splitlines() if not line.startswith("#include"))
    return COUNTED + KERNEL.sub(counted, text[: text.index("int main()")])


def told(name: str, counts: list[int]) -> Iterator[dict[str, Any]]:
    """What an array's accesses of each kind counted, where there were any."""
    for at, (_, array) in enumerate(pointers(name)):
        for kind, which in zip(KINDS, range(0, 6, 2), strict=True):
            requests, sectors = counts[6 * at + which : 6 * at + which + 2]
            if requests:
                row = {"kernel": name, "array": array, "kind": kind}
                yield row | {"requests": requests, "sectors": sectors}


def main() -> None:
    """Launch each kernel once, and write what it counted."""
    import torch

    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("file", type=Path)
    file, source, rows = parser.parse_args().file, counting(), []
    for name, (grid, block, shared, n) in LAUNCHES.items():
        torch.manual_seed(0)
        arrays = [
            torch.randint(0, 256, (SIZE,), device="cuda").to(
                torch.int32 if "int" in kind else torch.float32
            )
            for kind, _ in pointers(name)
        ]
        counts = torch.zeros(6 * len(arrays), dtype=torch.int64, device="cuda")
        kernel = torch.cuda._compile_kernel(source, name)
        sizes = [] if n is None else [n]
        kernel(grid=grid, block=block, args=[*arrays, *sizes, counts], shared_mem=shared)
        torch.cuda.synchronize()
        rows += told(name, counts.tolist())
    made = {"device": torch.cuda.get_device_name(), "torch": torch.__version__, "counts": rows}
    file.write_text(json.dumps(made, indent=1) + "\n", "utf-8")
    print(*rows, sep="\n")


if __name__ == "__main__":
    main()
