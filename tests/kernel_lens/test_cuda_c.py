"""CUDA C under the lens: the same counts as of the same kernels in Numba, and what is refused."""

from __future__ import annotations

import importlib.util
from dataclasses import astuple
from pathlib import Path

import pytest

import gpuscope as gs
from gpuscope.errors import InputFileError, InvalidValueError, WorkloadError

for package in ("pycparser", "numba"):
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"{package} is not installed", allow_module_level=True)

TEXTBOOK = Path(__file__).resolve().parents[2] / "examples" / "lens" / "textbook.cu"

TWINS = f"""
from pathlib import Path

import numpy as np
from numba import cuda, float32

from gpuscope.kernel_lens.cuda_launch import CudaLaunch, launcher

TILE, SIDE, ROWS, N = 16, 32, 8, 64


@cuda.jit
def vecAdd(a, b, c, n):
    i = cuda.grid(1)
    if i < n:
        c[i] = a[i] + b[i]


@cuda.jit
def matmul(a, b, c, n):
    a_tile = cuda.shared.array((TILE, TILE), float32)
    b_tile = cuda.shared.array((TILE, TILE), float32)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    x, y = cuda.grid(2)
    total = float32(0.0)
    for begin in range(0, n, TILE):
        a_tile[ty, tx] = a[y * n + begin + tx]
        b_tile[ty, tx] = b[(begin + ty) * n + x]
        cuda.syncthreads()
        for k in range(TILE):
            total += a_tile[ty, k] * b_tile[k, tx]
        cuda.syncthreads()
    c[y * n + x] = total


@cuda.jit
def transposeNaive(source, target):
    x = cuda.blockIdx.x * SIDE + cuda.threadIdx.x
    for row in range(0, SIDE, ROWS):
        y = cuda.blockIdx.y * SIDE + cuda.threadIdx.y + row
        target[x * N + y] = source[y * N + x]


@cuda.jit
def transposePadded(source, target):
    tile = cuda.shared.array((SIDE, SIDE + 1), float32)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    x, y = cuda.blockIdx.x * SIDE + tx, cuda.blockIdx.y * SIDE + ty
    for row in range(0, SIDE, ROWS):
        tile[ty + row, tx] = source[(y + row) * N + x]
    cuda.syncthreads()
    x, y = cuda.blockIdx.y * SIDE + tx, cuda.blockIdx.x * SIDE + ty
    for row in range(0, SIDE, ROWS):
        target[(y + row) * N + x] = tile[tx, ty + row]


@cuda.jit
def reduceSum(input, output, n):
    part = cuda.shared.array(0, float32)
    t = cuda.threadIdx.x
    i = cuda.grid(1)
    part[t] = input[i] if i < n else 0.0
    cuda.syncthreads()
    s = cuda.blockDim.x // 2
    while s > 0:
        if t < s:
            part[t] += part[t + s]
        cuda.syncthreads()
        s >>= 1
    if t == 0:
        output[cuda.blockIdx.x] = part[0]


@cuda.jit
def histogram(keys, bins, n):
    i = cuda.grid(1)
    step = cuda.gridsize(1)
    while i < n:
        cuda.atomic.add(bins, keys[i] % 16, 1)
        i += step


def launch():
    floats = lambda: np.zeros(4096, np.float32)
    keys = np.random.default_rng(0).integers(0, 256, 4096).astype(np.int32)
    one = (1, 1, 1)
    for twin, grid, block, shared, arrays, n in (
        (vecAdd, (8, 1, 1), (128, 1, 1), 0, [floats(), floats(), floats()], 1000),
        (matmul, one, (16, 16, 1), 0, [floats(), floats(), floats()], 32),
        (transposeNaive, (2, 1, 1), (32, 8, 1), 0, [floats(), floats()], None),
        (transposePadded, one, (32, 8, 1), 0, [floats(), floats()], None),
        (reduceSum, (4, 1, 1), (128, 1, 1), 512, [floats(), floats()], 500),
        (histogram, (2, 1, 1), (64, 1, 1), 0, [keys, np.zeros(4096, np.int32)], 500),
    ):
        name = twin.py_func.__name__ if hasattr(twin, "py_func") else twin.fn.__name__
        given = [*arrays, *([] if n is None else [n])]
        twin[grid, block, 0, shared](*given)
        texts = dict.fromkeys(("a", "b", "c", "source", "target", "input", "output"), "4096")
        texts |= {{"keys": "4096:random", "bins": "4096", "n": str(n)}}
        launcher(Path({str(TEXTBOOK)!r}), name, CudaLaunch(grid, block, texts, shared))()
"""

KERNELS = ["vecAdd", "matmul", "transposeNaive", "transposePadded", "reduceSum", "histogram"]


