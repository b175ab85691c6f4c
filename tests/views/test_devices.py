"""`gpuscope devices`: table, card, comparison, JSON, in two languages."""

import json
import re

import pytest
import typer
from typer.testing import CliRunner

from gpuscope.cli.devices import register
from gpuscope.errors import GpuscopeError, InvalidValueError, UnknownNameError
from gpuscope.hardware import device, devices
from gpuscope.views import devices as view


@pytest.fixture
def run(monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    app = typer.Typer()
    app.callback()(lambda: None)
    register(app)

    def call(*arguments: str) -> str:
        result = CliRunner().invoke(app, ["devices", *arguments])
        if isinstance(result.exception, GpuscopeError):
            raise result.exception
        assert result.exit_code == 0, result.output
        return result.output

    return call


def test_the_table_fits_and_cuts_nothing(run) -> None:
    output = run()
    assert max(len(line.rstrip()) for line in output.splitlines()) <= 100
    assert "…" not in output
    for found in devices():
        assert re.search(rf"^{re.escape(found.id)}\b", output, re.MULTILINE)
    assert "80 devices" in output or f"{len(devices())} devices" in output


def test_filters(run) -> None:
    listed = json.loads(run("--vendor", "amd", "--min-memory", "100GB", "--json"))["devices"]
    assert {d["vendor"] for d in listed} == {"AMD"}
    assert all(d["memory_bytes"] >= 100e9 for d in listed)
    assert "amd-mi300x" in {d["id"] for d in listed}
    with_fp4 = json.loads(run("--dtype", "fp4", "--json"))["devices"]
    assert "nvidia-b200" in {d["id"] for d in with_fp4}
    assert "nvidia-h100-sxm" not in {d["id"] for d in with_fp4}
    assert "No device matches" in run("--min-memory", "100PB")


def test_the_card_tells_sources_origins_and_doubts(run) -> None:
    output = run("h200")
    assert max(len(line.rstrip()) for line in output.splitlines()) <= 100
    assert re.search(r"L2 cache\s+60 MiB\s+measured\s+\[\d+\]", output)
    assert re.search(r"Bandwidth\s+4.8 TB/s\s+datasheet", output)
    assert re.search(r"Last-level cache\s+not available", output)
    assert "62,914,560" in output
    for number in set(re.findall(r"\s\[(\d+)\]", output)):
        assert re.search(rf"^\[{number}\] \S", output, re.MULTILINE)


def test_the_comparison_is_relative_to_the_first(run) -> None:
    output = run("h100", "h200", "mi300x", "tpu-v5p")
    assert max(len(line.rstrip()) for line in output.splitlines()) <= 100
    assert "4.8 TB/s (1.43x)" in output
    assert "192 GiB (2.40x)" in output
    row = next(line for line in output.splitlines() if line.startswith("FP8"))
    assert "not available" in output
    assert "1.979" in row


def test_unlike_units_get_no_ratio(run) -> None:
    def units(*names: str) -> str:
        lines = run(*names).splitlines()
        return next(line for line in lines if line.startswith("Compute units"))

    assert "x)" not in units("h100", "tpu-v5p")
    assert "x)" in units("h100", "a100")


def test_every_device_has_a_card_and_a_document() -> None:
    for found in devices():
        assert view.device_card(found) is not None
        document = json.loads(json.dumps(view.device_document(found)))
        assert document["memory_bandwidth_bytes_per_s"] == found.memory_bandwidth_bytes_per_s
        assert document["peak_flops_per_s"] == dict(found.peaks)


def test_json_keeps_missing_readings_null_and_is_versioned(run) -> None:
    document = json.loads(run("tpu-v5p", "--json"))
    assert (document["schema"], document["version"]) == ("gpuscope.devices", 1)
    (tpu,) = document["devices"]
    assert tpu["clock_hz"] is None
    assert tpu["host_link"] is None
    assert tpu["scale_up"]["bandwidth_bytes_per_s"] == 600e9


def test_chinese_is_complete(run) -> None:
    output = run("h200", "--lang", "zh")
    assert "带宽" in output
    assert "实测" in output
    assert "not available" not in output
    assert "Bandwidth" not in output
    assert "共" in run("--lang", "zh")


def test_the_names_of_figures_are_listed(run) -> None:
    output = run("--fields")
    assert re.search(r"memory_bandwidth_bytes_per_s\s+Memory: Bandwidth\s+yes", output)
    assert re.search(r"memory_type\s+Memory: Memory type\s+no", output)


def test_wrong_input_is_one_clear_error(run) -> None:
    with pytest.raises(UnknownNameError, match="h200"):
        run("h2o0")
    with pytest.raises(UnknownNameError, match="nvidia"):
        run("--vendor", "nvidea")
    with pytest.raises(InvalidValueError, match="GB"):
        run("--min-memory", "much")
    with pytest.raises(InvalidValueError, match="Filters"):
        run("h200", "--vendor", "amd")
    with pytest.raises(UnknownNameError, match="zh"):
        run("--lang", "fr")


def test_figures_read_well() -> None:
    assert view.format_figure(233_472, "bytes") == "228 KiB"
    assert view.format_figure(4.8e12, "bytes/s") == "4.8 TB/s"
    assert view.format_figure(2.5e-6, "s") == "2.5 us"
    assert view.format_figure(1.98e9, "Hz") == "1.98 GHz"
    assert view.format_figure(device("h200").host_link, "link") == "PCIe 5.0 x16, 63 GB/s"
