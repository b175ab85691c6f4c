"""Charts over time, lives of requests, and the file for Perfetto."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import gpuscope as gs
from gpuscope.cli.app import make_app
from gpuscope.document.blocks import Lines
from gpuscope.errors import GpuscopeError
from gpuscope.serving.metrics import e2e_s
from gpuscope.serving.over_time import lives, over_time
from gpuscope.serving.perfetto import trace_events, write_serving_trace
from gpuscope.serving.result import Serving
from gpuscope.serving.story import CAUSES, story


@pytest.fixture(scope="module")
def run() -> Serving:
    return gs.serve(
        "llama-3.1-8b", "2xh200", tp=1, rate=20, requests=300, input="50..900", output="20..300"
    )[0]


def integral(chart: Lines) -> float:
    x, y = np.array(chart.series[0].x), np.array(chart.series[0].y, float)
    return float(y.sum() * (x[1] - x[0]))


def test_curves_hold_what_the_run_did(run: Serving) -> None:
    sequences, prompts, waiting, kv = over_time(run)
    assert integral(prompts) == pytest.approx(run.served.input_tokens.sum(), rel=0.01)
    decoding = run.served.decode_device_s + run.served.decode_host_s + run.served.behind_s
    assert integral(sequences) == pytest.approx(decoding.sum(), rel=0.1)
    assert min(waiting.series[0].y) >= 0
    assert 0 < max(kv.series[0].y) <= 1


def test_lives_add_up(run: Serving) -> None:
    found = lives(run, CAUSES)
    assert found is not None
    whole = sorted(e2e_s(run.served))
    slowest = sum(part.value for part in found.bars[-1].parts)
    assert slowest == pytest.approx(whole[-1], rel=0.02)


def test_the_story_has_them_on_paper_only(run: Serving) -> None:
    assert len(story([run]).sections) == len(story([run], charts=False).sections) + 1


def test_events_nest_and_count(run: Serving, tmp_path: Path) -> None:
    events = list(trace_events(run))
    steps = [e for e in events if e["ph"] == "X"]
    assert len(steps) == len(run.iterations)
    assert {e["pid"] for e in steps} == {2, 3}
    opened = [e for e in events if e["ph"] == "b"]
    closed = [e for e in events if e["ph"] == "e"]
    assert len(opened) == len(closed) == 4 * len(run.served)
    assert all(b["ts"] <= e["ts"] for b, e in zip(opened, closed, strict=True))
    path = tmp_path / "run.json.gz"
    write_serving_trace(run, path)
    with gzip.open(path, "rt", encoding="utf-8") as file:
        assert len(json.load(file)["traceEvents"]) == len(events)
    with pytest.raises(GpuscopeError):
        write_serving_trace(run, tmp_path / "no" / "such" / "run.json")


def test_changes_are_told_beside_the_run_as_it_is() -> None:
    words = ["serve", "llama-3.1-8b", "--rate", "8", "--requests", "40", "--changes"]
    told = CliRunner().invoke(make_app(["serve"]), words)
    assert told.exit_code == 0, told.output
    words_told = (
        "as it is",
        "weights in fp8",
        "tokens of an iteration: 4,096",
        "drafted",
        "without CUDA",
    )
    for word in words_told:
        assert word in told.output
    a100 = CliRunner().invoke(make_app(["serve"]), [*words, "--on", "a100"])
    assert "weights in fp8" not in a100.output


def test_the_command_writes_it_for_one_run_alone(tmp_path: Path) -> None:
    cli, app, path = CliRunner(), make_app(["serve"]), tmp_path / "t.json"
    words = ["serve", "llama-3.1-8b", "--requests", "40", "--trace", str(path)]
    assert cli.invoke(app, [*words, "--concurrency", "1,2"]).exit_code == 2
    assert not path.exists()
    assert cli.invoke(app, [*words, "--rate", "5"]).exit_code == 0
    assert json.loads(path.read_text("utf-8"))["traceEvents"]
