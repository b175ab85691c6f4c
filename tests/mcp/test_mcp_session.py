"""Sessions with the protocol's own client: over pipes, as an assistant has them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

anyio = pytest.importorskip("anyio")
pytest.importorskip("mcp")
torch = pytest.importorskip("torch")

from mcp.client.client import Client  # noqa: E402
from mcp.client.stdio import StdioServerParameters, stdio_client  # noqa: E402

from gpuscope import children  # noqa: E402
from gpuscope.mcp.tools import NAMES  # noqa: E402

NAIVE = """
import torch
from torch import nn

print("said while it is imported")


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(128, 384)

    def forward(self, x):
        n, t, _ = x.shape
        q, k, v = self.qkv(x).view(n, t, 3, 4, 32).permute(2, 0, 3, 1, 4)
        weights = (q @ k.transpose(-2, -1)) * 32**-0.5
        return (weights.softmax(dim=-1) @ v).transpose(1, 2).reshape(n, t, 128)


def build():
    model = nn.Sequential(*[Attention() for _ in range(2)]).to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters(), foreach=False)
    x = torch.randn(8, 512, 128, device=DEVICE)

    def step():
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    return step
"""


SLOW_INPUT = """
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Files(Dataset):
    def __len__(self):
        return 100_000

    def __getitem__(self, row):
        time.sleep(0.002)  # a file is read
        generator = torch.Generator().manual_seed(row)
        return torch.randn(256, generator=generator)


def build():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 1))
    optimizer = torch.optim.AdamW(model.parameters())
    batches = iter(DataLoader(Files(), batch_size=16))

    def step():
        optimizer.zero_grad()
        loss = model(next(batches)).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    return step
"""


def session(folder: Path, work: Any) -> None:
    """Have work(client) done with a server of its own in a folder."""
    environment = {**children.environment(os.environ), "GPUSCOPE_LANG": "en"}
    server = StdioServerParameters(
        command=sys.executable,
        args=["-P", "-m", "gpuscope", "mcp", "--folder", str(folder)],
        env=environment,
    )

    async def main() -> None:
        async with Client(stdio_client(server)) as client:
            await work(client)

    anyio.run(main)


def test_an_edit_is_predicted_and_compared(tmp_path: Path, call: Any) -> None:
    path = tmp_path / "naive.py"
    path.write_text(NAIVE.replace("DEVICE", '"cuda"'))
    source = path.read_text()

    async def work(client: Any) -> None:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert set(tools) == set(NAMES)
        assert "Args:" in tools["predict"].description
        assert tools["predict"].output_schema["properties"]["figures"]

        before = await call(client, "predict", workload="naive.py:build", on="h100")
        step = before["figures"]["step_time"]
        assert step["unit"] == "s"
        assert step["low"] < step["value"] < step["high"]
        assert step["origin"]
        account = sum(term["value"] or 0 for term in before["account"].values())
        assert account == pytest.approx(step["value"], rel=1e-6)
        assert before["id"] == "run-1"

        listed = await call(client, "details", id="run-1", path="analysis.operators", rows=2)
        assert len(json.loads(listed["value"])) == 2
        assert listed["left"] > 0
        top = await call(client, "details", id="run-1")
        assert top["value"] == ""
        assert any(key.startswith("analysis (") for key in top["keys"])

        better = source.replace("foreach=False", "fused=True")
        path.write_text(better)
        after = await call(client, "predict", workload="naive.py:build", on="h100")
        held = await call(client, "compare", a="run-1", b=after["id"])
        assert held["speedup"]["value"] > 1
        assert any("adam" in row["label"] for row in held["rows"])

        wrong = await call(client, "compare", a="run-1", b="run-99")
        assert "run-99" in wrong
        unknown = await call(client, "predict", workload="naive.py:build", on="h1000")
        assert "h100" in unknown
        path.write_text("import os; os._exit(3)")
        ended = await call(client, "predict", workload="naive.py:build", on="h100")
        assert "ended on its own" in ended

        page = await client.read_resource("gpuscope://reports/run-1")
        assert page.contents[0].text.startswith("<!doctype html>")
        method = await client.read_resource("gpuscope://method")
        assert "Predict again and compare" in method.contents[0].text

    session(tmp_path, work)


@pytest.mark.parametrize(
    ("source", "device", "changes"),
    [
        pytest.param(
            NAIVE.replace("DEVICE", '"cuda"'),
            "cuda",
            ["sdpa-rewrite", "fused-optimizer"],
            marks=pytest.mark.gpu,
            id="attention",
        ),
        pytest.param(
            SLOW_INPUT, "cpu", ["loader-workers"], marks=pytest.mark.slow, id="input-on-a-processor"
        ),
    ],
)
def test_ten_calls_end_in_a_verified_patch(
    tmp_path: Path, call: Any, source: str, device: str, changes: list[str]
) -> None:
    """The method, on a naive script: predict, look, advise, try for real, patch, predict again."""
    if device == "cuda" and not torch.cuda.is_available():
        pytest.skip("it is run for real")
    path = tmp_path / "naive.py"
    path.write_text(source)
    calls = 0

    async def work(client: Any) -> None:
        async def done(name: str, **arguments: Any) -> Any:
            nonlocal calls
            calls += 1
            told = await call(client, name, **arguments)
            print(f"{calls}. {name}: {json.dumps(told)[:1500]}")
            assert isinstance(told, dict), told
            return told

        before = await done("predict", workload="naive.py:build", on="h100")
        await done("details", id=before["id"], path="analysis.operators", rows=5)
        told = await done("explain", topic="matmul", values=[4096, 384, 128])
        assert told["summary"]
        advice = await done("advise", workload="naive.py:build", on="h100")
        names = {name for each in advice["singles"] for name in each["names"]}
        assert changes[0] in names
        await done("details", id=advice["id"], path="singles", rows=3)
        ask = {"only": changes, "device": device, "budget_s": 240, "out": "tried"}
        ladder = await done("optimize", workload="naive.py:build", **ask)
        assert ladder["kept"]
        assert ladder["speedup"]["low"] > 1
        assert ladder["speedup"]["origin"] == "measured"
        await done("details", id=ladder["id"], path="trials")
        applied = subprocess.run(
            ["git", "apply", "-"], input=ladder["patch"].encode(), cwd=tmp_path, check=False
        )
        assert applied.returncode == 0, ladder["patch"]
        after = await done("predict", workload="naive.py:build", on="h100")
        held = await done("compare", a=before["id"], b=after["id"])
        assert held["speedup"]["value"] > 1
        health = await done("doctor", only=["pytorch"])
        assert health["id"].startswith("diagnosis-")

    session(tmp_path, work)
    assert calls == 10
