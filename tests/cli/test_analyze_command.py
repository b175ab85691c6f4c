"""`gpuscope analyze` through the command line."""

from __future__ import annotations

import gzip
import json
import pickle
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "loading"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "timeline"))

from nsys_databases import make, step_tables
from recordings import folder, trace, write
from snapshots import training

from gpuscope.cli.app import app

SHARED = Path(__file__).resolve().parents[2].parent / "shared" / "traces"
shared = pytest.mark.skipif(not SHARED.is_dir(), reason="the shared traces are not there")


@pytest.fixture(autouse=True)
def english(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUSCOPE_LANG", "en")


def invoke(*arguments: object):
    return CliRunner().invoke(app, ["analyze", *map(str, arguments)])


def test_one_trace(tmp_path: Path) -> None:
    result = invoke(write(tmp_path / "job.json.gz", trace(0)))
    assert result.exit_code == 0, result.output
    for part in (
        "measured on NVIDIA H200",
        "990 µs",
        "median of 3 marked step(s)",
        "Where the time goes",
        "Why the device was idle",
        "Critical path",
        "Launches and their queue",
        "By kernel",
        "How far this recording can be trusted",
    ):
        assert part in result.stdout, part
    assert result.stdout.index("trusted") < result.stdout.index("Where the time goes")


def test_a_folder_tells_who_waits_for_whom(tmp_path: Path) -> None:
    result = invoke(folder(tmp_path))
    assert result.exit_code == 0, result.output
    assert "By rank" in result.stdout
    assert "Who waits for whom" in result.stdout
    assert "rank 2" in result.stdout.lower()


def test_in_chinese(tmp_path: Path) -> None:
    result = invoke(folder(tmp_path), "--lang", "zh")
    assert "谁在等谁" in result.stdout
    assert "设备为何空闲" in result.stdout


def test_as_json(tmp_path: Path) -> None:
    document = json.loads(invoke(folder(tmp_path), "--json").stdout)
    assert document["schema"] == "gpuscope.run"
    assert document["ranks"] == [0, 1, 2, 3]
    assert set(document["analysis"]["time"]) == {"0", "1", "2", "3"}
    assert document["timeline"]["sources"][3]["rank"] == 3


def test_files_that_it_writes(tmp_path: Path) -> None:
    traces = tmp_path / "traces"
    traces.mkdir()
    saved, report, merged = (tmp_path / name for name in ("run.json", "r.html", "all.json.gz"))
    result = invoke(
        folder(traces), "--output", saved, "--report", report, "--trace", merged, "--quiet"
    )
    assert result.exit_code == 0, result.output
    assert json.loads(saved.read_text())["origin"] == "measured"
    assert "Who waits for whom" in report.read_text("utf-8")
    with gzip.open(merged) as file:
        processes = {event["pid"] for event in json.load(file)["traceEvents"]}
    assert len(processes) == 8
    again = invoke(saved)
    assert again.exit_code == 0, again.output
    assert "Who waits for whom" in again.stdout


def test_some_ranks_steps_and_rows(tmp_path: Path) -> None:
    folder(tmp_path)
    document = json.loads(invoke(tmp_path, "--rank", "1..2", "--steps", "1", "--json").stdout)
    assert document["ranks"] == [1, 2]
    assert len(document["timeline"]["steps"]) == 2
    short, long = (invoke(tmp_path, "--top", top).stdout for top in (1, 20))
    assert len(short.splitlines()) < len(long.splitlines())


def test_quiet_is_the_headline(tmp_path: Path) -> None:
    result = invoke(write(tmp_path / "t.json", trace(0)), "--quiet")
    assert "990 µs" in result.stdout
    assert "Where the time goes" not in result.stdout


def test_other_recordings(tmp_path: Path) -> None:
    nsys = invoke(make(tmp_path / "report.sqlite", step_tables()))
    assert nsys.exit_code == 0, nsys.output
    assert "median of 2 marked step(s)" in nsys.stdout
    path = tmp_path / "snapshot.pickle"
    path.write_bytes(pickle.dumps(training()))
    snapshot = invoke(path, "--device", "h200", "--report", tmp_path / "s.html")
    assert snapshot.exit_code == 0, snapshot.output
    assert "train.py:42 forward" in snapshot.stdout
    assert "Step time" not in snapshot.stdout
    assert "fragment" in (tmp_path / "s.html").read_text("utf-8")


def test_a_trace_of_the_host_alone(tmp_path: Path) -> None:
    document = trace(7)
    document["traceEvents"] = [
        e for e in document["traceEvents"] if e["cat"] in ("cpu_op", "user_annotation")
    ]
    result = invoke(write(tmp_path / "cpu.json", document))
    assert result.exit_code == 0, result.output
    assert "No device work is in this recording" in result.stdout
    assert "What the host did" in result.stdout
    assert "Where the time goes" not in result.stdout


def unframed(text: str) -> str:
    """The words of an error's panel, its frame and its line breaks taken out."""
    return " ".join(text.translate(str.maketrans("│╭╮╰╯─", "      ")).split())


def test_an_empty_trace_says_so(tmp_path: Path) -> None:
    document = {**trace(0), "traceEvents": []}
    result = invoke(write(tmp_path / "empty.json", document))
    assert result.exit_code == 2
    assert "holds no events" in unframed(result.stderr)


@pytest.mark.parametrize(
    ("content", "arguments", "said"),
    [
        (None, (), "There is no file"),
        ("hello", (), "not a trace"),
        ('{"schemaVersion": 1, "traceEvents": 5}', (), "t.json"),
        ("trace", ("--rank", "x"), "names no rank"),
        ("trace", ("--steps", "5..2"), "names no step"),
        ("trace", ("--steps", "7"), "There are no steps 7 to 7"),
        ("trace", ("--rank", "3"), "There is no rank 3"),
        ("trace", ("--device", "h2oo"), "Unknown device"),
        ("trace", ("--engine", "spark"), "Unknown engine"),
        ("trace", ("--workers", "0"), "0 workers"),
        ("trace", ("--top", "0"), "leaves no row"),
        ("trace", ("--report", "/no/such/folder/r.html"), "does not exist"),
    ],
)
def test_wrong_input(tmp_path: Path, content: str | None, arguments, said: str) -> None:
    path = tmp_path / "t.json"
    if content == "trace":
        write(path, trace(0))
    elif content is not None:
        path.write_text(content)
    result = invoke(path, *arguments)
    assert result.exit_code == 2, result.output
    assert said in unframed(result.stderr), result.stderr


def test_a_folder_without_traces(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("hello")
    result = invoke(tmp_path)
    assert result.exit_code == 2
    assert "holds no trace" in unframed(result.stderr)


def test_a_trace_that_is_cut_off_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    path = write(tmp_path / "t.json", trace(0, steps=20))
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) * 3 // 4])
    result = invoke(path)
    assert result.exit_code == 0, result.output
    assert "The file ends in the middle" in result.stdout


@shared
def test_the_known_pair(tmp_path: Path) -> None:
    """ResNet-50 fed by no worker is input-bound; by four workers it is not."""
    samples = SHARED / "kineto_tb_samples"
    kinds = {}
    for workers in (0, 4):
        result = invoke(samples / f"resnet50_num_workers_{workers}", "--json")
        kinds[workers] = [f["kind"] for f in json.loads(result.stdout)["analysis"]["findings"]]
    assert kinds[0][0] == "input_bound"
    assert "input_bound" not in kinds[4]


@shared
def test_a_busy_decode_is_not_told_to_raise_utilisation() -> None:
    result = invoke(SHARED / "tracelens" / "inference" / "vllm_decode_full", "--json")
    analysis = json.loads(result.stdout)["analysis"]
    assert analysis["time"]["0"]["busy_s"] > 0.99 * analysis["time"]["0"]["span_s"]
    wrong = {"host_bound", "launch_bound", "small_kernels", "input_bound", "low_occupancy"}
    assert not wrong & {finding["kind"] for finding in analysis["findings"]}


@shared
def test_eight_ranks_of_a_real_step() -> None:
    result = invoke(SHARED / "param" / "dlrm_8rank")
    assert result.exit_code == 0, result.output
    assert "8 ranks meet in 8 collectives" in " ".join(result.stdout.split())


@shared
@pytest.mark.slow
@pytest.mark.parametrize("lang", ["en", "zh"])
def test_no_shared_trace_is_too_much(lang: str) -> None:
    for path in sorted(SHARED.rglob("*.json.gz")):
        result = invoke(path, "--lang", lang)
        assert result.exit_code == 0, (path, result.output[-500:])
        assert all(len(line) <= 100 for line in result.stdout.splitlines()) or lang == "zh"
