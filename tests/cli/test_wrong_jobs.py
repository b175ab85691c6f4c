"""Distributed code that cannot run, as a user meets it: told in words, with the lines at fault."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

pytest.importorskip("torch")

from gpuscope.cli.app import app

START = """
import torch
import torch.distributed as dist


def build():
    dist.init_process_group("nccl")
    rank = dist.get_rank()
    part = torch.ones(1 << 20, device="cuda")
    whole = torch.empty(2 << 20, device="cuda")
"""

OTHER_ORDER = """
    def step():
        if rank == 0:
            dist.all_reduce(part)
            dist.all_gather_into_tensor(whole, part)
        else:
            dist.all_gather_into_tensor(whole, part)
            dist.all_reduce(part)

    return step
"""

ONE_FAILS = """
    def step():
        if rank == 1:
            part.view(3, -1)
        dist.all_reduce(part)

    return step
"""

TOO_LARGE = """
    states = torch.empty(100 << 30, dtype=torch.uint8, device="cuda")

    def step():
        dist.all_reduce(part)
        states.zero_()

    return step
"""


def _said(folder: Path, body: str, *more: str) -> tuple[int, str]:
    script = folder / "job.py"
    script.write_text(START + body)
    line = ["predict", f"{script}:build", "--on", "2xh100", *more]
    result = CliRunner().invoke(app, line)
    return result.exit_code, " ".join(result.output.replace("│", " ").split())


def test_other_orders_are_a_hang_and_both_lines_are_named(tmp_path: Path) -> None:
    code, said = _said(tmp_path, OTHER_ORDER)
    assert code != 0
    assert "would wait for each other" in said
    assert "job.py:14" in said, "rank 0's call"
    assert "job.py:17" in said, "rank 1's call"
    assert "Traceback" not in said


def test_a_rank_that_fails_is_named_with_its_error(tmp_path: Path) -> None:
    code, said = _said(tmp_path, ONE_FAILS)
    assert code != 0
    assert "ank 1" in said
    assert "Traceback" not in said


def test_what_does_not_fit_says_by_how_much_and_what_it_is(tmp_path: Path) -> None:
    code, said = _said(tmp_path, TOO_LARGE)
    assert code == 0, "a prediction that does not fit is an answer"
    assert "Does not fit" in said
    assert "too much" in said
