"""Parallel options on the command line."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from gpuscope import api
from gpuscope.cli.app import app
from gpuscope.cli.parallel_arguments import parallel_options
from gpuscope.program.models.parallel.options import ParallelOptions


def test_nothing_asked_is_no_job() -> None:
    assert parallel_options(dp=None, tp=None) is None
    assert parallel_options(dp=None, tp=8) == ParallelOptions(tp=8)


def test_the_command_line_of_the_manual(monkeypatch) -> None:
    asked = []

    def capture_each(workload, clusters, options=None, strict=False, calibration=None):
        asked.append(options.parallel)
        raise KeyboardInterrupt

    monkeypatch.setattr(api, "capture_each", capture_each)
    line = (
        "predict llama-3.1-70b --task train --on 64xh100 --dp 4 --tp 8 --pp 2 --cp 1 --ep 1"
        " --fsdp full --schedule 1f1b --microbatch 1 --global-batch 512 --recompute none"
    )
    CliRunner().invoke(app, line.split())
    assert asked == [
        ParallelOptions(
            dp=4,
            tp=8,
            pp=2,
            cp=1,
            ep=1,
            fsdp="full",
            schedule="1f1b",
            microbatch=1,
            global_batch=512,
            recompute="none",
        )
    ]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("--on 8xh200 --tp 3", "8 devices cannot be split into replicas of 3"),
        ("--on 8xh200 --fsdp ful", "Unknown fsdp 'ful'"),
        ("--on 8xh200 --dp 16", "larger than the cluster"),
        ("--on 8xh200 --tp 8 --batch 4", "--microbatch 4"),
        ("--on 8xh200 --ep 8", "needs experts"),
        ("--on 48xh200 --tp 12", "64 query heads cannot be split over 12"),
        ("--on 128xh200 --pp 128", "80 layers cannot fill 128 pipeline stages"),
        ("--on 12xh200 --tp 4", "Use 8 or 16"),
        ("--on 16xh200 --dp 2 --tp 4", "16"),
        ("--on 16777216xh200 --tp 8", "larger than 1,048,576"),
        ("--on 8xh200 --tp 0", "0"),
        ("--on 8xh200 --global-batch 3", "cannot be split over 8 replicas"),
    ],
)
def test_wrong_input_is_told_and_exits_with_2(line: str, said: str) -> None:
    result = CliRunner().invoke(app, ["predict", "llama-3.1-70b", *line.split()])
    assert result.exit_code == 2
    assert said in " ".join(result.output.replace("│", " ").split())
