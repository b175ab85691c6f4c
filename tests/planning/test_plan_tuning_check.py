"""An existing fine-tuning: read from a file, judged against what is one decision away."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from made import tuned_alone
from typer.testing import CliRunner

from gpuscope.cli.app import app
from gpuscope.errors import GpuscopeError, InputFileError, InvalidValueError, UnknownNameError
from gpuscope.planning.check import Checked
from gpuscope.planning.tuning.check import check_tuning, existing_tuning
from gpuscope.planning.tuning.search import question_of_tuning
from gpuscope.planning.tuning.types import TuningQuestion

quick = pytest.fixture(tuned_alone)


def _asked(**given: Any) -> TuningQuestion:
    usual: dict[str, Any] = {"on": "h100", "devices": 2, "global_batch": 16, "seq": 512}
    return question_of_tuning("llama-3.2-1b", **(usual | given))


def _file(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "tuning.toml"
    path.write_text(text, "utf-8")
    return path


def test_a_file_says_what_the_question_does_not(tmp_path: Path) -> None:
    text = 'method = "qlora"\nfsdp = "full"\nmicrobatch = 4\nrank = 8\ntargets = "qv"\nseq = 256'
    question, mine = existing_tuning(_asked(), _file(tmp_path, text))
    words = "qlora, fsdp full, microbatch 4, optimizer paged-adamw-8bit"
    assert mine.words == words
    assert (question.seq, question.global_batch, mine.tuning.microbatches) == (256, 16, 2)
    assert (mine.tuning.rank, mine.tuning.targets) == (8, ("q", "v"))


def test_packed_rows_are_those_of_the_lengths(tmp_path: Path) -> None:
    question = _asked(lengths="64..512", packing="mask", global_batch=64)
    assert existing_tuning(question, _file(tmp_path, "microbatch = 2"))[1].packing == "mask"
    _, mine = existing_tuning(question, _file(tmp_path, 'packing = "padded"'))
    assert (mine.packing, mine.passes) == ("padded", 32)


@pytest.mark.parametrize(
    ("text", "kind", "said"),
    [
        ('metod = "lora"', UnknownNameError, "method"),
        ('method = "dora"', UnknownNameError, "lora"),
        ("method = 3", InvalidValueError, "cannot be"),
        ('optimizer = "sgd"', UnknownNameError, "adamw"),
        ('fsdp = "zero1"', UnknownNameError, "full"),
        ('recompute = "some"', InvalidValueError, "cannot be"),
        ("microbatch = 3", InvalidValueError, "not divisible"),
        ("rank = 0", InvalidValueError, "cannot be"),
        ('packing = "flash"', InvalidValueError, "how long"),
        ("", InputFileError, "has no plan"),
        ('{"sections": []}', InputFileError, "has no plan"),
        ("{", InputFileError, "has no plan"),
    ],
)
def test_wrong_files(tmp_path: Path, text: str, kind: type[GpuscopeError], said: str) -> None:
    with pytest.raises(kind, match=said) as told:
        existing_tuning(_asked(), _file(tmp_path, text))
    assert told.value.next_step


def test_devices_that_cannot_be(tmp_path: Path) -> None:
    with pytest.raises(InvalidValueError, match="one number of one device"):
        existing_tuning(_asked(devices="1,2"), _file(tmp_path, 'method = "lora"'))
    with pytest.raises(InvalidValueError, match="cannot be"):
        existing_tuning(_asked(devices=1), _file(tmp_path, 'fsdp = "full"'))


@pytest.mark.usefixtures("quick")
def test_neighbours_are_one_decision_away_and_of_methods_that_were_asked(tmp_path: Path) -> None:
    path = _file(tmp_path, 'method = "lora"\nmicrobatch = 2')
    found = check_tuning(*existing_tuning(_asked(simulate=20), path))
    assert {change for change, _ in found.neighbours} == {
        "fsdp none → full",
        "microbatch 2 → 1",
        "microbatch 2 → 4",
        "recompute none → full",
    }
    found = check_tuning(*existing_tuning(_asked(simulate=20, method="full,lora"), path))
    assert "method lora → full" in {change for change, _ in found.neighbours}


@pytest.mark.usefixtures("quick")
def test_a_better_neighbour_is_named_only_if_it_is_no_tie(tmp_path: Path) -> None:
    found = check_tuning(*existing_tuning(_asked(), _file(tmp_path, "microbatch = 2")))
    half = found.plan.step_s / 2
    close = replace(found.plan, step_s=0.99 * found.plan.step_s)
    quicker = replace(found.plan, step_s=half, low_s=0.96 * half, high_s=1.04 * half)

    def better(away: Any) -> object:
        return Checked(
            question=found.question, plan=found.plan, neighbours=(("away", away),), left=0
        ).better

    assert better(close) is None
    assert better(quicker) == ("away", quicker)
    assert better(replace(quicker, fits=0.5)) is None


@pytest.mark.usefixtures("quick")
def test_what_the_choice_is_kept_as_is_read_again(tmp_path: Path) -> None:
    kept = tmp_path / "plan.json"
    devices = "--on h100 --devices 2 --seq 512 --global-batch 16 --lang en"
    typed = f"plan llama-3.2-1b --task finetune {devices}".split()
    asked = CliRunner().invoke(app, [*typed, "--limit", "time<1h", "--output", str(kept)])
    assert asked.exit_code == 0, asked.output
    blocks = [b for each in json.loads(kept.read_text("utf-8"))["sections"] for b in each["blocks"]]
    table = next(block for block in blocks if block.get("marked"))
    _, mine = existing_tuning(_asked(), kept)
    assert mine.words == table["rows"][table["marked"][0]][1]
    told = CliRunner().invoke(app, [*typed, "--check", str(kept)], env={"COLUMNS": "300"})
    assert told.exit_code == 0, told.output
    assert mine.words in told.output
    assert "One decision away" in told.output
    why = CliRunner().invoke(app, [*typed, "--check", str(kept), "--why", "qlora"])
    assert why.exit_code == 2
