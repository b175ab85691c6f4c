"""Against Triton's own compiler, which needs no GPU: how wide and how many the accesses are."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from importlib.metadata import version
from pathlib import Path

import pytest
from lens_examples import needs_triton

from gpuscope.kernel_lens.runner import look

pytestmark = needs_triton

KERNELS = """
import triton
import triton.language as tl


@triton.jit
def add(a, b, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(a + i, mask=i < n)
    tl.store(b + i, x, mask=i < n)


@triton.jit
def plain(a, b, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    x = tl.load(a + i)
    tl.store(b + i, x.to(b.dtype.element_ty))


@triton.jit
def strided(a, b, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    x = tl.load(a + i * n)
    tl.store(b + i, x)


@triton.jit
def square(a, b, n, BLOCK: tl.constexpr):
    r, c = tl.arange(0, BLOCK)[:, None], tl.arange(0, BLOCK)[None, :]
    x = tl.load(a + r * n + c)
    tl.store(b + r * n + c, x + 1)


@triton.jit
def turned(a, b, n, BLOCK: tl.constexpr):
    r, c = tl.arange(0, BLOCK)[:, None], tl.arange(0, BLOCK)[None, :]
    x = tl.load(a + r * n + c)
    tl.store(b + r + c * n, x)
"""

CASES = [
    ("add", "fp32", "fp32", 1024, 1024, 4),
    ("add", "fp32", "fp32", 1000, 1024, 4),
    ("add", "fp16", "fp16", 2048, 2048, 8),
    ("plain", "fp16", "fp32", 1, 1024, 4),
    ("plain", "fp32", "fp16", 1, 512, 4),
    ("plain", "i8", "i8", 1, 4096, 2),
    ("plain", "fp64", "fp64", 1, 256, 1),
    ("strided", "fp32", "fp32", 8, 256, 4),
    ("strided", "fp32", "fp32", 3, 1024, 2),
    ("square", "fp32", "fp32", 64, 64, 4),
    ("square", "fp16", "fp16", 64, 32, 4),
    ("square", "fp32", "fp32", 100, 64, 4),
    ("turned", "fp32", "fp32", 64, 64, 4),
    ("turned", "fp16", "fp16", 64, 64, 8),
]
"""Kernel, element types, n, block, warps."""

TORCH = {"fp16": "float16", "fp32": "float32", "fp64": "float64", "i8": "int8"}

COMPILE = """
import importlib.util, json, re, sys
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

spec = importlib.util.spec_from_file_location("kernels", sys.argv[1])
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
found = []
for name, a, b, n, block, warps in json.loads(sys.argv[2]):
    divisible = [0, 1] + ([2] if n % 16 == 0 else [])
    constants = {(3,): block} | ({(2,): 1} if n == 1 else {})
    source = ASTSource(
        fn=getattr(module, name), constexprs=constants,
        signature={"a": "*" + a, "b": "*" + b, "n": "constexpr" if n == 1 else "i32",
                   "BLOCK": "constexpr"},
        attrs={(k,): [["tt.divisibility", 16]] for k in divisible},
    )
    ptx = triton.compile(
        source, target=GPUTarget("cuda", 90, 32), options={"num_warps": warps}
    ).asm["ptx"]
    widths = []
    for op, vector, bits in re.findall(r"(ld|st)\\.global(?:\\.v(\\d))?\\.[bf](\\d+)", ptx):
        widths.append((op, int(vector or 1) * int(bits) // 8))
    found.append(widths)
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory):
    """Per case, widths of the loads and stores of one thread."""
    if tuple(map(int, version("triton").split(".")[:2])) < (3, 4):
        pytest.skip("an older Triton's compiler is called otherwise")
    folder = tmp_path_factory.mktemp("compiled")
    (folder / "kernels.py").write_text(KERNELS)
    (folder / "compile.py").write_text(COMPILE)
    out = subprocess.run(
        [sys.executable, "compile.py", "kernels.py", json.dumps(CASES)],
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    return [Counter(map(tuple, widths)) for widths in json.loads(out)]


@pytest.fixture(scope="module")
def interpreted(tmp_path_factory: pytest.TempPathFactory):
    """The same launches under the lens."""
    folder: Path = tmp_path_factory.mktemp("interpreted")
    lines = [KERNELS, "import torch", "def launch():"]
    for name, a, b, n, block, warps in CASES:
        room = 4 * block * 8 if "square" not in name and name != "turned" else 100 * 70
        lines.append(
            f"    {name}[(1,)](torch.zeros({room}, dtype=torch.{TORCH[a]}), "
            f"torch.zeros({room}, dtype=torch.{TORCH[b]}), {n}, BLOCK={block}, num_warps={warps})"
        )
    file = folder / "kernels.py"
    file.write_text("\n".join(lines))
    return look(str(file)).launches


@pytest.mark.parametrize("number", range(len(CASES)), ids=lambda n: "-".join(map(str, CASES[n])))
def test_as_wide_and_as_many_as_the_compilers(number, compiled, interpreted):
    warps = CASES[number][-1]
    ours: Counter = Counter()
    for found in interpreted[number].accesses:
        # Masked off requests of whole warps are executed too; only `add` with 1000 has them.
        executed = -(-found.requests // warps)
        ours[("ld" if found.kind == "load" else "st", found.bytes_per_lane)] += executed
    assert ours == compiled[number]
