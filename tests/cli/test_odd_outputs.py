"""Outputs that cannot be written as they are: a full disk, names that are not UTF-8."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "timeline"))

from kineto_traces import document

from gpuscope.cli.app import VERBS
from sweeps import sweep

RUN = Path(__file__).resolve().parents[1] / "fuzz" / "seeds" / "predicted.json.gz"
FULL = Path("/dev/full")


@pytest.mark.skipif(not FULL.exists(), reason="no /dev/full here")
@pytest.mark.parametrize(
    "words",
    [
        ["devices"],
        ["--version"],
        ["analyze", str(RUN), "--json"],
        ["advise", str(RUN)],
        ["compare", str(RUN), str(RUN)],
        ["models"],
        ["claims"],
        *sweep(([verb, "--help"] for verb in VERBS), ["predict", "--help"], ["watch", "--help"]),
    ],
    ids=lambda words: "-".join(Path(word).name for word in words),
)
def test_a_full_disk_is_named_as_that(words: list[str]) -> None:
    """It was 'a mistake in gpuscope', or a traceback."""
    command = [sys.executable, "-m", "gpuscope", *words]
    with FULL.open("wb") as full:
        ran = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True)
    assert ran.returncode == 2
    assert "The standard output cannot be written." in ran.stderr
    assert "No space left" in ran.stderr
    assert "mistake" not in ran.stderr
    assert "Exception ignored" not in ran.stderr


def odd(folder: Path, ending: str) -> Path:
    """A path whose name is not UTF-8, where the system has such."""
    path = Path(os.fsdecode(os.fsencode(folder) + b"/odd-\xff\xfe" + ending.encode()))
    try:
        path.touch()
    except OSError:
        pytest.skip("names are UTF-8 here")
    return path


def test_names_that_are_not_utf_8_are_read_and_written(tmp_path: Path) -> None:
    """A trace of such a name ended every report, document and picture in an error."""
    from gpuscope.atomic import write_document
    from gpuscope.loading import load
    from gpuscope.run.document import run_document
    from gpuscope.timeline.perfetto import write_chrome_trace
    from gpuscope.views.html import write_report
    from gpuscope.views.pictures import write_blocks
    from gpuscope.views.run_figures.figures import runs_figures

    trace = odd(tmp_path, ".json")
    trace.write_text(json.dumps(document()))
    run = load(trace)
    assert run.name == "odd-\\udcff\\udcfe"
    saved = odd(tmp_path, ".json.gz")
    write_document(run_document(run), saved)
    assert load(saved).name == run.name
    write_report(run, odd(tmp_path, ".html"), what_if=False)
    write_chrome_trace(run.timeline, odd(tmp_path, ".trace.json.gz"), name=run.name)
    assert write_blocks(runs_figures([run])[:1], tmp_path / "pictures")
    folder = odd(tmp_path, "-folder")
    folder.unlink()
    folder.mkdir()
    shutil.copy(trace, folder / "rank0.json")
    assert load(folder).name == "odd-\\udcff\\udcfe-folder"
