"""`predict --method` and `--lengths`: what becomes of them, and what they are not for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import gpuscope as gs
from gpuscope.cli.tuning_arguments import fine_tuned
from gpuscope.errors import InputFileError, InvalidValueError, UnknownNameError, UnsupportedError
from gpuscope.program.models.settings import WorkloadOptions

USUAL = {"method": "qlora", "rank": 8, "targets": "qv", "lengths": None, "packing": None}


def made(workload: str = "llama-3.2-1b", **given: Any) -> WorkloadOptions:
    tuned = USUAL | {name: given.pop(name) for name in tuple(given) if name in USUAL}
    return fine_tuned(workload, WorkloadOptions(**given), tuned)


def test_the_method_decides_optimizer_and_dtype() -> None:
    tuning = made(batch=2).tuning
    assert tuning is not None
    assert (tuning.method, tuning.rank, tuning.targets) == ("qlora", 8, ("q", "v"))
    assert tuning.optimizer == "paged-adamw-8bit"
    assert (made().dtype, made().amp, made().task) == ("bfloat16", False, "train")


def test_lengths_decide_the_row_with_a_method_and_without() -> None:
    """Of two examples of 100 and 300 tokens the longer is 300 three times in four."""
    for method in (None, "lora"):
        options = made(method=method, batch=2, lengths="512", packing="flash")
        assert options.rows is not None
        assert (options.seq, options.rows.packing, options.rows.examples) == (2048, "flash", 4.0)
    assert WorkloadOptions(batch=2).packed([100, 300]).seq == 250
    assert made(method=None) == WorkloadOptions()


@pytest.mark.parametrize(
    "given",
    [
        {"workload": "train.py:build"},
        {"workload": "train.py:build", "method": None, "lengths": "512"},
        {"optimizer": "sgd"},
        {"task": "decode"},
        {"dtype": "fp16"},
        {"packing": "flash"},
        {"method": None, "task": "decode", "lengths": "512"},
        {"lengths": "12.."},
    ],
)
def test_what_it_is_not_for(given: dict[str, Any]) -> None:
    with pytest.raises(InvalidValueError):
        made(**given)


def test_unknown_words(tmp_path: Path) -> None:
    with pytest.raises(UnknownNameError, match="method"):
        made(method="dora")
    with pytest.raises(UnknownNameError, match="target"):
        made(targets="x")
    with pytest.raises(UnknownNameError, match="packing"):
        made(lengths="512", packing="tight")
    broken = tmp_path / "lengths.txt"
    broken.write_text("512\nmany\n")
    with pytest.raises(InputFileError, match="'many' is no number"):
        made(lengths=str(broken))
    with pytest.raises(InvalidValueError, match="no lengths"):
        WorkloadOptions().packed([])


@pytest.mark.parametrize(
    ("options", "on", "model", "error"),
    [
        (WorkloadOptions().tuned(), "8xh100", "llama-3.2-1b", InvalidValueError),
        (WorkloadOptions().packed("512"), "2xh100", "llama-3.2-1b", InvalidValueError),
        (WorkloadOptions().packed("512"), "h100", "bert-base", UnsupportedError),
        (
            WorkloadOptions(dtype="fp32").packed("512", "flash"),
            "h100",
            "llama-3.2-1b",
            InvalidValueError,
        ),
        (
            WorkloadOptions(dtype="fp16", layers=1, batch=1, seq=64).packed("16", "flash"),
            "v100-sxm2-32gb",
            "llama-3.2-1b",
            UnsupportedError,
        ),
    ],
)
def test_what_no_step_is(options: WorkloadOptions, on: str, model: str, error: type) -> None:
    with pytest.raises(error):
        gs.predict(model, on=on, options=options)


def test_rows_made_for_another_batch_are_refused() -> None:
    from dataclasses import replace

    options = WorkloadOptions(batch=2).packed([100, 300])
    with pytest.raises(InvalidValueError, match="another batch"):
        gs.predict("llama-3.2-1b", on="h100", options=replace(options, batch=4))


def test_packed_steps_do_as_much_in_less_time_than_padded() -> None:
    """Packed rows are full of examples; attention of short ones is less work than of one long."""
    small = WorkloadOptions(layers=1, batch=2, seq=2048)
    runs = {
        packing: gs.predict(
            "llama-3.2-1b", on="h100", options=small.packed("lognormal:400,0.8", packing)
        )
        for packing in ("padded", "flash", "mask")
    }
    a_token = {name: run.device_busy_s / run.tokens for name, run in runs.items() if run.tokens}
    assert a_token["flash"] < a_token["mask"] < a_token["padded"]
    whole = gs.predict("llama-3.2-1b", on="h100", options=small)
    assert runs["flash"].device_busy_s < whole.device_busy_s < runs["mask"].device_busy_s
