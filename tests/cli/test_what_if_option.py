"""`--what-if`: checked before the work, each value predicted once, the run itself not again."""

from __future__ import annotations

from dataclasses import replace

import pytest
from run_builders import gpt_run
from typer.testing import CliRunner

from gpuscope.cli.app import app
from gpuscope.cli.what_if import MOST, Wish, vary, wishes
from gpuscope.errors import InvalidValueError, UnknownNameError
from gpuscope.program.models.settings import WorkloadOptions

RUN = gpt_run()


def test_options_are_read_with_and_without_values() -> None:
    assert wishes(("batch", "seq=512,128", "dtype=bf16,float32"), "gpt2") == (
        Wish("batch"),
        Wish("seq", (128, 512)),
        Wish("dtype", ("bfloat16", "float32")),
    )


@pytest.mark.parametrize(
    ("text", "workload", "error"),
    [
        ("colour", "gpt2", UnknownNameError),
        ("dtype=int3", "gpt2", UnknownNameError),
        ("batch=0", "gpt2", InvalidValueError),
        ("batch=many", "gpt2", InvalidValueError),
        ("batch=1.5", "gpt2", InvalidValueError),
        ("batch=" + ",".join(map(str, range(1, MOST + 2))), "gpt2", InvalidValueError),
        ("batch", "train.py:build", InvalidValueError),
    ],
)
def test_wrong_wishes_are_refused(text: str, workload: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        wishes((text,), workload)


def test_the_usual_values_stand_around_the_runs_own() -> None:
    asked: list[int | None] = []

    def predict(options: WorkloadOptions):  # type: ignore[no-untyped-def]
        asked.append(options.batch)
        return replace(RUN, step_time_s=float(options.batch or 0))

    found = vary(Wish("batch"), WorkloadOptions(batch=8), "gpt2", RUN, predict)
    assert [value for value, _ in found.points] == [2, 4, 8, 16, 32]
    assert asked == [2, 4, 16, 32]
    assert dict(found.points)[8] is RUN


def test_a_usual_value_that_the_model_refuses_is_left_out_and_a_named_one_is_an_error() -> None:
    def predict(options: WorkloadOptions):  # type: ignore[no-untyped-def]
        if (options.seq or 0) > 1024:
            raise InvalidValueError("too long")
        return RUN

    options = WorkloadOptions(seq=1024)
    found = vary(Wish("seq"), options, "gpt2", RUN, predict)
    assert [value for value, _ in found.points] == [256, 512, 1024]
    with pytest.raises(InvalidValueError):
        vary(Wish("seq", (4096,)), options, "gpt2", RUN, predict)


@pytest.mark.parametrize("extra", [(), ("--report", "r.html", "--sweep", "memory_bandwidth=2TB/s")])
def test_it_needs_a_report(extra: tuple[str, ...]) -> None:
    result = CliRunner().invoke(app, ["predict", "gpt2", "--what-if", "batch", *extra])
    assert result.exit_code != 0
    assert "--what-if" in result.output or "sweep" in result.output