@pytest.fixture(scope="module")
def launches(tmp_path_factory):
    """Of each kernel the launch in Numba and the one in CUDA C, all from one process."""
    file = tmp_path_factory.mktemp("twins") / "twins.py"
    file.write_text(TWINS)
    found = gs.lens(f"{file}:launch").launches
    assert [each.kernel for each in found] == [name for name in KERNELS for _ in range(2)]
    return {found[at].kernel: found[at : at + 2] for at in range(0, len(found), 2)}


def _counts(launch):
    """Everything counted of each access, by array and kind, in the order of the lines."""
    without = ("file", "line", "sample")
    return [
        tuple(getattr(each, name) for name in type(each).__slots__ if name not in without)
        for each in sorted(launch.accesses, key=lambda a: (a.array, a.kind, a.line))
    ]


@pytest.mark.parametrize("name", KERNELS)
def test_counts_are_those_of_numba(launches, name):
    numba, cuda = launches[name]
    assert _counts(cuda) == _counts(numba)
    assert (cuda.grid, cuda.block, cuda.shared_bytes) == (
        numba.grid, numba.block, numba.shared_bytes,
    )  # fmt: skip
    assert cuda.barriers == numba.barriers == ()
    assert cuda.races == numba.races == ()


def test_lines_are_those_of_the_file(launches):
    cuda = launches["transposeNaive"][1]
    text = TEXTBOOK.read_text().splitlines()
    assert {text[each.line - 1].strip() for each in cuda.accesses} == {
        "target[x * N + y] = source[y * N + x];"
    }
    (function,) = cuda.functions
    assert function.lines[0].startswith("__global__ void transposeNaive")
    assert function.lines[-1] == "}"


def test_the_tree_diverges_as_in_numba(launches):
    numba, cuda = launches["reduceSum"]

    def halved(launch):
        stores = {a.line for a in launch.accesses if a.array == "part" and a.kind == "store"}
        line = max(stores)  # part[t] += part[t + s]
        return [astuple(each)[2:] for each in launch.activity if each.line == line]

    assert len(halved(numba)) == 1
    assert halved(cuda) == halved(numba)


def test_a_kernel_is_launched_by_name(tmp_path):
    file = tmp_path / "scaled.cu"
    file.write_text(
        "#define SCALE(x) ((x) * 2.0f)\n"
        "const int SHIFT = 1;\n"
        "__device__ float twice(float x) { return SCALE(x); }\n"
        "__global__ void scaled(const float *x, float *y, int n) {\n"
        "  for (int i = threadIdx.x; i < n; i += blockDim.x) {\n"
        "    if (i == 7) continue;\n"
        "    *(y + i) = twice(x[i + SHIFT]);\n"
        "  }\n"
        "}\n"
        "int main() { scaled<<<1, 32>>>(x, y, 64); std::vector<int> host; }\n"
    )
    (launch,) = gs.lens(f"{file}:scaled", grid=1, block=32, arguments={"n": 64}).launches
    found = {(a.array, a.kind): (a.line, a.requests, a.lanes, a.sectors) for a in launch.accesses}
    assert found == {("x", "load"): (7, 2, 63, 10), ("y", "store"): (7, 2, 63, 8)}


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("switch (n) { case 1: x[0] = 1; }", "switch is not followed"),
        ("float4 v;", "not understood"),
        ("x[0] = __shfl_down_sync(0xffffffff, x[0], 1);", "shuffles"),
        ("x[0] = surprise(n);", "surprise"),
        ("x[n++] = 1;", "within an expression"),
        ("do { n--; } while (n > 0);", "do ... while"),
    ],
)
def test_what_is_not_followed_is_named_with_its_line(tmp_path, line, said):
    file = tmp_path / "odd.cu"
    file.write_text(f"__global__ void odd(float *x, int n) {{\n\n  {line}\n}}\n")
    with pytest.raises(InputFileError) as error:
        gs.lens(f"{file}:odd", grid=1, block=32, arguments={"n": 1})
    assert "Line 3" in str(error.value)
    assert said in str(error.value)


@pytest.mark.parametrize(
    ("kernel", "given", "error"),
    [
        ("vecAdd", {"block": 32, "arguments": {"n": 1}}, InvalidValueError),
        ("vecAdd", {"grid": 1, "block": 32}, InvalidValueError),
        ("vecAdd", {"grid": "many", "block": 32, "arguments": {"n": 1}}, InvalidValueError),
        ("vecAdd", {"grid": 1, "block": 2048, "arguments": {"n": 1}}, InvalidValueError),
        ("vecAdd", {"grid": 1, "block": 32, "arguments": {"m": 1, "n": 1}}, InvalidValueError),
        ("vecAdd", {"grid": 1, "block": 32, "arguments": {"n": "x"}}, InvalidValueError),
        ("vecAdd", {"grid": 1, "block": 32, "arguments": {"n": 1, "a": "0"}}, InvalidValueError),
        ("absent", {"grid": 1, "block": 32}, WorkloadError),
    ],
)
def test_wrong_launches_say_what_to_type(kernel, given, error):
    with pytest.raises(error):
        gs.lens(f"{TEXTBOOK}:{kernel}", **given)
