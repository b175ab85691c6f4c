"""Error messages that programs really printed: their kind, cause and figures."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

import gpuscope as gs
from gpuscope.cli.app import app
from gpuscope.document.blocks import Bars, Code, Table
from gpuscope.document.text import render
from gpuscope.errors import InputFileError, InvalidValueError
from gpuscope.explanation import error
from gpuscope.explanation.errors import Diagnosis, Log, diagnose, log
from gpuscope.explanation.errors.memory_message import read_memory_message

CORPUS = Path(__file__).parents[1] / "data" / "errors"
GIB, MIB = 2**30, 2**20


def message(name: str) -> tuple[str, str]:
    """The kind that a file states, and its text without the two comments."""
    source, kind, text = (CORPUS / f"{name}.txt").read_text("utf-8").split("\n", 2)
    assert source.startswith("# source: https://github.com/")
    return kind.removeprefix("# kind: "), text


def first(text: str) -> Diagnosis:
    return diagnose(Log(text))[0]


def figures(text: str) -> dict[str, object]:
    return {fact.label: fact.value for fact in first(text).facts}


@pytest.mark.parametrize("file", sorted(CORPUS.glob("*.txt")), ids=lambda p: p.stem)
def test_every_message_is_understood(file: Path) -> None:
    kind, text = message(file.stem)
    found = first(text)
    assert found.kind == kind
    assert found.tries
    assert render(found.cause, "zh") != found.cause
    assert 1 <= found.line <= len(text.split("\n"))
    explained = gs.explain("error", text)
    assert explained.title == found.title
    assert explained.summary[0] == found.cause


def test_the_corpus_is_not_empty() -> None:
    assert len(list(CORPUS.glob("*.txt"))) >= 50


@pytest.mark.parametrize(
    ("name", "wanted", "capacity", "free", "allocated", "reserved"),
    [
        ("oom_1_3_fragmented", 2.87, 14.76, 19.75 / 1024, 8.77, 13.71),
        ("oom_1_0_cached_free", 12.5 / 1024, 10.92, 9.28, 8.57 / 1024, 4.68 / 1024),
        ("oom_2_1_fragmented", 3.0, 23.65, 1.66, 12.09, 12.09 + 4.84),
        ("oom_0_bytes_free", 1.70, 6.0, 0.0, 2.93, 2.93 + 2.30),
        ("oom_hip", 432 / 1024, 15.92, 7.12, 8.08, 8.08 + 321.96 / 1024),
    ],
)
def test_memory_figures_by_hand(name, wanted, capacity, free, allocated, reserved) -> None:
    found = read_memory_message(message(name)[1])
    assert found is not None
    read = (found.wanted, found.capacity, found.free, found.allocated, found.reserved)
    assert read == pytest.approx(
        [wanted * GIB, capacity * GIB, free * GIB, allocated * GIB, reserved * GIB], rel=1e-6
    )
    assert found.device == 0


@pytest.mark.parametrize(
    ("name", "word", "certainty"),
    [
        ("oom_1_3_fragmented", "Fragmentation", "likely"),
        ("oom_2_1_fragmented", "Fragmentation", "likely"),
        ("oom_1_10_needed", "True need", "likely"),
        ("oom_2_2_needed", "True need", "likely"),
        ("oom_2_6_needed_large", "True need", "likely"),
        ("oom_2_1_too_large", "more than the whole device", "certain"),
        ("oom_1_7_others", "Other processes hold 30.5 GiB", "likely"),
        ("oom_1_0_cached_free", "enough free memory", "possible"),
        ("oom_hip", "enough free memory", "possible"),
        ("oom_inside_nccl", "does not tell how much", "certain"),
    ],
)
def test_why_memory_ran_out(name: str, word: str, certainty: str) -> None:
    found = first(message(name)[1])
    assert word in found.cause
    assert found.certainty == certainty


def test_what_would_fit() -> None:
    """22.9 GiB held and 22 MiB more: no 24-GB device, but a 32-GB one."""
    blocks = first(message("oom_2_2_needed")[1]).blocks
    bars, table = blocks
    assert isinstance(bars, Bars)
    assert sum(part.value for part in bars.bars[0].parts) == pytest.approx(23.65 * GIB, rel=1e-3)
    assert isinstance(table, Table)
    assert all(row[1] >= (22.9 + 0.02) * GIB for row in table.rows)
    assert all(row[0].startswith("NVIDIA") for row in table.rows)
    fragmented = first(message("oom_2_1_fragmented")[1]).blocks
    assert not any(isinstance(block, Table) for block in fragmented)


def test_assertions_say_what_was_out_of_range() -> None:
    text = message("device_assert_index")[1]
    found = figures(text)
    assert found["the check"] == "srcIndex < srcSelectDimSize"
    assert found["in the file"] == "Indexing.cu:1231"
    assert found["threads that failed it, in this text"] == 2
    for name in ("device_assert_label", "device_assert_old_kernel"):
        assert "number of classes" in first(message(name)[1]).cause
    assert first("RuntimeError: CUDA error: device-side assert triggered").certainty == "possible"


def test_ranks_that_part() -> None:
    found = first(message("nccl_timeout_two_operations")[1])
    assert "allreduce (2,106,881 elements), broadcast (5,056 elements)" in found.cause
    table = found.blocks[0]
    assert isinstance(table, Table)
    assert [row[0] for row in table.rows] == [3, 7]
    assert table.rows[1][5:] == (80077, 80078)
    assert "behind: rank 7" in first(message("nccl_timeout_ranks_apart")[1]).cause
    assert "rank 1, 2, 3" in first(message("nccl_timeout_missing_rank")[1]).cause
    alone = first(message("nccl_timeout_one")[1])
    assert "does not tell which" in alone.cause
    assert figures(message("nccl_timeout_one")[1])["allowed"] == 600


def test_versions_in_words() -> None:
    assert figures(message("driver_too_old")[1])["newest CUDA that the driver knows"] == "11.4"
    new = (
        "NVIDIA GeForce RTX 5090 with CUDA capability sm_120 is not compatible with the current "
        "PyTorch installation.\nThe current PyTorch install supports CUDA capabilities sm_50 sm_60 "
        "sm_90."
    )
    assert figures(new)["this device"] == "sm_120"
    assert figures(new)["PyTorch was built for"] == "sm_50 sm_60 sm_90"


def test_the_gravest_xid_is_explained() -> None:
    both = "NVRM: Xid (PCI:0000:01:00): 31, MMU Fault\nNVRM: Xid (PCI:0000:01:00): 48, DBE"
    found = first(both)
    assert "Xid 48" in found.title
    table = found.blocks[0]
    assert isinstance(table, Table)
    assert [row[0] for row in table.rows] == ["Xid 31", "Xid 48"]
    assert "Xid 13" in first(message("xid_13_and_109")[1]).title
    unknown = first("NVRM: Xid (PCI:0000:01:00): 250, something new")
    assert "not in the table" in unknown.cause
    assert unknown.certainty == "possible"


def test_the_root_comes_before_what_follows() -> None:
    """Memory ran out on one rank; the others time out, and the launcher kills them."""
    log = "\n".join(
        [message("nccl_timeout_one")[1], message("exit_code_9")[1], message("oom_2_2_needed")[1]]
    )
    found = diagnose(Log(log))
    assert [d.kind for d in found] == ["out_of_memory", "nccl_timeout", "signal"]
    explained = gs.explain("error", log)
    others = explained.sections[-1].blocks[0]
    assert isinstance(others, Table)
    assert len(others.rows) == 2


@pytest.mark.parametrize("name", ["triton_shared", "triton_shared_flood"])
def test_resources_of_triton(name: str) -> None:
    found = figures(message(name)[1])
    assert found["the device has"] == 101376
    assert found["needed"] in (131072, 163842)


def test_unknown_text_says_so_and_shows_suspects() -> None:
    log = "step 1\nstep 2\nValueError: this is new\nstep 3"
    explained = gs.explain("error", log)
    assert "does not know" in explained.summary[0]
    code = explained.sections[0].blocks[0]
    assert isinstance(code, Code)
    assert [(line.number, line.text) for line in code.lines] == [(3, "ValueError: this is new")]
    assert gs.explain("error", "all is well").sections == ()


def test_a_healthy_log_is_no_error() -> None:
    log = (
        "Epoch 3 | loss 0.31 | 1.2e5 tokens/s | mem 61.2GiB\n"
        "NCCL version 2.27.3+cuda12.9\nsaved checkpoint to run/error_analysis/step_100.pt\n"
        "CUBLAS_WORKSPACE_CONFIG=:4096:8\nall 12 assertions passed, exit code: 0\n"
    )
    assert diagnose(Log(log)) == []


def test_built_parts_and_ports() -> None:
    symbol = figures(message("undefined_symbol")[1])
    assert symbol["built part"] == "flash_attn_2_cuda.cpython-310-x86_64-linux-gnu.so"
    assert "ABI" in symbol["hint"]
    assert "hint" not in figures(message("undefined_symbol_2")[1])
    assert figures(message("missing_cudart")[1]) == {"library": "libcudart.so.12"}
    driver = first("ImportError: libcuda.so.1: cannot open shared object file: No such file")
    assert "belongs to the driver" in driver.cause
    for name in ("port_in_use", "port_in_use_old"):
        assert figures(message(name)[1]) == {"port": "29500"}
    assert figures(message("cache_memory")[1])["room in the cache, tokens"] == 3664


def test_a_python_error_is_no_lack_of_memory() -> None:
    assert first("MemoryError: Unable to allocate 3 GiB").kind == "host_memory"
    assert diagnose(Log("torch.cuda.OutOfMemoryError is what to catch"))[0].kind == "out_of_memory"


def test_files(tmp_path: Path) -> None:
    file = tmp_path / "train.log"
    colours = "\x1b[31mRuntimeError: CUDA error: \x1b[0mmisaligned address\r\n"
    file.write_bytes(b"\xff\xfe broken bytes\n" + colours.encode())
    assert gs.explain("error", str(file)).title == "A kernel used a misaligned address"
    assert gs.explain("error", file).title == "A kernel used a misaligned address"
    with pytest.raises(InputFileError, match="Cannot read"):
        gs.explain("error", tmp_path / "missing.log")


def test_a_huge_log_is_read_at_both_ends(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(error, "_MOST_BYTES", 64 * 1024)
    file = tmp_path / "huge.log"
    file.write_text("step ok\n" * 20_000 + message("xid_79")[1])
    assert gs.explain("error", str(file)).title == "The driver reports Xid 79"
    file.write_text(message("xid_79")[1] + "step ok\n" * 20_000)
    assert gs.explain("error", str(file)).title == "The driver reports Xid 79"


def test_a_long_log_keeps_its_line_numbers(monkeypatch) -> None:
    """Only lines that could matter are searched; the number told is that of the whole log."""
    text = message("illegal_memory_access")[1]
    long = ("step 12 ok, loss 0.1\n" * 30_000) + text + ("step 13 ok, loss 0.1\n" * 100)
    found = first(long)
    assert found.kind == "illegal_memory_access"
    assert found.line == 30_001
    monkeypatch.setattr(log, "_LONG", 0)  # from here on every text is filtered
    for file in sorted(CORPUS.glob("*.txt")):
        kind, each = message(file.stem)
        found = first("step ok\n" * 20 + each)
        assert found.kind == kind
        assert found.line > 20


def test_wrong_input() -> None:
    with pytest.raises(InvalidValueError, match="no text"):
        gs.explain("error", "   ")


@given(st.text(max_size=400))
@settings(max_examples=60, deadline=None)
def test_any_text(text: str) -> None:
    if text.strip():
        gs.explain("error", text + "\n")


@given(st.sampled_from(sorted(p.stem for p in CORPUS.glob("*.txt"))), st.integers(0, 400))
@settings(max_examples=60, deadline=None)
def test_messages_cut_off(name: str, at: int) -> None:
    text = message(name)[1][:at]
    if text.strip():
        gs.explain("error", text + "\n")


def test_command() -> None:
    runner = CliRunner()
    text = message("oom_1_3_fragmented")[1]
    given = runner.invoke(app, ["explain", "error", text, "--json"])
    assert json.loads(given.stdout)["topic"] == "error"
    piped = runner.invoke(app, ["explain", "error", "-", "--lang", "zh"], input=text)
    assert piped.exit_code == 0
    assert "显存碎片" in piped.stdout
    empty = runner.invoke(app, ["explain", "error", "-"], input="")
    assert empty.exit_code == 2


def test_a_very_long_line_takes_no_time() -> None:
    for piece in ("a", "0", "_", ".", "1.", "lib", ":.cu"):
        began = time.process_time()
        gs.explain("error", piece * (100_000 // len(piece)) + "\n")
        assert time.process_time() - began < 5.0  # a quadratic pattern takes minutes


def test_what_is_no_text_is_refused(tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_bytes(bytes(range(256)) * 40)
    with pytest.raises(InputFileError, match="is no text"):
        gs.explain("error", str(program))
    with pytest.raises(InputFileError, match="Cannot read"):
        gs.explain("error", str(tmp_path))
    with pytest.raises(InputFileError, match="no such file"):
        gs.explain("error", str(tmp_path / "train.log"))
    with pytest.raises(InputFileError, match="no such file"):
        gs.explain("error", "no_such_file.log")


def test_a_log_of_windows_is_read(tmp_path: Path) -> None:
    log = tmp_path / "train.log"
    log.write_text("RuntimeError: CUDA error: misaligned address\n", encoding="utf-16")
    assert gs.explain("error", str(log)).title == "A kernel used a misaligned address"
