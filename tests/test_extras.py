"""Each optional extra in an environment of its own: the wheel with it alone does what pages say.

Slow: a virtual environment each, filled from the package index.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import tomllib
import venv
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"][
    "optional-dependencies"
]
TRACE = ROOT / "tests/data/traces/h200/sync_bound/rank-0.json.gz"
WATCHED = ROOT / "tests/data/watch/h200-x2-all-reduce.jsonl"
LENS = ROOT / "examples/lens/transpose.py"

BUILD = """\
import torch


def build():
    model = torch.nn.Linear(64, 64).cuda()
    x = torch.randn(8, 64, device="cuda")
    return lambda: model(x)
"""

OLD_BENCH = f"""\
import gzip, json, shutil
from pathlib import Path
import pyarrow as pa, pyarrow.parquet as pq

given = Path({str(ROOT / "validation/recordings/h200/newest_host")!r})
folder = Path("old")
shutil.copytree(given, folder)
kept = folder / "points.jsonl.gz"
rows = [json.loads(line) for line in gzip.open(kept, "rt")]
kept.unlink()
rows = [
    {{**row, "params": json.dumps(row["params"]), "values": json.dumps(row.get("values", {{}})),
      "error": row.get("error")}}
    for row in rows if "params" in row
]
pq.write_table(pa.Table.from_pylist(rows), folder / "points.parquet")
"""

TEN_TOOLS = """\
import asyncio
from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

async def main():
    server = StdioServerParameters(command="gpuscope", args=["mcp"])
    async with Client(stdio_client(server)) as client:
        print(len((await client.list_tools()).tools), "tools")

asyncio.run(main())
"""

GRAPH = """\
import onnx
from onnx import TensorProto, helper

given, made = (
    helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", 64]) for name in "xy"
)
weight = helper.make_tensor("w", TensorProto.FLOAT, [64, 64], [0.0] * 4096)
node = helper.make_node("MatMul", ["x", "w"], ["y"])
graph = helper.make_graph([node], "g", [given], [made], [weight])
opset = [helper.make_opsetid("", 17)]
onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=8), "model.onnx")
"""

JAX_BUILD = """\
import jax
import jax.numpy as jnp


def build():
    step = jax.jit(lambda weight, x: jax.nn.relu(x @ weight))
    return step, (jnp.zeros((64, 64)), jnp.zeros((8, 64)))
"""

COMMANDS = {
    "none": [
        "gpuscope devices h200",
        "gpuscope explain matmul 4096 4096 4096 --on h200",
        f"gpuscope analyze {TRACE}",
        "gpuscope doctor",
    ],
    "torch": ["gpuscope predict step.py:build --on h100"],
    "models": [
        "gpuscope predict gpt2 --layers 1 --on h100",
        "gpuscope fit llama-3.2-1b --on h100 --simulate 1",
    ],
    "onnx": [
        "python graph.py",
        "gpuscope predict model.onnx --set batch=8 --on h100",
        "gpuscope measure model.onnx --set batch=8 --device cpu",
    ],
    "jax": ["gpuscope predict jax_step.py:build --on h100"],
    "nvidia": ["python -c 'import pynvml'", "gpuscope doctor", "gpuscope watch --once"],
    "ray": [f"gpuscope analyze {TRACE.parent} --engine ray"],
    "figures": [f"gpuscope analyze {TRACE} --figures pictures"],
    "watch": [f"gpuscope watch --replay {WATCHED} --speed 1000 --once"],
    "exporter": [f"gpuscope watch --serve :0 --replay {WATCHED} --speed 1000 --seconds 2"],
    "parquet": ["python old.py", "gpuscope bench --replay old"],
    "mcp": ["gpuscope mcp --method", "python tools.py"],
    "serve": ["gpuscope serve llama-3.2-1b --on h100 --rate 2 --requests 20"],
    "lens": [f"gpuscope lens {LENS}:launch"],
    "docs": [f"sh -c 'python -m mkdocs build --strict -q -f {ROOT / 'mkdocs.yml'} -d $PWD/site'"],
}
"""What the page of each extra types, on small input; "none" without any."""

REFUSED = {"gpuscope watch --once": "there is nothing to read on a machine without devices"}
"""Commands that may end with an error, said in a sentence."""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", str(ROOT), "-w", str(folder)]
    subprocess.run(build, check=True)
    return next(folder.glob("gpuscope-*.whl"))


def test_every_extra_has_commands() -> None:
    assert set(COMMANDS) == {*EXTRAS, "none"} - {"dev"}


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    """An empty environment, which goes when its test is over: PyTorch's takes a gigabyte."""
    made = tmp_path / "environment"
    venv.create(made, with_pip=True)
    yield made
    shutil.rmtree(made)


@pytest.mark.slow
@pytest.mark.parametrize("extra", COMMANDS)
def test_it_works_alone(extra: str, wheel: Path, home: Path, tmp_path: Path) -> None:
    extras = {"none": "", "docs": "[docs,models]"}.get(extra, f"[{extra}]")  # live pages predict
    named = f"{wheel}{extras}"
    constraints = ["-c", str(ROOT / "constraints.txt")]
    install = [str(home / "bin/pip"), "install", "-q", *constraints, named]
    subprocess.run(install, check=True)
    scripts = {"step.py": BUILD, "old.py": OLD_BENCH, "tools.py": TEN_TOOLS, "graph.py": GRAPH}
    scripts["jax_step.py"] = JAX_BUILD
    for name, text in scripts.items():
        (tmp_path / name).write_text(text)
    kept = {name: os.environ[name] for name in ("HOME", "LANG") if name in os.environ}
    surroundings = {
        **kept,
        "PATH": f"{home / 'bin'}:/usr/bin:/bin",
        "XDG_CACHE_HOME": str(tmp_path),
    }
    for line in COMMANDS[extra]:
        done = subprocess.run(
            shlex.split(line), cwd=tmp_path, env=surroundings, capture_output=True, text=True,
            timeout=600, check=False,
        )  # fmt: skip
        told = f"{line}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
        assert "Traceback" not in told, told
        assert "mistake in gpuscope" not in told, told
        assert done.returncode == 0 or line in REFUSED, told
